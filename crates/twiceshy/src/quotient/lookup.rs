//! Lookups of single hashes.
//!
//! Lookups accept a table with any contents, even invalid ones: at worst, the answer is wrong.
//! Operations that change the table need a valid one.

use super::{QuotientFilter, Shared};
use crate::bits::machine::{AnyShape, dispatched, kept};
use crate::claim::Cells;
use crate::hash::Scaled;
use crate::table::{Budget, Equal, Kind, Place, Scan, Slot, Widths};
use crate::{Answer, Claim, Hash};
use core::ops::RangeInclusive;

/// Maximum number of slots per counter, for any slot width. More are never needed, because a valid
/// number has fewer than 64 bits.
const MOST_COUNTERS: u64 = 64;

impl QuotientFilter {
    /// Returns whether a key with this hash may be a member. The answer `false` is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.shared.contains(hash)
    }

    /// Answers a lookup, with a claim if the answer is "maybe". If that answer was a mistake, the
    /// claim can be used to repair the filter.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim_near(hash)) } else { Answer::Absent }
    }

    /// Returns the range of hashes that a [claim](Claim::suspects) of this query would name, at the
    /// filter's current size. To serialize operations on members that may collide, lock this range
    /// as a whole.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim_near(query).suspects()
    }

    /// Returns whether inserting `member` may turn `query` into a mistake. This is so if both have
    /// the same quotient and remainder.
    pub fn may_confuse(&self, member: Hash, query: Hash) -> bool {
        let cell = self.shared.digits.fingerprint(self.shared.digits.scale(member), 1);
        cell.covers_scaled(self.shared.digits.scale(query))
    }

    /// Returns the claim that [`check`](Self::check) would make if it answered "maybe". It names
    /// all members that an insert, a removal or a repair of this hash may affect.
    #[inline(always)]
    pub fn claim_near(&self, query: Hash) -> Claim {
        let quotient = self.shared.digits.scale(query).quotient;
        let cells = Cells::one(quotient, self.shared.digits.slots);
        Claim { query, cells, version: self.versions.at(quotient) }
    }
}

impl Shared {
    /// Looks up a hash; see [`QuotientFilter::contains`].
    #[inline]
    pub(super) fn contains(&self, hash: Hash) -> bool {
        self.contains.run(Contains(self), hash)
    }

    /// Returns the place of a scaled hash's home slot, and the hash's remainder. `SHAPE` is the
    /// filter's [shape](crate::fingerprint::Digits::shape), or 0.
    #[inline(always)]
    pub(super) fn home_of<const SHAPE: u32>(&self, scaled: Scaled) -> (Place, u64) {
        let remainder = if SHAPE == 0 { self.digits.remainder } else { SHAPE };
        (self.table.home::<SHAPE>(scaled.quotient), scaled.leading(remainder))
    }

    /// Returns whether an entry covers `scaled` and is not a tombstone. The remainder of the entry
    /// must be in the slot before `from`, and equal to that of `scaled`. Also returns `true` if the
    /// entry is malformed.
    #[inline(always)]
    fn rest_covers(&self, from: u64, scaled: Scaled) -> bool {
        let mut index = 1;
        let mut position = from;
        while let Some(Slot { value, kind }) = self.table.continuation(position) {
            if kind == Kind::Counter {
                return self.counts_members(position);
            }
            if !self.digits.has(index) {
                return true;
            }
            if value != self.digits.digit(scaled.fraction, index) {
                return false;
            }
            index += 1;
            position += 1;
        }
        true
    }

    /// Returns whether one of several entries covers `scaled`. The first entry begins at the first
    /// of `slots`, and the last entry at the last of `slots`. The search ends at an entry with a
    /// different remainder.
    #[inline(always)]
    fn entries_cover(&self, slots: RangeInclusive<u64>, remainder: u64, scaled: Scaled) -> bool {
        let mut position = *slots.start();
        while position <= *slots.end() && self.table.value(position) == remainder {
            position += 1;
            if self.rest_covers(position, scaled) {
                return true;
            }
            // In an invalid table, the last entry may go on to the end of the table.
            while position <= *slots.end() && self.table.continuation(position).is_some() {
                position += 1;
            }
        }
        false
    }

    /// Returns whether a counter counts any members. The number of a tombstone is less than
    /// `2^value_bits`.
    fn counts_members(&self, counter: u64) -> bool {
        let mut bits = self.value_bits;
        let mut slots =
            (counter..counter + MOST_COUNTERS).map_while(|at| self.table.continuation(at));
        slots.any(|Slot { value, .. }| {
            let counts = value >> bits != 0;
            bits = bits.saturating_sub(self.digits.width);
            counts
        })
    }
}

kept! {
    /// Looks up a hash in one cache line, and falls back to [`LookClosely`] if that is
    /// inconclusive.
    pub(super) struct Contains<'a>(shared: &'a Shared);

    fn run(hash: Hash) -> bool => Widths, |machine| {
        let table = &shared.table;
        let unmixed = shared.digits.multiply(hash);
        table.prefetch_across::<SHAPE>(table.home::<SHAPE>(unmixed.quotient()));
        // The remainder is computed while the line is fetched.
        let (home, remainder) = shared.home_of::<SHAPE>(shared.digits.mix(unmixed));
        match table.scan_for::<M, SHAPE>(machine, home, Equal(remainder), false).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => shared.look_closely.run(LookClosely(shared), hash),
        }
    }
}

kept! {
    /// Looks up a hash in two cache lines, and walks through the run if they are inconclusive.
    pub(super) struct LookClosely<'a>(shared: &'a Shared);

    fn run(hash: Hash) -> bool => Widths, |machine| {
        let scaled = shared.digits.scale(hash);
        let (home, remainder) = shared.home_of::<SHAPE>(scaled);
        // This path is fast for repaired mistakes that are queried repeatedly.
        if let Some((first, last)) = shared.table.first_equal::<M, SHAPE>(machine, home, remainder)
        {
            return shared.entries_cover(first..=last, remainder, scaled);
        }
        match shared.table.scan_across_for::<M, SHAPE>(machine, home, Equal(remainder)).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => find(shared, scaled),
        }
    }
}

dispatched! {
    /// Returns whether the run of an occupied quotient has a fingerprint that covers this hash.
    /// Calls are rare, so this dispatches again.
    ///
    /// Walks through the run. Remainders are sorted, so the first larger one ends the search. All
    /// entries with an equal remainder are tried, because a minirun may hold several. If the table
    /// is invalid and the run can't be found, returns `true`.
    #[cold]
    fn find<'a>(shared: &'a Shared, scaled: Scaled) -> bool
    => shared.table.target(), AnyShape, |machine| {
        let table = &shared.table;
        let remainder = scaled.leading(shared.digits.remainder);
        let home = table.home::<0>(scaled.quotient);
        let walk = table.try_walk::<M, 0>(machine, home, Budget::LOOKUP);
        let Some(mut walk) = walk else { return true };
        loop {
            let value = walk.remainder();
            if value > remainder {
                return false;
            }
            if value == remainder && shared.rest_covers(walk.position() + 1, scaled) {
                return true;
            }
            if !walk.advance() {
                return walk.is_lost();
            }
        }
    }
}
