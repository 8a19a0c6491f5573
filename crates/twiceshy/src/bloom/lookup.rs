//! Lookups in an adaptive Bloom filter.

use super::AdaptiveBloomFilter;
use super::level::Probes;
use crate::batch;
use crate::claim::Cells;
use crate::{Answer, Claim, Hash};

/// Number of lookups whose memory accesses overlap.
const BLOCK: usize = 64;

/// Number of functions that are evaluated together. Each one rules out half of the keys that are not
/// members.
const WAVE: u32 = 2;

impl AdaptiveBloomFilter {
    /// Returns whether a key with this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        let probes = self.first.probes(hash);
        self.first.contains(&probes) && self.is_below(probes.first, hash)
    }

    /// Returns whether the level that answers for a dead cell may contain a hash. For a cell that
    /// is alive, returns `true`.
    #[inline]
    fn is_below(&self, cell: u64, hash: Hash) -> bool {
        match self.dead.depth(cell) as usize {
            0 => true,
            depth => match self.deeper.get(depth - 1) {
                Some(level) => level.contains(&level.probes(hash)),
                None => self.last.contains(hash),
            },
        }
    }

    /// Looks up a hash like [`contains`](Self::contains), but returns "maybe" together with a
    /// claim, which lets the filter repair itself if the answer was a mistake.
    #[inline]
    pub fn check(&self, query: Hash) -> Answer {
        if !self.contains(query) {
            return Answer::Absent;
        }
        let cell = self.cell_of(query);
        let (cells, version) = (Cells::one(cell, self.cells()), self.versions.at(cell));
        Answer::Maybe(Claim { query, cells, version })
    }

    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        batch::fill_answers(answers, hashes.len(), |answers| {
            for (hashes, answers) in hashes.chunks(BLOCK).zip(answers.chunks_mut(BLOCK)) {
                self.answer(hashes, answers);
            }
        });
    }

    /// Answers a block of lookups, two functions at a time. Each step prefetches the lines of all
    /// undecided lookups and then reads them, so that the memory accesses overlap. The code doesn't
    /// branch on which lookups stay undecided, because that can't be predicted.
    ///
    /// The [pipeline](batch::answer) of the other filters has two steps. Here, there is a step for
    /// every two functions, because most lookups of absent keys read only a few of the k lines.
    #[inline(always)]
    fn answer(&self, hashes: &[Hash], answers: &mut [bool]) {
        let functions = self.first.plan.functions;
        let mut probes = [Probes::default(); BLOCK];
        let mut left = [0; BLOCK];
        let mut count = hashes.len();
        for (index, &hash) in hashes.iter().enumerate() {
            probes[index] = self.first.probes(hash);
            left[index] = index;
        }
        for wave in (0..functions).step_by(WAVE as usize) {
            let asked = wave..functions.min(wave + WAVE);
            for &index in &left[..count] {
                asked.clone().for_each(|function| self.first.prefetch(&probes[index], function));
            }
            let mut staying = 0;
            for at in 0..count {
                let index = left[at];
                let mut functions = asked.clone();
                left[staying] = index;
                let is_set = functions
                    .all(|function| self.first.is_set(self.first.bit(&probes[index], function)));
                staying += usize::from(is_set);
            }
            count = staying;
        }
        for &index in &left[..count] {
            answers[index] = self.is_below(probes[index].first, hashes[index]);
        }
    }
}
