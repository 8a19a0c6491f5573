//! The entries of many filters, in order, as they are to be in another one.
//!
//! They are read a block at a time, and merged two by two, a batch at a time: which of two
//! comes first can't be foreseen, so there is no branch on it.

use super::AdaptiveQuotientFilter;
use super::entry::Entry;
use crate::bits::machine::{Machine, Operation};
use crate::bits::word::low_bits;
use crate::error::MergeError;
use crate::fingerprint::Digits;
use crate::table::{BlockReader, First};
use core::hint::select_unpredictable;
use std::collections::VecDeque;

/// The lowest bit of the number of an entry: whether there is more of it than the quotient
/// and the remainder that the other bits are.
pub(super) const MORE: u128 = 1;

/// Quotient and remainder of a number.
#[inline(always)]
pub(super) fn place_of(number: u128) -> (u64, u64) {
    ((number >> 64) as u64, number as u64 >> 1)
}

/// The entry of one member.
pub(super) fn single((quotient, remainder): (u64, u64), digits: Digits) -> Entry {
    Entry::single(digits.spell(quotient, core::iter::once(remainder)))
}

/// How often `slots` has to be doubled to be `larger`.
pub(super) fn doublings(slots: u64, larger: u64) -> Option<u32> {
    let times = larger / slots;
    (larger.is_multiple_of(slots) && times.is_power_of_two()).then(|| times.ilog2())
}

/// The entries of one or many filters, in order, a batch at a time.
pub(super) struct Stream<'a> {
    source: Source<'a>,
    /// Their numbers, and how many of them are passed.
    numbers: [u128; BATCH],
    len: usize,
    at: usize,
}

enum Source<'a> {
    Filter(Origin<'a>),
    Pair(Box<[Stream<'a>; 2]>),
}

/// Entries that are merged at once; a block has fewer.
const BATCH: usize = 64;

impl<'a> Stream<'a> {
    /// The entries of filters, at least one, as they are in one of these digits; the sizes of
    /// all must differ by powers of two.
    pub(super) fn new(filters: &[&'a AdaptiveQuotientFilter], digits: Digits) -> Self {
        let source = if let &[filter] = filters {
            Source::Filter(Origin::new(filter, digits))
        } else {
            let (some, others) = filters.split_at(filters.len() / 2);
            Source::Pair(Box::new([Self::new(some, digits), Self::new(others, digits)]))
        };
        Self { source, numbers: [0; BATCH], len: 0, at: 0 }
    }

    /// The numbers of the next entries, unless there are none.
    #[inline(always)]
    pub(super) fn batch(&mut self) -> Option<&[u128]> {
        if self.at == self.len {
            self.refill();
        }
        self.numbers[..self.len].get(self.at..).filter(|numbers| !numbers.is_empty())
    }

    /// Passes over some of the batch.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: usize) {
        self.at += count;
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let numbers = &mut self.numbers;
        self.len = match &mut self.source {
            Source::Filter(origin) => {
                origin.filter.table.level().run(ReadBlock { origin, numbers })
            }
            Source::Pair(pair) => merge(pair, numbers),
        };
        self.at = 0;
    }

    /// Passes over all entries that have this quotient and remainder, which must be the next
    /// ones, and appends them, in no order.
    pub(super) fn take_minirun(
        &mut self,
        place: (u64, u64),
        digits: Digits,
        entries: &mut Vec<Entry>,
    ) -> Result<(), MergeError> {
        while let Some(&[number, ..]) = self.batch()
            && place_of(number) == place
        {
            if number & MORE == 0 {
                entries.push(single(place, digits));
            }
            self.pass(1);
        }
        self.take_extended(place, entries)
    }

    fn take_extended(
        &mut self,
        place: (u64, u64),
        entries: &mut Vec<Entry>,
    ) -> Result<(), MergeError> {
        match &mut self.source {
            Source::Filter(origin) => origin.take_extended(place, entries),
            Source::Pair(pair) => {
                pair.iter_mut().try_for_each(|stream| stream.take_extended(place, entries))
            }
        }
    }
}

/// Takes numbers from both streams in order, as many as there are or fit; returns how many.
fn merge([a, b]: &mut [Stream<'_>; 2], numbers: &mut [u128; BATCH]) -> usize {
    let mut len = 0;
    while len < BATCH {
        let room = &mut numbers[len..];
        let (from_a, from_b) = match (a.batch(), b.batch()) {
            (None, None) => break,
            (Some(some), None) => (copy(room, some), 0),
            (None, Some(some)) => (0, copy(room, some)),
            (Some(some), Some(others)) => interleave(room, some, others),
        };
        a.pass(from_a);
        b.pass(from_b);
        len += from_a + from_b;
    }
    len
}

/// Copies as many as there is room for; returns how many.
fn copy(room: &mut [u128], some: &[u128]) -> usize {
    let count = room.len().min(some.len());
    room[..count].copy_from_slice(&some[..count]);
    count
}

/// Copies as many, in order, as neither of both can run out of; returns how many of each.
fn interleave(room: &mut [u128], some: &[u128], others: &[u128]) -> (usize, usize) {
    let count = room.len().min(some.len()).min(others.len());
    let (some, others) = (&some[..count], &others[..count]);
    let mut taken = 0;
    for (index, place) in room[..count].iter_mut().enumerate() {
        let (a, b) = (some[taken], others[index - taken]);
        let is_a = a <= b;
        *place = select_unpredictable(is_a, a, b);
        taken += usize::from(is_a);
    }
    (taken, count - taken)
}

/// A filter whose entries go into another one.
struct Origin<'a> {
    filter: &'a AdaptiveQuotientFilter,
    rest: BlockReader<'a>,
    /// Of the other one.
    digits: Digits,
    /// How often this one has to be doubled to be as large as the other one.
    doublings: u32,
    /// Bits of a remainder that are left then, and how many of them have no place.
    left: u32,
    cut: u32,
    /// The numbers and positions of entries that are on their way, and of which there is
    /// [`MORE`].
    extended: VecDeque<(u128, u64)>,
}

impl<'a> Origin<'a> {
    fn new(filter: &'a AdaptiveQuotientFilter, digits: Digits) -> Self {
        let slots = filter.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let left = filter.digits.remainder - doublings;
        let (rest, cut) = (BlockReader::new(&filter.table), left - digits.remainder);
        Self { filter, rest, digits, doublings, left, cut, extended: VecDeque::new() }
    }

    fn take_extended(
        &mut self,
        place: (u64, u64),
        entries: &mut Vec<Entry>,
    ) -> Result<(), MergeError> {
        while let Some(&(number, position)) = self.extended.front()
            && place_of(number) == place
        {
            self.extended.pop_front();
            entries.push(self.entry(place.0, position)?);
        }
        Ok(())
    }

    /// The entry at a position, of which there is more, as it is in the other filter, where
    /// it has that quotient.
    fn entry(&self, quotient: u64, position: u64) -> Result<Entry, MergeError> {
        let mut entry = self.filter.entry_from(quotient >> self.doublings, position);
        let is_lengthened = entry.fingerprint.bits() > self.filter.digits.remainder;
        entry.fingerprint = entry.fingerprint.doubled(self.doublings);
        if !is_lengthened {
            entry.fingerprint = entry.fingerprint.truncated(self.digits.remainder);
        } else if self.cut > 0 {
            return Err(MergeError::Lengthened);
        }
        Ok(entry)
    }
}

struct ReadBlock<'r, 'a> {
    origin: &'r mut Origin<'a>,
    numbers: &'r mut [u128; BATCH],
}

impl Operation for ReadBlock<'_, '_> {
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> usize {
        let Origin { rest, doublings, left, cut, extended, .. } = self.origin;
        let (doublings, left, cut) = (*doublings, *left, *cut);
        let mut len = 0;
        rest.read(machine, |First { quotient, remainder, position, more }| {
            let quotient = quotient << doublings | remainder >> left;
            let remainder = (remainder & low_bits(left)) >> cut;
            let low = remainder << 1 | u64::from(more);
            let number = u128::from(quotient) << 64 | u128::from(low);
            self.numbers[len % BATCH] = number;
            len += 1;
            if more {
                extended.push_back((number, position));
            }
        });
        len
    }
}
