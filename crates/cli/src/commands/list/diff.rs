//! `twiceshy list diff`.

use crate::exit::Answer;
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use twiceshy::MatchingFilter;

const HELP: &str = "\
Examples:
  twiceshy list build --yes tuesday.txt --no popular.txt --like monday.list -o tuesday.list
  twiceshy list diff monday.list tuesday.list -o tuesday.delta

Whoever has the older list makes the newer one of it with `twiceshy list apply`; no key is in the
delta. It is small if the newer list was built --like the older one. If keys have become so many
that the older list's shape wouldn't do, all of the newer list is in it.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list diff --help` for examples.")]
pub(crate) struct Diff {
    /// The older list
    old: PathBuf,
    /// The newer list
    new: PathBuf,
    /// Where to write the delta; a file that is there is replaced
    #[arg(short, long, value_name = "DELTA")]
    output: PathBuf,
}

impl Diff {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let target = Target::new(&self.output)?;
        target.keep_off(&self.old, "the older list")?;
        target.keep_off(&self.new, "the newer list")?;
        let progress = session.progress("comparing", Total::Unknown);
        let old = MatchingFilter::open(&self.old)?;
        let new = MatchingFilter::open(&self.new)?;
        let (one, other) = (old.matching(), new.matching());
        if one != other {
            bail!("the lists match keys as {one} and {other}; build them alike");
        }
        let delta = old.keyed().delta_to(new.keyed())?;
        let bytes = delta.to_bytes();
        target.write(&bytes)?;
        drop(progress);
        let report = Report::new()
            .count("yes-keys", delta.yes_keys())
            .bytes("bytes", bytes.len() as u64)
            .word("holds", if delta.is_whole() { "all of the newer list" } else { "what changed" });
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }
}
