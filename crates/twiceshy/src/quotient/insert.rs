//! Inserts.

use super::QuotientFilter;
use super::edit::{Refused, Uncountable};
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS};
use super::grow::MOST_SLOTS;
use crate::bits::machine::{Keepable, Machine, Operation};
use crate::error::InsertError;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, Spot, TableFull, Widths};
use crate::{Claim, Hash, Listing};

impl QuotientFilter {
    /// Inserts a member. A member that is inserted twice counts twice and has to be removed twice.
    /// So don't insert a key again when a store overwrites it.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for it, or [`InsertError::Uncountable`] if 2^40
    /// members have its fingerprint. The filter is unchanged then.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let inserted = self.insert.run(Insert(self), hash);
        inserted.or_else(|_| self.insert_growing(hash))
    }

    /// Inserts a member that was refused, if the filter can grow.
    #[cold]
    fn insert_growing(&mut self, hash: Hash) -> Result<(), InsertError> {
        let inserted = self.with_room(MOST_SLOTS, |filter| filter.insert.run(Insert(filter), hash));
        inserted.map_err(|refused| self.insert_error(refused))
    }

    /// Inserts a member `times` times, at the cost of one insert.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert), or [`InsertError::Uncountable`] if the filter
    /// would have more than 2^62 members.
    pub fn insert_times(&mut self, hash: Hash, times: u64) -> Result<(), InsertError> {
        if times == 0 {
            return Ok(());
        }
        if self.len.checked_add(times).is_none_or(|len| len > MOST_IN_ALL) {
            return Err(InsertError::Uncountable);
        }
        let full = |load| InsertError::Full { load };
        self.change(hash, full, |digits, entries| {
            let added = add(digits, entries, digits.scale(hash), times);
            added.map(drop).map_err(|Uncountable| InsertError::Uncountable)
        })
    }

    /// Inserts the claim's query, like [`insert`](Self::insert). A quotient filter needs no listing;
    /// this is for code that works with any filter.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert).
    pub fn insert_listed<'l>(
        &mut self,
        claim: &Claim,
        _listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        self.insert(claim.query)
    }

    #[cold]
    pub(super) fn insert_error(&self, refused: Refused) -> InsertError {
        match refused {
            Refused::Full => InsertError::Full { load: self.load() },
            Refused::Other(Uncountable) => InsertError::Uncountable,
        }
    }

    /// Inserts the fingerprint of a hash whose home and remainder are known. Returns whether it
    /// replaced a tombstone.
    #[inline(always)]
    pub(super) fn insert_begun<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        hash: impl FnOnce() -> Hash,
        home: Place,
        remainder: u64,
    ) -> Result<bool, Refused> {
        match self.table.insert_here::<M, SHAPE, false>(machine, home, remainder, 0) {
            Inserted::Done => Ok(false),
            Inserted::At(spot) => {
                self.insert_at.run(InsertAt(self), (home, spot, remainder))?;
                Ok(false)
            }
            Inserted::Nowhere => self.insert_walking(hash()),
        }
    }

    /// Inserts a member by walking through its run, if the run can't be handled within one block.
    #[inline(never)]
    fn insert_walking(&mut self, hash: Hash) -> Result<bool, Refused> {
        let scaled = self.digits.scale(hash);
        self.target().run(InsertWalking { filter: self, scaled })
    }

    /// Inserts a member into a minirun that has other members.
    #[cold]
    fn insert_among(&mut self, scaled: Scaled) -> Result<bool, Refused> {
        let digits = self.digits;
        self.edit(scaled, |entries| add(digits, entries, scaled, 1))
    }

    /// Returns the spot after all smaller remainders of the run, or `None` if the run has an equal
    /// one.
    #[inline(always)]
    fn walk_to_spot<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        home: Place,
        remainder: u64,
    ) -> Option<Spot> {
        let table = &self.table;
        let mut walk = table.walk::<M, SHAPE>(machine, home);
        if table.is_occupied_at::<SHAPE>(home) {
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
}

/// Adds `times` members with the same hash to the entry that covers it, or adds a new entry. Returns
/// whether the entry was a tombstone.
fn add(
    digits: Digits,
    entries: &mut Vec<Entry>,
    scaled: Scaled,
    times: u64,
) -> Result<bool, Uncountable> {
    let covering = |entry: &&mut Entry| entry.fingerprint.covers_scaled(scaled);
    let mut revives = false;
    let count = if let Some(entry) = entries.iter_mut().find(covering) {
        revives = entry.count == 0;
        entry.count = entry.count.saturating_add(times);
        entry.count
    } else {
        // As many digits as it takes to differ from each neighbour.
        let needed = entries.iter().filter_map(|entry| {
            let other = Scaled { fraction: entry.fingerprint.prefix(), ..scaled };
            digits.to_tell_apart(scaled, other)
        });
        let fingerprint = digits.fingerprint(scaled, needed.max().unwrap_or(1));
        let at = entries.partition_point(|entry| entry.fingerprint < fingerprint);
        entries.insert(at, Entry::single(fingerprint).of(times));
        times
    };
    if count > MOST_MEMBERS { Err(Uncountable) } else { Ok(revives) }
}

/// Inserts a member within one cache line if possible, or [across lines](InsertAt) otherwise.
pub(super) struct Insert<'a>(&'a mut QuotientFilter);

impl Keepable for Insert<'static> {
    type On<'a> = Insert<'a>;
}

impl Operation for Insert<'_> {
    type Argument = Hash;
    type Output = Result<(), Refused>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> Self::Output {
        let Self(filter) = self;
        let scaled = filter.digits.scale(hash);
        let (home, remainder) = filter.home_of::<SHAPE>(scaled);
        filter.table.prefetch_across::<SHAPE>(home);
        filter.insert_begun::<M, SHAPE>(machine, || hash, home, remainder)?;
        filter.len += 1;
        filter.versions.bump(scaled.quotient);
        Ok(())
    }
}

/// Inserts a remainder at a spot in its home's block. The block has no unused slot after that spot.
pub(super) struct InsertAt<'a>(&'a mut QuotientFilter);

impl Keepable for InsertAt<'static> {
    type On<'a> = InsertAt<'a>;
}

impl Operation for InsertAt<'_> {
    type Argument = (Place, Spot, u64);
    type Output = Result<(), TableFull>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(
        self,
        machine: M,
        (home, spot, remainder): Self::Argument,
    ) -> Self::Output {
        let from = home.next_block();
        self.0.table.insert_at::<M, SHAPE>(machine, home, spot, from, remainder)
    }
}

struct InsertWalking<'a> {
    filter: &'a mut QuotientFilter,
    scaled: Scaled,
}

impl Operation for InsertWalking<'_> {
    type Argument = ();
    type Output = Result<bool, Refused>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        let Self { filter, scaled } = self;
        let (home, remainder) = filter.home_of::<SHAPE>(scaled);
        let Some(spot) = filter.walk_to_spot::<M, SHAPE>(machine, home, remainder) else {
            return filter.insert_among(scaled);
        };
        filter.table.insert_at::<M, SHAPE>(machine, home, spot, spot.at, remainder)?;
        Ok(false)
    }
}
