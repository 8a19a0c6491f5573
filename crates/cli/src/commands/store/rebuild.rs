//! `twiceshy store rebuild`.

use super::open::{Filter, Store, close, existing};
use crate::exit::Answer;
use crate::output::Report;
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store rebuild users.store
  twiceshy store rebuild users.store --json

Clears ghosts, and gives the filter the precision back that growing took. Mistakes that are
remembered stay repaired. Nothing is lost if it is interrupted.")]
pub(crate) struct Rebuild {
    /// The directory of the store
    store: PathBuf,
}

/// How often it is asked how far it is.
const TICK: Duration = Duration::from_millis(50);

impl Rebuild {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let before = store.stats();
        // Each shard is one scan; after a crash, opening has done it all.
        if before.backend_scans < before.shards as u64 {
            scrub(&store, before.backend_scans, session)
                .with_context(|| self.store.display().to_string())?;
        }
        let stats = store.stats();
        close(store, &self.store, session)?;
        let report = Report::new()
            .count("members", stats.members)
            .count("ghosts cleared", before.members.saturating_sub(stats.members))
            .count("mistakes", stats.mistakes)
            .bytes("bytes of filter", stats.filter_bytes)
            .share("load", stats.load);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}

fn scrub(store: &Store, scans_before: u64, session: &Session) -> twiceshy_store::Result<()> {
    let progress = session.progress("building the filter again", Total::Items(0));
    let bar = progress.bar();
    bar.set_length(store.stats().shards as u64);
    thread::scope(|scope| {
        let scrubbing = scope.spawn(|| store.scrub());
        while !scrubbing.is_finished() {
            bar.set_position(store.stats().backend_scans - scans_before);
            thread::sleep(TICK);
        }
        match scrubbing.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
