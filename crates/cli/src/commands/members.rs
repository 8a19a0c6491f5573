//! Reads lines once, and returns the sorted, distinct hashes of their keys. [`KeysOfLine`] finds
//! the keys of a line.
//!
//! One thread reads lines, and several threads hash them. The first bits of a hash select its
//! bucket. A bucket is small enough to be sorted in the cache. The buckets themselves are in hash
//! order.

use crate::input::{Block, Encoding, Lines, check_stdin_once};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};
use std::vec::IntoIter;
use twiceshy::{Hash, hash::KeyedHasher};

/// The number of threads that hash and sort.
const WORKERS: usize = 2;

/// The error message when a thread cannot be started.
pub(super) const NO_THREAD: &str = "cannot start a thread";

/// The number of blocks that may wait for a worker.
const WAITING: usize = 4;

/// The number of leading bits of a hash that select its bucket.
const BUCKET_BITS: u32 = 8;

/// Hashes, grouped by their leading bits.
struct Buckets(Vec<Vec<Hash>>);

impl Buckets {
    fn new() -> Self {
        Self(vec![Vec::new(); 1 << BUCKET_BITS])
    }

    #[inline]
    fn push(&mut self, hash: Hash) {
        self.0[(hash.as_u128() >> (u128::BITS - BUCKET_BITS)) as usize].push(hash);
    }

    /// Returns the number of hashes.
    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// The sorted hashes of distinct keys.
pub(super) struct Members {
    sorted: Buckets,
    /// The number of keys that were read, including repetitions.
    pub(super) keys: u64,
}

/// Finds the keys of a line.
pub(super) trait KeysOfLine: Copy + Send + Sync {
    /// Calls `key` with each key of a line.
    fn each(self, line: &[u8], key: impl FnMut(&[u8]));
}

/// Takes the whole line as one key.
#[derive(Clone, Copy)]
pub(super) struct WholeLine;

impl KeysOfLine for WholeLine {
    #[inline]
    fn each(self, line: &[u8], mut key: impl FnMut(&[u8])) {
        key(line);
    }
}

impl Members {
    /// Reads all lines of these files. Takes 16 to 32 bytes of memory per key.
    pub(super) fn read(
        paths: &[PathBuf],
        encoding: Encoding,
        keys: impl KeysOfLine,
        hasher: &KeyedHasher,
        session: &Session,
    ) -> Result<Self> {
        check_stdin_once(paths)?;
        let (send, blocks) = sync_channel(WAITING);
        let (give_back, used) = channel();
        let blocks = Mutex::new(blocks);
        let parts: Result<Vec<Buckets>> = thread::scope(|scope| {
            let work = |give_back: Sender<Block>| {
                let blocks = &blocks;
                let work = move || hash_blocks(blocks, &give_back, keys, hasher);
                Builder::new().spawn_scoped(scope, work).context(NO_THREAD)
            };
            let workers = (0..WORKERS).map(|_| work(give_back.clone()));
            let workers: Vec<_> = workers.collect::<Result<_>>()?;
            let read = paths.iter().try_for_each(|path| {
                let mut lines = Lines::open(path, encoding, session)?;
                while let Some(block) = lines.next_block()? {
                    // This fails only if the workers have panicked. That case is handled below.
                    let _ = send.send(block);
                    if let Ok(block) = used.try_recv() {
                        lines.reuse(block);
                    }
                }
                Ok(())
            });
            drop(send);
            let hashed = workers.into_iter().map(|worker| match worker.join() {
                Ok(buckets) => buckets,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let hashed = hashed.collect();
            read.map(|()| hashed)
        });
        let parts = parts?;
        let keys = parts.iter().map(|part| part.len() as u64).sum();
        let _progress = session.progress("sorting", Total::Unknown);
        Ok(Self { sorted: sorted(parts)?, keys })
    }

    /// Returns the number of distinct keys.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Iterates over the hashes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Hash> {
        self.sorted.0.iter().flatten().copied()
    }
}

/// Hashes the lines of blocks until there are no more blocks.
fn hash_blocks(
    blocks: &Mutex<Receiver<Block>>,
    give_back: &Sender<Block>,
    keys: impl KeysOfLine,
    hasher: &KeyedHasher,
) -> Buckets {
    let mut buckets = Buckets::new();
    loop {
        let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(block) = next else { return buckets };
        for line in block.lines() {
            keys.each(line, |key| buckets.push(hasher.hash_bytes(key)));
        }
        // This fails only after all lines were read, when the buffer is no longer needed.
        let _ = give_back.send(block);
    }
}

/// Merges the workers' buckets, sorts them, and removes repetitions.
fn sorted(parts: Vec<Buckets>) -> Result<Buckets> {
    let mut parts = parts.into_iter();
    let mut sorted = parts.next().unwrap_or_else(Buckets::new);
    let mut parts: Vec<_> = parts.map(|Buckets(part)| part.into_iter()).collect();
    let share = sorted.0.len().div_ceil(WORKERS);
    thread::scope(|scope| -> Result<()> {
        for buckets in sorted.0.chunks_mut(share) {
            let take = |part: &mut IntoIter<Vec<Hash>>| part.take(buckets.len()).collect();
            let others: Vec<Vec<_>> = parts.iter_mut().map(take).collect();
            let sort = move || {
                for other in others {
                    for (bucket, mut more) in buckets.iter_mut().zip(other) {
                        bucket.append(&mut more);
                    }
                }
                for bucket in buckets {
                    bucket.sort_unstable();
                    bucket.dedup();
                }
            };
            Builder::new().spawn_scoped(scope, sort).context(NO_THREAD)?;
        }
        Ok(())
    })?;
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_sorted_and_distinct() {
        let hash = |number: u128| Hash::from_u128(number.wrapping_mul(u128::MAX / 99_991));
        let bucketed = |numbers: std::ops::Range<u128>| {
            let mut buckets = Buckets::new();
            // These hashes all go to the same bucket.
            let uneven = numbers.clone().map(Hash::from_u128);
            numbers.map(hash).chain(uneven).for_each(|hash| buckets.push(hash));
            buckets
        };
        let sorted = sorted(vec![bucketed(1..5000), bucketed(3000..9000)]).unwrap();
        let all = (1..9000).map(hash).chain((1..9000).map(Hash::from_u128));
        let mut expected: Vec<Hash> = all.collect();
        expected.sort_unstable();
        let members = Members { sorted, keys: 0 };
        assert_eq!(members.len(), expected.len());
        assert_eq!(members.iter().collect::<Vec<_>>(), expected);
    }
}
