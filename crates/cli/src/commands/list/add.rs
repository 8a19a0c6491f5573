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
use twiceshy_store::{List, OpenOptions};

const HELP: &str = "\
Examples:
  twiceshy list add blocked.lists --yes blocked.txt --no popular.txt
  echo evil.example | twiceshy list add blocked.lists --yes -
  twiceshy list build --from blocked.lists -o blocked.list

If the directory does not exist, it is created. If the command then fails or is interrupted, the
directory is removed again. If the lists already exist, keys that were added before a failure stay.

Each line is a key. Adding a key that is on the other list is an error; remove it from there first.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list add --help` for examples.")]
pub(crate) struct Add {
    /// The directory of the lists
    lists: PathBuf,
    /// A file of keys to add to the yes list, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    yes: Vec<PathBuf>,
    /// A file of keys to add to the no list, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// False-positive rate for keys on neither list [default: unchanged, or 0.001 for new
    /// lists]
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Add {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        if self.yes.is_empty() && self.no.is_empty() {
            bail!("there are no keys to add; use --yes or --no");
        }
        check_stdin_once(&[&self.yes[..], &self.no].concat())?;
        // Check the files before the directory is created.
        for path in self.yes.iter().chain(&self.no).filter(|path| !is_stdin(path)) {
            fs::metadata(path).with_context(|| path.display().to_string())?;
        }
        let options = match self.rate {
            Some(rate) => OpenOptions::new().false_positive_rate(rate),
            None => OpenOptions::new(),
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
