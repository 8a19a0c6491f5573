//! `twiceshy filter info`.

use super::file::load_unasked;
use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy filter info blocked.filter
  twiceshy filter info blocked.filter --json | jq .members

Reads and validates the whole file. Needs no secret.")]
pub(crate) struct Info {
    /// The filter
    filter: PathBuf,
}

impl Info {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let (filter, has_secret) = load_unasked(&self.filter)?;
        let metadata = fs::metadata(&self.filter);
        let bytes = metadata.with_context(|| self.filter.display().to_string())?.len();
        let (parameters, statistics) = (filter.parameters(), filter.stats());
        let members = statistics.members as u64;
        let per_member = if members == 0 { 0.0 } else { bytes as f64 * 8.0 / members as f64 };
        let report = Report::new()
            .count("members", members)
            .share("false-positive rate", statistics.expected_rate)
            .count("repairs", statistics.repairs)
            .bytes("bytes", bytes)
            .bits("bits per member", per_member)
            .count("slots", parameters.slots)
            .share("load", statistics.load)
            .count("remainder bits", parameters.remainder_bits.into())
            .count("slot bits", parameters.slot_bits.into())
            .word("secret", if has_secret { "in the file" } else { "not in the file" });
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}
