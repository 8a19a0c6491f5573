//! Lines to hashes, each once and in order, in one pass over the lines.
//!
//! One thread reads and some hash. Hashes go to buckets by their first bits: so each bucket is
//! sorted in the cache, by whichever thread, and all of them together are in order.

use crate::input::{Block, Encoding, Lines, check_stdin_once};
use crate::progress::Total;
use crate::session::Session;
use anyhow::Result;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use twiceshy::{Hash, KeyedHasher};

/// Threads that hash, and then sort.
const WORKERS: usize = 2;

/// Blocks that may wait for a worker.
const WAITING: usize = 4;

/// The leading bits of a hash that say in which bucket it is.
const BUCKET_BITS: u32 = 8;

type Buckets = Vec<Vec<Hash>>;

/// The hashes of different lines, in order.
pub(super) struct Members {
    buckets: Buckets,
    /// How many lines there were, repeated ones, too.
    pub(super) lines: u64,
}

impl Members {
    /// Reads all lines of these files: 16 bytes of memory for each.
    pub(super) fn read(
        paths: &[PathBuf],
        encoding: Encoding,
        hasher: &KeyedHasher,
        session: &Session,
    ) -> Result<Self> {
        check_stdin_once(paths)?;
        let (send, blocks) = sync_channel(WAITING);
        let blocks = Mutex::new(blocks);
        let parts: Vec<Buckets> = thread::scope(|scope| {
            let hash = || hash_blocks(&blocks, hasher);
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(hash)).collect();
            let read = paths.iter().try_for_each(|path| {
                let mut lines = Lines::open(path, encoding, session)?;
                while let Some(block) = lines.next_block()? {
                    // Nobody takes it any more only if the workers have panicked.
                    let _ = send.send(block);
                }
                Ok(())
            });
            drop(send);
            let parts = workers.into_iter().map(|worker| match worker.join() {
                Ok(buckets) => buckets,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let parts = parts.collect();
            read.map(|()| parts)
        })
        .map_err(|error: anyhow::Error| error)?;
        let lines = parts.iter().flatten().map(|bucket| bucket.len() as u64).sum();
        let _progress = session.progress("sorting", Total::Unknown);
        Ok(Self { buckets: sorted(parts), lines })
    }

    /// How many different lines there are.
    pub(super) fn len(&self) -> usize {
        self.buckets.iter().map(Vec::len).sum()
    }

    /// Their hashes, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Hash> {
        self.buckets.iter().flatten().copied()
    }
}

/// Hashes the lines of blocks, as long as there are some.
fn hash_blocks(blocks: &Mutex<Receiver<Block>>, hasher: &KeyedHasher) -> Buckets {
    let mut buckets = vec![Vec::new(); 1 << BUCKET_BITS];
    loop {
        let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(block) = next else { return buckets };
        for line in block.lines() {
            let hash = hasher.hash_bytes(line);
            buckets[(hash.as_u128() >> (u128::BITS - BUCKET_BITS)) as usize].push(hash);
        }
    }
}

/// The buckets of all parts together, each sorted and without repetitions.
fn sorted(parts: Vec<Buckets>) -> Buckets {
    let mut parts = parts.into_iter();
    let mut buckets = parts.next().unwrap_or_default();
    for part in parts {
        for (bucket, mut more) in buckets.iter_mut().zip(part) {
            bucket.append(&mut more);
        }
    }
    let share = buckets.len().div_ceil(WORKERS).max(1);
    thread::scope(|scope| {
        for share in buckets.chunks_mut(share) {
            scope.spawn(|| {
                for bucket in share {
                    bucket.sort_unstable();
                    bucket.dedup();
                }
            });
        }
    });
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buckets_together_are_in_order_without_repetitions() {
        let hash = |number: u128| Hash::from_u128(number.wrapping_mul(u128::MAX / 997));
        let bucketed = |numbers: std::ops::Range<u128>| {
            let mut buckets = vec![Vec::new(); 1 << BUCKET_BITS];
            for hash in numbers.map(hash) {
                buckets[(hash.as_u128() >> (u128::BITS - BUCKET_BITS)) as usize].push(hash);
            }
            buckets
        };
        let buckets = sorted(vec![bucketed(0..500), bucketed(300..900)]);
        let mut expected: Vec<Hash> = (0..900).map(hash).collect();
        expected.sort_unstable();
        let members = Members { buckets, lines: 1100 };
        assert_eq!(members.len(), 900);
        assert_eq!(members.iter().collect::<Vec<_>>(), expected);
    }
}
