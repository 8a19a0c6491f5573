//! Inserts.

use super::CodedFilter;
use super::adapt::Owned;
use super::scheme::{CodedScheme, Scheme, Symbol};
use crate::bits::machine::{Keepable, Machine, Operation};
use crate::error::InsertError;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, Spot, TableFull};
use crate::{Claim, Hash, Listing};

impl<S: Scheme> CodedFilter<S> {
    /// Inserts a member.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for the member. A
    /// [`TelescopingFilter`](super::TelescopingFilter) may also return
    /// [`InsertError::NeedsMembers`] if a code has no room: list the members in the claim's
    /// interval, and call [`insert_listed`](Self::insert_listed). The filter is unchanged in both
    /// cases.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.routines.insert.run(Insert(self), hash).or_else(|refused| match refused {
            Refused::Full => Err(InsertError::Full { load: self.load() }),
            Refused::HasCode => self.insert_symbol_too(hash),
        })
    }

    /// Inserts a member whose block has a code that may need a new symbol.
    #[cold]
    fn insert_symbol_too(&mut self, hash: Hash) -> Result<(), InsertError> {
        let scaled = self.coding.digits.scale(hash);
        let recoded = self.recoded(scaled.quotient, !S::MEMBERS_TO_FORGET);
        self.put(scaled, &recoded.ok_or_else(|| self.needs_members(hash))?)
    }

    #[cold]
    fn needs_members(&self, hash: Hash) -> InsertError {
        InsertError::NeedsMembers(Box::new(self.claim_block(hash)))
    }

    /// Inserts many members, all or none.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert). In that case, no member was inserted
    /// and no repair was forgotten.
    pub fn insert_many(&mut self, hashes: &[Hash]) -> Result<(), InsertError> {
        self.insert_batch(hashes).map(drop)
    }

    /// Inserts many members like [`insert_many`](Self::insert_many), and returns the information
    /// that [undoing](Self::undo_batch) it needs.
    pub(crate) fn insert_batch(&mut self, hashes: &[Hash]) -> Result<CodesBefore, InsertError> {
        let codes = Vec::with_capacity(hashes.len());
        let mut before = CodesBefore { codes, forgotten: self.tally.forgotten };
        for (inserted, &hash) in hashes.iter().enumerate() {
            let code = self.table.code::<0>(self.home_of(hash));
            if let Err(error) = self.insert(hash) {
                self.undo_batch(&hashes[..inserted], before);
                return Err(match error {
                    // The undo may have made the error's claim stale.
                    InsertError::NeedsMembers(_) => self.needs_members(hash),
                    other => other,
                });
            }
            before.codes.push(code);
        }
        Ok(before)
    }

    /// Removes a batch that was just inserted, and restores the repairs that were forgotten because
    /// of it.
    pub(crate) fn undo_batch(&mut self, hashes: &[Hash], before: CodesBefore) {
        let CodesBefore { codes, forgotten } = before;
        // Start with the last hash, so that each new entry is the last one in its run.
        for (&hash, code) in hashes.iter().zip(codes).rev() {
            let quotient = self.coding.digits.scale(hash).quotient;
            let entries = self.entries(quotient..=quotient);
            self.take(*entries.last().expect("it was inserted"));
            let home = self.home(quotient);
            self.table.set_code(home, code);
        }
        self.tally.forgotten = forgotten;
    }

    /// Returns the code of a block with a symbol for a new member of this quotient. If there is no
    /// room and `may_forget` is true, other repairs of the block are forgotten.
    fn recoded(&self, quotient: u64, may_forget: bool) -> Option<Recoded> {
        let home = self.home(quotient);
        let mut symbols = self.symbols(home);
        // The new entry is the last one in its run.
        let (run, first) = self.run(quotient);
        let ordinal = first + run.count();
        if ordinal < symbols.len() {
            symbols.insert(ordinal, 0);
        }
        let mut forgotten = Vec::new();
        loop {
            if let Some(code) = self.encode(&symbols) {
                return Some(Recoded { code, forgotten });
            }
            if !may_forget {
                return None;
            }
            let turn = self.tally.forgotten + forgotten.len() as u64;
            let at = forget::<S>(&mut symbols, turn, |_| true);
            // Entries after the new one don't have their new ordinals yet.
            forgotten.extend(at.map(|at| at - usize::from(at > ordinal)));
        }
    }

    /// Appends an entry of level 0 to its run, and changes the code of its block.
    fn put(&mut self, scaled: Scaled, recoded: &Recoded) -> Result<(), InsertError> {
        let home = self.home(scaled.quotient);
        let value = self.coding.digits.digit(scaled.fraction, 0);
        let put = self.routines.insert_at.run(InsertAt(self), (home, None, value));
        put.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        self.tally.len += 1;
        self.versions.bump(home.block() as u64);
        self.table.set_code(home, recoded.code);
        self.tally.forgotten += recoded.forgotten.len() as u64;
        Ok(())
    }
}

/// The code of a block with a new entry, and the ordinals of the entries whose repairs it forgets.
struct Recoded {
    code: u128,
    forgotten: Vec<usize>,
}

/// The information that undoing inserts needs: the code of the block before each insert, and the
/// number of repairs that had been forgotten.
pub(crate) struct CodesBefore {
    codes: Vec<u128>,
    forgotten: u64,
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Inserts a member after [`insert`](Self::insert) returned [`InsertError::NeedsMembers`], with
    /// the claim in that error.
    ///
    /// `listing` must contain all members in the claim's interval, each as often as it was
    /// inserted. If a code has no room for both their repairs and the new member, some of the
    /// repairs are forgotten.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert), or [`InsertError::Mismatch`] if the
    /// claim is stale or the listed members are not those of the filter. The filter is unchanged in
    /// these cases.
    pub fn insert_listed<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), InsertError> {
        let Listing { members, .. } = listing.into();
        let scaled = self.coding.digits.scale(claim.query());
        let is_block = claim.cells == self.cells_of_block(self.home(scaled.quotient));
        let owned = self.owned(claim, &members).ok().filter(|_| is_block);
        let owned = owned.filter(|owned| owned.iter().all(|owned| owned.owner.is_some()));
        let owned = owned.ok_or(InsertError::Mismatch)?;
        let recoded = self.recoded(scaled.quotient, true).expect("room for entries of level 0");
        let first = |&ordinal: &usize| {
            let Owned { entry, owner } = owned[ordinal];
            owner.map(|owner| (entry.position, S::spell(&self.coding, owner, 0).value))
        };
        let mut values: Vec<_> = recoded.forgotten.iter().filter_map(first).collect();
        // Rewrite entries first, because the insert moves them.
        self.swap_values(&mut values);
        self.put(scaled, &recoded).inspect_err(|_| self.swap_values(&mut values))
    }

    /// Writes values to positions, and returns the old values in their place.
    fn swap_values(&mut self, values: &mut [(u64, u64)]) {
        for (position, value) in values {
            let old = self.table.value(*position);
            self.table.set_value(*position, core::mem::replace(value, old));
        }
    }
}

/// Once in this many turns, a random repair is forgotten instead of the one that uses the most
/// room.
const ANY_ONCE_IN: u64 = 4;

/// Resets one of the entries that `may_be` allows to level 0. Returns its index, or `None` if there
/// is no such entry.
///
/// Usually this is the last entry with the highest level, and sometimes a random one; the
/// [module](super#when-a-code-is-full) says why.
pub(super) fn forget<S: Scheme>(
    symbols: &mut [Symbol],
    turn: u64,
    may_be: impl Fn(usize) -> bool,
) -> Option<usize> {
    let is_candidate = |&at: &usize| symbols[at] != 0 && may_be(at);
    let candidates: Vec<usize> = (0..symbols.len()).filter(is_candidate).collect();
    let highest = candidates.iter().max_by_key(|&&at| S::level(symbols[at]))?;
    let number = (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let any = &candidates[(number / ANY_ONCE_IN) as usize % candidates.len()];
    let at = *if number.is_multiple_of(ANY_ONCE_IN) { any } else { highest };
    symbols[at] = 0;
    Some(at)
}

/// The reason why the fast path did not insert a member.
pub(super) enum Refused {
    Full,
    /// The block has a code, which may need a symbol for the member.
    HasCode,
}

/// Inserts a member within one cache line if possible, and otherwise with [`InsertAt`].
pub(super) struct Insert<'a, S: Scheme>(&'a mut CodedFilter<S>);

impl<S: Scheme> Keepable for Insert<'static, S> {
    type On<'a> = Insert<'a, S>;
}

impl<S: Scheme> Operation for Insert<'_, S> {
    type Argument = Hash;
    type Output = Result<(), Refused>;
    type Shapes = S::Shapes;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> Self::Output {
        let Self(filter) = self;
        let scaled = filter.coding.digits.scale(hash);
        let home = filter.table.home::<SHAPE>(scaled.quotient);
        filter.table.prefetch_across::<SHAPE>(home);
        if filter.table.code::<SHAPE>(home) != 0 {
            return Err(Refused::HasCode);
        }
        let value = filter.digits_of::<SHAPE>().digit(scaled.fraction, 0);
        let inserted = match filter.table.insert_here::<M, SHAPE, true>(machine, home, value, 0) {
            Inserted::Done => Ok(()),
            Inserted::At(spot) => {
                filter.routines.insert_at.run(InsertAt(filter), (home, Some(spot), value))
            }
            Inserted::Nowhere => {
                filter.routines.insert_at.run(InsertAt(filter), (home, None, value))
            }
        };
        inserted.map_err(|TableFull| Refused::Full)?;
        filter.tally.len += 1;
        filter.versions.bump(home.block() as u64);
        Ok(())
    }
}

/// Appends a value to the run of a quotient, either at a known spot in the home block, which has no
/// unused slot after that spot, or at a position that has to be searched for.
pub(super) struct InsertAt<'a, S: Scheme>(&'a mut CodedFilter<S>);

impl<S: Scheme> Keepable for InsertAt<'static, S> {
    type On<'a> = InsertAt<'a, S>;
}

impl<S: Scheme> Operation for InsertAt<'_, S> {
    type Argument = (Place, Option<Spot>, u64);
    type Output = Result<(), TableFull>;
    type Shapes = S::Shapes;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(
        self,
        machine: M,
        (home, spot, value): Self::Argument,
    ) -> Self::Output {
        let table = &mut self.0.table;
        match spot {
            Some(spot) => {
                table.insert_at::<M, SHAPE>(machine, home, spot, home.next_block(), value)
            }
            None => table.append::<M, SHAPE>(machine, home, value),
        }
    }
}
