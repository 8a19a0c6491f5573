//! `twiceshy list info`.

use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs;
use std::path::PathBuf;
use twiceshy::MatchingFilter;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy list info blocked.list
  twiceshy list info blocked.list --json | jq .yes_keys

Reads and validates the whole file.")]
pub(crate) struct Info {
    /// The list
    list: PathBuf,
}

impl Info {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let list = MatchingFilter::open(&self.list)?;
        let filter = list.keyed().filter();
        let metadata = fs::metadata(&self.list);
        let bytes = metadata.with_context(|| self.list.display().to_string())?.len();
        let (yes, details) = (filter.len() as u64, filter.details());
        let per_key = if yes == 0 { 0.0 } else { bytes as f64 * 8.0 / yes as f64 };
        let report = Report::new()
            .count("yes-keys", yes)
            .count("no-keys", details.no_keys)
            .word("matching", list.matching().name())
            .share("false-positive rate", filter.stats().expected_rate)
            .share("planned rate", details.planned_rate)
            .bytes("bytes", bytes)
            .bits("bits per yes-key", per_key)
            .count("remainder bits", details.remainder_bits.into())
            .count("quotients of a seed", details.group_size.into());
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}
