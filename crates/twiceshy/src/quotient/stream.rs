//! Streams of the entries of one or more filters, in order, converted for a target filter.
//!
//! Entries are read one block at a time, and streams are merged in pairs, one batch at a time. The
//! processor can't predict which of two entries comes first, so the merge doesn't branch on that.

use super::entry::Entry;
use super::{MergeError, QuotientFilter, Shared};
use crate::bits::machine::dispatched;
use crate::bits::word::low_bits;
use crate::fingerprint::Digits;
use crate::table::{BlockReader, First, Widths};
use core::hint::select_unpredictable;
use std::collections::VecDeque;

/// An entry in a stream, as one number: its quotient, its remainder, and whether it has more than
/// one slot. Among entries with the same quotient and remainder, those with one slot come first.
pub(super) trait Number: Copy + Ord {
    /// Returns the number for a quotient and a remainder of `bits` bits, whose lowest `cut` bits
    /// are cut off. `more` says whether the entry has more than one slot.
    fn new(quotient: u64, remainder: u64, bits: u32, cut: u32, more: bool) -> Self;

    /// Returns the quotient and remainder in a filter with these digits.
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

/// Returns whether the [`Number`]s of filters with these digits fit in 64 bits.
pub(super) fn fit_a_word(mut digits: impl Iterator<Item = Digits>) -> bool {
    let bits = |digits: Digits| u64::BITS - digits.slots.leading_zeros() + digits.remainder;
    digits.all(|digits| bits(digits) < u64::BITS)
}

/// Returns the number of doublings that turn `slots` into `larger`, or `None` if no number of
/// doublings does.
pub(super) fn doublings(slots: u64, larger: u64) -> Option<u32> {
    let times = larger / slots;
    (larger.is_multiple_of(slots) && times.is_power_of_two()).then(|| times.ilog2())
}

/// The entries of one or more filters, in order, one batch at a time.
pub(super) struct Stream<'a, N> {
    source: Source<'a, N>,
    /// The current batch: `len` numbers, of which the first `at` have been passed over.
    numbers: [N; BATCH],
    len: usize,
    at: usize,
}

enum Source<'a, N> {
    Filter(Origin<'a, N>),
    Pair(Box<[Stream<'a, N>; 2]>),
}

/// Maximum number of entries per batch. A block has fewer.
const BATCH: usize = 64;

impl<'a, N: Number> Stream<'a, N> {
    /// Streams the entries of at least one filter, converted for a filter with these digits. The
    /// target's number of slots must be a power of two times that of each filter.
    pub(super) fn new(filters: &[&'a QuotientFilter], digits: Digits) -> Self {
        let source = if let &[filter] = filters {
            Source::Filter(Origin::new(&filter.shared, digits))
        } else {
            let (some, others) = filters.split_at(filters.len() / 2);
            Source::Pair(Box::new([Self::new(some, digits), Self::new(others, digits)]))
        };
        Self { source, numbers: [N::new(0, 0, 1, 0, false); BATCH], len: 0, at: 0 }
    }

    /// Returns the numbers of the next entries, or `None` at the end.
    #[inline(always)]
    pub(super) fn batch(&mut self) -> Option<&[N]> {
        if self.at == self.len {
            self.refill();
        }
        self.numbers[..self.len].get(self.at..).filter(|numbers| !numbers.is_empty())
    }

    /// Passes over the next `count` entries of the batch.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: usize) {
        self.at += count;
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let numbers = &mut self.numbers;
        self.len = match &mut self.source {
            Source::Filter(origin) => read_block(origin, numbers),
            Source::Pair(pair) => merge(pair, numbers),
        };
        self.at = 0;
    }

    /// Passes over all entries with this quotient and remainder, which must be the next ones.
    /// Appends them to `entries`, unsorted.
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
                entries.push(Entry::bare(digits, place));
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

/// Merges numbers from both streams in order, until both are empty or `numbers` is full. Returns
/// how many were merged.
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

/// Copies as many numbers as there is room for. Returns how many.
fn copy<N: Number>(room: &mut [N], some: &[N]) -> usize {
    let count = room.len().min(some.len());
    room[..count].copy_from_slice(&some[..count]);
    count
}

/// Merges as many numbers as it can without running out of either input. Returns how many it took
/// from each.
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

/// A filter whose entries are read for the target filter.
struct Origin<'a, N> {
    shared: &'a Shared,
    rest: BlockReader<'a>,
    /// Digits of the target filter.
    digits: Digits,
    /// Number of doublings after which this filter is as large as the target.
    doublings: u32,
    /// Number of low remainder bits that have no room in the target.
    cut: u32,
    /// Numbers and positions of the entries that have several slots and are still in the stream.
    extended: VecDeque<(N, u64)>,
}

impl<'a, N: Number> Origin<'a, N> {
    fn new(shared: &'a Shared, digits: Digits) -> Self {
        let slots = shared.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let cut = shared.digits.remainder - doublings - digits.remainder;
        let rest = BlockReader::new(&shared.table);
        Self { shared, rest, digits, doublings, cut, extended: VecDeque::new() }
    }

    /// Passes over the entries with this quotient and remainder that have more than one slot.
    /// Appends them to `entries`, converted for the target filter.
    fn take_extended(
        &mut self,
        place: (u64, u64),
        entries: &mut Vec<Entry>,
    ) -> Result<(), MergeError> {
        while let Some((_, position)) =
            self.extended.pop_front_if(|(number, _)| number.place(self.digits) == place)
        {
            let slots = position..self.shared.table.skip_extensions(position + 1);
            let mut entry = self.shared.entry_at(place.0 >> self.doublings, slots);
            let is_lengthened = entry.fingerprint.bits() > self.shared.digits.remainder;
            entry.fingerprint = entry.fingerprint.doubled(self.doublings);
            if !is_lengthened {
                entry.fingerprint = entry.fingerprint.truncated(self.digits.remainder);
            } else if self.cut > 0 {
                return Err(MergeError::Lengthened);
            }
            entries.push(entry);
        }
        Ok(())
    }
}

dispatched! {
    /// Reads the next block that has entries. Returns the number of its entries, or 0 at the end.
    fn read_block<'r, 'a, N: Number>(
        origin: &'r mut Origin<'a, N>,
        numbers: &'r mut [N; BATCH],
    ) -> usize => origin.shared.table.target(), Widths, |machine| {
        let Origin { shared, rest, extended, cut, .. } = origin;
        let (bits, cut) = (shared.digits.remainder, *cut);
        let mut len = 0;
        rest.read::<M, SHAPE>(machine, |First { quotient, remainder, position, more }| {
            let number = N::new(quotient, remainder, bits, cut, more);
            numbers[len % BATCH] = number;
            len += 1;
            if more {
                extended.push_back((number, position));
            }
        });
        len
    }
}
