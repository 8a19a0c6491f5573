//! Building the filter: when the store is opened, when it grows, when it is scrubbed.
//!
//! As in the split layout, the two maps are written together, but if somebody damages the engine's
//! journal, one of them may have lost what the other has. So a filter that is built when the store
//! is opened is not believed before its members are known to be the keys.

use super::key::Span;
use super::open::empty;
use super::{Current, Filter, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Batch, Keyspace, Unbounded};
use crate::census::Census;
use crate::counters::Count;
use crate::error::{Result, StoreError};
use crate::layout;
use crate::stripes::Locked;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptError, Hash, InsertError, KeyedHasher, RangeAnswer, RangeKey};

/// How full a filter may be: beyond that, inserts take long.
const FULL: f64 = 0.95;

/// All hashes.
const ALL: RangeInclusive<Hash> = Hash::MIN..=Hash::MAX;

/// Whether there was room for something in the filter; if not, it was not done.
pub(super) enum Room<T> {
    Enough(T),
    Needed(StoreError),
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Builds the filter from what is in the backend.
    pub(super) fn recover(&self) -> Result<()> {
        let locked = self.stripes.lock([ALL]);
        let keys = self.count_keys()?;
        // With room for some more, so that it needn't grow at once.
        let needed = keys.members as usize + self.mistakes.load(Ordering::Relaxed);
        let capacity = self.shape.capacity.max(needed + needed / 4);
        if self.rebuild(&locked, capacity)? != keys {
            self.reconcile()?;
            self.rebuild(&locked, capacity)?;
        }
        Ok(())
    }

    /// Looks for each key in the reverse map, and the other way round, and builds the filter again
    /// from what is in the backend: clears ghosts. Writes wait meanwhile.
    ///
    /// # Errors
    /// If the backend fails, or if there is no memory; nothing is lost then.
    pub fn scrub(&self) -> Result<()> {
        // Otherwise the filter that was saved would be back after closing.
        self.saved.dirty(&self.backend)?;
        let locked = self.stripes.lock([ALL]);
        self.reconcile()?;
        let capacity = self.filter().capacity;
        self.rebuild(&locked, capacity)?;
        Ok(())
    }

    /// Does something; if there is no room in the filter, builds a larger one, and tries again.
    pub(super) fn making_room<T>(&self, work: impl Fn() -> Result<Room<T>>) -> Result<T> {
        const TRIES: u32 = 4;
        let mut tries = 0;
        loop {
            let generation = self.filter().generation;
            let error = match work()? {
                Room::Enough(done) => return Ok(done),
                Room::Needed(error) => error,
            };
            // A filter that is full is larger the next time; until there is no memory for it.
            tries += u32::from(!is_full(&error));
            if tries > TRIES {
                return Err(error);
            }
            self.grow(generation, &error)?;
        }
    }

    /// Replaces the filter by one that is twice as large, or, if room isn't what it lacks, by one
    /// that has what it should have; unless another thread has done so.
    fn grow(&self, generation: u64, error: &StoreError) -> Result<()> {
        let locked = self.stripes.lock([ALL]);
        let current = self.filter();
        let (capacity, is_current) = (current.capacity, current.generation == generation);
        drop(current);
        if !is_current {
            return Ok(());
        }
        self.rebuild(&locked, if is_full(error) { doubled(capacity) } else { capacity })?;
        Ok(())
    }

    /// Builds the filter for so many members, or more, while the old one answers. Says which there
    /// are.
    fn rebuild(&self, locked: &Locked<'_, Mistakes>, mut capacity: usize) -> Result<Census> {
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

    /// Inserts all members into an empty filter, and repairs all mistakes in it, in one pass over
    /// both.
    fn fill(&self, filter: &mut Filter<K>, locked: &Locked<'_, Mistakes>) -> Result<Room<Census>> {
        let hasher = KeyedHasher::new(&self.secret);
        let mut census = Census::default();
        let mut insert = |filter: &mut Filter<K>, member: Number<K>| {
            census = census + hasher.hash_bytes(&member.to_bytes()).into();
            insert(filter, member)
        };
        self.counters.add(Count::BackendScans, 1);
        let mut members = self.listed(&ALL).peekable();
        // Those that are in, and may be suspects of the next mistake.
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

    /// A filter without members.
    fn empty(&self, capacity: usize) -> Result<Filter<K>> {
        Ok(empty(&self.shape, capacity, self.partitions.longest_range(), &self.secret)?)
    }

    /// The census of the keys.
    fn count_keys(&self) -> Result<Census> {
        let hasher = KeyedHasher::new(&self.secret);
        let keys = self.backend.range(Keyspace::Keys, (Unbounded, Unbounded));
        let mut census = Census::default();
        for pair in keys {
            census = census + hasher.hash_bytes(&pair?.0).into();
        }
        Ok(census)
    }

    /// Looks for each key in the reverse map, and the other way round; all stripes are held.
    fn reconcile(&self) -> Result<()> {
        for pair in self.backend.range(Keyspace::Keys, (Unbounded, Unbounded)) {
            let (key, _) = pair?;
            let Some(number) = Number::<K>::from_bytes(&key) else { continue };
            let member = layout::member_key(self.partitions.hash_of(number), &key);
            if self.backend.get(Keyspace::Members, &member)?.is_none() {
                let mut batch = Batch::new();
                batch.insert(Keyspace::Members, member, b"");
                self.write(&batch)?;
            }
        }
        for pair in self.backend.range(Keyspace::Members, (Unbounded, Unbounded)) {
            let (member, _) = pair?;
            let Some(key) = layout::user_key(&member) else { continue };
            if self.backend.get(Keyspace::Keys, key)?.is_none() {
                let mut batch = Batch::new();
                batch.remove(Keyspace::Members, &member);
                self.write(&batch)?;
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

/// Inserts a member, if there is room.
pub(super) fn insert<K: StoredKey>(
    filter: &mut Filter<K>,
    member: Number<K>,
) -> Result<(), InsertError> {
    let load = filter.load();
    if load > FULL { Err(InsertError::Full { load }) } else { filter.insert(member) }
}

/// Has the filter say "empty" to a span, if it is; `members` are all that could be behind a
/// mistake. Says how many ghosts there were.
pub(super) fn adapt<K: StoredKey>(
    filter: &mut Filter<K>,
    span: Span,
    members: &[Number<K>],
) -> Result<u64, AdaptError> {
    // A write that failed halfway may have left a member on the list of mistakes.
    if members.iter().any(|member| span.contains(member.number())) {
        return Ok(0);
    }
    match filter.check_range(span.numbers()) {
        RangeAnswer::Empty => Ok(0),
        RangeAnswer::Maybe(claim) => Ok(filter.adapt_dropping_ghosts(&claim, members)?.ghosts),
    }
}
