//! Doubles the slots: one bit of each remainder moves to the quotient.
//!
//! Boxes that are inserted later have all bits again, which limits the false-positive rate: half of
//! the boxes have age 0, a quarter age 1, and so on. A box without remainder bits must be rebuilt
//! from its members. For this the members of its quotient, which are few, are *listed*.

use super::RejuvenateError;
use super::account::Account;
use super::boxes::{Boxes, Spot};
use super::layout::{RangeBox, Spelling};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::bits::word::low_bits;
use crate::builder::PLANNED_LOAD;
use crate::error::{AdaptError, BuildError, GrowError, PlanError};
use crate::hash::Scaled;
use crate::table::{Kind, QuotientTable, SLOTS, Slot, Stored, TableFull, TableWriter};
use crate::{Hash, fingerprint::Fingerprint};
use core::convert::Infallible;
use core::ops::RangeInclusive;

/// Which boxes are rebuilt from their members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rebuild {
    /// Boxes without remainder bits, and those with the same quotient.
    Exhausted,
    All,
}

impl<K: RangeKey> RangeFilter<K> {
    /// Returns a filter with twice the slots, exactly the same answers, and all repairs. It needs no
    /// members.
    ///
    /// An [expandable](crate::builder::Builder::expandable) filter does so by itself when it is full,
    /// until its oldest members have no remainder bits left. From then on, use
    /// [`doubled_listing`](Self::doubled_listing).
    ///
    /// # Errors
    /// A [`GrowError`] if the filter isn't expandable, if a remainder has no bits left, or if there
    /// is not enough memory.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        let no_list = |_| -> Result<Vec<Spot>, _> { Err(GrowError::NoRemainder) };
        match self.boxes.doubled(Rebuild::Exhausted, no_list) {
            Ok(boxes) => Ok(self.with(boxes)),
            Err(RejuvenateError::List(error) | RejuvenateError::Grow(error)) => Err(error),
            Err(RejuvenateError::Members(error)) => unreachable!("{error}"),
        }
    }

    /// Returns a filter with twice the slots, and rebuilds fingerprints that have no remainder bits
    /// left.
    ///
    /// `list` gets intervals of hashes, in order. It returns all members whose
    /// [partition's hash](Self::hash_of) is in the interval, each as often as it was inserted. This
    /// concerns only about one in 2^r members.
    ///
    /// No fingerprint becomes shorter, so every repair is kept.
    ///
    /// # Errors
    /// A [`RejuvenateError`] if the filter isn't expandable, if `list` fails, if the listed members
    /// don't match the filter, or if there is not enough memory.
    pub fn doubled_listing<E>(
        &self,
        mut list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        let list = |cell: Fingerprint| {
            let members = list(cell.hashes())?;
            Ok(members.into_iter().map(|key| self.partitions.spot(key)).collect())
        };
        Ok(self.with(self.boxes.doubled(Rebuild::Exhausted, list)?))
    }

    /// Returns a filter with twice the slots, and rebuilds all fingerprints from `members`, which
    /// is sorted by [hash](Self::hash_of). This gives the lowest false-positive rate.
    ///
    /// # Errors
    /// As [`doubled_listing`](Self::doubled_listing).
    pub fn doubled_with_members(
        &self,
        members: impl IntoIterator<Item = K>,
    ) -> Result<Self, RejuvenateError<Infallible>> {
        let mut spots = members.into_iter().map(|key| self.partitions.spot(key)).peekable();
        let list = |cell: Fingerprint| {
            let last = *cell.hashes().end();
            let in_cell = core::iter::from_fn(|| spots.next_if(|spot| spot.partition <= last));
            Ok(in_cell.collect())
        };
        let boxes = self.boxes.doubled(Rebuild::All, list)?;
        match spots.count() as u64 {
            0 => Ok(self.with(boxes)),
            members => Err(RejuvenateError::Members(AdaptError::Surplus { members })),
        }
    }

    pub(super) fn with(&self, boxes: Boxes) -> Self {
        Self { partitions: self.partitions.clone(), boxes }
    }

    /// Doubles an expandable filter if it is full and needs no members for that.
    pub(super) fn grow_in_time(&mut self) {
        if self.boxes.is_due()
            && let Ok(doubled) = self.doubled()
        {
            *self = doubled;
        }
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// Returns a filter with twice the slots; see [`RangeFilter::doubled`]. Older claims are stale.
    ///
    /// # Errors
    /// As [`RangeFilter::doubled`].
    pub fn doubled(&self) -> Result<Self, GrowError> {
        Ok(self.succeeded_by(self.filter.doubled()?))
    }

    /// Returns a filter with twice the slots, and rebuilds fingerprints that have no remainder bits
    /// left; see [`RangeFilter::doubled_listing`]. Older claims are stale.
    ///
    /// ```
    /// use twiceshy::AdaptiveRangeFilter;
    /// let builder = AdaptiveRangeFilter::<u64>::builder().slots(100).remainder_bits(4);
    /// let mut filter = builder.expandable().build()?;
    /// let members: Vec<u64> = (0..3000).map(|n| n * n).collect();
    /// for &member in &members {
    ///     if filter.load() > 0.9 {
    ///         // A store would read a range of its index by hash.
    ///         let listed = &members[..filter.len()];
    ///         filter = filter.doubled_listing(|hashes| {
    ///             let members = listed.iter().copied();
    ///             Ok::<_, std::io::Error>(members.filter(|&key| hashes.contains(&filter.hash_of(key))).collect())
    ///         })?;
    ///     }
    ///     filter.insert(member)?;
    /// }
    /// assert!(members.iter().all(|&member| filter.contains(member)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeFilter::doubled_listing`].
    pub fn doubled_listing<E>(
        &self,
        list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        Ok(self.succeeded_by(self.filter.doubled_listing(list)?))
    }

    /// Returns a filter with twice the slots and new fingerprints; see
    /// [`RangeFilter::doubled_with_members`]. Older claims are stale.
    ///
    /// # Errors
    /// As [`RangeFilter::doubled_with_members`].
    pub fn doubled_with_members(
        &self,
        members: impl IntoIterator<Item = K>,
    ) -> Result<Self, RejuvenateError<Infallible>> {
        Ok(self.succeeded_by(self.filter.doubled_with_members(members)?))
    }

    pub(super) fn succeeded_by(&self, filter: RangeFilter<K>) -> Self {
        Self { adaptations: self.adaptations, ..Self::new(filter) }
    }

    pub(super) fn grow_in_time(&mut self) {
        if self.filter.boxes.is_due()
            && let Ok(doubled) = self.doubled()
        {
            *self = doubled;
        }
    }
}

impl Boxes {
    /// Returns whether the table is full and can be doubled without members.
    #[inline]
    fn is_due(&self) -> bool {
        self.oldest < self.spelling.greatest_age() && self.is_full()
    }

    /// Returns whether the table has reached its planned load.
    pub(super) fn is_full(&self) -> bool {
        self.load() >= PLANNED_LOAD
    }

    pub(super) fn doubled<E>(
        &self,
        rebuild: Rebuild,
        mut list: impl FnMut(Fingerprint) -> Result<Vec<Spot>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        if !self.spelling.has_ages {
            return Err(RejuvenateError::Grow(GrowError::Fixed));
        }
        let spelling = self.spelling.doubled();
        let slots = spelling.digits.slots;
        if !SLOTS.contains(&slots) {
            return Err(RejuvenateError::Grow(PlanError::Slots(slots).into()));
        }
        let bytes = || QuotientTable::bytes_for(slots, spelling.digits.width).unwrap_or(u64::MAX);
        let no_room = || RejuvenateError::Grow(BuildError::Memory { bytes: bytes() }.into());
        let mut doubled = Self::new(spelling).ok_or_else(no_room)?;
        let mut writer = BoxWriter::new(&mut doubled);
        let mut stored = self.table.stored().peekable();
        let mut run: Vec<Stored> = Vec::new();
        while let Some(&Stored { quotient, .. }) = stored.peek() {
            run.clear();
            run.extend(core::iter::from_fn(|| stored.next_if(|next| next.quotient == quotient)));
            let is_exhausted = |stored: &Stored| {
                self.spelling.age(stored.remainder) == self.spelling.greatest_age()
            };
            let written = if rebuild == Rebuild::All || run.iter().any(is_exhausted) {
                let cell =
                    self.cell(Scaled { quotient, fraction: 0 }, self.spelling.greatest_age());
                let mut members = list(cell).map_err(RejuvenateError::List)?;
                members.sort_unstable();
                let boxes = self.settled(&run, &cell, &members, spelling);
                boxes
                    .map_err(RejuvenateError::Members)?
                    .iter()
                    .try_for_each(|range_box| writer.push(range_box))
            } else {
                run.iter().try_for_each(|stored| writer.copy(self, stored))
            };
            written.map_err(|TableFull| no_room())?;
        }
        writer.finish().map_err(|TableFull| no_room())?;
        Ok(doubled)
    }

    /// Computes new boxes for all members of a run, in the layout of a larger table.
    fn settled(
        &self,
        run: &[Stored],
        cell: &Fingerprint,
        members: &[Spot],
        spelling: Spelling,
    ) -> Result<Vec<RangeBox>, AdaptError> {
        if let Some(outside) = members.iter().find(|spot| !cell.covers(spot.partition)) {
            return Err(AdaptError::Outside { member: outside.partition });
        }
        let read = |stored: &Stored| self.read(stored.quotient, stored.slots.clone());
        let boxes: Vec<RangeBox> =
            run.iter().map(|stored| read(stored).expect("a valid table")).collect();
        let account = Account::new(self.spelling, &boxes, members)?;
        if account.unlisted > 0 {
            return Err(AdaptError::Unlisted { members: account.unlisted });
        }
        let (boxes, _) = account.settle(spelling, |_, _, had| Ok(had))?;
        Ok(boxes)
    }
}

/// Writes boxes in order.
pub(super) struct BoxWriter<'a> {
    writer: TableWriter<'a>,
    spelling: Spelling,
    len: &'a mut u64,
    oldest: &'a mut u32,
}

impl<'a> BoxWriter<'a> {
    /// Creates a writer to an empty table. The table is invalid until [`finish`](Self::finish).
    pub(super) fn new(boxes: &'a mut Boxes) -> Self {
        let Boxes { table, spelling, len, oldest, .. } = boxes;
        // Members that are close to each other make longer runs than uniform hashes do.
        Self { writer: TableWriter::lengthening(table), spelling: *spelling, len, oldest }
    }

    pub(super) fn push(&mut self, range_box: &RangeBox) -> Result<(), TableFull> {
        *self.len += range_box.mementos.len() as u64;
        *self.oldest = range_box.age.max(*self.oldest);
        self.writer.push(range_box.fingerprint.quotient(), self.spelling.slots(range_box))
    }

    /// Writes a box of one slot with one member.
    #[inline(always)]
    pub(super) fn push_single(&mut self, quotient: u64, first: u64) -> Result<(), TableFull> {
        *self.len += 1;
        self.writer.push_remainders::<0>([(quotient, first)].into_iter())
    }

    /// Copies a box from a table of half the size. The box must have remainder bits left.
    fn copy(&mut self, boxes: &Boxes, stored: &Stored) -> Result<(), TableFull> {
        let Spelling { digits, .. } = self.spelling;
        let (first, memento) = (stored.remainder, self.spelling.memento(stored.remainder));
        let quotient = stored.quotient << 1 | first >> (digits.width - 1);
        let first = (first - memento) << 1 & low_bits(digits.width) | memento;
        *self.oldest = self.spelling.age(first).max(*self.oldest);
        let slots = stored.slots.clone();
        if slots.end - slots.start == 1 {
            return self.push_single(quotient, first);
        }
        let table = &boxes.table;
        let others = (slots.start + 1..slots.end)
            .map(|at| Slot { value: table.value(at), kind: table.kind(at) });
        let cells = others.clone().filter(|slot| slot.kind == Kind::Counter);
        let members = 1 + self.spelling.cells(cells.map(|slot| slot.value)).count();
        *self.len += members as u64;
        let head = Slot { value: first, kind: Kind::Remainder };
        self.writer.push(quotient, core::iter::once(head).chain(others))
    }

    pub(super) fn finish(self) -> Result<(), TableFull> {
        self.writer.finish()
    }
}
