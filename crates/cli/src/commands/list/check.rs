//! `twiceshy list check`.

use super::file::{ListFilter, load};
use super::matching::{Asked, Matching};
use crate::commands::members::KeysOfLine as _;
use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::{Output, Report};
use crate::session::Session;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use twiceshy::Hash;

const HELP: &str = "\
Examples:
  twiceshy list check blocked.list requests.txt
  twiceshy list check blocked.list requests.txt --only yes > blocked.txt
  twiceshy list check blocked.list requests.txt.gz --count --json
  echo evil.example | twiceshy list check blocked.list - && echo blocked

Writes \"yes\" or \"no\", a tab and the line for each line. Lines are matched as the list was built
for; see `twiceshy list build --help`. The exit code is 0 if all answers are yes, and 1 if one is no.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list check --help` for examples.")]
pub(crate) struct Check {
    /// The list
    list: PathBuf,
    /// A file of keys, one a line
    #[arg(default_value = "-")]
    keys: PathBuf,
    /// Write only lines with this answer, and nothing but the lines
    #[arg(long, value_name = "ANSWER")]
    only: Option<Only>,
    /// Write only how many there are of each
    #[arg(long, conflicts_with = "only")]
    count: bool,
    /// Take lines as they are, not only UTF-8
    #[arg(long)]
    bytes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Lines that are answered yes
    Yes,
    /// Lines that are answered no
    No,
}

impl Check {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let (filter, matching) = load(&self.list)?;
        let mut asker = Asker::new(&filter, matching);
        let mut lines = Lines::open(&self.keys, Encoding::from_option(self.bytes), session)?;
        let (mut checked, mut yes) = (0, 0);
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            let answers = asker.ask(&keys);
            checked += keys.len() as u64;
            yes += answers.iter().filter(|&&yes| yes).count() as u64;
            if !self.count {
                for (line, &yes) in keys.iter().zip(answers) {
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

/// Asks a list for lines.
pub(super) struct Asker<'a> {
    filter: &'a ListFilter,
    keys: Asked,
    /// Of all keys of all lines.
    hashes: Vec<Hash>,
    /// Where those of each line end.
    ends: Vec<usize>,
    found: Vec<bool>,
    answers: Vec<bool>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(filter: &'a ListFilter, matching: Matching) -> Self {
        let (hashes, ends, found, answers) = Default::default();
        Self { filter, keys: Asked(matching), hashes, ends, found, answers }
    }

    /// An answer for each line: yes if one of its keys is.
    pub(super) fn ask(&mut self, lines: &[&[u8]]) -> &[bool] {
        self.hashes.clear();
        self.ends.clear();
        for line in lines {
            self.keys.each(line, |key| self.hashes.push(self.filter.hash(key)));
            self.ends.push(self.hashes.len());
        }
        self.filter.filter().contains_many(&self.hashes, &mut self.found);
        self.answers.clear();
        let starts = std::iter::once(&0).chain(&self.ends);
        let any = |(&start, &end): (&usize, &usize)| self.found[start..end].contains(&true);
        self.answers.extend(starts.zip(&self.ends).map(any));
        &self.answers
    }

    /// Whether a line of the last ones had any key.
    pub(super) fn had_keys(&self, line: usize) -> bool {
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends[line] > start
    }
}
