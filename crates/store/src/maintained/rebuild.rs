//! Rebuilding and validating the filter.

use super::{MaintainedFilter, Source};
use crate::census::Census;
use crate::sizing::PLANNED_LOAD;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};
use twiceshy::concurrent::Shard;

/// The name of a thread that rebuilds shards.
pub(crate) const THREAD: &str = "twiceshy-rebuild";

/// Returns the number of threads that rebuild a filter: at most 4, because a store has other work, too.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(4)
}

impl<F: Shard> MaintainedFilter<F> {
    /// Rebuilds a shard from the database, with room for `more` entries if it is too small. Writers of
    /// the shard wait; lookups don't. Returns the census of the shard's members.
    pub(crate) fn rebuild_shard<S: Source>(
        &self,
        source: &S,
        shard: usize,
        more: usize,
    ) -> Result<Census, S::Error> {
        let hashes = self.filter.shard_hashes(shard);
        let locked = self.stripes.lock([hashes.clone()]);
        // Ask before the listing begins.
        let is_trusted = source.may_trust(shard);
        let members = self.scan(source, &hashes)?;
        let mut mistakes = locked.mistakes(&hashes);
        if !self.policy.is_listed() {
            // A failed write may have left a member among the mistakes.
            mistakes.retain(|mistake| members.binary_search(mistake).is_err());
        }
        let needed = members.len() + self.policy.slots(mistakes.len()) + more;
        // A shard keeps its size unless it is too small.
        let planned = (self.filter.shard_slots(shard) as f64 * PLANNED_LOAD) as usize;
        let capacity = (needed > planned).then_some(needed);
        self.filter.rebuild_shard(shard, capacity, &members, &mistakes)?;
        self.has_rebuilt(shard);
        self.has_ghosts[shard].store(false, Ordering::Release);
        if is_trusted {
            source.trust(shard);
        }
        self.ready[shard].store(is_trusted, Ordering::Release);
        Ok(members.into_iter().sum())
    }

    /// Rebuilds all shards with several threads, because reading takes longest, and each shard is read
    /// separately. The current thread first does other work. `goes_on` is called before each shard, and
    /// returns whether to rebuild this shard and the rest. `on_shard` is called after each shard, by the
    /// thread that has rebuilt it.
    pub(crate) fn rebuild_all<S, T>(
        &self,
        source: &S,
        first: impl FnOnce() -> Result<T, S::Error>,
        goes_on: impl Fn() -> bool + Sync,
        on_shard: impl Fn(Census) + Sync,
    ) -> Result<T, S::Error>
    where
        S: Source<Error: Send> + Sync,
    {
        let next = AtomicUsize::new(0);
        let rebuild = || -> Result<(), S::Error> {
            while goes_on() {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= self.filter.shards() {
                    break;
                }
                on_shard(self.rebuild_shard(source, shard, 0)?);
            }
            Ok(())
        };
        thread::scope(|scope| {
            // If no more threads can be started, this one rebuilds all shards.
            let spawn = |_| Builder::new().name(THREAD.into()).spawn_scoped(scope, rebuild).ok();
            let others: Vec<_> = (1..threads()).filter_map(spawn).collect();
            let first = first();
            let mut rebuilt = rebuild();
            for other in others {
                rebuilt = rebuilt.and(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            rebuilt.and(first)
        })
    }

    /// Checks every invariant of the filter, and that each shard that is ready holds all members that
    /// the database lists. Writers of a shard wait while it is checked. Returns what is wrong, if
    /// anything is.
    pub(crate) fn find_fault<S: Source>(&self, source: &S) -> Result<Option<String>, S::Error> {
        if let Err(invalid) = self.filter.validate() {
            return Ok(Some(invalid.to_string()));
        }
        for shard in 0..self.filter.shards() {
            let hashes = self.filter.shard_hashes(shard);
            let _locked = self.stripes.lock([hashes.clone()]);
            if !self.ready[shard].load(Ordering::Acquire) {
                continue;
            }
            let members = self.scan(source, &hashes)?;
            let missing = members.iter().filter(|&&member| !self.filter.contains(member)).count();
            if missing > 0 {
                return Ok(Some(format!("the filter lacks {missing} members of shard {shard}")));
            }
        }
        Ok(None)
    }
}
