//! Repairing mistakes.

use super::insert::forget;
use super::matching::matched;
use super::scheme::{Scheme, Symbol};
use super::{CodedFilter, Entry};
use crate::bits::machine::{Machine, Operation};
use crate::claim::Mismatch;
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::member::merged;
use crate::{Adaptation, Claim, Member};
use core::ops::RangeInclusive;

/// An entry, and whose it is; a ghost's is nobody's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) entry: Entry,
    pub(super) owner: Option<Scaled>,
}

impl<S: Scheme> CodedFilter<S> {
    /// Repairs a mistake: the claim's query is no member, and `members` are *all* members in
    /// [`claim.suspects()`](Claim::suspects), in any order, each as often as it was inserted.
    /// Afterwards the filter answers "absent" to the query.
    ///
    /// If a code is full, other repairs of the block are forgotten, and
    /// [counted](super::CodedStatistics::forgotten). A mistake that was repaired already is no
    /// error.
    ///
    /// # Errors
    /// An [`AdaptError`], and no entry has changed, if the claim is stale, if `members` are not
    /// those of the entries, if the query is one of them, or if nothing that a code has room for
    /// tells them apart. After [`AdaptError::Crowded`], check the query again: the next claim
    /// names all members of the block, so that other repairs can be forgotten.
    pub fn adapt<L: Copy + Into<Member>>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, false)
    }

    /// As [`adapt`](Self::adapt), but entries that no listed member explains are dropped: ghosts,
    /// left for example by a write that failed after the filter's insert.
    ///
    /// By calling this you say that `members` is **complete and current**. If it is not, a
    /// member's entry is taken for a ghost, and the member is lost.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt), but for [`AdaptError::Unlisted`].
    pub fn adapt_dropping_ghosts<L: Copy + Into<Member>>(
        &mut self,
        claim: &Claim,
        members: &[L],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, true)
    }

    fn adapt_with<L: Copy + Into<Member>>(
        &mut self,
        claim: &Claim,
        members: &[L],
        drop_ghosts: bool,
    ) -> Result<Adaptation, AdaptError> {
        let members: Vec<Member> = members.iter().map(|&member| member.into()).collect();
        let entries = self.owned(claim, &members)?;
        if members.iter().any(|member| member.hash == claim.query && member.count > 0) {
            return Err(AdaptError::IsMember);
        }
        let ghosts: Vec<Entry> =
            entries.iter().filter(|owned| owned.owner.is_none()).map(|owned| owned.entry).collect();
        if !ghosts.is_empty() && !drop_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts.len() as u64 });
        }
        let mistake = self.scheme.digits().scale(claim.query);
        let home = self.home(mistake.quotient);
        let is_whole =
            (claim.cell.quotient()..claim.through.quotient() + 1) == self.table.homes(home);
        let may_forget = is_whole || !S::MEMBERS_TO_FORGET;
        let repair = self.repair(&entries, &ghosts, mistake, may_forget).inspect_err(|error| {
            if S::MEMBERS_TO_FORGET && *error == AdaptError::Crowded {
                self.crowded.set(home.block(), true);
            }
        })?;
        let adaptation = Adaptation { lengthened: repair.repaired, ghosts: ghosts.len() as u64 };
        if adaptation.lengthened == 0 && ghosts.is_empty() {
            return Ok(adaptation);
        }
        for &(position, value) in &repair.values {
            self.table.rewrite_value(position, value);
        }
        // From the last on, so that the others stay where they are.
        for ghost in ghosts.iter().rev() {
            self.take(*ghost);
        }
        self.table.set_code(home, repair.code);
        self.forgotten += repair.forgotten;
        self.adaptations += u64::from(adaptation.lengthened > 0);
        if S::MEMBERS_TO_FORGET {
            self.crowded.set(home.block(), repair.forgotten > 0);
        }
        Ok(adaptation)
    }

    /// What has to be written so that no entry covers a mistake, and no ghost is left. If the code is
    /// full, other repairs of the listed members are forgotten, if that is allowed.
    fn repair(
        &self,
        entries: &[Owned],
        ghosts: &[Entry],
        mistake: Scaled,
        may_forget: bool,
    ) -> Result<Repair, AdaptError> {
        let mut symbols = self.symbols(self.home(mistake.quotient));
        let behind = entries.last().map_or(0, |owned| owned.entry.ordinal + 1);
        symbols.resize(symbols.len().max(behind), 0);
        let mut repair = Repair::default();
        let mut is_repaired = vec![false; symbols.len()];
        for &Owned { entry, owner } in entries {
            let is_at_fault =
                entry.quotient == mistake.quotient && self.scheme.covers(entry.spelt, mistake);
            if let (true, Some(owner)) = (is_at_fault, owner) {
                let level = self.scheme.repaired(S::level(entry.spelt.symbol), owner, mistake);
                let spelt = self.scheme.spell(owner, level.ok_or(AdaptError::Inseparable)?);
                symbols[entry.ordinal] = spelt.symbol;
                is_repaired[entry.ordinal] = true;
                repair.values.push((entry.position, spelt.value));
                repair.repaired += 1;
            }
        }
        let mut is_ghost = vec![false; symbols.len()];
        for ghost in ghosts {
            is_ghost[ghost.ordinal] = true;
        }
        let without_ghosts = |symbols: &[Symbol]| -> Vec<Symbol> {
            let all = symbols.iter().zip(&is_ghost);
            all.filter(|&(_, &is_ghost)| !is_ghost).map(|(&symbol, _)| symbol).collect()
        };
        loop {
            if let Some(code) = self.encode(&without_ghosts(&symbols)) {
                return Ok(Repair { code, ..repair });
            }
            let may_be = |ordinal: usize| {
                may_forget && !is_repaired[ordinal] && self.may_forget(entries, ordinal, mistake)
            };
            let turn = self.forgotten + repair.forgotten;
            let ordinal = forget::<S>(&mut symbols, turn, may_be).ok_or(AdaptError::Crowded)?;
            repair.forgotten += 1;
            if let Some(&Owned { entry, owner: Some(owner) }) = entry_of(entries, ordinal) {
                repair.values.push((entry.position, self.scheme.spell(owner, 0).value));
            }
        }
    }

    /// Whether an entry can be put back to level 0 without making a mistake.
    fn may_forget(&self, entries: &[Owned], ordinal: usize, mistake: Scaled) -> bool {
        match entry_of(entries, ordinal) {
            Some(&Owned { entry, owner: Some(owner) }) => {
                entry.quotient != mistake.quotient
                    || self.scheme.spell(owner, 0) != self.scheme.spell(mistake, 0)
            }
            Some(Owned { owner: None, .. }) => false,
            None => !S::MEMBERS_TO_FORGET,
        }
    }

    /// All entries of a claim's quotients, and whose they are.
    pub(super) fn owned(&self, claim: &Claim, members: &[Member]) -> Result<Vec<Owned>, Mismatch> {
        let digits = self.scheme.digits();
        let quotients = claim.cell.quotient()..=claim.through.quotient();
        // By the query: a claim of another filter may name quotients that aren't there.
        let block = self.home(digits.scale(claim.query).quotient).block() as u64;
        claim.check(self.versions.at(block), members)?;
        let members = merged(members.to_vec());
        let listed = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.count));
        let entries = self.entries(quotients);
        if listed > entries.len() as u64 {
            return Err(Mismatch::Surplus { members: listed - entries.len() as u64 });
        }
        let scaled: Vec<Scaled> = members.iter().map(|member| digits.scale(member.hash)).collect();
        let copies: Vec<usize> = members.iter().map(|member| member.count as usize).collect();
        // Those that are alike are matched together.
        let kind = |&at: &usize| {
            let Entry { quotient, spelt, .. } = entries[at];
            (quotient, spelt.value, spelt.symbol)
        };
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(kind);
        let kinds: Vec<&[usize]> = order.chunk_by(|one, other| kind(one) == kind(other)).collect();
        let covers = |member: usize, of_kind: usize| {
            let (member, entry): (Scaled, Entry) = (scaled[member], entries[kinds[of_kind][0]]);
            entry.quotient == member.quotient && self.scheme.covers(entry.spelt, member)
        };
        let sizes: Vec<usize> = kinds.iter().map(|kind| kind.len()).collect();
        let shares = matched(&copies, &sizes, covers);
        let mut owned: Vec<Owned> =
            entries.iter().map(|&entry| Owned { entry, owner: None }).collect();
        let mut found = 0;
        for (kind, shares) in kinds.iter().zip(shares) {
            let mut places = kind.iter();
            for (member, count) in shares {
                found += count as u64;
                for &at in places.by_ref().take(count) {
                    owned[at].owner = Some(scaled[member]);
                }
            }
        }
        if found < listed {
            return Err(Mismatch::Surplus { members: listed - found });
        }
        Ok(owned)
    }

    /// The entries of some quotients, all of one block, in order.
    pub(super) fn entries(&self, quotients: RangeInclusive<u64>) -> Vec<Entry> {
        self.table.level().run(Entries { filter: self, quotients })
    }
}

/// The entry of an ordinal, of entries in order without gaps.
fn entry_of(entries: &[Owned], ordinal: usize) -> Option<&Owned> {
    let first = entries.first()?.entry.ordinal;
    entries.get(ordinal.checked_sub(first)?)
}

/// What a repair writes.
#[derive(Default)]
struct Repair {
    /// Values, and where.
    values: Vec<(u64, u64)>,
    code: u128,
    repaired: usize,
    forgotten: u64,
}

struct Entries<'a, S: Scheme> {
    filter: &'a CodedFilter<S>,
    quotients: RangeInclusive<u64>,
}

impl<S: Scheme> Operation for Entries<'_, S> {
    type Output = Vec<Entry>;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Vec<Entry> {
        let Self { filter, quotients } = self;
        let table = &filter.table;
        let home = filter.home(*quotients.start());
        let symbols = filter.symbols(home);
        let mut entries: Vec<Entry> = Vec::new();
        for quotient in quotients.filter(|&quotient| table.is_occupied(quotient)) {
            let run = table.run(machine, quotient);
            let first = match entries.last() {
                Some(before) => before.ordinal + 1,
                None => table.ordinal(machine, home, run.start),
            };
            for (position, ordinal) in run.zip(first..) {
                let symbol = symbols.get(ordinal).copied().unwrap_or(0);
                let spelt = super::Spelt { value: table.value(position), symbol };
                entries.push(Entry { quotient, position, ordinal, spelt });
            }
        }
        entries
    }
}
