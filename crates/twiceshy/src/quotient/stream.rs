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

/// The lowest bit of the number of an entry: whether there is more of it than the quotient
/// and the remainder that the other bits are.
pub(super) const MORE: u128 = 1;

/// Not an entry's number: quotients are less.
pub(super) const NONE: u128 = u128::MAX;

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

/// A filter whose entries go into another one.
#[derive(Clone, Copy)]
struct Origin<'a> {
    filter: &'a AdaptiveQuotientFilter,
    /// How often it has to be doubled to be as large as the other one.
    doublings: u32,
    /// Bits of a remainder that are left then, and how many of them have no place.
    left: u32,
    cut: u32,
}

impl<'a> Origin<'a> {
    /// A filter whose entries go into one of these digits; their sizes must differ by a power
    /// of two.
    fn new(filter: &'a AdaptiveQuotientFilter, digits: Digits) -> Self {
        let slots = filter.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let left = filter.digits.remainder - doublings;
        Self { filter, doublings, left, cut: left - digits.remainder }
    }

    /// The number of an entry as it is in the other filter.
    #[inline(always)]
    fn number(&self, first: First) -> u128 {
        let quotient = first.quotient << self.doublings | first.remainder >> self.left;
        let remainder = (first.remainder & low_bits(self.left)) >> self.cut;
        let low = remainder << 1 | u64::from(first.more);
        u128::from(quotient) << 64 | u128::from(low)
    }

    /// An entry as it is in the other filter, which has these digits.
    fn entry(&self, item: Item, digits: Digits) -> Result<Entry, MergeError> {
        let (quotient, remainder) = place_of(item.number);
        if item.number & MORE == 0 {
            return Ok(single((quotient, remainder), digits));
        }
        let mut entry = self.filter.entry_from(quotient >> self.doublings, item.position);
        let is_lengthened = entry.fingerprint.bits() > self.filter.digits.remainder;
        entry.fingerprint = entry.fingerprint.doubled(self.doublings);
        if !is_lengthened {
            entry.fingerprint = entry.fingerprint.truncated(digits.remainder);
        } else if self.cut > 0 {
            return Err(MergeError::Lengthened);
        }
        Ok(entry)
    }
}

/// An entry on its way.
#[derive(Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) number: u128,
    /// Where it is, and in which of the filters.
    position: u64,
    origin: usize,
}

/// The entries of filters, in order.
pub(super) struct Entries<'a> {
    origins: Vec<Origin<'a>>,
    digits: Digits,
    all: Stream<'a>,
}

impl<'a> Entries<'a> {
    /// The entries of filters as they are in one of these digits; the sizes of all must
    /// differ by powers of two.
    pub(super) fn new(filters: &[&'a AdaptiveQuotientFilter], digits: Digits) -> Self {
        let origin = |filter: &&'a AdaptiveQuotientFilter| Origin::new(filter, digits);
        let origins: Vec<Origin<'_>> = filters.iter().map(origin).collect();
        let all = Stream::of(&origins, 0);
        Self { origins, digits, all }
    }

    /// The next entries, unless there are none.
    #[inline(always)]
    pub(super) fn batch(&mut self) -> Option<&[Item]> {
        self.all.batch()
    }

    /// Passes over some of the batch.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: usize) {
        self.all.at += count;
    }

    /// The next entry, if that has this quotient and remainder.
    pub(super) fn next_at(&mut self, place: (u64, u64)) -> Option<Result<Entry, MergeError>> {
        let next = *self.all.batch()?.first()?;
        if place_of(next.number) != place {
            return None;
        }
        self.pass(1);
        Some(self.origins[next.origin].entry(next, self.digits))
    }
}

/// Entries in order, a batch at a time.
struct Stream<'a> {
    source: Source<'a>,
    items: [Item; BATCH],
    len: usize,
    /// How many of them are passed.
    at: usize,
}

enum Source<'a> {
    Filter(BlockReader<'a>, Origin<'a>, usize),
    Pair(Box<[Stream<'a>; 2]>),
}

/// Entries that are merged at once; a block has fewer.
const BATCH: usize = 64;

impl<'a> Stream<'a> {
    /// The entries of some filters, at least one; the first is number `first` of all.
    fn of(origins: &[Origin<'a>], first: usize) -> Self {
        let source = if let &[origin] = origins {
            Source::Filter(BlockReader::new(&origin.filter.table), origin, first)
        } else {
            let half = origins.len() / 2;
            let (some, others) = origins.split_at(half);
            Source::Pair(Box::new([Self::of(some, first), Self::of(others, first + half)]))
        };
        Self { source, items: [Item::default(); BATCH], len: 0, at: 0 }
    }

    /// The next entries, unless there are none.
    #[inline(always)]
    fn batch(&mut self) -> Option<&[Item]> {
        if self.at == self.len {
            self.refill();
        }
        self.items[..self.len].get(self.at..).filter(|items| !items.is_empty())
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        let Self { source, items, len, at } = self;
        *at = 0;
        *len = match source {
            &mut Source::Filter(ref mut reader, origin, index) => {
                origin.filter.table.level().run(ReadBlock { reader, origin, index, items })
            }
            Source::Pair(pair) => merge(pair, items),
        };
    }
}

/// Takes entries from both streams in order, as many as there are or fit; returns how many.
fn merge([a, b]: &mut [Stream<'_>; 2], items: &mut [Item; BATCH]) -> usize {
    let mut len = 0;
    while len < BATCH {
        let room = &mut items[len..];
        let (from_a, from_b) = match (a.batch(), b.batch()) {
            (None, None) => break,
            (Some(some), None) => (copy(room, some), 0),
            (None, Some(some)) => (0, copy(room, some)),
            (Some(some), Some(others)) => interleave(room, some, others),
        };
        a.at += from_a;
        b.at += from_b;
        len += from_a + from_b;
    }
    len
}

/// Copies as many as there is room for; returns how many.
fn copy(room: &mut [Item], some: &[Item]) -> usize {
    let count = room.len().min(some.len());
    room[..count].copy_from_slice(&some[..count]);
    count
}

/// Copies as many, in order, as neither of both can run out of; returns how many of each.
fn interleave(room: &mut [Item], some: &[Item], others: &[Item]) -> (usize, usize) {
    let count = room.len().min(some.len()).min(others.len());
    let (room, some, others) = (&mut room[..count], &some[..count], &others[..count]);
    let mut taken = 0;
    for (index, place) in room.iter_mut().enumerate() {
        let (a, b) = (&some[taken], &others[index - taken]);
        let is_a = a.number <= b.number;
        // One by one: of the whole, it would be a branch.
        *place = Item {
            number: select_unpredictable(is_a, a.number, b.number),
            position: select_unpredictable(is_a, a.position, b.position),
            origin: select_unpredictable(is_a, a.origin, b.origin),
        };
        taken += usize::from(is_a);
    }
    (taken, count - taken)
}

struct ReadBlock<'r, 'a> {
    reader: &'r mut BlockReader<'a>,
    origin: Origin<'a>,
    index: usize,
    items: &'r mut [Item; BATCH],
}

impl Operation for ReadBlock<'_, '_> {
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> usize {
        let Self { reader, origin, index, items } = self;
        let mut len = 0;
        reader.read(machine, |first| {
            let (number, position) = (origin.number(first), first.position);
            items[len % BATCH] = Item { number, position, origin: index };
            len += 1;
        });
        len
    }
}
