//! Inserting.

use super::{AdaptiveQuotientFilter, slots_of};
use crate::bits::machine::{Machine, Operation, Routine};
use crate::error::InsertError;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, Slot, Spot, TableFull, with_width};
use crate::{Fingerprint, Hash};
use core::ops::Range;

impl AdaptiveQuotientFilter {
    /// Inserts a member. One that is inserted twice is a member twice, and takes two
    /// slots: overwriting a key in a store is no insert.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for it; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let inserted = self.insert.run(self, hash);
        inserted.map_err(|TableFull| InsertError::Full { load: self.load() })
    }

    /// Inserts the fingerprint of a hash whose home and remainder are known.
    #[inline(always)]
    pub(super) fn insert_begun<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        hash: impl FnOnce() -> Hash,
        home: Place,
        remainder: u64,
    ) -> Result<(), TableFull> {
        let table = &mut self.table;
        if table.used() == table.slots() {
            return Err(TableFull);
        }
        match table.insert_here::<M, WIDTH>(machine, home, remainder) {
            Inserted::Done => Ok(()),
            Inserted::At(spot) => self.insert_at.run(self, (home, spot, remainder)),
            Inserted::Nowhere => self.insert_walking(hash()),
        }
    }

    /// Inserts a member into a run that isn't within one block.
    #[inline(never)]
    fn insert_walking(&mut self, hash: Hash) -> Result<(), TableFull> {
        let scaled = self.digits().scale(hash);
        self.table.level().run(InsertWalking { filter: self, scaled })
    }

    /// Inserts a member into a minirun that has extensions; rare enough to be dispatched
    /// once more.
    #[cold]
    fn insert_among(&mut self, scaled: Scaled) -> Result<(), TableFull> {
        self.table.level().run(InsertAmong { filter: self, scaled })
    }

    /// Behind all of a run that are not larger; `None` if a neighbour in the minirun is
    /// extended.
    #[inline(always)]
    fn walk_to_spot<M: Machine, const WIDTH: u32>(
        &self,
        machine: M,
        home: Place,
        remainder: u64,
    ) -> Option<Spot> {
        let table = &self.table;
        let mut walk = table.walk::<M, WIDTH>(machine, home);
        if table.is_occupied_at::<WIDTH>(home) {
            while walk.remainder() <= remainder {
                if walk.remainder() == remainder && table.is_extension(walk.position() + 1) {
                    return None;
                }
                if !walk.advance() {
                    break;
                }
            }
        }
        Some(walk.spot())
    }

    /// The fingerprint of a new member in a minirun that has extensions, and where in it
    /// its entry belongs.
    fn place_among(&self, scaled: Scaled, minirun: Range<u64>) -> (Fingerprint, u64) {
        let digits = self.digits();
        let neighbours = || {
            self.table
                .entries(minirun.clone())
                .map(|entry| (entry.start, self.fingerprint_at(scaled.quotient, entry)))
        };
        let count = neighbours()
            .map(|(_, neighbour)| {
                let shared = (neighbour.prefix() ^ scaled.fraction).leading_zeros();
                u32::min(digits.count(&neighbour), shared / digits.width + 1)
            })
            .max();
        let fingerprint = digits.fingerprint(scaled, count.unwrap_or(1));
        let behind = neighbours().find(|(_, neighbour)| *neighbour > fingerprint);
        (fingerprint, behind.map_or(minirun.end, |(start, _)| start))
    }
}

/// Inserts a member, if it can within one line; else [elsewhere](InsertAt).
pub(super) struct Insert;

impl Routine for Insert {
    type Subject<'a> = &'a mut AdaptiveQuotientFilter;
    type Argument = Hash;
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine, const WIDTH: u32>(
        machine: M,
        filter: &mut AdaptiveQuotientFilter,
        hash: Hash,
    ) -> Self::Output {
        let scaled = filter.digits().scale(hash);
        let (home, remainder) = filter.home_of::<WIDTH>(scaled);
        filter.table.prefetch_across::<WIDTH>(home);
        filter.insert_begun::<M, WIDTH>(machine, || hash, home, remainder)?;
        filter.len += 1;
        filter.versions.bump(scaled.quotient);
        Ok(())
    }
}

/// Inserts a remainder at a spot of its home's block, which has no unused slot behind it.
pub(super) struct InsertAt;

impl Routine for InsertAt {
    type Subject<'a> = &'a mut AdaptiveQuotientFilter;
    type Argument = (Place, Spot, u64);
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine, const WIDTH: u32>(
        machine: M,
        filter: &mut AdaptiveQuotientFilter,
        (home, spot, remainder): Self::Argument,
    ) -> Self::Output {
        let from = home.next_block();
        filter.table.insert_at::<M, WIDTH>(machine, home, spot, from, remainder)
    }
}

struct InsertWalking<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for InsertWalking<'_> {
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertWalking<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> Result<(), TableFull> {
        let Self { filter, scaled } = self;
        let (home, remainder) = filter.home_of::<WIDTH>(scaled);
        match filter.walk_to_spot::<M, WIDTH>(machine, home, remainder) {
            Some(spot) => {
                filter.table.insert_at::<M, WIDTH>(machine, home, spot, spot.at, remainder)
            }
            None => filter.insert_among(scaled),
        }
    }
}

struct InsertAmong<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for InsertAmong<'_> {
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        let Self { filter, scaled } = self;
        let minirun = filter.minirun(machine, scaled);
        let (fingerprint, at) = filter.place_among(scaled, minirun);
        let slots: Vec<Slot> = slots_of(filter.digits(), fingerprint).collect();
        filter.table.replace(machine, scaled.quotient, at..at, &slots)
    }
}
