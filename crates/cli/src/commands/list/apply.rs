//! `twiceshy list apply`.

use crate::exit::Answer;
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs;
use std::path::PathBuf;
use twiceshy::KeyedSnapshot;
use twiceshy::{MatchingFilter, SecretMode, list::Delta};

const HELP: &str = "\
Examples:
  twiceshy list apply monday.list tuesday.delta -o tuesday.list
  twiceshy list apply blocked.list update.delta -o blocked.list

The result is identical to the newer list that the delta was made from. A delta that was made for a
different older list is refused.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list apply --help` for examples.")]
pub(crate) struct Apply {
    /// The older list
    list: PathBuf,
    /// The delta, made by `twiceshy list diff`
    delta: PathBuf,
    /// Where to write the newer list; can be the same file as the older list
    #[arg(short, long, value_name = "LIST")]
    output: PathBuf,
}

impl Apply {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let target = Target::new(&self.output)?;
        target.keep_off(&self.delta, "the delta")?;
        let progress = session.progress("applying", Total::Unknown);
        let name = || self.delta.display().to_string();
        let bytes = fs::read(&self.delta).with_context(name)?;
        let delta = Delta::from_bytes(&bytes).with_context(name)?;
        let old = MatchingFilter::open(&self.list)?;
        let new = old.keyed().apply(&delta).with_context(name)?;
        let held = target.hold();
        new.save(target.path(), SecretMode::Include)?;
        drop(held);
        drop(progress);
        let report = Report::new()
            .count("yes-keys", new.filter().len() as u64)
            .count("no-keys", new.filter().details().no_keys);
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }
}
