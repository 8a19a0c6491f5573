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

/// An entry on its way, as one number: its quotient, its remainder, and whether there is more
/// of it. Of two that have the same quotient and remainder, one that has no more is less.
pub(super) trait Number: Copy + Ord {
    /// The number of a quotient and a remainder of so many bits, of which the last ones are
    /// cut off.
    fn new(quotient: u64, remainder: u64, bits: u32, cut: u32, more: bool) -> Self;

    /// Quotient and remainder in a filter of these digits.
    fn place(self, digits: Digits) -> (u64, u64);

    fn has_more(self) -> bool;
}

macro_rules! number {
    ($word:ty) => {
        impl Number for $word {
            #[inline(always)]
            fn new(quotient: u64, remainder: u64, bits: u32, cut: u32, more: bool) -> Self {
                let whole = Self::from(quotient) << bits | Self::from(remainder);
                whole >> cut << 1 | Self::from(more)
            }

            #[inline(always)]
            fn place(self, digits: Digits) -> (u64, u64) {
                let whole = self >> 1;
                let remainder = whole as u64 & low_bits(digits.remainder);
                ((whole >> digits.remainder) as u64, remainder)
            }

            #[inline(always)]
            fn has_more(self) -> bool {
                self & 1 == 1
            }
        }
    };
}

number!(u64);
number!(u128);

/// Whether a word is enough for the [`Number`]s of filters of these digits.
pub(super) fn fit_a_word(mut digits: impl Iterator<Item = Digits>) -> bool {
    let bits = |digits: Digits| u64::BITS - digits.slots.leading_zeros() + digits.remainder;
    digits.all(|digits| bits(digits) < u64::BITS)
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
pub(super) struct Stream<'a, N> {
    source: Source<'a, N>,
    /// Their numbers, and how many of them are passed.
    numbers: [N; BATCH],
    len: usize,
    at: usize,
}

enum Source<'a, N> {
    Filter(Origin<'a, N>),
    Pair(Box<[Stream<'a, N>; 2]>),
}

/// Entries that are merged at once; a block has fewer.
const BATCH: usize = 64;

impl<'a, N: Number> Stream<'a, N> {
    /// The entries of filters, at least one, as they are in one of these digits; the sizes of
    /// all must differ by powers of two.
    pub(super) fn new(filters: &[&'a AdaptiveQuotientFilter], digits: Digits) -> Self {
        let source = if let &[filter] = filters {
            Source::Filter(Origin::new(filter, digits))
        } else {
            let (some, others) = filters.split_at(filters.len() / 2);
            Source::Pair(Box::new([Self::new(some, digits), Self::new(others, digits)]))
        };
        Self { source, numbers: [N::new(0, 0, 1, 0, false); BATCH], len: 0, at: 0 }
    }

    /// The numbers of the next entries, unless there are none.
    #[inline(always)]
    pub(super) fn batch(&mut self) -> Option<&[N]> {
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
            && number.place(digits) == place
        {
            if !number.has_more() {
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
fn merge<N: Number>([a, b]: &mut [Stream<'_, N>; 2], numbers: &mut [N; BATCH]) -> usize {
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
fn copy<N: Number>(room: &mut [N], some: &[N]) -> usize {
    let count = room.len().min(some.len());
    room[..count].copy_from_slice(&some[..count]);
    count
}

/// Copies as many, in order, as neither of both can run out of; returns how many of each.
fn interleave<N: Number>(room: &mut [N], some: &[N], others: &[N]) -> (usize, usize) {
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
struct Origin<'a, N> {
    filter: &'a AdaptiveQuotientFilter,
    rest: BlockReader<'a>,
    /// Of the other one.
    digits: Digits,
    /// How often this one has to be doubled to be as large as the other one, and how many
    /// bits of a remainder have no place then.
    doublings: u32,
    cut: u32,
    /// The numbers and positions of the entries on their way of which there is more.
    extended: VecDeque<(N, u64)>,
}

impl<'a, N: Number> Origin<'a, N> {
    fn new(filter: &'a AdaptiveQuotientFilter, digits: Digits) -> Self {
        let slots = filter.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let cut = filter.digits.remainder - doublings - digits.remainder;
        let rest = BlockReader::new(&filter.table);
        Self { filter, rest, digits, doublings, cut, extended: VecDeque::new() }
    }

    fn take_extended(
        &mut self,
        place: (u64, u64),
        entries: &mut Vec<Entry>,
    ) -> Result<(), MergeError> {
        while let Some(&(number, position)) = self.extended.front()
            && number.place(self.digits) == place
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

struct ReadBlock<'r, 'a, N> {
    origin: &'r mut Origin<'a, N>,
    numbers: &'r mut [N; BATCH],
}

impl<N: Number> Operation for ReadBlock<'_, '_, N> {
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> usize {
        let Origin { filter, rest, extended, cut, .. } = self.origin;
        let (bits, cut) = (filter.digits.remainder, *cut);
        let mut len = 0;
        rest.read(machine, |First { quotient, remainder, position, more }| {
            let number = N::new(quotient, remainder, bits, cut, more);
            self.numbers[len % BATCH] = number;
            len += 1;
            if more {
                extended.push_back((number, position));
            }
        });
        len
    }
}
