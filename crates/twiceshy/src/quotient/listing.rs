//! Matching of entries with the listed members that they stand for.

use super::QuotientFilter;
use super::entry::Entry;
use crate::bits::machine::{AnyShape, Machine, Operation};
use crate::claim::{Cells, Mismatch};
use crate::hash::Scaled;
use crate::table::TableFull;
use crate::{Claim, Hash, Member};
use core::ops::Range;

/// The entries of a minirun, and the slots that they are in.
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

/// The entries of a minirun, matched with a list of members.
pub(super) struct Matched {
    pub(super) entries: Vec<Owned>,
    /// Number of members that are stored but not listed.
    pub(super) unlisted: u64,
    /// Number of members that are listed but not stored.
    pub(super) surplus: u64,
}

impl Owned {
    /// Returns the number of listed members.
    pub(super) fn listed(&self) -> u64 {
        self.owners.iter().map(|owner| owner.count).sum()
    }
}

impl QuotientFilter {
    /// Returns the entries with the quotient and remainder of `scaled`.
    pub(super) fn minirun_of(&self, scaled: Scaled) -> Minirun {
        let quotient = scaled.quotient;
        let slots = self.find_minirun(scaled);
        let entries = self.entries(quotient, slots.clone()).collect();
        Minirun { quotient, slots, entries }
    }

    /// Finds the slots of a minirun, like [`minirun`](Self::minirun), on this machine.
    fn find_minirun(&self, scaled: Scaled) -> Range<u64> {
        self.table.target().run(FindMinirun { filter: self, scaled })
    }

    /// Replaces the entries of a minirun by others, in order. Doesn't update the number of members.
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

    /// Replaces the entries of a minirun by others. If there is no room and the filter grows
    /// automatically, it grows.
    pub(super) fn rewrite_growing(
        &mut self,
        minirun: &Minirun,
        entries: &[Entry],
    ) -> Result<(), NoRoom> {
        if self.rewrite(minirun, entries).is_ok() {
            return Ok(());
        }
        let slots = self.table.slots();
        if !self.grow() {
            return Err(NoRoom::Full { load: self.load() });
        }
        if self.table.slots() != slots {
            return Err(NoRoom::Doubled);
        }
        self.rewrite(minirun, entries).map_err(|TableFull| NoRoom::Full { load: self.load() })
    }

    /// Matches the minirun of a claim's query with the listed members that share its remainder.
    ///
    /// No fingerprint is a prefix of another one, so a member can only belong to the fingerprint
    /// that covers it. One walk over both sorted lists finds the members of each entry.
    pub(super) fn match_members(
        &self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<(Minirun, Matched), Mismatch> {
        let query = self.digits.scale(claim.query);
        let needed = Cells::one(query.quotient, self.digits.slots);
        claim.check(self.versions.at(query.quotient), needed, members)?;
        let minirun = self.digits.fingerprint(query, 1);
        let mut owners: Vec<Owner> = members
            .iter()
            .filter(|member| member.count > 0)
            .map(|&Member { hash, count }| Owner { scaled: self.digits.scale(hash), hash, count })
            .filter(|owner| minirun.covers_scaled(owner.scaled))
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

/// Reason why entries were not written.
pub(super) enum NoRoom {
    Full {
        load: f64,
    },
    /// The filter has doubled, so claims are stale.
    Doubled,
}

/// Returns the number of tombstones among `entries`.
fn tombstones(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| entry.count == 0).count() as u64
}

/// Appends an entry, or adds it to the last one if that has the same fingerprint. The larger of the
/// two values stays. A count that overflows saturates, and is then too large to be written.
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
    filter: &'a QuotientFilter,
    scaled: Scaled,
}

impl Operation for FindMinirun<'_> {
    type Argument = ();
    type Output = Range<u64>;
    type Shapes = AnyShape;
    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) -> Range<u64> {
        self.filter.minirun(machine, self.scaled)
    }
}
