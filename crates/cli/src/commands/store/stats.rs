//! `twiceshy store stats`.

use super::open::{Filter, close, existing};
use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use twiceshy_store::Layout;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store stats users.store
  twiceshy store stats users.store --json | jq .members

`mistakes` is the number of remembered mistakes: absent keys that the filter once took for members.
`expected rate` is the probability that the filter takes a new absent key for a member.
`bytes of memory` is the sum of three parts: the filter, its upkeep (locks, counters and the state of
shards), and the shards that are being rebuilt in the background.")]
pub(crate) struct Stats {
    /// The directory of the store
    store: PathBuf,
}

impl Stats {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let stats = store.stats();
        let layout = match store.layout() {
            Layout::Merged => "merged",
            Layout::Split => "split",
        };
        let on_disk = store.bytes_on_disk().with_context(|| self.store.display().to_string())?;
        close(store, &self.store, session)?;
        let report = Report::new()
            .count("members", stats.members)
            .count("mistakes", stats.mistakes)
            .word("layout", layout)
            .bytes("bytes on disk", on_disk)
            .bytes("bytes of memory", stats.memory())
            .bytes("bytes of filter", stats.filter_bytes)
            .bytes("bytes of upkeep", stats.upkeep_bytes)
            .bytes("bytes of rebuilds", stats.rebuild_bytes)
            .bits("bits per member", stats.bits_per_key())
            .share("expected rate", stats.expected_rate)
            .share("load", stats.load)
            .count("shards", stats.shards as u64)
            .count("shards due", stats.shards_due as u64);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}
