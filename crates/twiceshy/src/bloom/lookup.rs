//! Asking.

use super::AdaptiveBloomFilter;
use super::cells::Probes;
use crate::hash::Scaled;
use crate::{Answer, Claim, Fingerprint, Hash};

/// How many lookups go through the functions side by side.
const BLOCK: usize = 64;

/// How many functions are asked at once: half of the strangers are gone after each.
const WAVE: u32 = 2;

impl AdaptiveBloomFilter {
    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        let probes = self.first.probes(hash);
        self.first.cells.contains(&probes) && self.is_below(probes.first, hash)
    }

    /// Whether the level that answers for a cell may have a hash.
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

    /// The claim that a query may be a member, as of now.
    fn claim(&self, query: Hash) -> Claim {
        let scaled = Scaled::new(query, self.cells());
        let cell = Fingerprint::of(scaled, 0, self.cells());
        Claim { query, cell, through: cell, version: self.versions.at(scaled.quotient) }
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
        // Should `hash` panic, no answer is left, rather than a wrong one.
        let mut answers = core::mem::take(maybe);
        answers.clear();
        answers.resize(keys.len(), false);
        for (keys, answers) in keys.chunks(BLOCK).zip(answers.chunks_mut(BLOCK)) {
            self.answer(keys, &hash, answers);
        }
        *maybe = answers;
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
