//! Putting and deleting.

use super::admit::Admitted;
use super::key::Span;
use super::repair::stored;
use super::{Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, BackendError, Batch, Keyspace, MAX_VALUE_BYTES};
use crate::chunk::WRITTEN;
use crate::counters::Count;
use crate::error::Result;
use crate::layout;
use std::sync::atomic::Ordering;
use twiceshy::Hash;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Gives a key a value, whether or not it has one. If the filter says that it has none, nothing
    /// is read.
    ///
    /// # Errors
    /// If the value is too long, if there is no memory for a larger filter, or if the backend
    /// fails.
    pub fn put(&self, key: K, value: &[u8]) -> Result<()> {
        self.put_chunk(&[(Span::one(key)?.first, value)])
    }

    /// Gives many keys values, in batches; each of these is written whole or not at all. Of a key
    /// that comes twice, the last value counts.
    ///
    /// # Errors
    /// As [`put`](Self::put); the batches before are written then.
    pub fn put_many<V: AsRef<[u8]>>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let bytes = |(_, value): &(K, V)| value.as_ref().len();
        WRITTEN.of(pairs, bytes, |chunk| {
            let mut numbered = Vec::with_capacity(chunk.len());
            for (key, value) in &chunk {
                numbered.push((Span::one(*key)?.first, value.as_ref()));
            }
            self.put_chunk(&numbered)
        })
    }

    fn put_chunk(&self, pairs: &[(u128, &[u8])]) -> Result<()> {
        // Before the filter has them, and before they are copied.
        if let Some((_, value)) = pairs.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            return Err(BackendError::ValueTooLong { bytes: value.len() }.into());
        }
        let numbers: Vec<u128> = pairs.iter().map(|&(number, _)| number).collect();
        let admitted = self.making_room(|| self.try_admit(&numbers))?;
        let Admitted { mut locked, is_new, count } = admitted;
        let in_doubt = self.saved.is_doubtful();
        let mut batch = Batch::new();
        let mut cut: Vec<(Hash, Span)> = Vec::new();
        for (&(number, value), is_new) in pairs.iter().zip(is_new) {
            let partition = self.hash(number);
            let bytes = Number::<K>::new(number).to_bytes();
            batch.insert(Keyspace::Keys, &bytes, value);
            if is_new || in_doubt {
                batch.insert(Keyspace::Members, layout::member_key(partition, &bytes), b"");
            }
            let mistakes = locked.stripe_mut(partition);
            if let Some(mistake) = mistakes.around(partition, number) {
                self.cut(mistakes, mistake, number, &mut batch);
                cut.push((partition, mistake));
            }
        }
        if let Err(error) = self.write(&batch) {
            // Whether they are there is not known; in the filter they do no harm.
            self.counters.add(Count::GhostsLeft, count);
            for (partition, mistake) in cut {
                self.insert_mistake(locked.stripe_mut(partition), mistake);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Removes a key and its value; returns whether the key was there.
    ///
    /// After a write has failed, it may show only when the store is opened again. Until then, the
    /// removal is written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: K) -> Result<bool> {
        let span = Span::one(key)?;
        let number = span.first;
        let locked = self.lock(&[number]);
        let in_doubt = self.saved.is_doubtful();
        if !in_doubt && !self.filter().filter.contains_range(span.numbers()) {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(false);
        }
        self.counters.add(Count::LookedUp, 1);
        let is_there = self.look_up(number)?.is_some();
        if !is_there && !in_doubt {
            drop(locked);
            self.repair(span);
            return Ok(false);
        }
        self.counters.add(Count::TruePositives, u64::from(is_there));
        let bytes = Number::<K>::new(number).to_bytes();
        let mut batch = Batch::new();
        batch.remove(Keyspace::Keys, &bytes);
        batch.remove(Keyspace::Members, layout::member_key(self.hash(number), &bytes));
        let removed = self.write(&batch);
        // If that failed, it may be there still.
        let is_ghost =
            || removed.is_err() || self.filter_mut().filter.remove(Number::new(number)).is_err();
        if is_there && is_ghost() {
            self.counters.add(Count::GhostsLeft, 1);
        }
        removed.map(|()| is_there)
    }

    /// Writes to the backend, which has no saved filter then.
    pub(super) fn write(&self, batch: &Batch) -> Result<()> {
        self.saved.write(&self.backend, batch, self.durability)
    }

    /// Leaves of a mistake what is beside a number that becomes a member, here and on the disk.
    fn cut(&self, mistakes: &mut Mistakes, mistake: Span, number: u128, batch: &mut Batch) {
        mistakes.remove(self.hash(number), mistake.first);
        self.mistakes.fetch_sub(1, Ordering::Relaxed);
        batch.remove(Keyspace::Mistakes, stored::<K>(mistake.first));
        // Both parts, if there is room for one more.
        let room = self.mistakes_kept.saturating_sub(self.mistakes.load(Ordering::Relaxed));
        for part in mistake.without(number).take(room) {
            self.insert_mistake(mistakes, part);
            batch.insert(Keyspace::Mistakes, stored::<K>(part.first), stored::<K>(part.last));
        }
    }
}
