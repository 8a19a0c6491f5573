//! Repairs of mistakes.

use super::iter::entries;
use super::matching::matched;
use super::scheme::{CodedScheme, Spelt, Symbol};
use super::{CodedFilter, LocatedEntry};
use crate::claim::{Adaptation, Mismatch};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::members::merged;
use crate::{Claim, Listing, Member};

impl<S: CodedScheme> CodedFilter<S> {
    /// Repairs a mistake; see [`Adaptive::adapt`](crate::Adaptive::adapt).
    ///
    /// If the block's code is full, the filter forgets other repairs of the block, and
    /// [counts](super::Details::forgotten) them. Repairing a mistake again is not an error.
    ///
    /// # Errors
    /// If the claim is stale, if the listed members don't match the entries, if the query is one of
    /// them, or if the code has no room for a repair that distinguishes the query from them. No
    /// entry has changed in that case. After [`AdaptError::Crowded`], check the query again: the
    /// next claim names all members of the block, so that the filter can forget other repairs.
    pub fn adapt<'l>(
        &mut self,
        claim: &Claim,
        listing: impl Into<Listing<'l>>,
    ) -> Result<Adaptation, AdaptError> {
        let Listing { members, drops_ghosts, .. } = listing.into();
        let entries = self.owned(claim, &members)?;
        let mistake = self.shared.coding.digits.scale(claim.query);
        if entries.iter().any(|entry| entry.owner == Some(mistake)) {
            return Err(AdaptError::IsMember);
        }
        // Start with the last ghost, so that the others don't move when it is removed.
        let ghosts = entries.iter().rev().filter(|entry| entry.owner.is_none());
        let count = ghosts.clone().count() as u64;
        if count > 0 && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: count });
        }
        let home = self.home(mistake.quotient);
        let may_forget = !S::MEMBERS_TO_FORGET || claim.cells == self.cells_of_block(home);
        let repair = self.repair(&entries, mistake, may_forget).inspect_err(|error| {
            if *error == AdaptError::Crowded {
                self.set_crowded(home.block(), true);
            }
        })?;
        let adaptation = Adaptation { lengthened: repair.repaired, ghosts: count };
        if adaptation == Adaptation::default() {
            return Ok(adaptation);
        }
        for &(position, value) in &repair.values {
            self.shared.table.set_value(position, value);
        }
        ghosts.for_each(|&ghost| self.take(ghost));
        self.shared.table.set_code(home, repair.code);
        self.tally.forgotten += repair.forgotten;
        self.tally.adaptations += 1;
        self.set_crowded(home.block(), repair.forgotten > 0);
        Ok(adaptation)
    }

    fn set_crowded(&mut self, block: usize, is_crowded: bool) {
        if S::MEMBERS_TO_FORGET {
            let (word, bit) = (&mut self.crowded[block / 64], 1 << (block % 64));
            *word = if is_crowded { *word | bit } else { *word & !bit };
        }
    }

    /// Computes a repair: the values and the code to write, so that no entry covers the mistake and
    /// no ghost is left. If the code is full and `may_forget` is true, the repair makes the filter
    /// forget others.
    fn repair(
        &self,
        entries: &[LocatedEntry],
        mistake: Scaled,
        may_forget: bool,
    ) -> Result<Repair, AdaptError> {
        let coding = &self.shared.coding;
        let mut symbols = self.symbols(self.home(mistake.quotient));
        let end = entries.last().map_or(0, |entry| entry.ordinal + 1);
        symbols.resize(symbols.len().max(end), 0);
        let covers = |entry: &LocatedEntry, spelt: Spelt| {
            entry.quotient == mistake.quotient && coding.covers(spelt, mistake)
        };
        let mut values = Vec::new();
        for entry in entries.iter().filter(|entry| covers(entry, entry.spelt)) {
            let Some(owner) = entry.owner else { continue };
            let level = S::repaired(coding, S::level(entry.spelt.symbol), owner, mistake);
            let spelt = S::spell(coding, owner, level.ok_or(AdaptError::Inseparable)?);
            symbols[entry.ordinal] = spelt.symbol;
            values.push((entry.position, spelt.value));
        }
        let repaired = values.len();
        // The ordinals of `entries` are consecutive.
        let first = entries.first().map_or(0, |entry| entry.ordinal);
        let entry_of = |ordinal: usize| ordinal.checked_sub(first).and_then(|at| entries.get(at));
        let is_ghost = |ordinal| entry_of(ordinal).is_some_and(|entry| entry.owner.is_none());
        let left: Vec<usize> = (0..symbols.len()).filter(|&ordinal| !is_ghost(ordinal)).collect();
        let mut symbols: Vec<Symbol> = left.iter().map(|&ordinal| symbols[ordinal]).collect();
        // An entry is harmless if resetting it to level 0 doesn't bring back the mistake.
        let is_harmless = |at: usize| match entry_of(left[at]) {
            Some(entry) => entry.owner.is_some_and(|owner| {
                !covers(entry, entry.spelt) && !covers(entry, S::spell(coding, owner, 0))
            }),
            None => !S::MEMBERS_TO_FORGET,
        };
        let recoded = self.encode_forgetting(&mut symbols, |at| may_forget && is_harmless(at));
        let (code, forgotten) = recoded.ok_or(AdaptError::Crowded)?;
        for &at in &forgotten {
            if let Some(&LocatedEntry { position, owner: Some(owner), .. }) = entry_of(left[at]) {
                values.push((position, S::spell(coding, owner, 0).value));
            }
        }
        Ok(Repair { values, code, repaired, forgotten: forgotten.len() as u64 })
    }

    /// Returns all entries with a claim's quotients, each with the listed member that owns it.
    /// Entries without an owner are ghosts.
    pub(super) fn owned(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Vec<LocatedEntry>, Mismatch> {
        let digits = self.shared.coding.digits;
        let quotient = digits.scale(claim.query).quotient;
        let block = self.home(quotient).block() as u64;
        claim.check(self.versions.at(block), self.cell(quotient), members)?;
        let members = merged(members.to_vec());
        let scaled: Vec<Scaled> = members.iter().map(|member| digits.scale(member.hash)).collect();
        let copies: Vec<usize> = members.iter().map(|member| member.count as usize).collect();
        let mut entries = entries(self, claim.cells);
        // Match identical entries together, as one kind.
        let kind = |entry: &LocatedEntry| (entry.quotient, entry.spelt);
        entries.sort_by_key(kind);
        let kinds = entries.chunk_by_mut(|one, other| kind(one) == kind(other));
        let mut kinds: Vec<&mut [LocatedEntry]> = kinds.collect();
        let sizes: Vec<usize> = kinds.iter().map(|kind| kind.len()).collect();
        let shares = matched(&copies, &sizes, |member: usize, of_kind: usize| {
            let (quotient, spelt) = kind(&kinds[of_kind][0]);
            quotient == scaled[member].quotient && self.shared.coding.covers(spelt, scaled[member])
        });
        let mut found = 0;
        for (kind, shares) in kinds.iter_mut().zip(shares) {
            let mut free = kind.iter_mut();
            for (&member, count) in scaled.iter().zip(shares) {
                found += count as u64;
                free.by_ref().take(count).for_each(|entry| entry.owner = Some(member));
            }
        }
        entries.sort_by_key(|entry| entry.ordinal);
        let listed = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.count));
        match listed - found {
            0 => Ok(entries),
            members => Err(Mismatch::Surplus { members }),
        }
    }
}

/// The changes that a repair writes.
struct Repair {
    /// Pairs of a position and the value to write there.
    values: Vec<(u64, u64)>,
    code: u128,
    repaired: usize,
    forgotten: u64,
}
