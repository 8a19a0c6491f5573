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

`twiceshy list apply` updates the older list with the delta. The delta contains no keys. It is small if
the newer list was built with --like from the older one. If the newer list outgrew the size that --like
took from the older one, the delta contains the whole newer list.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list diff --help` for examples.")]
pub(crate) struct Diff {
    /// The older list
    old: PathBuf,
    /// The newer list
    new: PathBuf,
    /// Where to write the delta; an existing file is replaced
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
            bail!(
                "the lists match keys differently ({one} and {other}); build both with the same --match"
            );
        }
        let delta = old.keyed().delta_to(new.keyed())?;
        let bytes = delta.to_bytes();
        target.write(&bytes)?;
        drop(progress);
        let report = Report::new()
            .count("yes-keys", new.keyed().filter().len() as u64)
            .bytes("bytes", bytes.len() as u64)
            .word(
                "contains",
                if delta.is_whole() { "the whole newer list" } else { "changes only" },
            );
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }
}
