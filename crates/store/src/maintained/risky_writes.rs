//! Tracks inserts whose collisions aren't repaired yet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts writes that have inserted a new member and not yet repaired the mistakes that collide with it.
///
/// A lookup that reads "maybe" during such a write could make a repaired mistake again. So the lookup
/// compares the count before and after it asks the filter. If there was such a write, the lookup locks its
/// stripe to wait for the write, and asks again. The lower half of the number counts writes under way, the
/// upper half counts writes that have ended.
pub(super) struct RiskyWrites(AtomicU64);

/// The value of the count at one moment.
#[derive(Clone, Copy)]
pub(super) struct Moment(u64);

/// A write under way, until this is dropped.
pub(super) struct RiskyWrite<'a>(&'a AtomicU64);

const UNDER_WAY: u64 = u32::MAX as u64;

impl RiskyWrites {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the current count. Call this before asking the filter.
    pub(super) fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::Acquire))
    }

    /// Returns whether there has been no risky write since a moment. Call this after asking the filter: any
    /// write that affected the filter's answer has begun by then.
    pub(super) fn has_been_none_since(&self, before: Moment) -> bool {
        let Moment(now) = self.now();
        now == before.0 && now & UNDER_WAY == 0
    }

    /// Begins a risky write. Call this before the first insert.
    pub(super) fn begin(&self) -> RiskyWrite<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        RiskyWrite(&self.0)
    }
}

impl Drop for RiskyWrite<'_> {
    fn drop(&mut self) {
        // Subtracts one write under way, and adds one that has ended.
        self.0.fetch_add(UNDER_WAY, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risky_write_is_noticed_under_way_and_after_it_ended() {
        let writes = RiskyWrites::new();
        let before = writes.now();
        assert!(writes.has_been_none_since(before));
        let write = writes.begin();
        let during = writes.now();
        assert!(!writes.has_been_none_since(before) && !writes.has_been_none_since(during));
        drop(write);
        assert!(!writes.has_been_none_since(before) && !writes.has_been_none_since(during));
        assert!(writes.has_been_none_since(writes.now()));
    }
}
