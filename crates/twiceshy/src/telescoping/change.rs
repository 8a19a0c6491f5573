//! Inserts and removals of members.

use super::iter::{entries, run};
use super::scheme::{CodedScheme, Scheme, Symbol};
use super::{CodedFilter, LocatedEntry};
use crate::bits::machine::{AnyShape, dispatched, kept};
use crate::error::{InsertError, RemoveError};
use crate::hash::Scaled;
use crate::table::{Editor, Inserted, Place, Spot, TableFull};
use crate::{Claim, Hash, Listing};

impl<S: Scheme> CodedFilter<S> {
    /// Inserts a member.
    ///
    /// # Errors
    /// [`InsertError::Full`] if there is no slot for the member. A
    /// [`TelescopingFilter`](super::TelescopingFilter) may also return
    /// [`InsertError::NeedsMembers`] if a code has no room. In that case, list the members in the
    /// claim's interval, and call [`insert_listed`](Self::insert_listed). The filter is unchanged
    /// after either error.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        match self.inserts.insert.run(Insert(self), hash) {
            Ok(true) => Ok(()),
            Ok(false) => self.insert_symbol_too(hash),
            Err(TableFull) => Err(InsertError::Full { load: self.load() }),
        }
    }

    /// Inserts a member into a block whose code may need a new symbol.
    #[cold]
    fn insert_symbol_too(&mut self, hash: Hash) -> Result<(), InsertError> {
        let scaled = self.shared.coding.digits.scale(hash);
        let recoded = self.recoded(scaled.quotient, !S::MEMBERS_TO_FORGET);
        let (code, forgotten) = recoded.ok_or_else(|| self.needs_members(hash))?;
        self.put(scaled, code, forgotten.len())
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

    /// Inserts many members like [`insert_many`](Self::insert_many). Returns the information that
    /// [`undo_batch`](Self::undo_batch) needs.
    pub(crate) fn insert_batch(&mut self, hashes: &[Hash]) -> Result<CodesBefore, InsertError> {
        let codes = Vec::with_capacity(hashes.len());
        let mut before = CodesBefore { codes, forgotten: self.tally.forgotten };
        for (inserted, &hash) in hashes.iter().enumerate() {
            let code = self.shared.table.code::<0>(self.home_of(hash));
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

    /// Undoes the last [`insert_batch`](Self::insert_batch): removes its members, and restores the
    /// repairs that the filter forgot because of them.
    pub(crate) fn undo_batch(&mut self, hashes: &[Hash], before: CodesBefore) {
        let CodesBefore { codes, forgotten } = before;
        // Start with the last hash. Then the entry to remove is always the last one in its run.
        for (&hash, code) in hashes.iter().zip(codes).rev() {
            let quotient = self.shared.coding.digits.scale(hash).quotient;
            let entries = entries(self, self.cell(quotient));
            self.take(*entries.last().expect("it was inserted"));
            let home = self.home(quotient);
            self.shared.table.set_code(home, code);
        }
        self.tally.forgotten = forgotten;
    }

    /// Computes the code of a block to which a member with this quotient is added. Returns the code
    /// and the ordinals of the entries whose repairs it forgets. Returns `None` if it would have to
    /// forget a repair and `may_forget` is false.
    fn recoded(&self, quotient: u64, may_forget: bool) -> Option<(u128, Vec<usize>)> {
        let mut symbols = self.symbols(self.home(quotient));
        // The new entry is the last one in its run.
        let (run, first) = run(&self.shared.table, quotient);
        let ordinal = first + run.count();
        if ordinal < symbols.len() {
            symbols.insert(ordinal, 0);
        }
        let (code, mut forgotten) = self.encode_forgetting(&mut symbols, |_| may_forget)?;
        // The entries after the new one still have their old ordinals, which are lower by one.
        for at in &mut forgotten {
            *at -= usize::from(*at > ordinal);
        }
        Some((code, forgotten))
    }

    /// Encodes symbols. While the code has no room for all of them, resets one more symbol to 0,
    /// among those for which `may_forget` returns `true`. Returns the code and the indices of the
    /// symbols that were reset, or `None` if too few may be reset.
    pub(super) fn encode_forgetting(
        &self,
        symbols: &mut [Symbol],
        may_forget: impl Fn(usize) -> bool,
    ) -> Option<(u128, Vec<usize>)> {
        let mut forgotten = Vec::new();
        loop {
            if let Some(code) = self.encode(symbols) {
                return Some((code, forgotten));
            }
            let turn = self.tally.forgotten + forgotten.len() as u64;
            forgotten.push(forget::<S>(symbols, turn, &may_forget)?);
        }
    }

    /// Appends an entry of level 0 to its run, and sets the code of its block. `forgotten` is the
    /// number of repairs that the new code forgets.
    fn put(&mut self, scaled: Scaled, code: u128, forgotten: usize) -> Result<(), InsertError> {
        let home = self.home(scaled.quotient);
        let value = self.shared.coding.digits.digit(scaled.fraction, 0);
        let put = self.inserts.insert_at.run(InsertAt(self), (home, None, value));
        put.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        self.versions.bump(home.block() as u64);
        self.shared.table.set_code(home, code);
        self.tally.forgotten += forgotten as u64;
        Ok(())
    }
}

/// The information that undoing inserts needs: the code of the block before each insert, and the
/// number of repairs that had been forgotten.
pub(crate) struct CodesBefore {
    codes: Vec<u128>,
    forgotten: u64,
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Inserts the member that [`insert`](Self::insert) refused with [`InsertError::NeedsMembers`].
    /// `claim` is the claim in that error.
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
        let scaled = self.shared.coding.digits.scale(claim.query());
        let is_block = claim.cells == self.cells_of_block(self.home(scaled.quotient));
        let owned = self.owned(claim, &members).ok().filter(|_| is_block);
        let owned = owned.filter(|owned| owned.iter().all(|entry| entry.owner.is_some()));
        let owned = owned.ok_or(InsertError::Mismatch)?;
        let Some((code, forgotten)) = self.recoded(scaled.quotient, true) else {
            unreachable!("entries of level 0 need no room")
        };
        let first = |&ordinal: &usize| {
            let LocatedEntry { position, owner, .. } = owned[ordinal];
            owner.map(|owner| (position, S::spell(&self.shared.coding, owner, 0).value))
        };
        let mut values: Vec<_> = forgotten.iter().filter_map(first).collect();
        // Rewrite entries first, because the insert moves them.
        self.swap_values(&mut values);
        let put = self.put(scaled, code, forgotten.len());
        put.inspect_err(|_| self.swap_values(&mut values))
    }

    /// Swaps each given value with the value at the given position of the table.
    fn swap_values(&mut self, values: &mut [(u64, u64)]) {
        for (position, value) in values {
            let old = self.shared.table.value(*position);
            self.shared.table.set_value(*position, core::mem::replace(value, old));
        }
    }
}

/// One in `ANY_ONCE_IN` forgotten repairs is chosen at random. Otherwise, the filter forgets the repair
/// that takes the most room.
const ANY_ONCE_IN: u64 = 4;

/// Resets one symbol to 0, among those for which `may_forget` returns `true`. Returns its index, or
/// `None` if there is no such symbol.
///
/// Usually this is the last symbol with the highest level, and sometimes a random one; the
/// [module](super#when-a-code-is-full) says why.
pub(super) fn forget<S: Scheme>(
    symbols: &mut [Symbol],
    turn: u64,
    may_forget: impl Fn(usize) -> bool,
) -> Option<usize> {
    let is_candidate = |&at: &usize| symbols[at] != 0 && may_forget(at);
    let candidates: Vec<usize> = (0..symbols.len()).filter(is_candidate).collect();
    let highest = candidates.iter().max_by_key(|&&at| S::level(symbols[at]))?;
    let number = (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let any = &candidates[(number / ANY_ONCE_IN) as usize % candidates.len()];
    let at = *if number.is_multiple_of(ANY_ONCE_IN) { any } else { highest };
    symbols[at] = 0;
    Some(at)
}

impl<S: Scheme> CodedFilter<S> {
    /// Removes one copy of a key that the caller *knows* to be a member; see
    /// [`Dynamic::remove_trusting`](crate::Dynamic::remove_trusting).
    ///
    /// # Errors
    /// [`RemoveError::Absent`] if the key is certainly not a member; [`RemoveError::Ambiguous`] if
    /// several entries of a [`TelescopingFilter`](super::TelescopingFilter) may belong to the key,
    /// and only [`remove`](Self::remove) can tell. The filter is unchanged in both cases.
    pub fn remove_trusting(&mut self, hash: Hash) -> Result<(), RemoveError> {
        let scaled = self.shared.coding.digits.scale(hash);
        let mut covering = entries(self, self.cell(scaled.quotient));
        covering.retain(|entry| self.shared.coding.covers(entry.spelt, scaled));
        // Take the entry with the longest extension, because the shorter ones cover everything that
        // it covers.
        let entry = covering.iter().max_by_key(|entry| S::level(entry.spelt.symbol));
        let entry = *entry.ok_or(RemoveError::Absent)?;
        let is_ambiguous = covering.iter().any(|other| other.spelt != entry.spelt);
        if S::MEMBERS_TO_FORGET && is_ambiguous {
            return Err(RemoveError::Ambiguous);
        }
        self.remove_entry(entry);
        Ok(())
    }

    fn remove_entry(&mut self, entry: LocatedEntry) {
        let home = self.home(entry.quotient);
        let mut symbols = self.symbols(home);
        if entry.ordinal < symbols.len() {
            symbols.remove(entry.ordinal);
        }
        let code = self.encode(&symbols).expect("the remaining symbols take no more room");
        self.take(entry);
        self.shared.table.set_code(home, code);
    }

    /// Removes an entry from the table, without changing any code.
    pub(super) fn take(&mut self, entry: LocatedEntry) {
        take(&mut self.editor(), entry);
        self.versions.bump(self.home(entry.quotient).block() as u64);
    }
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Removes one copy of the claim's query; see [`Adaptive::remove`](crate::Adaptive::remove).
    /// Ignores listed mistakes, and keeps the repairs of other entries.
    ///
    /// # Errors
    /// If the query is not listed, if the claim is stale, or if the listed members are not those of
    /// the filter. The filter is unchanged in that case.
    pub fn remove<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<(), RemoveError> {
        let Listing { members, .. } = listing.into();
        let entries = self.owned(claim, &members)?;
        let ghosts = entries.iter().filter(|entry| entry.owner.is_none()).count() as u64;
        if ghosts > 0 {
            return Err(RemoveError::Unlisted { members: ghosts });
        }
        let owner = Some(self.shared.coding.digits.scale(claim.query));
        let its = entries.iter().find(|entry| entry.owner == owner);
        self.remove_entry(*its.ok_or(RemoveError::Absent)?);
        Ok(())
    }
}

kept! {
    /// Inserts a member within one cache line if possible, and otherwise with [`InsertAt`].
    /// Returns `false` and inserts nothing if the block's code isn't 0, because it may need a
    /// symbol for the member.
    pub(super) struct Insert<'a, S: Scheme>(filter: &'a mut CodedFilter<S>);

    fn run(hash: Hash) -> Result<bool, TableFull> => S::Shapes, |machine| {
        let scaled = filter.shared.coding.digits.scale(hash);
        let home = filter.shared.table.home::<SHAPE>(scaled.quotient);
        filter.shared.table.prefetch_across::<SHAPE>(home);
        if filter.shared.table.code::<SHAPE>(home) != 0 {
            return Ok(false);
        }
        let value = filter.shared.digits_of::<SHAPE>().digit(scaled.fraction, 0);
        match filter.editor().insert_here::<M, SHAPE, true>(machine, home, value, 0) {
            Inserted::Done => {}
            Inserted::At(spot) => {
                filter.inserts.insert_at.run(InsertAt(filter), (home, Some(spot), value))?;
            }
            Inserted::Nowhere => {
                filter.inserts.insert_at.run(InsertAt(filter), (home, None, value))?;
            }
        }
        filter.versions.bump(home.block() as u64);
        Ok(true)
    }
}

kept! {
    /// Appends a value to the run of a quotient. If a spot in the home block is given, the block has
    /// no unused slot after it. Otherwise searches for the position.
    pub(super) struct InsertAt<'a, S: Scheme>(filter: &'a mut CodedFilter<S>);

    fn run((home, spot, value): (Place, Option<Spot>, u64)) -> Result<(), TableFull>
    => S::Shapes, |machine| {
        let mut table = filter.editor();
        match spot {
            Some(spot) => {
                table.insert_at::<M, SHAPE>(machine, home, spot, home.next_block(), value)
            }
            None => table.append::<M, SHAPE>(machine, home, value),
        }
    }
}

dispatched! {
    fn take<'e, 'a>(table: &'e mut Editor<'a>, entry: LocatedEntry) -> ()
    => table.target(), AnyShape, |machine| {
        table.take_entry(machine, entry.quotient, entry.position);
    }
}
