//! Inserts.

use super::scheme::{CodedScheme, Scheme, Symbol};
use super::{CodedFilter, LocatedEntry};
use crate::bits::machine::{AnyShape, Keepable, Machine, Operation};
use crate::error::InsertError;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, QuotientTable, Spot, TableFull};
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
        let scaled = self.scheme.digits().scale(hash);
        let home = self.home(scaled.quotient);
        let mut symbols = self.symbols(home);
        self.insert_symbol(&mut symbols, home, scaled.quotient);
        let mut forgotten = 0;
        let code = loop {
            match self.encode(&symbols) {
                Some(code) => break code,
                None if S::MEMBERS_TO_FORGET => return Err(self.needs_members(hash)),
                None => {
                    let turn = self.forgotten + forgotten;
                    forgotten += u64::from(forget::<S>(&mut symbols, turn, |_| true).is_some());
                }
            }
        };
        self.put(home, scaled)?;
        self.table.set_code(home, code);
        self.forgotten += forgotten;
        Ok(())
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
        let mut before = CodesBefore { codes: Vec::with_capacity(hashes.len()), forgotten: 0 };
        before.forgotten = self.forgotten;
        for (inserted, &hash) in hashes.iter().enumerate() {
            let home = self.home(self.scheme.digits().scale(hash).quotient);
            before.codes.push(self.table.code::<0>(home));
            if let Err(error) = self.insert(hash) {
                before.codes.pop();
                self.undo_batch(&hashes[..inserted], before);
                return Err(error);
            }
        }
        Ok(before)
    }

    /// Removes a batch that was just inserted, and restores the repairs that were forgotten because
    /// of it.
    pub(crate) fn undo_batch(&mut self, hashes: &[Hash], before: CodesBefore) {
        let CodesBefore { codes, forgotten } = before;
        // Start with the last hash, so that each new entry is the last one in its run.
        for (&hash, code) in hashes.iter().zip(codes).rev() {
            let quotient = self.scheme.digits().scale(hash).quotient;
            let entries = self.entries(quotient..=quotient);
            self.take(*entries.last().expect("it was inserted"));
            let home = self.home(quotient);
            self.table.set_code(home, code);
        }
        self.forgotten = forgotten;
    }

    /// Inserts a symbol for a new entry at the end of its run.
    fn insert_symbol(&self, symbols: &mut Vec<Symbol>, home: Place, quotient: u64) {
        let ordinal = self.table.target().run(EndOfRun { filter: self, home, quotient });
        if ordinal < symbols.len() {
            symbols.insert(ordinal, 0);
        }
    }

    /// Appends an entry of level 0 to its run, without changing any code.
    fn put(&mut self, home: Place, scaled: Scaled) -> Result<(), InsertError> {
        let value = self.scheme.digits().digit(scaled.fraction, 0);
        let put = self.table.target().run(Append { table: &mut self.table, home, value });
        put.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        self.len += 1;
        self.versions.bump(home.block() as u64);
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
        let scaled = self.scheme.digits().scale(claim.query());
        let home = self.home(scaled.quotient);
        let is_block = claim.cells == self.cells_of_block(home);
        let owned = self.owned(claim, &members).ok().filter(|_| is_block);
        let owned = owned.ok_or(InsertError::Mismatch)?;
        let owners: Option<Vec<_>> =
            owned.iter().map(|owned| owned.owner.map(|owner| (owned.entry, owner))).collect();
        let owners = owners.ok_or(InsertError::Mismatch)?;
        let mut symbols = self.symbols(home);
        let mut put_back = Vec::new();
        let code = loop {
            let mut with_it = symbols.clone();
            self.insert_symbol(&mut with_it, home, scaled.quotient);
            if let Some(code) = self.encode(&with_it) {
                break code;
            }
            let turn = self.forgotten + put_back.len() as u64;
            put_back.extend(forget::<S>(&mut symbols, turn, |_| true));
        };
        // Rewrite entries first, because the insert moves them.
        let before: Vec<_> = put_back
            .iter()
            .map(|&ordinal: &usize| {
                let (LocatedEntry { position, .. }, member) = owners[ordinal];
                let old = self.table.value(position);
                self.table.set_value(position, self.scheme.spell(member, 0).value);
                (position, old)
            })
            .collect();
        if let Err(full) = self.put(home, scaled) {
            for (position, value) in before {
                self.table.set_value(position, value);
            }
            return Err(full);
        }
        self.table.set_code(home, code);
        self.forgotten += put_back.len() as u64;
        Ok(())
    }
}

/// Once in this many turns, a random repair is forgotten instead of the one that uses the most
/// room.
const ANY_ONCE_IN: u64 = 4;

/// Resets one of the entries that `may_be` allows to level 0. Returns its index, or `None` if there
/// is no such entry.
///
/// Usually this is the entry with the highest level, or the last of these if there are several. It
/// frees the most room, and because it is always the same one, few mistakes come back. But one turn
/// in four resets a random entry, so that unused repairs go away eventually (see the
/// [module](super#when-a-code-is-full)).
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

struct EndOfRun<'a, S: Scheme> {
    filter: &'a CodedFilter<S>,
    home: Place,
    quotient: u64,
}

impl<S: Scheme> Operation for EndOfRun<'_, S> {
    type Argument = ();
    type Output = usize;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> usize {
        let Self { filter: CodedFilter { table, .. }, home, quotient } = self;
        table.ordinal(machine, home, table.run(machine, quotient).end)
    }
}

struct Append<'a> {
    table: &'a mut QuotientTable,
    home: Place,
    value: u64,
}

impl Operation for Append<'_> {
    type Argument = ();
    type Output = Result<(), TableFull>;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Self::Output {
        self.table.append::<M, 0>(machine, self.home, self.value)
    }
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
        let scaled = filter.scheme.digits().scale(hash);
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
        filter.len += 1;
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
