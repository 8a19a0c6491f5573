//! Doubles the slots: one bit of each remainder moves to the quotient.
//!
//! Boxes that are inserted later have all bits of their remainders. This limits the false-positive
//! rate, because half of the boxes have age 0, a quarter age 1, and so on. A box without remainder
//! bits must be rebuilt from its members, so the caller *lists* the members of its quotient, which
//! are few.

use super::account::Account;
use super::boxes::{BoxGroup, Boxes, Shared, Spot};
use super::layout::{RangeBox, Spelling};
use super::{MementoFilter, RangeKey};
use crate::Hash;
use crate::bits::word::low_bits;
use crate::builder::PLANNED_LOAD;
use crate::error::{AdaptError, BuildError, GrowError, PlanError};
use crate::hash::Scaled;
use crate::table::{QuotientTable, SLOTS, Stored, TableFull, TableWriter};
use core::ops::RangeInclusive;

/// The error when a filter can't grow with a list of its members. The filter is unchanged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoublingError<E> {
    /// Members could not be listed.
    #[error("the members of a fingerprint could not be listed")]
    List(#[source] E),
    /// The listed members are not the filter's members.
    #[error("the listed members are not those of the filter; list exactly its members")]
    Members(#[source] AdaptError),
    /// The larger filter was not built.
    #[error(transparent)]
    Grow(#[from] GrowError),
}

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Returns a filter with twice the slots, exactly the same answers, and all repairs. This needs
    /// no list of members. Older claims are stale.
    ///
    /// An [expandable](crate::builder::Builder::expandable) filter doubles by itself when it is
    /// full, until its oldest members have no remainder bits left. From then on, use
    /// [`doubled_listing`](Self::doubled_listing).
    ///
    /// # Errors
    /// Returns a [`GrowError`] if the filter isn't expandable, if a remainder has no bits left, or
    /// if there is not enough memory.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        let doubled = self.doubled_listing(|_| Err(GrowError::NoRemainder));
        doubled.map_err(|error| match error {
            DoublingError::List(error) | DoublingError::Grow(error) => error,
            DoublingError::Members(error) => unreachable!("{error}"),
        })
    }

    /// Returns a filter with twice the slots, and rebuilds fingerprints that have no remainder bits
    /// left. Older claims are stale.
    ///
    /// `list` is called with one interval of hashes at a time, in order. It must return all members
    /// in the interval (by the [hash](Self::hash_of) of their partitions), each as often as it was
    /// inserted. All calls together list only about one in 2^r members, where r is the number of
    /// remainder bits.
    ///
    /// No fingerprint becomes shorter, so every repair is kept.
    ///
    /// ```
    /// use twiceshy::AdaptiveRangeFilter;
    /// let builder = AdaptiveRangeFilter::<u64>::builder().slots(100).remainder_bits(4);
    /// let mut filter = builder.expandable().build()?;
    /// let members: Vec<u64> = (0..3000).map(|n| n * n).collect();
    /// for &member in &members {
    ///     if filter.stats().load > 0.9 {
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
    /// Returns a [`DoublingError`] if the filter isn't expandable, if `list` fails, if the listed
    /// members don't match the filter, or if there is not enough memory.
    pub fn doubled_listing<E>(
        &self,
        mut list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<Self, DoublingError<E>> {
        let boxes = self.boxes.doubled(|hashes| {
            let members = list(hashes)?.into_iter();
            Ok(members.map(|key| self.partitions.spot(key)).collect())
        })?;
        Ok(Self::new(self.partitions.clone(), boxes, self.adaptations))
    }
}

impl Boxes {
    /// Returns whether the table has reached its planned load and can still double without a list
    /// of its members.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.oldest < self.spelling.greatest_age() && self.load() >= PLANNED_LOAD
    }

    fn doubled<E>(
        &self,
        mut list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<Spot>, E>,
    ) -> Result<Self, DoublingError<E>> {
        if !self.spelling.has_ages {
            return Err(GrowError::Fixed.into());
        }
        let mut spelling = self.spelling;
        spelling.digits.slots *= 2;
        let slots = spelling.digits.slots;
        if !SLOTS.contains(&slots) {
            return Err(GrowError::from(PlanError::Slots(slots)).into());
        }
        let bytes = || QuotientTable::bytes_for(slots, spelling.digits.width).unwrap_or(u64::MAX);
        let no_room = || GrowError::from(BuildError::Memory { bytes: bytes() });
        let mut doubled = Self::new(spelling).ok_or_else(no_room)?;
        let mut writer = BoxWriter::new(&mut doubled);
        let mut stored = self.table.stored().peekable();
        let mut run: Vec<Stored> = Vec::new();
        let greatest_age = self.spelling.greatest_age();
        while let Some(&Stored { quotient, .. }) = stored.peek() {
            run.clear();
            run.extend(core::iter::from_fn(|| stored.next_if(|next| next.quotient == quotient)));
            let is_exhausted =
                |box_of: &Stored| self.spelling.age(box_of.remainder) == greatest_age;
            let written = if run.iter().any(is_exhausted) {
                let group = self.group_of(Scaled { quotient, fraction: 0 }, greatest_age);
                let mut members = list(group.cell.hashes()).map_err(DoublingError::List)?;
                members.sort_unstable();
                let boxes = group.settled(self.spelling, spelling, &members);
                let mut boxes = boxes.map_err(DoublingError::Members)?.into_iter();
                boxes.try_for_each(|range_box| writer.push(&range_box))
            } else {
                run.iter().try_for_each(|stored| writer.copy(self, stored))
            };
            written.map_err(|TableFull| no_room())?;
        }
        writer.finish().map_err(|TableFull| no_room())?;
        Ok(doubled)
    }
}

impl BoxGroup {
    /// Computes new boxes for all members of these boxes, in the layout of a larger table.
    fn settled(
        &self,
        old: Spelling,
        new: Spelling,
        members: &[Spot],
    ) -> Result<Vec<RangeBox>, AdaptError> {
        if let Some(outside) = members.iter().find(|spot| !self.cell.covers(spot.partition)) {
            return Err(AdaptError::Outside { member: outside.partition });
        }
        let account = Account::new(old, &self.boxes, members)?;
        if account.unlisted > 0 {
            return Err(AdaptError::Unlisted { members: account.unlisted });
        }
        Ok(account.settle::<AdaptError>(new, |_, _, had| Ok(had))?.0)
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
        let Boxes { shared: Shared { table, spelling, .. }, usage, len, oldest } = boxes;
        let table = table.editor(usage);
        // Members that are close to each other make longer runs than uniform hashes do, so the tail
        // may have to be longer.
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
        let Stored { quotient, remainder: first, slots } = stored.clone();
        if slots.end - slots.start > 1 {
            let RangeBox { fingerprint, age, mementos } = boxes.read(quotient, slots);
            let fingerprint = fingerprint.doubled(1);
            return self.push(&RangeBox { fingerprint, age: age + 1, mementos });
        }
        let Spelling { digits, .. } = self.spelling;
        let memento = self.spelling.memento(first);
        let quotient = quotient << 1 | first >> (digits.width - 1);
        let first = (first - memento) << 1 & low_bits(digits.width) | memento;
        *self.oldest = self.spelling.age(first).max(*self.oldest);
        self.push_single(quotient, first)
    }

    pub(super) fn finish(self) -> Result<(), TableFull> {
        self.writer.finish()
    }
}
