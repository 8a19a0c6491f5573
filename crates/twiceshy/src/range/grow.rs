//! Growing: twice the slots, a bit of each remainder for the quotient.
//!
//! What is inserted later has all bits again, so that the rate stays within bounds: of all boxes,
//! one in two is young, one in four is of age 1, and so on. A box that has no bit left to give
//! must be spelt anew from its members, which are *listed*: those of its quotient, which are few.

use super::account::Account;
use super::boxes::{Boxes, Spot};
use super::builder::PLANNED_LOAD;
use super::keepsake::{Keepsake, Spelling};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::bits::word::low_bits;
use crate::error::{AdaptError, BuildError, GrowError, RejuvenateError};
use crate::hash::Scaled;
use crate::table::{Kind, SLOTS, Slot, Stored, TableFull, TableWriter};
use crate::{Fingerprint, Hash};
use core::convert::Infallible;
use core::ops::RangeInclusive;

/// Which boxes are spelt anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejuvenate {
    /// Those that have run out of bits, and those that share their quotient.
    Exhausted,
    All,
}

impl<K: RangeKey> RangeFilter<K> {
    /// The same filter with twice the slots. No member is needed: what it answers is exactly the
    /// same, and every repair is kept.
    ///
    /// An [expandable](super::RangeBuilder::expandable) filter does so by itself when it is full,
    /// as long as it can: until the members that were there first have no bit left. From then on
    /// it takes [`doubled_listing`](Self::doubled_listing).
    ///
    /// # Errors
    /// A [`GrowError`] if it isn't expandable, if there is no bit left to be moved, or no memory.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        let nobody = |_| -> Result<Vec<Spot>, _> { Err(GrowError::NoRemainder) };
        match self.boxes.doubled(Rejuvenate::Exhausted, nobody) {
            Ok(boxes) => Ok(self.with(boxes)),
            Err(RejuvenateError::List(error) | RejuvenateError::Grow(error)) => Err(error),
            Err(RejuvenateError::Members(error)) => unreachable!("{error}"),
        }
    }

    /// As [`doubled`](Self::doubled), but where fingerprints have run out of bits, they are made
    /// anew: `list` gets intervals of hashes, in order, and lists all members whose
    /// [partitions' hashes](Self::hash_of) are in one, each as often as it was inserted. These are
    /// few: about one of 2^r.
    ///
    /// No fingerprint gets shorter by that: every repair is kept.
    ///
    /// # Errors
    /// A [`RejuvenateError`] if it isn't expandable, if `list` fails, or doesn't list what the
    /// filter has, or if there is no memory.
    pub fn doubled_listing<E>(
        &self,
        mut list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        let list = |cell: Fingerprint| {
            let members = list(cell.hashes())?;
            Ok(members.into_iter().map(|key| self.partitions.spot(key)).collect())
        };
        Ok(self.with(self.boxes.doubled(Rejuvenate::Exhausted, list)?))
    }

    /// As [`doubled_listing`](Self::doubled_listing), but all fingerprints are made anew from all
    /// members, in the order of their [hashes](Self::hash_of): the rate is the lowest that can be.
    ///
    /// # Errors
    /// As [`doubled_listing`](Self::doubled_listing).
    pub fn rejuvenated(
        &self,
        members: impl IntoIterator<Item = K>,
    ) -> Result<Self, RejuvenateError<Infallible>> {
        let mut spots = members.into_iter().map(|key| self.partitions.spot(key)).peekable();
        let list = |cell: Fingerprint| {
            let last = *cell.hashes().end();
            let in_cell = core::iter::from_fn(|| spots.next_if(|spot| spot.partition <= last));
            Ok(in_cell.collect())
        };
        let boxes = self.boxes.doubled(Rejuvenate::All, list)?;
        match spots.count() as u64 {
            0 => Ok(self.with(boxes)),
            members => Err(RejuvenateError::Members(AdaptError::Surplus { members })),
        }
    }

    pub(super) fn with(&self, boxes: Boxes) -> Self {
        Self { partitions: self.partitions.clone(), boxes }
    }

    /// Grows, if it is expandable, as full as it should be, and can.
    pub(super) fn grow_in_time(&mut self) {
        if self.boxes.is_due()
            && let Ok(doubled) = self.doubled()
        {
            *self = doubled;
        }
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::doubled`]. Claims that were made before are stale.
    ///
    /// # Errors
    /// As there.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        Ok(self.succeeded_by(self.filter.doubled()?))
    }

    /// As [`RangeFilter::doubled_listing`]. Claims that were made before are stale.
    ///
    /// ```
    /// use twiceshy::AdaptiveRangeFilter;
    /// let builder = AdaptiveRangeFilter::<u64>::builder().slots(100).remainder_bits(4);
    /// let mut filter = builder.expandable().build_adaptive()?;
    /// let members: Vec<u64> = (0..3000).map(|n| n * n).collect();
    /// for &member in &members {
    ///     if filter.load() > 0.9 {
    ///         // With a store, this is a range of an index by hash.
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
    /// As there.
    pub fn doubled_listing<E>(
        &self,
        list: impl FnMut(RangeInclusive<Hash>) -> Result<Vec<K>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        Ok(self.succeeded_by(self.filter.doubled_listing(list)?))
    }

    /// As [`RangeFilter::rejuvenated`]. Claims that were made before are stale.
    ///
    /// # Errors
    /// As there.
    pub fn rejuvenated(
        &self,
        members: impl IntoIterator<Item = K>,
    ) -> Result<Self, RejuvenateError<Infallible>> {
        Ok(self.succeeded_by(self.filter.rejuvenated(members)?))
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
    /// Whether it is time to grow, and nobody need be asked.
    #[inline]
    fn is_due(&self) -> bool {
        self.oldest < self.spelling.greatest_age() && self.is_full()
    }

    /// Whether it is as full as it should be.
    pub(super) fn is_full(&self) -> bool {
        self.load() >= PLANNED_LOAD
    }

    pub(super) fn doubled<E>(
        &self,
        rejuvenate: Rejuvenate,
        mut list: impl FnMut(Fingerprint) -> Result<Vec<Spot>, E>,
    ) -> Result<Self, RejuvenateError<E>> {
        if !self.spelling.has_ages {
            return Err(RejuvenateError::Grow(GrowError::Fixed));
        }
        let spelling = self.spelling.doubled();
        let slots = spelling.digits.slots;
        if !SLOTS.contains(&slots) {
            return Err(RejuvenateError::Grow(BuildError::Slots(slots).into()));
        }
        let remainder_bits = spelling.digits.remainder;
        let no_room = || RejuvenateError::Grow(BuildError::Memory { slots, remainder_bits }.into());
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
            let written = if rejuvenate == Rejuvenate::All || run.iter().any(is_exhausted) {
                let cell =
                    self.cell(Scaled { quotient, fraction: 0 }, self.spelling.greatest_age());
                let mut members = list(cell).map_err(RejuvenateError::List)?;
                members.sort_unstable();
                let boxes = self.settled(&run, &cell, &members, spelling);
                boxes
                    .map_err(RejuvenateError::Members)?
                    .iter()
                    .try_for_each(|keepsake| writer.push(keepsake))
            } else {
                run.iter().try_for_each(|stored| writer.copy(self, stored))
            };
            written.map_err(|TableFull| no_room())?;
        }
        writer.finish().map_err(|TableFull| no_room())?;
        Ok(doubled)
    }

    /// New boxes for all members of a run, as spelt in a larger table.
    fn settled(
        &self,
        run: &[Stored],
        cell: &Fingerprint,
        members: &[Spot],
        spelling: Spelling,
    ) -> Result<Vec<Keepsake>, AdaptError> {
        if let Some(outside) = members.iter().find(|spot| !cell.covers(spot.partition)) {
            return Err(AdaptError::Outside { member: outside.partition });
        }
        let read = |stored: &Stored| self.read(stored.quotient, stored.slots.clone());
        let boxes: Vec<Keepsake> =
            run.iter().map(|stored| read(stored).expect("a valid table")).collect();
        let account = Account::new(self.spelling, &boxes, members)?;
        if account.unlisted > 0 {
            return Err(AdaptError::Unlisted { members: account.unlisted });
        }
        let (boxes, _) = account.settle(spelling, |_, _, had| Ok(had))?;
        Ok(boxes)
    }
}

/// Writes boxes, in order.
pub(super) struct BoxWriter<'a> {
    writer: TableWriter<'a>,
    spelling: Spelling,
    len: &'a mut u64,
    oldest: &'a mut u32,
}

impl<'a> BoxWriter<'a> {
    /// Into a table that is empty, and is no table until it is [finished](Self::finish).
    pub(super) fn new(boxes: &'a mut Boxes) -> Self {
        let Boxes { table, spelling, len, oldest, .. } = boxes;
        // Where members are close to each other, runs may be longer than those of uniform hashes.
        Self { writer: TableWriter::lengthening(table), spelling: *spelling, len, oldest }
    }

    pub(super) fn push(&mut self, keepsake: &Keepsake) -> Result<(), TableFull> {
        *self.len += keepsake.mementos.len() as u64;
        *self.oldest = keepsake.age.max(*self.oldest);
        self.writer.push(keepsake.fingerprint.quotient(), self.spelling.slots(keepsake))
    }

    /// A box of one member, which was never doubled.
    #[inline(always)]
    pub(super) fn push_single(&mut self, quotient: u64, first: u64) -> Result<(), TableFull> {
        *self.len += 1;
        self.writer.push_remainders([(quotient, first)].into_iter())
    }

    /// A box of a table half as large, which has a remainder.
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
