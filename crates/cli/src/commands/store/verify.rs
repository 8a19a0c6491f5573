//! `twiceshy store verify`.

use super::open::{Filter, Store, close, existing};
use crate::exit::Answer;
use crate::output::Report;
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use twiceshy_store::Bytes;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store verify users.store
  twiceshy store verify users.store --json

Reads every pair, and looks up its key through the filter. If a lookup does not find the value, the
exit code is 1; `twiceshy store rebuild` repairs the filter. Ghosts are members of the filter that are
not in the store. They are harmless, except that looking them up reads the disk.")]
pub(crate) struct Verify {
    /// The directory of the store
    store: PathBuf,
}

/// The maximum number of pairs per batch.
const BATCH: usize = 1 << 12;

/// The total size of the values at which a batch ends, in bytes.
const BATCH_BYTES: usize = 16 << 20;

impl Verify {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let members = store.stats().members;
        let progress = session.progress("verifying", Total::Items(members));
        let found = found(&store, |pairs| progress.bar().inc(pairs));
        let (pairs, lost) = found.with_context(|| self.store.display().to_string())?;
        drop(progress);
        let report = Report::new()
            .yes("valid", lost == 0)
            .count("pairs", pairs)
            .count("not found", lost)
            .count("ghosts", members.saturating_sub(pairs));
        session.output.report(&report)?;
        close(store, &self.store, session)?;
        Ok(Answer::of(lost == 0))
    }
}

/// Reads all pairs, and looks up their keys. Returns the number of pairs, and how many of them the
/// lookups did not find.
fn found(store: &Store, progress: impl Fn(u64)) -> twiceshy_store::Result<(u64, u64)> {
    let (mut pairs, mut lost) = (0, 0);
    let mut all = store.iter();
    loop {
        let (mut keys, mut values, mut bytes) = (Vec::new(), Vec::new(), 0);
        while keys.len() < BATCH && bytes < BATCH_BYTES {
            let Some(pair) = all.next() else { break };
            let (key, value) = pair?;
            bytes += value.len();
            keys.push(key);
            values.push(value);
        }
        if keys.is_empty() {
            return Ok((pairs, lost));
        }
        let got = store.get_many(&keys)?;
        let is_lost = |(got, value): &(&Option<Bytes>, &Bytes)| got.as_ref() != Some(*value);
        lost += got.iter().zip(&values).filter(is_lost).count() as u64;
        pairs += keys.len() as u64;
        progress(keys.len() as u64);
    }
}
