//! Rebuilding and validating the filter.
//!
//! As in the split layout, the two maps are written together, but if the engine's journal is damaged, one
//! map may have lost what the other has. So a filter that is built when the store is opened is not used
//! before its members are known to be the keys.

use super::key::Span;
use super::open::empty;
use super::{Current, Filter, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Batch, Keyspace, Unbounded};
use crate::census::Census;
use crate::error::{Result, StoreError};
use crate::layout;
use crate::stats::Count;
use crate::stripes::Locked;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{
    Hash,
    error::{AdaptError, InsertError},
    hash::KeyedHasher,
    range::{self, RangeKey},
};

/// The highest load of a filter. Beyond it, inserts are slow.
const FULL: f64 = 0.95;

/// All hashes.
const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

/// Whether there was room in the filter. If not, nothing was done.
pub(super) enum Room<T> {
    Enough(T),
    Needed(StoreError),
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Builds the filter from the backend.
    pub(super) fn recover(&self) -> Result<()> {
        let locked = self.stripes.lock([ALL]);
        let keys = self.count_keys()?;
        // Leave room for some more, so that the filter needn't grow at once.
        let needed = keys.members as usize + self.mistakes.load(Ordering::Relaxed);
        let capacity = self.sizing.capacity.max(needed + needed / 4);
        if self.replace(&locked, capacity)? != keys {
            self.reconcile()?;
            self.replace(&locked, capacity)?;
        }
        Ok(())
    }

    /// Rebuilds the filter from the data in the backend, which clears ghosts. First it makes the two maps
    /// equal if they differ. Writes wait in the meantime; lookups don't.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn rebuild(&self) -> Result<()> {
        // Otherwise the old filter would be loaded after closing.
        self.storage.invalidate_saved()?;
        let locked = self.stripes.lock([ALL]);
        self.reconcile()?;
        let capacity = self.filter().capacity;
        self.replace(&locked, capacity)?;
        Ok(())
    }

    /// Checks every invariant of the filter, that the filter holds every key in the backend, and that
    /// the two maps are equal. Writes wait in the meantime; lookups don't. For tests, and for diagnosing
    /// suspected damage.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] says what is wrong. If the backend fails, its error.
    pub fn validate(&self) -> Result<()> {
        let invalid = |what: String| Err(StoreError::Invalid(what));
        let _locked = self.stripes.lock([ALL]);
        if let Err(broken) = self.filter().filter.validate() {
            return invalid(broken.to_string());
        }
        for pair in self.storage.backend.range(Keyspace::Keys, (Unbounded, Unbounded)) {
            let (key, _) = pair?;
            let Some(number) = Number::<K>::from_bytes(&key) else { continue };
            if !self.filter().filter.contains(number) {
                return invalid(format!("the filter lacks key {}", number.number()));
            }
            if !self.is_listed(number)? {
                return invalid(format!("the reverse map lacks key {}", number.number()));
            }
        }
        for member in self.listed(&ALL) {
            let (_, number) = member?;
            if self.look_up(number.number())?.is_none() {
                return invalid(format!("the reverse map lists absent key {}", number.number()));
            }
        }
        Ok(())
    }

    /// Returns whether a key is in the reverse map.
    fn is_listed(&self, number: Number<K>) -> Result<bool> {
        let member = layout::member_key(self.partitions.hash_of(number), &number.to_bytes());
        Ok(self.storage.backend.get(Keyspace::Members, &member)?.is_some())
    }

    /// Calls `work`. If there is no room in the filter, builds a larger one, and calls `work` again.
    pub(super) fn making_room<T>(&self, work: impl Fn() -> Result<Room<T>>) -> Result<T> {
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            let generation = self.filter().generation;
            let error = match work()? {
                Room::Enough(done) => return Ok(done),
                Room::Needed(error) => error,
            };
            // A full filter is larger the next time, until there is no memory for it.
            tries += u32::from(!is_full(&error));
            if tries > TRIES {
                return Err(error);
            }
            self.grow(generation, &error)?;
        }
    }

    /// Replaces the filter by one that is twice as large, or of the same size if it isn't full, unless
    /// another thread has done so.
    fn grow(&self, generation: u64, error: &StoreError) -> Result<()> {
        let locked = self.stripes.lock([ALL]);
        let current = self.filter();
        let (capacity, is_current) = (current.capacity, current.generation == generation);
        drop(current);
        if !is_current {
            return Ok(());
        }
        self.replace(&locked, if is_full(error) { doubled(capacity) } else { capacity })?;
        Ok(())
    }

    /// Builds a filter for at least `capacity` members, and replaces the current one, which answers in the
    /// meantime. Returns the census of the members.
    fn replace(&self, locked: &Locked<'_, Mistakes>, mut capacity: usize) -> Result<Census> {
        loop {
            let mut filter = self.empty(capacity)?;
            match self.fill(&mut filter, locked)? {
                Room::Enough(census) => {
                    let mut current = self.filter_mut();
                    let generation = current.generation + 1;
                    *current = Current { filter, capacity, generation };
                    return Ok(census);
                }
                Room::Needed(error) if is_full(&error) => capacity = doubled(capacity),
                Room::Needed(error) => return Err(error),
            }
        }
    }

    /// Inserts all members into an empty filter, and repairs all mistakes in it, in one pass over both.
    fn fill(&self, filter: &mut Filter<K>, locked: &Locked<'_, Mistakes>) -> Result<Room<Census>> {
        let hasher = KeyedHasher::new(&self.secret);
        let mut census = Census::default();
        let mut insert = |filter: &mut Filter<K>, member: Number<K>| {
            census = census + hasher.hash_bytes(&member.to_bytes()).into();
            insert(filter, member)
        };
        self.counters.add(Count::BackendScans, 1);
        let mut members = self.listed(&ALL).peekable();
        // Inserted members that the filter may confuse with the next mistake.
        let mut near: VecDeque<(Hash, Number<K>)> = VecDeque::new();
        for mistake in locked.stripes(&ALL).flat_map(|mistakes| mistakes.within(&ALL)) {
            let suspects = filter.suspects(Number::new(mistake.first));
            let [first, last] =
                [suspects.start(), suspects.end()].map(|&hash| layout::prefix(hash));
            while near.pop_front_if(|(hash, _)| layout::prefix(*hash) < first).is_some() {}
            let is_next = |member: &Result<(Hash, Number<K>)>| {
                member.as_ref().map_or(true, |&(hash, _)| layout::prefix(hash) <= last)
            };
            while let Some(member) = members.next_if(is_next) {
                let (hash, member) = member?;
                if let Err(error) = insert(filter, member) {
                    return Ok(Room::Needed(error.into()));
                }
                if layout::prefix(hash) >= first {
                    near.push_back((hash, member));
                }
            }
            let listed = near.iter().filter(|(hash, _)| suspects.contains(hash));
            let listed: Vec<Number<K>> = listed.map(|&(_, member)| member).collect();
            if let Err(error) = adapt(filter, mistake, &listed) {
                return Ok(Room::Needed(error.into()));
            }
        }
        for member in members {
            if let Err(error) = insert(filter, member?.1) {
                return Ok(Room::Needed(error.into()));
            }
        }
        Ok(Room::Enough(census))
    }

    /// Builds an empty filter.
    fn empty(&self, capacity: usize) -> Result<Filter<K>> {
        Ok(empty(&self.sizing, capacity, self.partitions.longest_range(), &self.secret)?)
    }

    /// Returns the census of the keys.
    fn count_keys(&self) -> Result<Census> {
        let hasher = KeyedHasher::new(&self.secret);
        let keys = self.storage.backend.range(Keyspace::Keys, (Unbounded, Unbounded));
        let mut census = Census::default();
        for pair in keys {
            census = census + hasher.hash_bytes(&pair?.0).into();
        }
        Ok(census)
    }

    /// Makes the two maps equal. The caller holds all stripes.
    fn reconcile(&self) -> Result<()> {
        for pair in self.storage.backend.range(Keyspace::Keys, (Unbounded, Unbounded)) {
            let (key, _) = pair?;
            let Some(number) = Number::<K>::from_bytes(&key) else { continue };
            if !self.is_listed(number)? {
                let member = layout::member_key(self.partitions.hash_of(number), &key);
                let mut batch = Batch::new();
                batch.insert(Keyspace::Members, member, b"");
                self.storage.write(&batch)?;
            }
        }
        for pair in self.storage.backend.range(Keyspace::Members, (Unbounded, Unbounded)) {
            let (member, _) = pair?;
            let Some(key) = layout::user_key(&member) else { continue };
            if self.storage.backend.get(Keyspace::Keys, key)?.is_none() {
                let mut batch = Batch::new();
                batch.remove(Keyspace::Members, &member);
                self.storage.write(&batch)?;
            }
        }
        Ok(())
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Filter(InsertError::Full { .. }) | StoreError::Repair(AdaptError::Full { .. })
    )
}

fn doubled(capacity: usize) -> usize {
    capacity.max(1).saturating_mul(2)
}

/// Inserts a member if there is room.
pub(super) fn insert<K: StoredKey>(
    filter: &mut Filter<K>,
    member: Number<K>,
) -> Result<(), InsertError> {
    let load = filter.load();
    if load > FULL { Err(InsertError::Full { load }) } else { filter.insert(member) }
}

/// Repairs the filter's answer to a span, unless a member is in it. `members` are all members that the
/// filter could confuse with the span. Returns the number of ghosts that were cleared.
pub(super) fn adapt<K: StoredKey>(
    filter: &mut Filter<K>,
    span: Span,
    members: &[Number<K>],
) -> Result<u64, AdaptError> {
    // A failed write may have left a member among the mistakes.
    if members.iter().any(|member| span.contains(member.number())) {
        return Ok(0);
    }
    match filter.check_range(span.numbers()) {
        range::Answer::Empty => Ok(0),
        range::Answer::Maybe(claim) => {
            let listing = range::Listing::new(members).dropping_ghosts();
            Ok(filter.adapt(&claim, listing)?.ghosts)
        }
    }
}
