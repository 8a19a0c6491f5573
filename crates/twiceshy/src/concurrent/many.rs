//! Batches of hashes, grouped by shard so that each lock is taken only once.

use super::{Concurrent, PlainShard};
use crate::Hash;
use crate::error::{InsertError, InsertManyError};
use crate::sorting::scatter;

/// Hashes grouped by shard.
struct Groups {
    /// The end of each shard's group.
    ends: Vec<usize>,
    hashes: Vec<Hash>,
    /// The position of each hash in the caller's list.
    positions: Vec<usize>,
}

/// The hashes of one shard, converted to hashes inside that shard.
struct Group<'a> {
    shard: usize,
    hashes: &'a [Hash],
    positions: &'a [usize],
}

impl Groups {
    fn new<F: PlainShard>(filter: &Concurrent<F>, hashes: &[Hash]) -> Self {
        let mut grouped = vec![Hash::MIN; hashes.len()];
        let mut positions = vec![0; hashes.len()];
        let items = hashes.iter().enumerate();
        let items = items.map(|(position, &hash)| (filter.shard_of(hash), (position, hash)));
        let ends = scatter(filter.shards(), items, |place, (position, hash)| {
            grouped[place] = filter.sharding.inner(hash);
            positions[place] = position;
        });
        Self { ends, hashes: grouped, positions }
    }

    /// Returns the hashes of a shard.
    fn of(&self, shard: usize) -> Group<'_> {
        let start = shard.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = start..self.ends[shard];
        let (hashes, positions) = (&self.hashes[range.clone()], &self.positions[range]);
        Group { shard, hashes, positions }
    }

    /// Returns the groups that are not empty, in ascending order of shards.
    fn iter(&self) -> impl Iterator<Item = Group<'_>> {
        let groups = (0..self.ends.len()).map(|shard| self.of(shard));
        groups.filter(|group| !group.hashes.is_empty())
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
        let groups = Groups::new(self, hashes);
        // Lock the shards in ascending order, so that two threads can't deadlock.
        let locked = groups.iter().map(|group| (self.shards[group.shard].write(), group));
        let mut locked: Vec<_> = locked.collect();
        let mut done = Vec::with_capacity(locked.len());
        for at in 0..locked.len() {
            let (filter, Group { shard, hashes, .. }) = &mut locked[at];
            match filter.insert_batch(hashes) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    let error = self.outer_error(*shard, error);
                    for ((filter, group), undo) in locked.iter_mut().zip(done) {
                        filter.undo_batch(group.hashes, undo);
                    }
                    return Err(error);
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
        let mut refused = Vec::new();
        for group in Groups::new(self, hashes).iter() {
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

    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        let mut answers = Vec::new();
        for group in Groups::new(self, hashes).iter() {
            self.shards[group.shard].read().contains_many(group.hashes, &mut answers);
            for (&position, &answer) in group.positions.iter().zip(&answers) {
                maybe[position] = answer;
            }
        }
    }
}
