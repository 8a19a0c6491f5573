//! Repairing mistakes, and keeping them.

use super::build::{Room, adapt};
use super::key::Span;
use super::mistakes::Inserted;
use super::{MOST_KEPT, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Batch, Keyspace, Unbounded};
use crate::counters::Count;
use crate::error::Result;
use crate::layout;
use crate::stripes::Locked;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{AdaptError, Hash, RangeAnswer, RangeKey};

/// Pieces of one question.
type Pieces = SmallVec<[Span; 2]>;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Repairs what was "maybe" and empty, if it still is so, and remembers it.
    pub(super) fn repair(&self, span: Span) {
        if !self.repairs {
            self.counters.add(Count::FalsePositives, 1);
            return;
        }
        let mistaken = Cell::default();
        if self.making_room(|| self.try_repair(span, &mistaken)).is_err() {
            self.counters.add(Count::RepairsFailed, 1);
        }
    }

    /// `mistaken` tells the next try which pieces to remember: a larger filter may not make the
    /// mistake, but it must be remembered all the same.
    fn try_repair(&self, span: Span, mistaken: &Cell<Option<Pieces>>) -> Result<Room<()>> {
        let firsts: SmallVec<[u128; 2]> = self.pieces(span).map(|piece| piece.first).collect();
        let mut locked = self.lock(&firsts);
        let known = mistaken.take();
        let is_known = known.is_some();
        let pieces = known.unwrap_or_else(|| self.worth_keeping(span));
        let is_kept = {
            let mut pieces = pieces.iter().map(|&piece| (self.hash(piece.first), piece));
            pieces.all(|(hash, piece)| locked.stripe(hash).has(hash, piece))
        };
        let answer = self.filter().filter.check_range(span.numbers());
        if let RangeAnswer::Maybe(claim) = answer {
            let members = self.members(claim.suspects())?;
            if members.iter().any(|member| span.contains(member.number())) {
                return Ok(Room::Enough(()));
            }
            // By a claim of this moment: nobody writes to what is held, but a write beside it may
            // share its version.
            match adapt(&mut self.filter_mut().filter, span, &members) {
                Ok(ghosts) => self.counters.add(Count::GhostsCleared, ghosts),
                Err(AdaptError::TooLong) => {
                    self.counters.add(Count::Unfiltered, 1);
                    return Ok(Room::Enough(()));
                }
                Err(error) => {
                    mistaken.set(Some(pieces));
                    return Ok(Room::Needed(error.into()));
                }
            }
        } else if !is_known && is_kept {
            // Another repair came in between.
            return Ok(Room::Enough(()));
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(Count::Repairs, 1);
        if is_kept {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.remember(&mut locked, &pieces)?;
        Ok(Room::Enough(()))
    }

    /// The pieces of a mistake that are kept: all, unless there are many; then those that the
    /// filter is wrong about.
    fn worth_keeping(&self, span: Span) -> Pieces {
        let mut pieces: Pieces = self.pieces(span).take(MOST_KEPT + 1).collect();
        if pieces.len() > MOST_KEPT {
            let filter = &self.filter().filter;
            let is_maybe = |piece: &Span| filter.contains_range(piece.numbers());
            pieces = self.pieces(span).filter(is_maybe).take(MOST_KEPT).collect();
        }
        pieces
    }

    /// The members in an interval of hashes, and their hashes.
    pub(super) fn listed(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = Result<(Hash, Number<K>)>> {
        layout::listed(&self.backend, Keyspace::Members, hashes, |key| {
            let number = Number::from_bytes(key)?;
            Some((self.partitions.hash_of(number), number))
        })
    }

    /// The members in intervals of hashes, of which some may be the same, but none overlap.
    pub(super) fn members(
        &self,
        hashes: impl Iterator<Item = RangeInclusive<Hash>>,
    ) -> Result<Vec<Number<K>>> {
        let mut hashes: Vec<_> = hashes.collect();
        hashes.sort_unstable_by_key(|hashes| *hashes.start());
        hashes.dedup();
        self.counters.add(Count::BackendScans, hashes.len() as u64);
        let listed = hashes.iter().flat_map(|hashes| self.listed(hashes));
        listed.map(|member| Ok(member?.1)).collect()
    }

    /// Keeps a mistake, so that it is repaired whenever the filter is built again, or a member
    /// comes that it would collide with.
    fn remember(&self, locked: &mut Locked<'_, Mistakes>, pieces: &[Span]) -> Result<()> {
        let mut batch = Batch::new();
        for &piece in pieces {
            self.keep(locked.stripe_mut(self.hash(piece.first)), piece, &mut batch);
        }
        // Even those that are here already: a write that failed may have left them here alone.
        self.saved.write_mistakes(&self.backend, &batch, self.durability)
    }

    fn keep(&self, mistakes: &mut Mistakes, piece: Span, batch: &mut Batch) {
        let partition = self.hash(piece.first);
        let inserted = self.insert_mistake(mistakes, piece);
        for taken in &inserted.taken {
            batch.remove(Keyspace::Mistakes, stored::<K>(taken.first));
        }
        let Span { first, last } = inserted.whole;
        batch.insert(Keyspace::Mistakes, stored::<K>(first), stored::<K>(last));
        if self.mistakes.load(Ordering::Relaxed) > self.mistakes_kept
            && let Some(forgotten) = mistakes.evict(partition, first)
        {
            batch.remove(Keyspace::Mistakes, stored::<K>(forgotten.first));
            self.mistakes.fetch_sub(1, Ordering::Relaxed);
            self.counters.add(Count::MistakesForgotten, 1);
        }
    }

    pub(super) fn insert_mistake(&self, mistakes: &mut Mistakes, piece: Span) -> Inserted {
        let inserted = mistakes.insert(self.hash(piece.first), piece);
        self.mistakes.fetch_add(1, Ordering::Relaxed);
        self.mistakes.fetch_sub(inserted.taken.len(), Ordering::Relaxed);
        inserted
    }

    /// Remembers the mistakes that were kept, as many as may be.
    pub(super) fn load_mistakes(&self) -> Result<()> {
        let mut locked = self.stripes.lock([Hash::MIN..=Hash::MAX]);
        let mut batch = Batch::new();
        for pair in self.backend.range(Keyspace::Mistakes, (Unbounded, Unbounded)) {
            let (first, last) = pair?;
            let [start, end] = [&first, &last].map(|bytes| Number::<K>::from_bytes(bytes));
            // What no store has written is no mistake.
            let (Some(start), Some(end)) = (start, end) else { continue };
            let piece = Span { first: start.number(), last: end.number() };
            if piece.first > piece.last || self.pieces(piece).nth(1).is_some() {
                continue;
            }
            if self.mistakes.load(Ordering::Relaxed) >= self.mistakes_kept {
                batch.remove(Keyspace::Mistakes, &first);
                self.counters.add(Count::MistakesForgotten, 1);
                continue;
            }
            self.insert_mistake(locked.stripe_mut(self.hash(piece.first)), piece);
        }
        // The saved filter, if any, has them repaired, and is as good as before.
        if batch.is_empty() { Ok(()) } else { Ok(self.backend.write(&batch, self.durability)?) }
    }
}

/// A number as it is on the disk.
pub(super) fn stored<K: StoredKey>(number: u128) -> impl AsRef<[u8]> {
    Number::<K>::new(number).to_bytes()
}
