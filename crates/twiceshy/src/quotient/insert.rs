//! Inserting.

use super::AdaptiveQuotientFilter;
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS};
use super::grow::MOST_SLOTS;
use super::listing::Minirun;
use crate::Hash;
use crate::bits::machine::{Machine, Operation, Routine};
use crate::error::InsertError;
use crate::fingerprint::Fingerprint;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, Spot, TableFull, with_width};

/// Why a member is not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    /// The fingerprint, or the filter, has as many members as can be counted.
    Uncountable,
}

impl From<TableFull> for Refused {
    fn from(TableFull: TableFull) -> Self {
        Refused::Full
    }
}

/// Where a member was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserting {
    /// With others, or as a new entry.
    Usual,
    /// In the place of a tombstone.
    Revived,
}

impl AdaptiveQuotientFilter {
    /// Inserts a member. One that is inserted twice is a member twice, and has to be
    /// removed twice: overwriting a key in a store is no insert.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for it, or [`InsertError::Uncountable`] if
    /// 2^40 members have its fingerprint; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let inserted = self.insert.run(self, hash);
        inserted.or_else(|refused| self.insert_grown(hash, refused))
    }

    /// Inserts a member that was refused, if the filter can grow.
    #[cold]
    fn insert_grown(&mut self, hash: Hash, refused: Refused) -> Result<(), InsertError> {
        let inserted = match refused {
            Refused::Full => {
                self.with_more_room(MOST_SLOTS, |filter| filter.insert.run(filter, hash))
            }
            Refused::Uncountable => Err(Refused::Uncountable),
        };
        inserted.map_err(|refused| self.insert_error(refused))
    }

    /// Inserts a member `times` times, at the price of one insert.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), or [`InsertError::Uncountable`] if the filter would have
    /// more than 2^62 members.
    pub fn insert_times(&mut self, hash: Hash, times: u64) -> Result<(), InsertError> {
        if times == 0 {
            return Ok(());
        }
        if self.len.checked_add(times).is_none_or(|len| len > MOST_IN_ALL) {
            return Err(InsertError::Uncountable);
        }
        let inserted = self.with_room(MOST_SLOTS, |filter| {
            let scaled = filter.digits.scale(hash);
            filter.insert_among(scaled, times)?;
            filter.len += times;
            filter.versions.bump(scaled.quotient);
            Ok(())
        });
        inserted.map_err(|refused| self.insert_error(refused))
    }

    #[cold]
    pub(super) fn insert_error(&self, refused: Refused) -> InsertError {
        match refused {
            Refused::Full => InsertError::Full { load: self.load() },
            Refused::Uncountable => InsertError::Uncountable,
        }
    }

    /// Inserts the fingerprint of a hash whose home and remainder are known.
    #[inline(always)]
    pub(super) fn insert_begun<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        hash: impl FnOnce() -> Hash,
        home: Place,
        remainder: u64,
    ) -> Result<Inserting, Refused> {
        match self.table.insert_here::<M, WIDTH>(machine, home, remainder, 0) {
            Inserted::Done => Ok(Inserting::Usual),
            Inserted::At(spot) => {
                self.insert_at.run(self, (home, spot, remainder))?;
                Ok(Inserting::Usual)
            }
            Inserted::Nowhere => self.insert_walking(hash()),
        }
    }

    /// Inserts a member into a run that isn't within one block.
    #[inline(never)]
    fn insert_walking(&mut self, hash: Hash) -> Result<Inserting, Refused> {
        let scaled = self.digits.scale(hash);
        self.table.level().run(InsertWalking { filter: self, scaled })
    }

    /// Inserts a member, so many times, into a minirun that may have other members.
    #[cold]
    fn insert_among(&mut self, scaled: Scaled, times: u64) -> Result<Inserting, Refused> {
        let minirun = self.minirun_of(scaled);
        let mut entries = minirun.entries.clone();
        let covering = |entry: &&mut Entry| entry.fingerprint.covers_scaled(scaled);
        let mut inserting = Inserting::Usual;
        if let Some(entry) = entries.iter_mut().find(covering) {
            if entry.count == 0 {
                inserting = Inserting::Revived;
            }
            let sum = entry.count.checked_add(times);
            entry.count = sum.ok_or(Refused::Uncountable)?;
        } else {
            let fingerprint = self.fingerprint_among(scaled, &minirun);
            let behind = |entry: &Entry| entry.fingerprint > fingerprint;
            let at = entries.iter().position(behind).unwrap_or(entries.len());
            entries.insert(at, Entry::single(fingerprint).of(times));
        }
        if entries.iter().any(|entry| entry.count > MOST_MEMBERS) {
            return Err(Refused::Uncountable);
        }
        self.rewrite(&minirun, &entries)?;
        Ok(inserting)
    }

    /// Behind all of a run that are smaller; `None` if there is one that is equal.
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
                if walk.remainder() == remainder {
                    return None;
                }
                if !walk.advance() {
                    break;
                }
            }
        }
        Some(walk.spot())
    }

    /// The fingerprint of a new member that none of a minirun's covers.
    fn fingerprint_among(&self, scaled: Scaled, minirun: &Minirun) -> Fingerprint {
        let digits = self.digits;
        let to_differ = |entry: &Entry| {
            let other = Scaled { fraction: entry.fingerprint.prefix(), ..scaled };
            digits.to_tell_apart(scaled, other).expect("none covers it")
        };
        let count = minirun.entries.iter().map(to_differ).max();
        digits.fingerprint(scaled, count.unwrap_or(1))
    }
}

/// Inserts a member, if it can within one line; else [elsewhere](InsertAt).
pub(super) struct Insert;

impl Routine for Insert {
    type Subject<'a> = &'a mut AdaptiveQuotientFilter;
    type Argument = Hash;
    type Output = Result<(), Refused>;

    #[inline(always)]
    fn run<M: Machine, const WIDTH: u32>(
        machine: M,
        filter: &mut AdaptiveQuotientFilter,
        hash: Hash,
    ) -> Self::Output {
        let scaled = filter.digits.scale(hash);
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
    type Output = Result<Inserting, Refused>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        with_width!(self.filter.digits.constant(), WIDTH => self.run_with::<M, WIDTH>(machine))
    }
}

impl InsertWalking<'_> {
    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) -> Result<Inserting, Refused> {
        let Self { filter, scaled } = self;
        let (home, remainder) = filter.home_of::<WIDTH>(scaled);
        let Some(spot) = filter.walk_to_spot::<M, WIDTH>(machine, home, remainder) else {
            return filter.insert_among(scaled, 1);
        };
        filter.table.insert_at::<M, WIDTH>(machine, home, spot, spot.at, remainder)?;
        Ok(Inserting::Usual)
    }
}
