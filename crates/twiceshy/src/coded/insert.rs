//! New members.

use super::scheme::{Scheme, Symbol};
use super::{CodedFilter, Entry};
use crate::bits::machine::{Machine, Operation, Routine};
use crate::error::InsertError;
use crate::hash::Scaled;
use crate::table::{Inserted, Place, QuotientTable, Spot, TableFull};
use crate::{Claim, Hash, Member};
use core::marker::PhantomData;

impl<S: Scheme> CodedFilter<S> {
    /// Inserts a member.
    ///
    /// # Errors
    /// If there is no slot for it; or, in a [`TelescopingFilter`](super::TelescopingFilter), no
    /// room in a code, so that members are needed: see [`insert_listed`](Self::insert_listed).
    /// Nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.routines.insert.run(self, hash).or_else(|refused| match refused {
            Refused::Full => Err(InsertError::Full { load: self.load() }),
            Refused::HasCode => self.insert_symbol_too(hash),
        })
    }

    /// Inserts a member where a code has to be written, too.
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
                None if S::MEMBERS_TO_FORGET => return Err(InsertError::Crowded),
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

    /// What is needed to [insert](Self::insert_listed) a hash where a code is full: the members
    /// of its block.
    pub fn claim_to_insert(&self, hash: Hash) -> Claim {
        let quotient = self.scheme.digits().scale(hash).quotient;
        self.claim_block(hash, self.home(quotient))
    }

    /// Inserts the claim's hash, with the help of all members in the
    /// [claim's](Self::claim_to_insert) interval, each as often as it was inserted: some of their
    /// repairs are forgotten if a code has no room for them and the newcomer.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), or if the claim is stale, or the members aren't those of the
    /// filter. Nothing has changed then.
    pub fn insert_listed<L: Copy + Into<Member>>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<(), InsertError> {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let scaled = self.scheme.digits().scale(claim.query());
        let home = self.home(scaled.quotient);
        let homes = self.table.homes(home);
        let is_block =
            homes.start == claim.cell.quotient() && homes.end == claim.through.quotient() + 1;
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
        // Entries move when one is inserted, so they are written before.
        let before: Vec<_> = put_back
            .iter()
            .map(|&ordinal: &usize| {
                let (Entry { position, .. }, member) = owners[ordinal];
                let old = self.table.value(position);
                self.table.rewrite_value(position, self.scheme.spell(member, 0).value);
                (position, old)
            })
            .collect();
        if let Err(full) = self.put(home, scaled) {
            for (position, value) in before {
                self.table.rewrite_value(position, value);
            }
            return Err(full);
        }
        self.table.set_code(home, code);
        self.forgotten += put_back.len() as u64;
        Ok(())
    }

    /// Puts a new entry's symbol between the others, where its run ends.
    fn insert_symbol(&self, symbols: &mut Vec<Symbol>, home: Place, quotient: u64) {
        let ordinal = self.table.level().run(EndOfRun { filter: self, home, quotient });
        if ordinal < symbols.len() {
            symbols.insert(ordinal, 0);
        }
    }

    /// Appends an entry of level 0 to its run; codes are left alone.
    fn put(&mut self, home: Place, scaled: Scaled) -> Result<(), InsertError> {
        let value = self.scheme.digits().digit(scaled.fraction, 0);
        let put = self.table.level().run(Append { table: &mut self.table, home, value });
        put.map_err(|TableFull| InsertError::Full { load: self.load() })?;
        self.len += 1;
        self.versions.bump(home.block() as u64);
        Ok(())
    }
}

/// How often any repair is forgotten, instead of the one that takes most room: once in so many
/// turns.
const ANY_ONCE_IN: u64 = 4;

/// Puts one of the entries that may be back to level 0; which, if there is any.
///
/// As a rule it is the one of the highest level, the last of several: it makes most room, and as
/// it is always the same, few mistakes come back. But each fourth `turn` it is any, so that
/// repairs that nobody needs go, too (see the [module](super#when-a-code-is-full)).
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
    type Output = usize;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> usize {
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
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        self.table.append::<M, 0>(machine, self.home, self.value)
    }
}

/// Why a member is not inserted at once.
pub(super) enum Refused {
    Full,
    /// There is a code, in which it may need a symbol.
    HasCode,
}

/// Inserts a member, if it can within one line; else [elsewhere](InsertAt).
pub(super) struct Insert<S>(PhantomData<S>);

impl<S: Scheme> Routine for Insert<S> {
    type Subject<'a> = &'a mut CodedFilter<S>;
    type Argument = Hash;
    type Output = Result<(), Refused>;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(
        machine: M,
        filter: &mut CodedFilter<S>,
        hash: Hash,
    ) -> Self::Output {
        let scaled = filter.scheme.digits().scale(hash);
        let home = filter.table.home::<SHAPE>(scaled.quotient);
        filter.table.prefetch_across::<SHAPE>(home);
        if filter.table.code::<SHAPE>(home) != 0 {
            return Err(Refused::HasCode);
        }
        let value = filter.digits_of::<SHAPE>().digit(scaled.fraction, 0);
        let inserted = match filter.table.append_here::<M, SHAPE>(machine, home, value) {
            Inserted::Done => Ok(()),
            Inserted::At(spot) => filter.routines.insert_at.run(filter, (home, Some(spot), value)),
            Inserted::Nowhere => filter.routines.insert_at.run(filter, (home, None, value)),
        };
        inserted.map_err(|TableFull| Refused::Full)?;
        filter.len += 1;
        filter.versions.bump(home.block() as u64);
        Ok(())
    }
}

/// Inserts a value into the run of a quotient, behind all others: at a spot of its home's block,
/// which has no unused slot behind it, or where it has to be looked for.
pub(super) struct InsertAt<S>(PhantomData<S>);

impl<S: Scheme> Routine for InsertAt<S> {
    type Subject<'a> = &'a mut CodedFilter<S>;
    type Argument = (Place, Option<Spot>, u64);
    type Output = Result<(), TableFull>;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(
        machine: M,
        filter: &mut CodedFilter<S>,
        (home, spot, value): Self::Argument,
    ) -> Self::Output {
        let table = &mut filter.table;
        match spot {
            Some(spot) => {
                table.insert_at::<M, SHAPE>(machine, home, spot, home.next_block(), value)
            }
            None => table.append::<M, SHAPE>(machine, home, value),
        }
    }
}
