//! Notes about the writes to a shard while it is rebuilt.
//!
//! A rebuild lists the members of a shard without stopping the writers. To make sure that it misses none of
//! their writes, every write *notes* whether its key is present or absent, in the same step in which it changes
//! the old filter. The rebuild begins with a note for each write that is under way. It amends its list
//! with the notes, in rounds, and applies the rest of them in the step that swaps the new filter in.
//! If writers are so fast that there would be too many notes, the rebuild is abandoned, and begins again.
//!
//! # Invariants
//! - A write is *in flight* from before its first change, of the filter or of the database, until after
//!   the last one. Writers of one key exclude each other.
//! - The latest note of a key is true from the moment when the key's write has ended: "present" unless the
//!   database certainly lacks the key. While a write is in flight or in doubt, its note is "present".
//! - For a key without a note, the listing is right: no write of the key began, or was under way,
//!   since the listing began.

use crate::census::Census;
use crate::sizing::NOTE_BYTES;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::ops::RangeInclusive;
use twiceshy::Hash;

/// The writes of a shard: those in flight, and the notes for a rebuild.
#[derive(Default)]
pub(super) struct Writes {
    in_flight: InFlight,
    /// The notes for a rebuild. They are in a box, because most shards aren't being rebuilt.
    notes: Option<Box<Notes>>,
    /// The number of filters that rebuilds have swapped in. A filter that was swapped in holds each
    /// key that was in flight at that moment, once.
    pub(super) epoch: u64,
    /// Whether the filter may hold a hash that the database lacks.
    pub(super) has_ghosts: bool,
    /// The maximum number of notes.
    most_notes: usize,
}

/// The changes to a shard since the rebuild last took notes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// For each key that was written, whether it is present.
    pub(super) keys: BTreeMap<Hash, bool>,
    /// Mistakes that were repaired in the old filter.
    pub(super) mistakes: BTreeSet<Hash>,
    /// Whether the database may lack a key that is noted as present.
    pub(super) may_have_ghosts: bool,
    /// Whether notes are missing, because there were too many. Then the rebuild must be abandoned.
    pub(super) is_incomplete: bool,
}

impl Notes {
    /// Returns the approximate bytes of memory that the notes take.
    pub(super) fn bytes(&self) -> u64 {
        self.len() as u64 * NOTE_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.mistakes.len()
    }
}

/// A set of hashes. Most of the time there is at most one, which takes no memory on the heap.
#[derive(Default)]
struct InFlight {
    first: Option<Hash>,
    others: HashSet<Hash, BuildHasherDefault<LastBits>>,
}

impl InFlight {
    fn insert(&mut self, hash: Hash) {
        if self.first.is_none() {
            self.first = Some(hash);
        } else if self.first != Some(hash) {
            self.others.insert(hash);
        }
    }

    fn remove(&mut self, hash: Hash) {
        if self.first == Some(hash) {
            self.first = None;
        } else if self.others.remove(&hash) && self.others.is_empty() {
            self.others.shrink_to_fit();
        }
    }

    fn iter(&self) -> impl Iterator<Item = Hash> {
        self.first.iter().chain(&self.others).copied()
    }
}

/// A hasher for keyed hashes, which are random already. It returns their last bits.
#[derive(Default)]
struct LastBits(u64);

impl Hasher for LastBits {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = number as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Bytes of memory that a few writes in flight take.
pub(super) const FEW_BYTES: u64 = 96;

impl Writes {
    /// Begins a write. The key counts as present until the write ends.
    pub(super) fn begin(&mut self, hash: Hash) {
        self.in_flight.insert(hash);
        self.note(hash, true);
    }

    /// Ends a write that certainly left the key present, or absent.
    pub(super) fn end(&mut self, hash: Hash, is_present: bool) {
        self.note(hash, is_present);
        self.take_off(hash);
    }

    /// Ends a write whose outcome is unknown. The filter keeps the key.
    pub(super) fn end_unknown(&mut self, hash: Hash) {
        self.has_ghosts = true;
        if let Some(notes) = &mut self.notes {
            notes.may_have_ghosts = true;
        }
        self.take_off(hash);
    }

    fn take_off(&mut self, hash: Hash) {
        self.in_flight.remove(hash);
    }

    fn note(&mut self, hash: Hash, is_present: bool) {
        if let Some(notes) = self.notes_with_room() {
            notes.keys.insert(hash, is_present);
        }
    }

    /// Returns the notes, if a rebuild is under way and can still use them. If there are too many, drops
    /// all of them.
    ///
    /// The rebuild can't take notes before it has listed the members, because the list is what they amend.
    /// So it can't keep them few by itself.
    fn notes_with_room(&mut self) -> Option<&mut Notes> {
        let notes = self.notes.as_deref_mut()?;
        if notes.len() >= self.most_notes {
            *notes = Notes { is_incomplete: true, ..Notes::default() };
        }
        (!notes.is_incomplete).then_some(notes)
    }

    /// Returns the approximate bytes of memory that the notes take.
    pub(super) fn notes_bytes(&self) -> u64 {
        self.notes.as_deref().map_or(0, Notes::bytes)
    }

    /// Notes that a mistake was repaired, and that it is certainly not a member. A write that failed may
    /// have noted it as present.
    pub(super) fn note_repair(&mut self, mistake: Hash) {
        self.note(mistake, false);
        self.note_mistake(mistake);
    }

    /// Notes a mistake that must stay repaired.
    pub(super) fn note_mistake(&mut self, mistake: Hash) {
        if let Some(notes) = self.notes_with_room() {
            notes.mistakes.insert(mistake);
        }
    }

    /// Starts to take up to `most` notes at a time for a rebuild, unless another rebuild is under way. Returns
    /// whether it started. `in_doubt` returns the keys whose earlier writes may still take effect. It is
    /// called after the keys in flight were noted, because a write that ends in doubt records the
    /// doubt first.
    #[must_use]
    pub(super) fn start_notes(
        &mut self,
        most: usize,
        in_doubt: impl FnOnce() -> Vec<Hash>,
    ) -> bool {
        if self.notes.is_some() {
            return false;
        }
        let mut keys: BTreeMap<Hash, bool> =
            self.in_flight.iter().map(|hash| (hash, true)).collect();
        keys.extend(in_doubt().into_iter().map(|hash| (hash, true)));
        self.most_notes = keys.len() + most;
        self.notes = Some(Box::new(Notes { keys, ..Notes::default() }));
        true
    }

    /// Returns whether a rebuild of the shard is under way.
    pub(super) fn has_notes(&self) -> bool {
        self.notes.is_some()
    }

    /// Takes the notes since the last call. The rebuild goes on.
    pub(super) fn take_notes(&mut self) -> Notes {
        self.notes.as_deref_mut().map(mem::take).unwrap_or_default()
    }

    /// Stops taking notes, because the rebuild has failed.
    pub(super) fn stop_notes(&mut self) {
        self.notes = None;
    }

    /// Stops taking notes, because the rebuild swaps its filter in now.
    pub(super) fn swapped(&mut self, has_ghosts: bool) {
        self.notes = None;
        self.epoch += 1;
        self.has_ghosts = has_ghosts;
    }
}

/// The members of a shard as a rebuild knows them: a sorted listing, and amendments to it.
#[derive(Default)]
pub(super) struct Roll {
    listed: Vec<Hash>,
    /// Hashes whose presence differs from the listing.
    amended: BTreeMap<Hash, bool>,
}

impl Roll {
    /// Takes a listing in any order. A hash that is listed twice counts once.
    pub(super) fn new(mut listed: Vec<Hash>) -> Self {
        listed.sort_unstable();
        listed.dedup();
        // A little room may stay unused, because giving it back may copy the list.
        if listed.capacity() > listed.len() + listed.len() / 16 {
            listed.shrink_to_fit();
        }
        Self { listed, amended: BTreeMap::new() }
    }

    /// Returns the census of the listing.
    pub(super) fn census(&self) -> Census {
        self.listed.iter().copied().sum()
    }

    /// Returns the approximate bytes of memory that the listing and its amendments take.
    pub(super) fn bytes(&self) -> u64 {
        let amended = self.amended.len() as u64 * NOTE_BYTES;
        (self.listed.capacity() * size_of::<Hash>()) as u64 + amended
    }

    fn is_listed(&self, hash: Hash) -> bool {
        self.listed.binary_search(&hash).is_ok()
    }

    /// Returns the number of listed members, which is about the number of members.
    pub(super) fn len(&self) -> usize {
        self.listed.len()
    }

    pub(super) fn contains(&self, hash: Hash) -> bool {
        self.amended.get(&hash).copied().unwrap_or_else(|| self.is_listed(hash))
    }

    /// Sets whether a hash is a member. Returns whether this changed.
    pub(super) fn set(&mut self, hash: Hash, is_present: bool) -> bool {
        if self.contains(hash) == is_present {
            return false;
        }
        if self.is_listed(hash) == is_present {
            self.amended.remove(&hash);
        } else {
            self.amended.insert(hash, is_present);
        }
        true
    }

    /// Returns the members in an interval, in order.
    pub(super) fn within(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        let from = self.listed.partition_point(|hash| hash < hashes.start());
        let listed = self.listed[from..].iter().take_while(|hash| *hash <= hashes.end());
        let mut members: Vec<Hash> =
            listed.copied().filter(|hash| self.amended.get(hash) != Some(&false)).collect();
        let added = self.amended.range(hashes.clone()).filter(|(_, is_present)| **is_present);
        let before = members.len();
        members.extend(added.map(|(&hash, _)| hash));
        if members.len() > before {
            members.sort_unstable();
        }
        members
    }

    /// Makes all amendments part of the listing, and returns it.
    pub(super) fn members(&mut self) -> &[Hash] {
        if !self.amended.is_empty() {
            let amended = mem::take(&mut self.amended);
            self.listed.retain(|hash| amended.get(hash) != Some(&false));
            // Otherwise the list would double.
            self.listed.reserve_exact(amended.values().filter(|&&is_present| is_present).count());
            self.listed.extend(amended.into_iter().filter_map(|(hash, is)| is.then_some(hash)));
            self.listed.sort_unstable();
        }
        &self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

    fn hash(number: u8) -> Hash {
        Hash::from_u128(number.into())
    }

    proptest! {
        #[test]
        fn roll_behaves_like_a_set(
            listed in prop::collection::vec(any::<u8>(), 0..40),
            changes in prop::collection::vec((any::<u8>(), any::<bool>(), any::<bool>()), 0..80),
            first: u8, last: u8,
        ) {
            let mut model: BTreeSet<Hash> = listed.iter().map(|&number| hash(number)).collect();
            let mut roll = Roll::new(listed.into_iter().map(hash).collect());
            for (number, is_present, folds) in changes {
                let changed = if is_present {
                    model.insert(hash(number))
                } else {
                    model.remove(&hash(number))
                };
                prop_assert_eq!(roll.set(hash(number), is_present), changed);
                prop_assert_eq!(roll.contains(hash(number)), is_present);
                if folds {
                    prop_assert!(roll.members().iter().eq(&model));
                }
            }
            let interval = hash(first.min(last))..=hash(first.max(last));
            prop_assert!(roll.within(&interval).iter().eq(model.range(interval)));
            prop_assert!(roll.within(&ALL).iter().eq(&model));
            prop_assert!(roll.members().iter().eq(&model));
        }
    }

    #[test]
    fn writes_in_flight_and_in_doubt_are_noted_when_a_rebuild_begins() {
        let mut writes = Writes::default();
        writes.begin(hash(1));
        writes.begin(hash(2));
        writes.end(hash(2), false);
        assert!(writes.start_notes(9, || vec![hash(3)]));
        assert!(!writes.start_notes(9, Vec::new), "one rebuild at a time");
        writes.begin(hash(4));
        writes.end(hash(4), false);
        writes.note_mistake(hash(5));
        let notes = writes.take_notes();
        let keys = BTreeMap::from([(hash(1), true), (hash(3), true), (hash(4), false)]);
        assert_eq!((notes.keys, notes.may_have_ghosts), (keys, false));
        assert_eq!(notes.mistakes, BTreeSet::from([hash(5)]));
        writes.end_unknown(hash(1));
        assert!(writes.take_notes().may_have_ghosts && writes.has_ghosts);
    }

    #[test]
    fn writes_are_noted_only_during_a_rebuild() {
        let mut writes = Writes::default();
        writes.begin(hash(1));
        writes.end(hash(1), true);
        writes.note_mistake(hash(2));
        assert_eq!(writes.take_notes(), Notes::default());
        assert!(writes.start_notes(9, Vec::new));
        writes.begin(hash(3));
        writes.stop_notes();
        writes.end(hash(3), true);
        assert!(writes.start_notes(9, Vec::new));
        assert_eq!(writes.take_notes(), Notes::default());
        writes.begin(hash(4));
        writes.swapped(false);
        assert_eq!((writes.epoch, writes.take_notes()), (1, Notes::default()));
    }

    #[test]
    fn notes_are_bounded_and_say_when_some_are_missing() {
        let mut writes = Writes::default();
        writes.begin(hash(1));
        assert!(writes.start_notes(3, || vec![hash(2)]), "these two notes don't count");
        (3..6).for_each(|number| writes.begin(hash(number)));
        assert_eq!(writes.notes_bytes(), 5 * NOTE_BYTES);
        assert!(!writes.take_notes().is_incomplete);
        (10..15).for_each(|number| writes.note_mistake(hash(number)));
        writes.note_mistake(hash(20));
        assert_eq!(writes.notes_bytes(), 0);
        writes.begin(hash(21));
        let notes = writes.take_notes();
        assert!(notes.is_incomplete && notes.len() == 0);
    }
}
