//! Writing to a range store.

use super::admit::Admitted;
use super::key::Span;
use super::mistakes::Place;
use super::{Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, BackendError, Batch, Keyspace, MAX_VALUE_BYTES};
use crate::chunk::BATCH;
use crate::error::Result;
use crate::layout;
use crate::stats::Count;
use crate::stripes::Locked;
use crate::sync::atomic::Ordering;
use twiceshy::Hash;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Sets the value of a key. If the filter says that the key is new, nothing is read.
    ///
    /// # Errors
    /// If the value is too long, if there is no memory for a larger filter, or if the backend
    /// fails. If the filter needs to grow, and its last rebuild has failed a short while ago,
    /// [`RebuildFailed`](crate::StoreError::RebuildFailed).
    pub fn put(&self, key: K, value: &[u8]) -> Result<()> {
        self.put_chunk(&[(Span::one(key)?.first, value)])
    }

    /// Sets the values of many keys, in batches. Each batch is written completely or not at all. If a key
    /// occurs twice, its last value wins.
    ///
    /// # Errors
    /// Returns the same errors as [`put`](Self::put). Earlier batches stay written.
    pub fn put_many<V: AsRef<[u8]>>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let bytes = |(_, value): &(K, V)| value.as_ref().len();
        BATCH.for_each(pairs, bytes, |chunk| {
            let mut numbered = Vec::with_capacity(chunk.len());
            for (key, value) in &chunk {
                numbered.push((Span::one(*key)?.first, value.as_ref()));
            }
            self.put_chunk(&numbered)
        })
    }

    fn put_chunk(&self, pairs: &[(u128, &[u8])]) -> Result<()> {
        // Check all values before the filter gets any key.
        if let Some((_, value)) = pairs.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            return Err(BackendError::ValueTooLong { bytes: value.len() }.into());
        }
        self.make_room_for_repairs();
        let numbers: Vec<u128> = pairs.iter().map(|&(number, _)| number).collect();
        let admitted = self.making_room(|| self.try_admit(&numbers))?;
        let Admitted { mut locked, is_new, count } = admitted;
        let in_doubt = self.storage.is_doubtful();
        let mut batch = Batch::new();
        for (&(number, value), is_new) in pairs.iter().zip(is_new) {
            let partition = self.hash(number);
            let bytes = Number::<K>::new(number).to_bytes();
            batch.insert(Keyspace::Keys, &bytes, value);
            if is_new || in_doubt {
                batch.insert(Keyspace::Members, layout::member_key(partition, &bytes), b"");
            }
            let mistakes = locked.stripe_mut(partition);
            if let Some(mistake) = mistakes.around(partition, number) {
                self.cut(mistakes, mistake, number);
            }
        }
        let outdated = self.write_outdated_near(&mut locked, &numbers, &mut batch);
        if let Err(error) = self.storage.write(&batch) {
            // Leave the keys in the filter, because the failed write may have put them into the
            // backend. The filter answers "maybe" for these keys, so they stay cut out of the
            // mistakes.
            self.counters.add(Count::GhostsLeft, count);
            return Err(error);
        }
        self.written(&mut locked, &outdated);
        drop(locked);
        self.flush_many_records();
        Ok(())
    }

    /// Removes a key and its value. Returns whether the key was there.
    ///
    /// A failed write may take effect when the store is opened again, so after a failed write, a removal is
    /// written even if the key isn't found.
    ///
    /// # Errors
    /// If the backend fails.
    pub fn delete(&self, key: K) -> Result<bool> {
        let span = Span::one(key)?;
        let number = span.first;
        self.make_room_for_repairs();
        let is_there = self.delete_number(span, number);
        self.flush_many_records();
        is_there
    }

    fn delete_number(&self, span: Span, number: u128) -> Result<bool> {
        let locked = self.lock(&[number]);
        let in_doubt = self.storage.is_doubtful();
        let claim = self.claim(span);
        if !in_doubt && claim.is_none() {
            self.counters.add(Count::AnsweredFromMemory, 1);
            return Ok(false);
        }
        self.counters.add(Count::LookedUp, 1);
        let is_there = self.look_up(number)?.is_some();
        if !is_there && !in_doubt {
            drop(locked);
            if let Some(claim) = claim {
                self.repair(span, claim);
            }
            return Ok(false);
        }
        self.counters.add(Count::TruePositives, u64::from(is_there));
        let bytes = Number::<K>::new(number).to_bytes();
        let mut batch = Batch::new();
        batch.remove(Keyspace::Keys, &bytes);
        batch.remove(Keyspace::Members, layout::member_key(self.hash(number), &bytes));
        let removed = self.storage.write(&batch);
        // If the removal failed, the backend may still have the key, so the filter must keep it.
        let is_ghost = || {
            removed.is_err()
                || self.filter_mut().filter.remove_trusting(Number::new(number)).is_err()
        };
        if is_there && is_ghost() {
            self.counters.add(Count::GhostsLeft, 1);
        }
        removed.map(|()| is_there)
    }

    /// Adds the outdated records of all partitions of new members to the members' batch, so that after a
    /// crash no record claims that a member isn't there.
    fn write_outdated_near(
        &self,
        locked: &mut Locked<'_, Mistakes>,
        members: &[u128],
        batch: &mut Batch,
    ) -> Vec<Place> {
        if self.marked.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut partitions: Vec<Hash> = members.iter().map(|&number| self.hash(number)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let write =
            |partition| Self::write_outdated(locked, &(partition..=partition), usize::MAX, batch);
        partitions.into_iter().flat_map(write).collect()
    }

    /// Cuts a new member's number out of a mistake.
    fn cut(&self, mistakes: &mut Mistakes, mistake: Span, number: u128) {
        let partition = self.hash(number);
        self.change(mistakes, |mistakes| mistakes.remove(partition, mistake.first));
        // Keep both parts only if there is room for one more mistake.
        let room = self.mistakes_kept.saturating_sub(self.mistakes.load(Ordering::Relaxed));
        for part in mistake.without(number).take(room) {
            self.change(mistakes, |mistakes| mistakes.insert(partition, part));
        }
    }
}
