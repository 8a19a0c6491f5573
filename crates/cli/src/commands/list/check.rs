//! `twiceshy list check`.

use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::{Output, Report};
use crate::session::Session;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use twiceshy::MatchingFilter;

const HELP: &str = "\
Examples:
  twiceshy list check blocked.list requests.txt
  twiceshy list check blocked.list requests.txt --only yes > blocked.txt
  twiceshy list check blocked.list requests.txt.gz --count --json
  echo evil.example | twiceshy list check blocked.list - && echo blocked

For each line, prints \"yes\" or \"no\", a tab, and the line. The way to match lines was chosen when the
list was built; see `twiceshy list build --help`. The exit code is 0 if all answers are yes, otherwise 1.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list check --help` for examples.")]
pub(crate) struct Check {
    /// The list
    list: PathBuf,
    /// A file of keys, one per line
    #[arg(default_value = "-")]
    keys: PathBuf,
    /// Print only the lines that get this answer, and omit the answer itself
    #[arg(long, value_name = "ANSWER")]
    only: Option<Only>,
    /// Print only the number of lines for each answer
    #[arg(long, conflicts_with = "only")]
    count: bool,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Lines with the answer yes
    Yes,
    /// Lines with the answer no
    No,
}

impl Check {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let list = MatchingFilter::open(&self.list)?;
        let mut lines = Lines::open(&self.keys, Encoding::from_option(self.bytes), session)?;
        let (mut checked, mut yes, mut answers) = (0, 0, Vec::new());
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            list.contains_many(&keys, &mut answers);
            checked += keys.len() as u64;
            yes += answers.iter().filter(|&&yes| yes).count() as u64;
            if !self.count {
                for (line, &yes) in keys.iter().zip(&answers) {
                    self.write(&mut session.output, line, yes)?;
                }
            }
            drop(keys);
            lines.reuse(block);
        }
        if self.count {
            let counts = Report::new()
                .count("checked", checked)
                .count("yes", yes)
                .count("no", checked - yes);
            session.output.report(&counts)?;
        }
        Ok(Answer::of(yes == checked))
    }

    fn write(&self, output: &mut Output, line: &[u8], yes: bool) -> Result<()> {
        let answer = if yes { Only::Yes } else { Only::No };
        if self.only.is_some_and(|only| only != answer) {
            return Ok(());
        }
        let word = if yes { "yes" } else { "no" };
        if output.is_json() {
            output.json(&Report::new().key("key", line).word("answer", word))?;
        } else if self.only.is_some() {
            output.line(&[line])?;
        } else {
            output.line(&[word.as_bytes(), b"\t", line])?;
        }
        Ok(())
    }
}
