//! `twiceshy list verify`.

use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::Report;
use crate::progress::Total;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use twiceshy::MatchingFilter;

const HELP: &str = "\
Examples:
  twiceshy list verify blocked.list
  twiceshy list verify blocked.list --yes blocked.txt --no popular.txt

Reads the whole list, and checks its checksums and every invariant. If the list is damaged, the exit
code is 2. With --yes or --no, also checks the answer for each key in these files. If an answer is
wrong, the exit code is 1. Lines without a key, such as comments in a file of hosts, are skipped.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list verify --help` for examples.")]
pub(crate) struct Verify {
    /// The list
    list: PathBuf,
    /// A file of keys for which the answer must be yes, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    yes: Vec<PathBuf>,
    /// A file of keys for which the answer must be no, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Verify {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let progress = session.progress("verifying", Total::Unknown);
        let list = MatchingFilter::open(&self.list)?;
        drop(progress);
        let [yes, no] = [(&self.yes, true), (&self.no, false)].map(|(paths, answer)| {
            let mut sum = Tally::default();
            for path in paths {
                sum.add(self.ask(path, answer, &list, session)?);
            }
            Ok::<_, anyhow::Error>(sum)
        });
        let (yes, no) = (yes?, no?);
        let report = Report::new()
            .yes("valid", true)
            .count("yes-keys", list.keyed().filter().len() as u64)
            .count("yes checked", yes.checked)
            .count("yes wrong", yes.wrong)
            .count("no checked", no.checked)
            .count("no wrong", no.wrong);
        session.output.report(&report)?;
        Ok(Answer::of(yes.wrong + no.wrong == 0))
    }

    fn ask(
        &self,
        path: &Path,
        answer: bool,
        list: &MatchingFilter,
        session: &Session,
    ) -> Result<Tally> {
        let mut lines = Lines::open(path, Encoding::from_option(self.bytes), session)?;
        let (mut tally, mut answers) = (Tally::default(), Vec::new());
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            list.contains_many(&keys, &mut answers);
            for (line, &other) in keys.iter().zip(&answers) {
                let is_key = list.matching().listed(line).is_some();
                tally.checked += u64::from(is_key);
                tally.wrong += u64::from(is_key && other != answer);
            }
            drop(keys);
            lines.reuse(block);
        }
        Ok(tally)
    }
}

/// The number of checked lines, which are those with a key, and the number of wrong answers.
#[derive(Clone, Copy, Default)]
struct Tally {
    checked: u64,
    wrong: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.wrong += other.wrong;
    }
}
