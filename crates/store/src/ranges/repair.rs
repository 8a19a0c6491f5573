//! Repairing mistakes, and keeping them.

use super::key::Span;
use super::mistakes::Inserted;
use super::rebuild::Tried;
use super::{MOST_KEPT, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Batch, Keyspace, Unbounded};
use crate::error::Result;
use crate::layout;
use crate::stats::Count;
use crate::stripes::Locked;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use twiceshy::{
    Hash,
    error::AdaptError,
    range::{self, RangeKey},
};

/// The pieces of one query.
type Pieces = SmallVec<[Span; 2]>;

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Repairs and keeps a mistake: the filter made the claim, and the span was empty.
    pub(super) fn repair(&self, span: Span, claim: range::Claim) {
        if !self.repairs {
            self.counters.add(Count::FalsePositives, 1);
            return;
        }
        let (claim, mistaken) = (Cell::new(Some(claim)), Cell::default());
        if self.making_room(|| self.try_repair(span, claim.take(), &mistaken)).is_err() {
            self.counters.add(Count::RepairsFailed, 1);
        }
    }

    /// Tries to repair a mistake. `mistaken` tells the next try which pieces to keep: a larger filter may
    /// answer "empty", but the mistake must be kept all the same.
    fn try_repair(
        &self,
        span: Span,
        claim: Option<range::Claim>,
        mistaken: &Cell<Option<Pieces>>,
    ) -> Tried<()> {
        let firsts: SmallVec<[u128; 2]> = self.pieces(span).map(|piece| piece.first).collect();
        let mut locked = self.lock(&firsts);
        let known = mistaken.take();
        let is_known = known.is_some();
        let pieces = known.unwrap_or_else(|| self.worth_keeping(span));
        let is_kept = {
            let mut pieces = pieces.iter().map(|&piece| (self.hash(piece.first), piece));
            pieces.all(|(hash, piece)| locked.stripe(hash).has(hash, piece))
        };
        // The claim is older than the lock. It doesn't tell whether another thread has repaired a kept
        // mistake since, or has brought back another piece of the span.
        let claim = claim.filter(|_| !is_kept && firsts.len() == 1);
        let mut claim = claim.or_else(|| self.claim(span));
        if claim.is_none() && !is_known && is_kept {
            // Another thread has repaired the mistake.
            return Ok(Ok(()));
        }
        while let Some(current) = claim {
            let members = self.members(current.suspects())?;
            if members.iter().any(|member| span.contains(member.number())) {
                return Ok(Ok(()));
            }
            claim = match self.adapt(span, &current, &members) {
                Ok(ghosts) => {
                    self.counters.add(Count::GhostsCleared, ghosts);
                    None
                }
                // The claim is from before the filter was replaced.
                Err(AdaptError::Stale) => self.claim(span),
                Err(AdaptError::TooLong) => {
                    self.counters.add(Count::Unfiltered, 1);
                    return Ok(Ok(()));
                }
                Err(error) => {
                    mistaken.set(Some(pieces));
                    return Ok(Err(error.into()));
                }
            };
        }
        self.counters.add(Count::FalsePositives, 1);
        self.counters.add(Count::Repairs, 1);
        if is_kept {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        self.keep_all(&mut locked, &pieces)?;
        Ok(Ok(()))
    }

    /// Asks the filter about a span. Returns its claim, or `None` if the span is empty.
    pub(super) fn claim(&self, span: Span) -> Option<range::Claim> {
        match self.filter().filter.check_range(span.numbers()) {
            range::Answer::Empty => None,
            range::Answer::Maybe(claim) => Some(claim),
        }
    }

    /// Adapts the filter to a claim. A write nearby may have made the claim stale, but not within the
    /// stripes that are held. So if a new claim names the same members, the listing is still true.
    fn adapt(
        &self,
        span: Span,
        claim: &range::Claim,
        members: &[Number<K>],
    ) -> Result<u64, AdaptError> {
        let filter = &mut self.filter_mut().filter;
        let listing = || range::Listing::new(members).dropping_ghosts();
        let mut adapted = filter.adapt(claim, listing());
        if adapted == Err(AdaptError::Stale) {
            match filter.check_range(span.numbers()) {
                range::Answer::Empty => return Ok(0),
                range::Answer::Maybe(now) if now.suspects().eq(claim.suspects()) => {
                    adapted = filter.adapt(&now, listing());
                }
                range::Answer::Maybe(_) => {}
            }
        }
        Ok(adapted?.ghosts)
    }

    /// Returns the pieces of a mistake to keep: all pieces, or, if there are many, those that the filter is
    /// wrong about.
    fn worth_keeping(&self, span: Span) -> Pieces {
        let mut pieces: Pieces = self.pieces(span).take(MOST_KEPT + 1).collect();
        if pieces.len() > MOST_KEPT {
            let filter = &self.filter().filter;
            let is_maybe = |piece: &Span| filter.contains_range(piece.numbers());
            pieces = self.pieces(span).filter(is_maybe).take(MOST_KEPT).collect();
        }
        pieces
    }

    /// Lists the members in an interval of hashes, with their hashes.
    pub(super) fn listed(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = Result<(Hash, Number<K>)>> {
        layout::listed(&self.storage.backend, Keyspace::Members, hashes, |key| {
            let number = Number::from_bytes(key)?;
            Some((self.partitions.hash_of(number), number))
        })
    }

    /// Lists the members in intervals of hashes. Intervals may be equal, but not overlap otherwise.
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

    /// Keeps the pieces of a mistake, so that they are repaired again when the filter is rebuilt, or when
    /// a new member collides with one.
    fn keep_all(&self, locked: &mut Locked<'_, Mistakes>, pieces: &[Span]) -> Result<()> {
        let mut batch = Batch::new();
        for &piece in pieces {
            self.keep(locked.stripe_mut(self.hash(piece.first)), piece, &mut batch);
        }
        // Write all pieces: a failed write may have left some out of the backend.
        self.storage.write_mistakes(&batch)
    }

    fn keep(&self, mistakes: &mut Mistakes, piece: Span, batch: &mut Batch) {
        let partition = self.hash(piece.first);
        let inserted = self.insert_mistake(mistakes, piece);
        for joined in &inserted.joined {
            batch.remove(Keyspace::Mistakes, stored::<K>(joined.first));
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
        self.mistakes.fetch_sub(inserted.joined.len(), Ordering::Relaxed);
        inserted
    }

    /// Loads kept mistakes, up to the limit.
    pub(super) fn load_mistakes(&self) -> Result<()> {
        let mut locked = self.stripes.lock([Hash::MIN..=Hash::MAX]);
        let mut batch = Batch::new();
        for piece in self.kept_mistakes() {
            let piece = piece?;
            if self.mistakes.load(Ordering::Relaxed) >= self.mistakes_kept {
                batch.remove(Keyspace::Mistakes, stored::<K>(piece.first));
                self.counters.add(Count::MistakesForgotten, 1);
                continue;
            }
            self.insert_mistake(locked.stripe_mut(self.hash(piece.first)), piece);
        }
        self.storage.forget_mistakes(&batch)
    }

    /// Returns the mistakes that the backend keeps, in the order of their numbers.
    pub(super) fn kept_mistakes(&self) -> impl Iterator<Item = Result<Span>> {
        let pairs = self.storage.backend.range(Keyspace::Mistakes, (Unbounded, Unbounded));
        pairs.filter_map(|pair| {
            let (first, last) = match pair {
                Ok(pair) => pair,
                Err(error) => return Some(Err(error.into())),
            };
            // Skip pairs that no store has written.
            let [first, last] = [&first, &last].map(|bytes| Number::<K>::from_bytes(bytes));
            let piece = Span { first: first?.number(), last: last?.number() };
            let is_piece = piece.first <= piece.last && self.pieces(piece).nth(1).is_none();
            is_piece.then_some(Ok(piece))
        })
    }
}

/// Returns the bytes of a number on the disk.
pub(super) fn stored<K: StoredKey>(number: u128) -> impl AsRef<[u8]> {
    Number::<K>::new(number).to_bytes()
}
