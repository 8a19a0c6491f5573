//! `twiceshy list add`.

use super::directory::{KeptLists, each_block, in_new_or_existing};
use crate::exit::Answer;
use crate::input::{Encoding, check_stdin_once, is_stdin};
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::fs;
use std::path::PathBuf;
use twiceshy_store::{List, ListOptions};

const HELP: &str = "\
Examples:
  twiceshy list add blocked.lists --yes blocked.txt --no popular.txt
  echo evil.example | twiceshy list add blocked.lists --yes -
  twiceshy list build --from blocked.lists -o blocked.list

The directory is created if there is none. If the command then fails or is interrupted, the new
directory is removed. Keys that were added to existing lists by then stay.

A key is a line as it is. A key that is already on the other list is an error, which names the key;
remove it from the other list first.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list add --help` for examples.")]
pub(crate) struct Add {
    /// The directory of the lists
    lists: PathBuf,
    /// A file of keys to be answered yes, one a line; may be given several times
    #[arg(long, value_name = "FILE")]
    yes: Vec<PathBuf>,
    /// A file of keys to be answered no, one a line; may be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// How often a key that is on neither list may be answered yes: 0.001 of new lists
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Take lines as they are, not only UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Add {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        if self.yes.is_empty() && self.no.is_empty() {
            bail!("there is nothing to add; give --yes or --no");
        }
        check_stdin_once(&[&self.yes[..], &self.no].concat())?;
        // Before there is a directory; only `-` can't be checked.
        for path in self.yes.iter().chain(&self.no).filter(|path| !is_stdin(path)) {
            fs::metadata(path).with_context(|| path.display().to_string())?;
        }
        let options = match self.rate {
            Some(rate) => ListOptions::new().false_positive_rate(rate),
            None => ListOptions::new(),
        };
        let report = in_new_or_existing(&self.lists, &options, |lists| self.add(lists, session))?;
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }

    fn add(&self, lists: &KeptLists, session: &Session) -> Result<Report> {
        let name = || self.lists.display().to_string();
        let encoding = Encoding::from_option(self.bytes);
        let (mut yes, mut no) = (0, 0);
        for (list, paths, added) in
            [(List::Yes, &self.yes, &mut yes), (List::No, &self.no, &mut no)]
        {
            each_block(paths, encoding, session, |keys| {
                *added += lists.add_many(list, keys).with_context(name)?;
                Ok(())
            })?;
        }
        Ok(Report::new()
            .count("added to yes", yes)
            .count("added to no", no)
            .count("yes-keys", lists.len(List::Yes))
            .count("no-keys", lists.len(List::No)))
    }
}
