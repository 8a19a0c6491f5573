//! Whose an entry is: a minirun beside the list of its members.

use super::AdaptiveQuotientFilter;
use super::entry::Entry;
use crate::bits::machine::{Machine, Operation};
use crate::claim::Mismatch;
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::{Claim, Hash, Member};
use core::ops::Range;

/// The entries of a minirun, and where they are.
pub(super) struct Minirun {
    pub(super) quotient: u64,
    pub(super) slots: Range<u64>,
    pub(super) entries: Vec<Entry>,
}

/// An entry, and the listed members that it stands for.
pub(super) struct Owned {
    pub(super) entry: Entry,
    pub(super) owners: Vec<Owner>,
}

/// A listed member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) scaled: Scaled,
    pub(super) hash: Hash,
    pub(super) count: u64,
}

/// A list of members, beside what is stored.
pub(super) struct Matched {
    pub(super) entries: Vec<Owned>,
    /// How many members are stored and not listed.
    pub(super) unlisted: u64,
    /// How many are listed and not stored.
    pub(super) surplus: u64,
}

impl Owned {
    /// How many members are listed.
    pub(super) fn listed(&self) -> u64 {
        self.owners.iter().map(|owner| owner.count).sum()
    }
}

impl AdaptiveQuotientFilter {
    /// The entries that have `scaled`'s quotient and remainder.
    pub(super) fn minirun_of(&self, scaled: Scaled) -> Minirun {
        let quotient = scaled.quotient;
        let slots = self.find_minirun(scaled);
        let entries = self.entries(quotient, slots.clone()).collect();
        Minirun { quotient, slots, entries }
    }

    /// As [`minirun`](Self::minirun), on this machine.
    fn find_minirun(&self, scaled: Scaled) -> Range<u64> {
        self.table.level().run(FindMinirun { filter: self, scaled })
    }

    /// Puts other entries, in order, in place of a minirun's. Members are not counted.
    pub(super) fn rewrite(
        &mut self,
        minirun: &Minirun,
        entries: &[Entry],
    ) -> Result<(), TableFull> {
        let slots = self.slots_of(entries.iter().copied());
        let range = minirun.slots.clone();
        let (old, new) = (range.end - range.start, slots.len() as u64);
        self.table.rewrite(minirun.quotient, range, &slots)?;
        self.extra_slots -= old - minirun.entries.len() as u64;
        self.extra_slots += new - entries.len() as u64;
        self.tombstones -= tombstones(&minirun.entries);
        self.tombstones += tombstones(entries);
        Ok(())
    }

    /// Matches the minirun of a claim with the list of its members.
    ///
    /// No fingerprint is a prefix of another, so their intervals are disjoint, and a
    /// member can only be behind the one that covers it: walking both lists side by side
    /// finds who is whose.
    pub(super) fn match_members(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<(Minirun, Matched), Mismatch> {
        let query = self.digits.scale(claim.query);
        claim.check(self.versions.at(query.quotient), members)?;
        let mut owners: Vec<Owner> = members
            .iter()
            .filter(|member| member.count > 0)
            .map(|&Member { hash, count }| Owner { scaled: self.digits.scale(hash), hash, count })
            .collect();
        owners.sort_unstable();

        let minirun = self.minirun_of(query);
        let mut owners = owners.into_iter().peekable();
        let (mut unlisted, mut surplus) = (0, 0u64);
        let mut entries = Vec::with_capacity(minirun.entries.len());
        for &entry in &minirun.entries {
            let before = |owner: &Owner| owner.scaled.fraction < entry.fingerprint.prefix();
            while let Some(owner) = owners.next_if(before) {
                surplus = surplus.saturating_add(owner.count);
            }
            let covered = |owner: &Owner| entry.fingerprint.covers_scaled(owner.scaled);
            let owners: Vec<Owner> = core::iter::from_fn(|| owners.next_if(covered)).collect();
            let listed = owners.iter().fold(0u64, |sum, owner| sum.saturating_add(owner.count));
            unlisted += entry.count.saturating_sub(listed);
            surplus = surplus.saturating_add(listed.saturating_sub(entry.count));
            entries.push(Owned { entry, owners });
        }
        surplus = owners.fold(surplus, |sum, owner| sum.saturating_add(owner.count));
        Ok((minirun, Matched { entries, unlisted, surplus }))
    }
}

/// How many of some entries are tombstones.
fn tombstones(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| entry.count == 0).count() as u64
}

/// Appends an entry, or adds it to the last one if that has the same fingerprint; of two
/// values, the larger one stays. A sum that can't be counted stays too large to be written.
pub(super) fn append(entries: &mut Vec<Entry>, entry: Entry) {
    match entries.last_mut() {
        Some(last) if last.fingerprint == entry.fingerprint => {
            last.count = last.count.saturating_add(entry.count);
            last.value = last.value.max(entry.value);
        }
        _ => entries.push(entry),
    }
}

struct FindMinirun<'a> {
    filter: &'a AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for FindMinirun<'_> {
    type Output = Range<u64>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Range<u64> {
        self.filter.minirun(machine, self.scaled)
    }
}
