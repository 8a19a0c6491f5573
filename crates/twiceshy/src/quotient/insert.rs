//! Inserts of single members.

use super::QuotientFilter;
use super::edit::{Refused, Uncountable};
use super::entry::{Entry, MOST_IN_ALL, MOST_MEMBERS};
use super::grow::MOST_SLOTS;
use crate::bits::machine::{Machine, dispatched, kept};
use crate::error::InsertError;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, Spot, TableFull, Widths};
use crate::{Claim, Hash, Listing};

impl QuotientFilter {
    /// Inserts a member. A member that is inserted twice counts twice and has to be removed twice,
    /// so don't insert a key again when a store overwrites it.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for it, or [`InsertError::Uncountable`] if 2^40
    /// members have its fingerprint. The filter is unchanged in that case.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        let inserted = self.insert.run(Insert(self), hash);
        inserted.or_else(|_| self.insert_growing(hash))
    }

    /// Inserts a member after [`insert`](Self::insert) found no room, by growing the filter if it
    /// can grow.
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
        if self.tally.len.checked_add(times).is_none_or(|len| len > MOST_IN_ALL) {
            return Err(InsertError::Uncountable);
        }
        let full = |load| InsertError::Full { load };
        self.change(hash, full, |digits, entries| {
            let added = add(digits, entries, digits.scale(hash), times, 1);
            added.map(drop).map_err(|Uncountable| InsertError::Uncountable)
        })
    }

    /// Inserts a member like [`insert`](Self::insert), but stores enough of its hash to tell it
    /// apart from these mistakes. If the filter answers "absent" to them now, it does so
    /// afterwards.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).build()?;
    /// let [member, mistake] = [7, 8].map(|number| Hash::from_u128(number << 80));
    /// filter.insert_apart(member, &[mistake])?;
    /// assert!(filter.contains(member) && !filter.contains(mistake));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert). A mistake that is the member itself is ignored.
    pub fn insert_apart(&mut self, hash: Hash, mistakes: &[Hash]) -> Result<(), InsertError> {
        let minirun = self.shared.digits.fingerprint(self.shared.digits.scale(hash), 1);
        let mut near = mistakes.iter().map(|&mistake| self.shared.digits.scale(mistake));
        if !near.any(|mistake| minirun.covers_scaled(mistake)) {
            return self.insert(hash);
        }
        let full = |load| InsertError::Full { load };
        self.change(hash, full, |digits, entries| {
            let scaled = digits.scale(hash);
            let mistakes = mistakes.iter().map(|&mistake| digits.scale(mistake));
            let least = mistakes.filter_map(|mistake| digits.to_tell_apart(scaled, mistake)).max();
            let added = add(digits, entries, scaled, 1, least.unwrap_or(1).max(1));
            added.map(drop).map_err(|Uncountable| InsertError::Uncountable)
        })
    }

    /// Inserts the claim's query, like [`insert`](Self::insert), if the listing matches the filter.
    /// A quotient filter never [needs members](InsertError::NeedsMembers) for an insert; this is
    /// for code that works with any filter.
    ///
    /// # Errors
    /// The same as for [`insert`](Self::insert), or [`InsertError::Mismatch`] if the claim is stale
    /// or the filter has members or ghosts that aren't listed, or lacks a listed one.
    pub fn insert_listed<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        let Listing { members, .. } = listing.into();
        let full = |load| InsertError::Full { load };
        self.change_listed(claim, &members, full, |listed, entries| {
            if listed.count_unlisted(entries)? > 0 {
                return Err(InsertError::Mismatch);
            }
            let added = add(listed.digits, entries, listed.query, 1, 1);
            added.map(drop).map_err(|Uncountable| InsertError::Uncountable)
        })
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
    pub(super) fn insert_at_home<M: Machine, const SHAPE: u32>(
        &mut self,
        machine: M,
        hash: impl FnOnce() -> Hash,
        home: Place,
        remainder: u64,
    ) -> Result<bool, Refused> {
        match self.editor().insert_here::<M, SHAPE, false>(machine, home, remainder, 0) {
            Inserted::Done => Ok(false),
            Inserted::At(spot) => {
                self.insert_at.run(InsertAt(self), (home, spot, remainder))?;
                Ok(false)
            }
            Inserted::Nowhere => insert_walking(self, hash()),
        }
    }

    /// Inserts a member into a minirun that already has entries.
    #[cold]
    fn insert_among(&mut self, scaled: Scaled) -> Result<bool, Refused> {
        let digits = self.shared.digits;
        self.edit(scaled, |entries| add(digits, entries, scaled, 1, 1))
    }
}

/// Adds `times` members with the same hash to the entry that covers it, or adds a new entry of at
/// least `least` digits. Returns whether the entry was a tombstone.
fn add(
    digits: Digits,
    entries: &mut Vec<Entry>,
    scaled: Scaled,
    times: u64,
    least: u32,
) -> Result<bool, Uncountable> {
    let covering = |entry: &&mut Entry| entry.fingerprint.covers_scaled(scaled);
    let mut revives = false;
    let count = if let Some(entry) = entries.iter_mut().find(covering) {
        if entry.count == 0 {
            revives = true;
            let length = digits.count(&entry.fingerprint).max(least);
            entry.fingerprint = digits.fingerprint(scaled, length);
        }
        entry.count = entry.count.saturating_add(times);
        entry.count
    } else {
        // Use as many digits as the member needs to differ from each neighbour.
        let needed = entries.iter().filter_map(|entry| {
            let other = Scaled { fraction: entry.fingerprint.prefix(), ..scaled };
            digits.to_tell_apart(scaled, other)
        });
        let length = needed.max().unwrap_or(1).max(least);
        let fingerprint = digits.fingerprint(scaled, length);
        let at = entries.partition_point(|entry| entry.fingerprint < fingerprint);
        entries.insert(at, Entry::single(fingerprint).of(times));
        times
    };
    if count > MOST_MEMBERS { Err(Uncountable) } else { Ok(revives) }
}

kept! {
    /// Inserts a member within one cache line if possible, or [across lines](InsertAt) otherwise.
    pub(super) struct Insert<'a>(filter: &'a mut QuotientFilter);

    fn run(hash: Hash) -> Result<(), Refused> => Widths, |machine| {
        let scaled = filter.shared.digits.scale(hash);
        let (home, remainder) = filter.shared.home_of::<SHAPE>(scaled);
        filter.shared.table.prefetch_across::<SHAPE>(home);
        filter.insert_at_home::<M, SHAPE>(machine, || hash, home, remainder)?;
        filter.tally.len += 1;
        filter.versions.bump(scaled.quotient);
        Ok(())
    }
}

kept! {
    /// Inserts a remainder at a spot in its home's block. The block has no unused slot after that
    /// spot.
    pub(super) struct InsertAt<'a>(filter: &'a mut QuotientFilter);

    fn run((home, spot, remainder): (Place, Spot, u64)) -> Result<(), TableFull>
    => Widths, |machine| {
        let from = home.next_block();
        filter.editor().insert_at::<M, SHAPE>(machine, home, spot, from, remainder)
    }
}

dispatched! {
    /// Inserts a member by walking through its run, if the run can't be handled within one block.
    #[inline(never)]
    fn insert_walking<'a>(filter: &'a mut QuotientFilter, hash: Hash) -> Result<bool, Refused>
    => filter.shared.target(), Widths, |machine| {
        let scaled = filter.shared.digits.scale(hash);
        let (home, remainder) = filter.shared.home_of::<SHAPE>(scaled);
        let table = &filter.shared.table;
        let Some(spot) = table.spot_for::<M, SHAPE>(machine, home, remainder, 0) else {
            return filter.insert_among(scaled);
        };
        filter.editor().insert_at::<M, SHAPE>(machine, home, spot, spot.at, remainder)?;
        Ok(false)
    }
}
