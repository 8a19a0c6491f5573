//! Batches of hashes, shard by shard, so that each lock is taken once.

use super::{Concurrent, Shard, Sharding};
use crate::Hash;
use crate::error::InsertManyError;

/// Hashes, sorted by their shards.
pub(super) struct Groups {
    /// Where the group of each shard begins, and where the last one ends.
    starts: Vec<usize>,
    hashes: Vec<Hash>,
    /// Where each of them is in the caller's list.
    positions: Vec<usize>,
}

/// The hashes of one shard, as they are there.
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

    /// The hashes of a shard, as they are there.
    pub(super) fn of(&self, shard: usize) -> &[Hash] {
        &self.hashes[self.starts[shard]..self.starts[shard + 1]]
    }

    /// The groups that are not empty.
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

impl<F: Shard> Concurrent<F> {
    /// Inserts each of many members that there is room for. Faster than one by one, because each
    /// shard is locked once for all of its members; other threads wait for it meanwhile.
    ///
    /// A filter that grows has room for all, as long as there is memory and a bit of the
    /// remainders left.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().slots(4).shards(1).build_concurrent()?;
    /// let hashes: Vec<Hash> = (0..1000).map(|number| Hash::from_u128(number << 110)).collect();
    /// let error = filter.insert_each(&hashes).unwrap_err();
    /// assert_eq!(filter.len() + error.refused.len(), 1000);
    /// # Ok::<(), twiceshy::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// An [`InsertManyError`] that says which members were refused; all others are inserted.
    pub fn insert_each(&self, hashes: &[Hash]) -> Result<(), InsertManyError> {
        let groups = Groups::new(self.sharding, hashes);
        let mut refused = Vec::new();
        for group in groups.to_vec() {
            let of_shard = self.shards[group.shard].write().insert_each(group.hashes);
            refused.extend(of_shard.into_iter().map(|(at, why)| (group.positions[at], why)));
        }
        refused.sort_unstable_by_key(|&(position, _)| position);
        let Some((_, cause)) = refused.first().cloned() else { return Ok(()) };
        let refused = refused.into_iter().map(|(position, _)| position).collect();
        Err(InsertManyError { refused, cause })
    }

    /// Answers many lookups: clears `maybe`, and then pushes one answer per hash, as of
    /// [`contains`](Self::contains). Faster than one by one.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let filter = AdaptiveQuotientFilter::builder().capacity(100).build_concurrent()?;
    /// filter.insert(Hash::MAX)?;
    /// let mut maybe = Vec::new();
    /// filter.contains_many(&[Hash::MIN, Hash::MAX], &mut maybe);
    /// assert_eq!(maybe, [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
