//! Measures the limit that memory sets for lookups. A lookup must load at least one random cache
//! line.

use crate::arch::{Line, Lines, prefetch};
use twiceshy::Hash;

/// A table of cache lines. Each key loads one of them.
pub(super) struct Limit {
    lines: Lines,
}

/// The prefetch distances to try, in keys. 0 means no prefetch. The fastest one counts, so that the
/// limit doesn't depend on our choice of a distance.
pub(super) const DISTANCES: [usize; 6] = [0, 8, 16, 24, 32, 48];

impl Limit {
    pub(super) fn new(bytes: u64) -> Self {
        Self { lines: Lines::new((bytes / 64).max(1) as usize) }
    }

    #[inline(always)]
    fn line(&self, hash: Hash) -> &Line {
        let index = ((hash.as_u128() >> 64) * self.lines.len() as u128) >> 64;
        &self.lines[index as usize]
    }

    /// Loads one line per key, eight keys at a time, and prefetches `distance` keys ahead.
    pub(super) fn touch(&self, hashes: &[Hash], distance: usize) -> usize {
        let ahead = distance.min(hashes.len());
        for hash in &hashes[..ahead] {
            prefetch(self.line(*hash));
        }
        let mut sum = 0u64;
        let mut done = 0;
        for (now, next) in hashes.chunks_exact(8).zip(hashes[ahead..].chunks_exact(8)) {
            for lane in 0..8 {
                if distance > 0 {
                    prefetch(self.line(next[lane]));
                }
                sum = sum.wrapping_add(self.line(now[lane]).0[0]);
            }
            done += 8;
        }
        for hash in &hashes[done..] {
            sum = sum.wrapping_add(self.line(*hash).0[0]);
        }
        std::hint::black_box(sum) as usize
    }
}
