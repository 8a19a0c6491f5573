//! Putting and deleting.

use super::build::{Room, adapt, insert};
use super::key::Span;
use super::repair::stored;
use super::{Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, BackendError, Batch, Keyspace, MAX_VALUE_BYTES};
use crate::counters::Count;
use crate::error::Result;
use crate::layout;
use crate::stripes::Locked;
use std::sync::atomic::Ordering;

/// A key that is in the filter, and is to be written to the backend; nobody else does anything
/// near it meanwhile.
struct Admitted<'a> {
    locked: Locked<'a, Mistakes>,
    is_new: bool,
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Gives a key a value, whether or not it has one. If the filter says that it has none, nothing
    /// is read.
    ///
    /// # Errors
    /// If the value is too long, if there is no memory for a larger filter, or if the backend
    /// fails.
    pub fn put(&self, key: K, value: &[u8]) -> Result<()> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(BackendError::ValueTooLong { bytes: value.len() }.into());
        }
        let span = Span::one(key)?;
        let number = span.first;
        let Admitted { mut locked, is_new } = self.making_room(|| self.try_admit(span))?;
        let partition = self.hash(number);
        let mistake = locked.stripe(partition).around(partition, number);
        let mut batch = Batch::new();
        let bytes = Number::<K>::new(number).to_bytes();
        batch.insert(Keyspace::Keys, &bytes, value);
        if is_new {
            batch.insert(Keyspace::Members, layout::member_key(partition, &bytes), b"");
        }
        let parts = self.cut(mistake, number, &mut batch);
        if let Err(error) = self.backend.write(&batch, self.durability) {
            // Whether it is there is not known; in the filter it does no harm.
            self.counters.add(Count::GhostsLeft, u64::from(is_new));
            return Err(error.into());
        }
        if let Some(mistake) = mistake {
            let mistakes = locked.stripe_mut(partition);
            mistakes.remove(partition, mistake.first);
            self.mistakes.fetch_add(parts.len(), Ordering::Relaxed);
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            for part in parts {
                mistakes.insert(partition, part);
            }
        }
        Ok(())
    }

    /// Removes a key and its value; whether it was there.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: K) -> Result<bool> {
        let span = Span::one(key)?;
        let number = span.first;
        let locked = self.lock(span);
        if !self.filter().filter.contains_range(span.numbers()) {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(false);
        }
        self.counters.add(Count::LookedUp, 1);
        if self.look_up(number)?.is_none() {
            drop(locked);
            self.repair(span);
            return Ok(false);
        }
        self.counters.add(Count::TruePositives, 1);
        let bytes = Number::<K>::new(number).to_bytes();
        let mut batch = Batch::new();
        batch.remove(Keyspace::Keys, &bytes);
        batch.remove(Keyspace::Members, layout::member_key(self.hash(number), &bytes));
        let removed = self.backend.write(&batch, self.durability);
        // If that failed, it may be there still.
        if removed.is_err() || self.filter_mut().filter.remove(Number::new(number)).is_err() {
            self.counters.add(Count::GhostsLeft, 1);
        }
        Ok(removed.map(|()| true)?)
    }

    fn try_admit(&self, span: Span) -> Result<Room<Admitted<'_>>> {
        let locked = self.lock(span);
        let maybe = self.filter().filter.contains_range(span.numbers());
        let is_new = !maybe || self.look_up(span.first)?.is_none();
        if !is_new {
            return Ok(Room::Enough(Admitted { locked, is_new }));
        }
        Ok(match self.admit(&locked, span.first)? {
            Room::Enough(()) => Room::Enough(Admitted { locked, is_new }),
            Room::Needed(error) => Room::Needed(error),
        })
    }

    /// Inserts a new member into the filter, and repairs the mistakes that it brings back, before
    /// anybody can make them.
    fn admit(&self, locked: &Locked<'_, Mistakes>, number: u128) -> Result<Room<()>> {
        let newcomer = Number::<K>::new(number);
        let suspects = self.filter().filter.suspects(newcomer);
        let threatened = locked.stripes(&suspects).flat_map(|known| known.within(&suspects));
        let threatened: Vec<Span> = threatened.filter(|span| !span.contains(number)).collect();
        let mut members = Vec::new();
        if !threatened.is_empty() {
            members = self.members([suspects].into_iter())?;
            members.push(newcomer);
        }
        let filter = &mut self.filter_mut().filter;
        if let Err(error) = insert(filter, newcomer) {
            return Ok(Room::Needed(error.into()));
        }
        for mistake in threatened {
            let is_back = filter.contains_range(mistake.numbers());
            match adapt(filter, mistake, &members) {
                Ok(ghosts) => {
                    self.counters.add(Count::GhostsCleared, ghosts);
                    self.counters.add(Count::Repairs, u64::from(is_back));
                }
                Err(error) => {
                    // It is there: nobody else may remove it meanwhile.
                    let _ = filter.remove(newcomer);
                    return Ok(Room::Needed(error.into()));
                }
            }
        }
        Ok(Room::Enough(()))
    }

    /// What is left of a mistake when a number in it becomes a member. Says so on the disk.
    fn cut(&self, mistake: Option<Span>, number: u128, batch: &mut Batch) -> Vec<Span> {
        let Some(mistake) = mistake else { return Vec::new() };
        batch.remove(Keyspace::Mistakes, stored::<K>(mistake.first));
        // One more, if there is room for it.
        let room = self.mistakes_kept.saturating_sub(self.mistakes.load(Ordering::Relaxed));
        let parts: Vec<Span> = mistake.without(number).take(room + 1).collect();
        for part in &parts {
            batch.insert(Keyspace::Mistakes, stored::<K>(part.first), stored::<K>(part.last));
        }
        parts
    }
}
