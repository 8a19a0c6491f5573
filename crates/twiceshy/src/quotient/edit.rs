//! Edits a minirun: reads its entries, changes them, and writes them back.

use super::entry::Entry;
use super::grow::MOST_SLOTS;
use super::{QuotientFilter, Shared};
use crate::bits::machine::{AnyShape, dispatched};
use crate::claim::{Cells, Mismatch};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{TableFull, rewrite};
use crate::{Claim, Hash, Member};
use core::ops::Range;

/// The reason why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused<E = Uncountable> {
    /// There is no room, but a larger filter may have room.
    Full,
    /// There is a different reason, so a larger filter would not help.
    Other(E),
}

/// The fingerprint, or the filter, would have more members than can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uncountable;

impl<E> From<TableFull> for Refused<E> {
    fn from(TableFull: TableFull) -> Self {
        Refused::Full
    }
}

impl Shared {
    /// Iterates over the entries with the quotient and remainder of `scaled`.
    pub(super) fn entries_near(&self, scaled: Scaled) -> impl Iterator<Item = Entry> {
        self.entries(scaled.quotient, minirun(self, scaled))
    }
}

impl QuotientFilter {
    /// Calls `edit` with the entries that have the quotient and remainder of `scaled`. Then writes
    /// the edited entries back, unless `edit` fails. Doesn't update the number of members.
    pub(super) fn edit<T, E>(
        &mut self,
        scaled: Scaled,
        edit: impl FnOnce(&mut Vec<Entry>) -> Result<T, E>,
    ) -> Result<T, Refused<E>> {
        let shared = &mut self.shared;
        let range = minirun(shared, scaled);
        let mut entries: Vec<Entry> = shared.entries(scaled.quotient, range.clone()).collect();
        let extra = range.end - range.start - entries.len() as u64;
        let before = tombstones(&entries);
        let done = edit(&mut entries).map_err(Refused::Other)?;
        let spelling = shared.spelling();
        let slots: Vec<_> = entries.iter().flat_map(|&entry| spelling.slots(entry)).collect();
        let table = &mut shared.table.editor(&mut self.usage);
        rewrite(table, scaled.quotient, range, &slots)?;
        self.tally.extra_slots =
            self.tally.extra_slots - extra + (slots.len() - entries.len()) as u64;
        self.tally.tombstones = self.tally.tombstones - before + tombstones(&entries);
        Ok(done)
    }

    /// Edits the entries near a hash, like [`edit`](Self::edit), and updates the number of members.
    /// If there is no room and the filter grows automatically, it grows. If `edit` or the growth
    /// fails, the filter is unchanged.
    pub(super) fn change<T, E>(
        &mut self,
        hash: Hash,
        full: impl FnOnce(f64) -> E,
        edit: impl Fn(Digits, &mut Vec<Entry>) -> Result<T, E>,
    ) -> Result<T, E> {
        let changed = self.with_room(MOST_SLOTS, |filter| {
            let digits = filter.shared.digits;
            let scaled = digits.scale(hash);
            let (mut before, mut after) = (0, 0);
            let done = filter.edit(scaled, |entries| {
                before = entries.iter().map(|entry| entry.count).sum();
                let done = edit(digits, entries)?;
                after = entries.iter().map(|entry| entry.count).sum();
                Ok(done)
            })?;
            if after != before {
                filter.tally.len = filter.tally.len - before + after;
                filter.versions.bump(scaled.quotient);
            }
            Ok(done)
        });
        changed.map_err(|refused| match refused {
            Refused::Full => full(self.load()),
            Refused::Other(error) => error,
        })
    }

    /// Checks the claim and the listed members. Then edits the entries near the claim's query, like
    /// [`change`](Self::change).
    pub(super) fn change_listed<T, E: From<Mismatch>>(
        &mut self,
        claim: &Claim,
        members: &[Member],
        full: impl FnOnce(f64) -> E,
        edit: impl Fn(Listed, &mut Vec<Entry>) -> Result<T, E>,
    ) -> Result<T, E> {
        let quotient = self.shared.digits.scale(claim.query).quotient;
        let needed = Cells::one(quotient, self.shared.digits.slots);
        claim.check(self.versions.at(quotient), needed, members)?;
        self.change(claim.query, full, |digits, entries| {
            edit(Listed::new(digits, claim.query, members), entries)
        })
    }
}

/// A member that the caller has listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) scaled: Scaled,
    pub(super) count: u64,
}

/// The listed members that share a query's quotient and remainder, in order.
///
/// No fingerprint is a prefix of another one, so a member can only belong to the fingerprint that
/// covers it.
pub(super) struct Listed {
    pub(super) digits: Digits,
    pub(super) query: Scaled,
    pub(super) owners: Vec<Owner>,
}

impl Listed {
    fn new(digits: Digits, query: Hash, members: &[Member]) -> Self {
        let query = digits.scale(query);
        let minirun = digits.fingerprint(query, 1);
        let mut owners: Vec<Owner> = members
            .iter()
            .filter(|member| member.count > 0)
            .map(|&Member { hash, count }| Owner { scaled: digits.scale(hash), count })
            .filter(|owner| minirun.covers_scaled(owner.scaled))
            .collect();
        owners.sort_unstable();
        Self { digits, query, owners }
    }

    /// Returns the members that an entry covers.
    fn of(&self, entry: &Entry) -> &[Owner] {
        let Entry { fingerprint, .. } = entry;
        let before = |owner: &Owner| owner.scaled.fraction < fingerprint.prefix();
        let owners = &self.owners[self.owners.partition_point(before)..];
        let covered = owners.partition_point(|owner| fingerprint.covers_scaled(owner.scaled));
        &owners[..covered]
    }

    /// Returns the number of unlisted members in the entries.
    ///
    /// # Errors
    /// If listed members are missing from the entries.
    pub(super) fn count_unlisted(&self, entries: &[Entry]) -> Result<u64, Mismatch> {
        let stored: u64 = entries.iter().map(|entry| entry.count).sum();
        let matched: u64 = entries.iter().map(|entry| entry.count.min(count(self.of(entry)))).sum();
        match count(&self.owners) - matched {
            0 => Ok(stored - matched),
            members => Err(Mismatch::Surplus { members }),
        }
    }

    /// Replaces each entry by new entries for the listed members that it covers. `digits` returns
    /// the number of digits of a member's fingerprint. An entry without listed members becomes a
    /// tombstone if `stays` returns `true`, and is dropped otherwise.
    pub(super) fn respell<E>(
        &self,
        entries: &mut Vec<Entry>,
        stays: impl Fn(&Entry) -> bool,
        digits: impl Fn(&Entry, Scaled) -> Result<u32, E>,
    ) -> Result<(), E> {
        let mut respelt = Vec::with_capacity(entries.len());
        for entry in &*entries {
            let owners = self.of(entry);
            if count(owners) == 0 && stays(entry) {
                respelt.push(entry.of(0));
            }
            for &Owner { scaled, count } in owners.iter().filter(|owner| owner.count > 0) {
                let fingerprint = self.digits.fingerprint(scaled, digits(entry, scaled)?);
                append(&mut respelt, Entry { fingerprint, count, ..*entry });
            }
        }
        *entries = respelt;
        Ok(())
    }
}

/// Returns the number of members, each counted as often as it is listed.
fn count(owners: &[Owner]) -> u64 {
    owners.iter().fold(0, |sum, owner| sum.saturating_add(owner.count))
}

fn tombstones(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| entry.count == 0).count() as u64
}

/// Appends an entry. If the last entry has the same fingerprint, adds the new one to it instead.
/// The larger of the two values stays. A count that overflows saturates, and is then too large to
/// be written.
pub(super) fn append(entries: &mut Vec<Entry>, entry: Entry) {
    match entries.last_mut() {
        Some(last) if last.fingerprint == entry.fingerprint => {
            last.count = last.count.saturating_add(entry.count);
            last.value = last.value.max(entry.value);
        }
        _ => entries.push(entry),
    }
}

dispatched! {
    /// Returns the slots of the entries that have the quotient and remainder of `scaled`. If there
    /// are none, returns an empty range where they would be.
    fn minirun<'a>(shared: &'a Shared, scaled: Scaled) -> Range<u64>
    => shared.table.target(), AnyShape, |machine| {
        let remainder = scaled.leading(shared.digits.remainder);
        shared.table.minirun(machine, scaled.quotient, remainder, 0)
    }
}
