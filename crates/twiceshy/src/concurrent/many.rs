//! Batches of hashes, grouped by shard so that each lock is taken only once.

use super::{Concurrent, PlainShard, Sharding};
use crate::Hash;
use crate::error::{InsertError, InsertManyError};

/// Hashes grouped by shard.
pub(super) struct Groups {
    /// The start of each shard's group, followed by the end of the last group.
    starts: Vec<usize>,
    hashes: Vec<Hash>,
    /// The position of each hash in the caller's list.
    positions: Vec<usize>,
}

/// The hashes of one shard, converted to hashes inside that shard.
pub(super) struct Group<'a> {
    pub(super) shard: usize,
    pub(super) hashes: &'a [Hash],
    positions: &'a [usize],
}

impl Groups {
    pub(super) fn new(sharding: Sharding, hashes: &[Hash]) -> Self {
        let mut starts = vec![0; sharding.shards() + 1];
        for &hash in hashes {
            starts[sharding.shard(hash) + 1] += 1;
        }
        for shard in 1..starts.len() {
            starts[shard] += starts[shard - 1];
        }
        let mut next = starts.clone();
        let mut grouped = Self {
            starts,
            hashes: vec![Hash::MIN; hashes.len()],
            positions: vec![0; hashes.len()],
        };
        for (position, &hash) in hashes.iter().enumerate() {
            let place = &mut next[sharding.shard(hash)];
            grouped.hashes[*place] = sharding.inner(hash);
            grouped.positions[*place] = position;
            *place += 1;
        }
        grouped
    }

    /// Returns the hashes of a shard, converted to hashes inside that shard.
    pub(super) fn of(&self, shard: usize) -> &[Hash] {
        &self.hashes[self.starts[shard]..self.starts[shard + 1]]
    }

    /// Returns the groups that are not empty.
    pub(super) fn to_vec(&self) -> Vec<Group<'_>> {
        let ranges = self.starts.windows(2).map(|bounds| bounds[0]..bounds[1]).enumerate();
        let occupied = ranges.filter(|(_, range)| !range.is_empty());
        let group = |(shard, range)| Group {
            shard,
            hashes: &self.hashes[Clone::clone(&range)],
            positions: &self.positions[range],
        };
        occupied.map(group).collect()
    }
}

impl<F: PlainShard> Concurrent<F> {
    /// Inserts many members, all or none.
    ///
    /// All shards that receive a member stay locked until the call returns. In contrast,
    /// [`insert_each`](Self::insert_each) locks one shard at a time.
    ///
    /// # Errors
    /// Returns the same errors as [`insert`](Self::insert). No member was inserted in that case,
    /// but a filter that grows may have grown.
    pub fn insert_many(&self, hashes: &[Hash]) -> Result<(), InsertError> {
        let groups = Groups::new(self.sharding, hashes);
        let groups = groups.to_vec();
        // Lock the shards in ascending order, so that two threads can't deadlock.
        let locked = groups.iter().map(|group| (group, self.shards[group.shard].write()));
        let mut locked: Vec<_> = locked.collect();
        let mut done = Vec::with_capacity(locked.len());
        for at in 0..locked.len() {
            let (group, filter) = &mut locked[at];
            match filter.insert_batch(group.hashes) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    for ((group, filter), undo) in locked.iter_mut().zip(done) {
                        filter.undo_batch(group.hashes, undo);
                    }
                    return Err(self.outer_error(groups[at].shard, error));
                }
            }
        }
        Ok(())
    }

    /// Inserts as many of these members as there is room for, one shard after another.
    ///
    /// A filter that grows has room for all members, as long as there is memory and the remainders
    /// have a bit left.
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let filter = QuotientFilter::builder().slots(4).shards(1).build_concurrent()?;
    /// let hashes: Vec<Hash> = (0..1000).map(|number| Hash::from_u128(number << 110)).collect();
    /// let error = filter.insert_each(&hashes).unwrap_err();
    /// assert_eq!(filter.len() + error.refused.len(), 1000);
    /// # Ok::<(), twiceshy::error::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an [`InsertManyError`] that says which members were refused; all others were
    /// inserted.
    pub fn insert_each(&self, hashes: &[Hash]) -> Result<(), InsertManyError> {
        let groups = Groups::new(self.sharding, hashes);
        let mut refused = Vec::new();
        for group in groups.to_vec() {
            let mut filter = self.shards[group.shard].write();
            if filter.insert_many(group.hashes).is_ok() {
                continue;
            }
            for (&position, &hash) in group.positions.iter().zip(group.hashes) {
                if let Err(error) = filter.insert(hash) {
                    refused.push((position, self.outer_error(group.shard, error)));
                }
            }
        }
        refused.sort_unstable_by_key(|&(position, _)| position);
        let Some((_, cause)) = refused.first().cloned() else { return Ok(()) };
        let refused = refused.into_iter().map(|(position, _)| position).collect();
        Err(InsertManyError { refused, cause })
    }

    /// Looks up many hashes: clears `maybe`, and then pushes the answer of
    /// [`contains`](Self::contains) for each hash. This is faster than single lookups.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        let groups = Groups::new(self.sharding, hashes);
        let mut answers = Vec::new();
        for group in groups.to_vec() {
            self.shards[group.shard].read().contains_many(group.hashes, &mut answers);
            for (&position, &answer) in group.positions.iter().zip(&answers) {
                maybe[position] = answer;
            }
        }
    }
}
