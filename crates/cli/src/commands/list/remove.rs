//! `twiceshy list remove`.

use super::directory::{each_block, existing};
use crate::commands::closing::closed;
use crate::exit::Answer;
use crate::input::{Encoding, check_stdin_once};
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::path::PathBuf;
use twiceshy_store::List;

const HELP: &str = "\
Examples:
  twiceshy list remove blocked.lists --yes pardoned.txt
  echo good.example | twiceshy list remove blocked.lists --no -

Keys that are not on the list are counted as missing. If any key is missing, the exit code is 1.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list remove --help` for examples.")]
pub(crate) struct Remove {
    /// The directory of the lists
    lists: PathBuf,
    /// A file of keys to remove from the yes list, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    yes: Vec<PathBuf>,
    /// A file of keys to remove from the no list, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Remove {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        if self.yes.is_empty() && self.no.is_empty() {
            bail!("there are no keys to remove; use --yes or --no");
        }
        check_stdin_once(&[&self.yes[..], &self.no].concat())?;
        let name = || self.lists.display().to_string();
        let lists = existing(&self.lists)?;
        let encoding = Encoding::from_option(self.bytes);
        let (mut removed, mut missing) = (0, 0);
        for (list, paths) in [(List::Yes, &self.yes), (List::No, &self.no)] {
            each_block(paths, encoding, session, |keys| {
                for key in keys {
                    let was_there = match list {
                        List::Yes => lists.remove_yes(key),
                        List::No => lists.remove_no(key),
                    };
                    let was_there = was_there.with_context(name)?;
                    removed += u64::from(was_there);
                    missing += u64::from(!was_there);
                }
                Ok(())
            })?;
        }
        let report = Report::new()
            .count("removed", removed)
            .count("missing", missing)
            .count("yes-keys", lists.len(List::Yes))
            .count("no-keys", lists.len(List::No));
        closed(&self.lists, lists.close())?;
        session.output.report(&report)?;
        Ok(Answer::of(missing == 0))
    }
}
