//! Asking.
//!
//! All that leads to an answer goes through tables that hold anything, unlike what changes
//! them: at worst the answer is wrong.

use super::AdaptiveQuotientFilter;
use super::entry::MOST_COUNTERS;
use crate::bits::machine::{Machine, Operation, Routine};
use crate::hash::Scaled;
use crate::table::{Kind, Place, Scan, Slot};
use crate::{Answer, Claim, Hash};
use core::ops::{Range, RangeInclusive};

impl AdaptiveQuotientFilter {
    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.contains.run(self, hash)
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used
    /// to repair the filter if it was a mistake.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    /// The hashes that the filter, of the size it has now, can't tell from this one without
    /// repairs: those that a [claim](Claim::suspects) of this query would name. Whoever locks
    /// members against each other locks these together.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim(query).suspects()
    }

    /// The claim that a query may be a member, as of now.
    #[inline(always)]
    pub(crate) fn claim(&self, query: Hash) -> Claim {
        let scaled = self.digits.scale(query);
        let cell = self.digits.fingerprint(scaled, 1);
        Claim { query, cell, through: cell, version: self.versions.at(scaled.quotient) }
    }

    /// Where the home slot of a scaled hash is, and its remainder; by way of the
    /// [constant](crate::fingerprint::Digits::constant).
    #[inline(always)]
    pub(super) fn home_of<const WIDTH: u32>(&self, scaled: Scaled) -> (Place, u64) {
        let remainder = if WIDTH == 0 { self.digits.remainder } else { WIDTH };
        (self.table.home::<WIDTH>(scaled.quotient), scaled.leading(remainder))
    }

    /// Whether an entry, whose remainder is before `from` and equal to `scaled`'s, covers it
    /// and is no tombstone; or may, if it isn't written as it should be.
    #[inline(always)]
    fn rest_covers(&self, from: u64, scaled: Scaled) -> bool {
        let mut index = 1;
        let mut position = from;
        while let Some(Slot { value, kind }) = self.table.continuation(position) {
            if kind == Kind::Counter {
                // A tombstone's number is less than 2^value_bits.
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

    /// Whether one of the entries from the first of these slots on, as long as they have this
    /// remainder, covers `scaled`. The last one begins at the last of the slots.
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

    /// Whether the entry at `start`, whose counter is at `counter`, is no tombstone, or not
    /// written as it should be.
    fn may_have_members(&self, quotient: u64, start: u64, counter: u64) -> bool {
        let mut slots = counter..=counter + u64::from(MOST_COUNTERS);
        let end = slots.find(|&slot| self.table.continuation(slot).is_none());
        let entry = end.and_then(|end| self.checked_entry(quotient, start..end));
        entry.is_none_or(|entry| entry.count > 0)
    }

    /// Whether the run of a quotient that is occupied has a fingerprint of this hash;
    /// rare enough to be dispatched once more.
    #[cold]
    fn find(&self, scaled: Scaled) -> bool {
        self.table.level().run(Find { filter: self, scaled })
    }

    /// The slots of the entries that have `scaled`'s quotient and remainder; if there
    /// are none, an empty range where they would be.
    #[inline(always)]
    pub(super) fn minirun<M: Machine>(&self, machine: M, scaled: Scaled) -> Range<u64> {
        let remainder = scaled.leading(self.digits.remainder);
        self.table.minirun(machine, scaled.quotient, remainder, 0)
    }
}

/// Looks at one line, and if that doesn't tell, [closely](LookClosely).
pub(super) struct Contains;

impl Routine for Contains {
    type Subject<'a> = &'a AdaptiveQuotientFilter;
    type Argument = Hash;
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine, const WIDTH: u32>(
        machine: M,
        filter: &AdaptiveQuotientFilter,
        hash: Hash,
    ) -> bool {
        let table = &filter.table;
        let (home, remainder) = filter.home_of::<WIDTH>(filter.digits.scale(hash));
        table.prefetch_across::<WIDTH>(home);
        match table.scan::<M, WIDTH>(machine, home, remainder).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.look_closely.run(filter, hash),
        }
    }
}

/// Looks at two lines, or else walks through the run.
pub(super) struct LookClosely;

impl Routine for LookClosely {
    type Subject<'a> = &'a AdaptiveQuotientFilter;
    type Argument = Hash;
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine, const WIDTH: u32>(
        machine: M,
        filter: &AdaptiveQuotientFilter,
        hash: Hash,
    ) -> bool {
        let scaled = filter.digits.scale(hash);
        let (home, remainder) = filter.home_of::<WIDTH>(scaled);
        // As of a mistake that was repaired, and is made again and again.
        if let Some((first, last)) = filter.table.first_equal::<M, WIDTH>(machine, home, remainder)
        {
            return filter.entries_cover(first..=last, remainder, scaled);
        }
        match filter.table.scan_across::<M, WIDTH>(machine, home, remainder).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.find(scaled),
        }
    }
}

struct Find<'a> {
    filter: &'a AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for Find<'_> {
    type Output = bool;

    /// Walks through the run. Remainders are sorted, so the first larger one ends the
    /// search. Every entry with the right remainder counts: a minirun may hold several
    /// members. Where the table is no valid one, and the run is nowhere, it may be there.
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Self { filter, scaled } = self;
        let table = &filter.table;
        let remainder = scaled.leading(filter.digits.remainder);
        let home = table.home::<0>(scaled.quotient);
        let Some(mut walk) = table.cautious_walk::<M, 0>(machine, home) else { return true };
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
