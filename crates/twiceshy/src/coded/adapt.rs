//! Repairing mistakes.

use super::insert::forget;
use super::matching::matched;
use super::scheme::{Scheme, Symbol};
use super::{CodedFilter, Entry};
use crate::bits::machine::{Machine, Operation};
use crate::claim::Mismatch;
use crate::error::AdaptError;
use crate::hash::Scaled;
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
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if `members` are not
    /// those of the entries, if the query is one of them, or if nothing that a code has room for
    /// tells them apart.
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
        let repair = self.repair(&entries, &ghosts, mistake)?;
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
        self.table.set_code(self.home(mistake.quotient), repair.code);
        self.forgotten += repair.forgotten;
        self.adaptations += u64::from(adaptation.lengthened > 0);
        Ok(adaptation)
    }

    /// What has to be written so that no entry covers a mistake, and no ghost is left.
    fn repair(
        &self,
        entries: &[Owned],
        ghosts: &[Entry],
        mistake: Scaled,
    ) -> Result<Repair, AdaptError> {
        let mut symbols = self.symbols(self.home(mistake.quotient));
        let behind = entries.last().map_or(0, |owned| owned.entry.ordinal + 1);
        symbols.resize(symbols.len().max(behind), 0);
        let mut repair = Repair::default();
        for &Owned { entry, owner } in entries {
            let is_at_fault =
                entry.quotient == mistake.quotient && self.scheme.covers(entry.spelt, mistake);
            if let (true, Some(owner)) = (is_at_fault, owner) {
                let level = self.scheme.repaired(S::level(entry.spelt.symbol), owner, mistake);
                let spelt = self.scheme.spell(owner, level.ok_or(AdaptError::Inseparable)?);
                symbols[entry.ordinal] = spelt.symbol;
                repair.values.push((entry.position, spelt.value));
                repair.repaired += 1;
            }
        }
        let is_repaired = |ordinal: usize| {
            let entry = entries.iter().find(|owned| owned.entry.ordinal == ordinal);
            entry.is_some_and(|owned| {
                repair.values.iter().any(|&(position, _)| position == owned.entry.position)
            })
        };
        let repaired: Vec<bool> = (0..symbols.len()).map(is_repaired).collect();
        let without_ghosts = |symbols: &[Symbol]| {
            let mut symbols = symbols.to_vec();
            for ghost in ghosts.iter().rev() {
                symbols.remove(ghost.ordinal);
            }
            symbols
        };
        loop {
            if let Some(code) = self.encode(&without_ghosts(&symbols)) {
                return Ok(Repair { code, ..repair });
            }
            let may_be =
                |ordinal: usize| !repaired[ordinal] && self.may_forget(entries, ordinal, mistake);
            let turn = self.forgotten + repair.forgotten;
            let ordinal = forget::<S>(&mut symbols, turn, may_be).ok_or(AdaptError::Crowded)?;
            repair.forgotten += 1;
            let entry = entries.iter().find(|owned| owned.entry.ordinal == ordinal);
            if let Some(Owned { entry, owner: Some(owner) }) = entry {
                repair.values.push((entry.position, self.scheme.spell(*owner, 0).value));
            }
        }
    }

    /// Whether an entry can be put back to level 0 without making a mistake.
    fn may_forget(&self, entries: &[Owned], ordinal: usize, mistake: Scaled) -> bool {
        let entry = entries.iter().find(|owned| owned.entry.ordinal == ordinal);
        match entry {
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
        let counts = members.iter().map(|member| member.count);
        let listed = counts.fold(0, u64::saturating_add);
        let entries = self.entries(quotients);
        if listed > entries.len() as u64 {
            return Err(Mismatch::Surplus { members: listed - entries.len() as u64 });
        }
        let scaled = members.iter().flat_map(|member| {
            core::iter::repeat_n(digits.scale(member.hash), member.count as usize)
        });
        let scaled: Vec<Scaled> = scaled.collect();
        let covers = |member: usize, entry: usize| {
            let (member, entry): (Scaled, Entry) = (scaled[member], entries[entry]);
            entry.quotient == member.quotient && self.scheme.covers(entry.spelt, member)
        };
        let owners = matched(scaled.len(), entries.len(), covers);
        let found = owners.iter().flatten().count();
        if found < scaled.len() {
            return Err(Mismatch::Surplus { members: (scaled.len() - found) as u64 });
        }
        let owned = entries.iter().zip(owners);
        Ok(owned
            .map(|(&entry, owner)| Owned { entry, owner: owner.map(|owner| scaled[owner]) })
            .collect())
    }

    /// The entries of some quotients, all of one block, in order.
    pub(super) fn entries(&self, quotients: RangeInclusive<u64>) -> Vec<Entry> {
        self.table.level().run(Entries { filter: self, quotients })
    }
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
