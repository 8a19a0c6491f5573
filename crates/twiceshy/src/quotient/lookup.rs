//! Lookups.
//!
//! Lookups accept a table with any contents, even invalid ones: at worst, the answer is wrong.
//! Operations that change the table need a valid one.

use super::QuotientFilter;
use super::entry::MOST_COUNTERS;
use crate::bits::machine::{AnyShape, Keepable, Machine, Operation};
use crate::claim::Cells;
use crate::hash::Scaled;
use crate::table::{Budget, Equal, Kind, Place, Scan, Slot, Widths};
use crate::{Answer, Claim, Hash};
use core::ops::{Range, RangeInclusive};

impl QuotientFilter {
    /// Returns whether a key with this hash may be a member. If not, it certainly isn't one.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.contains.run(Contains(self), hash)
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
        let cell = self.digits.fingerprint(self.digits.scale(member), 1);
        cell.covers_scaled(self.digits.scale(query))
    }

    /// Returns the claim that [`check`](Self::check) would make if it answered "maybe". It names
    /// all members that an insert, a removal or a repair of this hash may affect.
    #[inline(always)]
    pub fn claim_near(&self, query: Hash) -> Claim {
        let quotient = self.digits.scale(query).quotient;
        let cells = Cells::one(quotient, self.digits.slots);
        Claim { query, cells, version: self.versions.at(quotient) }
    }

    /// Returns the place of a scaled hash's home slot, and its remainder. `SHAPE` is the filter's
    /// [shape](crate::fingerprint::Digits::shape), or 0.
    #[inline(always)]
    pub(super) fn home_of<const SHAPE: u32>(&self, scaled: Scaled) -> (Place, u64) {
        let remainder = if SHAPE == 0 { self.digits.remainder } else { SHAPE };
        (self.table.home::<SHAPE>(scaled.quotient), scaled.leading(remainder))
    }

    /// Returns whether an entry covers `scaled` and is not a tombstone. Its remainder is in the
    /// slot before `from` and equal to that of `scaled`. Also returns `true` if the entry is
    /// malformed.
    #[inline(always)]
    fn rest_covers(&self, from: u64, scaled: Scaled) -> bool {
        let mut index = 1;
        let mut position = from;
        while let Some(Slot { value, kind }) = self.table.continuation(position) {
            if kind == Kind::Counter {
                // A tombstone has a number less than 2^value_bits.
                return value >> self.value_bits.min(63) != 0
                    || self.may_have_members(scaled.quotient, from - 1, position);
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
    /// of `slots`, the last one at the last. The search ends at an entry with a different
    /// remainder.
    #[inline(always)]
    fn entries_cover(&self, slots: RangeInclusive<u64>, remainder: u64, scaled: Scaled) -> bool {
        let mut position = *slots.start();
        while position <= *slots.end() && self.table.value(position) == remainder {
            position += 1;
            if self.rest_covers(position, scaled) {
                return true;
            }
            while self.table.continuation(position).is_some() {
                position += 1;
            }
        }
        false
    }

    /// Returns whether the entry at `start`, whose counter is at `counter`, has members. Also
    /// returns `true` if the entry is malformed.
    fn may_have_members(&self, quotient: u64, start: u64, counter: u64) -> bool {
        let mut slots = counter..=counter + u64::from(MOST_COUNTERS);
        let end = slots.find(|&slot| self.table.continuation(slot).is_none());
        let entry = end.and_then(|end| self.checked_entry(quotient, start..end));
        entry.is_none_or(|entry| entry.count > 0)
    }

    /// Returns whether the run of an occupied quotient has a fingerprint that covers this hash.
    /// Calls are rare, so this dispatches again.
    #[cold]
    fn find(&self, scaled: Scaled) -> bool {
        self.table.target().run(Find { filter: self, scaled })
    }

    /// Returns the slots of the entries that have the quotient and remainder of `scaled`. If there
    /// are none, returns an empty range where they would be.
    #[inline(always)]
    pub(super) fn minirun<M: Machine>(&self, machine: M, scaled: Scaled) -> Range<u64> {
        let remainder = scaled.leading(self.digits.remainder);
        self.table.minirun(machine, scaled.quotient, remainder, 0)
    }
}

/// Looks at one cache line, and [more closely](LookClosely) if that is not enough.
pub(super) struct Contains<'a>(pub(super) &'a QuotientFilter);

impl Keepable for Contains<'static> {
    type On<'a> = Contains<'a>;
}

impl Operation for Contains<'_> {
    type Argument = Hash;
    type Output = bool;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> bool {
        let Self(filter) = self;
        let table = &filter.table;
        let (home, remainder) = filter.home_of::<SHAPE>(filter.digits.scale(hash));
        table.prefetch_across::<SHAPE>(home);
        match table.scan_for::<M, SHAPE>(machine, home, Equal(remainder), false).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.look_closely.run(LookClosely(filter), hash),
        }
    }
}

/// Looks at two cache lines, and walks through the run if that is not enough.
pub(super) struct LookClosely<'a>(pub(super) &'a QuotientFilter);

impl Keepable for LookClosely<'static> {
    type On<'a> = LookClosely<'a>;
}

impl Operation for LookClosely<'_> {
    type Argument = Hash;
    type Output = bool;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> bool {
        let Self(filter) = self;
        let scaled = filter.digits.scale(hash);
        let (home, remainder) = filter.home_of::<SHAPE>(scaled);
        // This happens when a repaired mistake is queried again and again.
        if let Some((first, last)) = filter.table.first_equal::<M, SHAPE>(machine, home, remainder)
        {
            return filter.entries_cover(first..=last, remainder, scaled);
        }
        match filter.table.scan_across_for::<M, SHAPE>(machine, home, Equal(remainder)).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.find(scaled),
        }
    }
}

struct Find<'a> {
    filter: &'a QuotientFilter,
    scaled: Scaled,
}

impl Operation for Find<'_> {
    type Argument = ();
    type Output = bool;
    type Shapes = AnyShape;

    /// Walks through the run. Remainders are sorted, so the first larger one ends the search. All
    /// entries with an equal remainder are tried, because a minirun may hold several. If the table
    /// is invalid and the run can't be found, returns `true`.
    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> bool {
        let Self { filter, scaled } = self;
        let table = &filter.table;
        let remainder = scaled.leading(filter.digits.remainder);
        let home = table.home::<0>(scaled.quotient);
        let walk = table.try_walk::<M, 0>(machine, home, Budget::LOOKUP);
        let Some(mut walk) = walk else { return true };
        loop {
            let value = walk.remainder();
            if value > remainder {
                return false;
            }
            if value == remainder && filter.rest_covers(walk.position() + 1, scaled) {
                return true;
            }
            if !walk.advance() {
                return walk.is_lost();
            }
        }
    }
}
