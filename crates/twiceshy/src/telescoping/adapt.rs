//! Repairs of mistakes.

use super::insert::forget;
use super::matching::matched;
use super::scheme::{CodedScheme, Symbol};
use super::{CodedFilter, LocatedEntry};
use crate::claim::{Adaptation, Cells, Mismatch};
use crate::error::AdaptError;
use crate::hash::Scaled;
use crate::members::merged;
use crate::{Claim, Listing, Member};

/// An entry and the member that it belongs to; a ghost belongs to no member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) entry: LocatedEntry,
    pub(super) owner: Option<Scaled>,
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Repairs a mistake, so that the filter answers "absent" to the claim's query right
    /// afterwards.
    ///
    /// The query must not be a member, and `listing` must contain *all* members in
    /// [`claim.suspects()`](Claim::suspects). If a code is full, other repairs of the block are
    /// forgotten, and [counted](super::Details::forgotten). Repairing a mistake again is not an
    /// error.
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
        let mistake = self.coding.digits.scale(claim.query);
        if entries.iter().any(|owned| owned.owner == Some(mistake)) {
            return Err(AdaptError::IsMember);
        }
        let ghosts: Vec<LocatedEntry> =
            entries.iter().filter(|owned| owned.owner.is_none()).map(|owned| owned.entry).collect();
        if !ghosts.is_empty() && !drops_ghosts {
            return Err(AdaptError::Unlisted { members: ghosts.len() as u64 });
        }
        let home = self.home(mistake.quotient);
        let may_forget = !S::MEMBERS_TO_FORGET || claim.cells == self.cells_of_block(home);
        let repair = self.repair(&entries, mistake, may_forget).inspect_err(|error| {
            if S::MEMBERS_TO_FORGET && *error == AdaptError::Crowded {
                self.crowded.set(home.block(), true);
            }
        })?;
        let adaptation = Adaptation { lengthened: repair.repaired, ghosts: ghosts.len() as u64 };
        if adaptation == Adaptation::default() {
            return Ok(adaptation);
        }
        for &(position, value) in &repair.values {
            self.table.set_value(position, value);
        }
        // Start with the last ghost, so that the others don't move.
        for ghost in ghosts.iter().rev() {
            self.take(*ghost);
        }
        self.table.set_code(home, repair.code);
        self.tally.forgotten += repair.forgotten;
        self.tally.adaptations += u64::from(adaptation.lengthened > 0);
        if S::MEMBERS_TO_FORGET {
            self.crowded.set(home.block(), repair.forgotten > 0);
        }
        Ok(adaptation)
    }

    /// Returns the values and the code to write so that no entry covers the mistake and no ghost is
    /// left. If the code is full and `may_forget` is true, other repairs of the listed members are
    /// forgotten.
    fn repair(
        &self,
        entries: &[Owned],
        mistake: Scaled,
        may_forget: bool,
    ) -> Result<Repair, AdaptError> {
        let coding = &self.coding;
        let mut symbols = self.symbols(self.home(mistake.quotient));
        let behind = entries.last().map_or(0, |owned| owned.entry.ordinal + 1);
        symbols.resize(symbols.len().max(behind), 0);
        let mut repair = Repair::default();
        let is_at_fault = |entry: LocatedEntry| {
            entry.quotient == mistake.quotient && coding.covers(entry.spelt, mistake)
        };
        for &Owned { entry, owner } in entries {
            if let (true, Some(owner)) = (is_at_fault(entry), owner) {
                let level = S::repaired(coding, S::level(entry.spelt.symbol), owner, mistake);
                let spelt = S::spell(coding, owner, level.ok_or(AdaptError::Inseparable)?);
                symbols[entry.ordinal] = spelt.symbol;
                repair.values.push((entry.position, spelt.value));
                repair.repaired += 1;
            }
        }
        // The ordinals of `entries` are consecutive.
        let first = entries.first().map_or(0, |owned| owned.entry.ordinal);
        let entry_of = |ordinal: usize| ordinal.checked_sub(first).and_then(|at| entries.get(at));
        // Whether an entry can be reset to level 0 without bringing back the mistake.
        let may_be = |ordinal: usize| {
            may_forget
                && match entry_of(ordinal) {
                    Some(&Owned { entry, owner: Some(owner) }) => {
                        let back = S::spell(coding, owner, 0);
                        !is_at_fault(entry)
                            && (entry.quotient != mistake.quotient || !coding.covers(back, mistake))
                    }
                    Some(Owned { owner: None, .. }) => false,
                    None => !S::MEMBERS_TO_FORGET,
                }
        };
        loop {
            let is_left = |&(ordinal, _): &(usize, &Symbol)| {
                entry_of(ordinal).is_none_or(|owned| owned.owner.is_some())
            };
            let left = symbols.iter().enumerate().filter(is_left).map(|(_, &symbol)| symbol);
            if let Some(code) = self.encode(&left.collect::<Vec<Symbol>>()) {
                return Ok(Repair { code, ..repair });
            }
            let turn = self.tally.forgotten + repair.forgotten;
            let ordinal = forget::<S>(&mut symbols, turn, may_be).ok_or(AdaptError::Crowded)?;
            repair.forgotten += 1;
            if let Some(&Owned { entry, owner: Some(owner) }) = entry_of(ordinal) {
                repair.values.push((entry.position, S::spell(coding, owner, 0).value));
            }
        }
    }

    /// Returns all entries with a claim's quotients, and the member that each belongs to.
    pub(super) fn owned(&self, claim: &Claim, members: &[Member]) -> Result<Vec<Owned>, Mismatch> {
        let digits = self.coding.digits;
        let quotient = digits.scale(claim.query).quotient;
        let block = self.home(quotient).block() as u64;
        claim.check(self.versions.at(block), Cells::one(quotient, digits.slots), members)?;
        let quotients = claim.cells.first..=claim.cells.last;
        let members = merged(members.to_vec());
        let listed = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.count));
        let entries = self.entries(quotients);
        if listed > entries.len() as u64 {
            return Err(Mismatch::Surplus { members: listed - entries.len() as u64 });
        }
        let scaled: Vec<Scaled> = members.iter().map(|member| digits.scale(member.hash)).collect();
        let copies: Vec<usize> = members.iter().map(|member| member.count as usize).collect();
        // Identical entries are matched as one kind.
        let kind = |&at: &usize| {
            let LocatedEntry { quotient, spelt, .. } = entries[at];
            (quotient, spelt.value, spelt.symbol)
        };
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(kind);
        let kinds: Vec<&[usize]> = order.chunk_by(|one, other| kind(one) == kind(other)).collect();
        let covers = |member: usize, of_kind: usize| {
            let (member, entry): (Scaled, LocatedEntry) =
                (scaled[member], entries[kinds[of_kind][0]]);
            entry.quotient == member.quotient && self.coding.covers(entry.spelt, member)
        };
        let sizes: Vec<usize> = kinds.iter().map(|kind| kind.len()).collect();
        let mut owned: Vec<Owned> =
            entries.iter().map(|&entry| Owned { entry, owner: None }).collect();
        let mut found = 0;
        for (kind, shares) in kinds.iter().zip(matched(&copies, &sizes, covers)) {
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
}

/// The changes that a repair writes.
#[derive(Default)]
struct Repair {
    /// Pairs of a position and the value to write there.
    values: Vec<(u64, u64)>,
    code: u128,
    repaired: usize,
    forgotten: u64,
}
