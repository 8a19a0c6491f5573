//! Lookups.

use super::AdaptiveBloomFilter;
use super::cells::Probes;
use crate::batch;
use crate::claim::Cells;
use crate::{Answer, Claim, Hash};

/// How many lookups go through the functions side by side.
const BLOCK: usize = 64;

/// How many functions are evaluated at once. Each one rules out half of the keys that are not
/// members.
const WAVE: u32 = 2;

impl AdaptiveBloomFilter {
    /// Returns whether a key with this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        let probes = self.first.probes(hash);
        self.first.cells.contains(&probes) && self.is_below(probes.first, hash)
    }

    /// Returns whether the level that answers for a cell may contain a hash.
    #[inline]
    fn is_below(&self, cell: u64, hash: Hash) -> bool {
        match self.dead.depth(cell) {
            0 => true,
            depth => self.level_contains(depth, hash),
        }
    }

    fn level_contains(&self, depth: u32, hash: Hash) -> bool {
        let level = self.deeper.get(depth as usize - 1);
        level.map_or_else(|| self.last.contains(hash), |level| level.contains(hash))
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used
    /// to repair the filter if it was a mistake.
    #[inline]
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    fn claim(&self, query: Hash) -> Claim {
        let cell = self.cell_of(query);
        Claim { query, cells: Cells::one(cell, self.cells()), version: self.versions.at(cell) }
    }

    /// Answers many lookups: `maybe` is cleared and then has one answer per hash, as of
    /// [`contains`](Self::contains). Lookups overlap their waits, which pays where the filter is
    /// larger than the cache.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveBloomFilter, Hash};
    /// let mut filter = AdaptiveBloomFilter::builder().capacity(100).build()?;
    /// filter.insert(Hash::from_u128(7 << 100))?;
    /// let mut maybe = Vec::new();
    /// filter.contains_many(&[7, 8, 9].map(|key| Hash::from_u128(key << 100)), &mut maybe);
    /// assert!(maybe[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_each(hashes, |&hash| hash, maybe);
    }

    /// As [`contains_many`](Self::contains_many), of keys whose hashes are made when they are
    /// needed.
    pub(crate) fn contains_each<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut Vec<bool>,
    ) {
        batch::fill_answers(maybe, keys.len(), |answers| {
            for (keys, answers) in keys.chunks(BLOCK).zip(answers.chunks_mut(BLOCK)) {
                self.answer(keys, &hash, answers);
            }
        });
    }

    /// Answers a block of lookups. Two functions are asked of all that are left: first all their
    /// lines are asked for, then looked at, so that the lookups overlap their waits. Who is left
    /// is written to a list without a branch, which nothing could foresee.
    #[inline(always)]
    fn answer<K>(&self, keys: &[K], hash: &impl Fn(&K) -> Hash, maybe: &mut [bool]) {
        let cells = &self.first.cells;
        let functions = cells.shape().functions;
        let mut hashes = [Hash::MIN; BLOCK];
        let mut probes = [Probes::default(); BLOCK];
        let mut left = [0; BLOCK];
        let mut count = keys.len();
        for (index, key) in keys.iter().enumerate() {
            hashes[index] = hash(key);
            probes[index] = self.first.probes(hashes[index]);
            left[index] = index;
        }
        for wave in (0..functions).step_by(WAVE as usize) {
            let asked = wave..functions.min(wave + WAVE);
            for &index in &left[..count] {
                asked.clone().for_each(|function| cells.prefetch(&probes[index], function));
            }
            let mut staying = 0;
            for at in 0..count {
                let index = left[at];
                let mut functions = asked.clone();
                left[staying] = index;
                let is_set = functions.all(|function| cells.is_set(&probes[index], function));
                staying += usize::from(is_set);
            }
            count = staying;
        }
        for &index in &left[..count] {
            maybe[index] = self.is_below(probes[index].first, hashes[index]);
        }
    }
}
