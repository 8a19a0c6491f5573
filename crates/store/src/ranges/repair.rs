//! Repairing mistakes, and keeping them.
//!
//! A lookup never waits. If another thread holds the stripes of its mistake, or if the filter has
//! no room, the repair is skipped. A skipped mistake may recur, and is then repaired.

use super::key::Span;
use super::mistakes::Place;
use super::rebuild::FULL;
use super::{Current, MOST_KEPT, Mistakes, Number, RangeStore, StoredKey};
use crate::backend::{Backend, Batch, Keyspace, Unbounded};
use crate::error::Result;
use crate::layout;
use crate::stats::Count;
use crate::stripes::Locked;
use crate::sync::atomic::{AtomicUsize, Ordering};
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use twiceshy::{
    Answer, Hash,
    error::AdaptError,
    range::{self, RangeKey},
};

/// The pieces of one query.
type Pieces = SmallVec<[Span; 2]>;

/// The maximum number of records that are written in one batch.
const AT_ONCE: usize = 1024;

/// The result of trying to repair a mistake.
enum Outcome {
    Repaired,
    /// A member is in the span by now, or another thread has repaired the mistake.
    NoMistake,
    /// The store makes no repairs.
    Unrepaired,
    /// The filter can't repair the span as a whole.
    TooLong,
    /// Another thread holds the stripes, or there is no room.
    Skipped,
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Repairs and keeps a mistake: the filter made the claim although the span was empty. Doesn't
    /// wait for a stripe, write to the backend, or rebuild the filter.
    pub(super) fn repair(&self, span: Span, claim: range::Claim) {
        let outcome =
            if self.repairs { self.try_repair(span, claim) } else { Ok(Outcome::Unrepaired) };
        let count = match outcome {
            Ok(Outcome::Repaired) => Some(Count::Repairs),
            Ok(Outcome::NoMistake) => return,
            Ok(Outcome::Unrepaired) => None,
            Ok(Outcome::TooLong) => return self.counters.add(Count::Unfiltered, 1),
            Ok(Outcome::Skipped) => Some(Count::RepairsSkipped),
            Err(_) => Some(Count::RepairsFailed),
        };
        self.counters.add(Count::FalsePositives, 1);
        if let Some(count) = count {
            self.counters.add(count, 1);
        }
    }

    fn try_repair(&self, span: Span, claim: range::Claim) -> Result<Outcome> {
        let firsts: SmallVec<[u128; 2]> = self.pieces(span).map(|piece| piece.first).collect();
        let Some(mut locked) = self.try_lock(&firsts) else { return Ok(Outcome::Skipped) };
        let pieces = self.worth_keeping(span);
        let is_kept = {
            let mut pieces = pieces.iter().map(|&piece| (self.hash(piece.first), piece));
            pieces.all(|(hash, piece)| locked.stripe(hash).has(hash, piece))
        };
        // The claim was made before the lock was taken, so it doesn't show whether another thread has since
        // repaired a kept mistake, or has brought back a mistake in another piece of the span.
        let claim = (!is_kept && firsts.len() == 1).then_some(claim);
        let mut claim = claim.or_else(|| self.claim(span));
        if claim.is_none() && is_kept {
            // Another thread has repaired the mistake.
            return Ok(Outcome::NoMistake);
        }
        while let Some(current) = claim {
            let members = self.members(current.suspects())?;
            if members.iter().any(|member| span.contains(member.number())) {
                return Ok(Outcome::NoMistake);
            }
            claim = match self.adapt(span, &current, &members) {
                Ok(ghosts) => {
                    self.counters.add(Count::GhostsCleared, ghosts);
                    None
                }
                // The filter was replaced after the claim was made.
                Err(AdaptError::Stale) => self.claim(span),
                Err(AdaptError::TooLong) => return Ok(Outcome::TooLong),
                Err(AdaptError::Full { .. }) => {
                    let generation = self.filter().generation;
                    self.wants_room_in(generation);
                    return Ok(Outcome::Skipped);
                }
                Err(error) => return Err(error.into()),
            };
        }
        if is_kept {
            self.counters.add(Count::RepeatedFalsePositives, 1);
        }
        for &piece in &pieces {
            self.keep(locked.stripe_mut(self.hash(piece.first)), piece);
        }
        Ok(Outcome::Repaired)
    }

    /// Asks the filter about a span. Returns its claim, or `None` if it answers "absent".
    pub(super) fn claim(&self, span: Span) -> Option<range::Claim> {
        match self.filter().filter.check_range(span.numbers()) {
            Answer::Absent => None,
            Answer::Maybe(claim) => Some(claim),
        }
    }

    /// Adapts the filter to a claim. A write elsewhere may have made the claim stale, but no thread writes in
    /// the stripes that are held. So if a new claim names the same members, the listing is still complete.
    fn adapt(
        &self,
        span: Span,
        claim: &range::Claim,
        members: &[Number<K>],
    ) -> Result<u64, AdaptError> {
        let Current { filter, generation, .. } = &mut *self.filter_mut();
        let listing = || range::Listing::new(members).dropping_ghosts();
        let mut adapted = filter.adapt(claim, listing());
        if adapted == Err(AdaptError::Stale) {
            match filter.check_range(span.numbers()) {
                Answer::Absent => return Ok(0),
                Answer::Maybe(now) if now.suspects().eq(claim.suspects()) => {
                    adapted = filter.adapt(&now, listing());
                }
                Answer::Maybe(_) => {}
            }
        }
        let ghosts = adapted?.ghosts;
        self.is_outdated.store(true, Ordering::Release);
        if filter.stats().load > FULL {
            self.wants_room_in(*generation);
        }
        Ok(ghosts)
    }

    /// Returns the pieces of a mistake to keep: all pieces, or, if there are more than the limit, those that
    /// the filter is wrong about.
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

    /// Lists the members in intervals of hashes. Two intervals may be equal, but must not overlap in part.
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

    /// Keeps a piece of a mistake, so that it is repaired again when the filter is rebuilt, or when a new
    /// member collides with it.
    fn keep(&self, mistakes: &mut Mistakes, piece: Span) {
        let partition = self.hash(piece.first);
        if mistakes.has(partition, piece) {
            return;
        }
        let whole = self.change(mistakes, |mistakes| mistakes.insert(partition, piece).whole);
        if self.mistakes.load(Ordering::Relaxed) > self.mistakes_kept {
            self.change(mistakes, |mistakes| mistakes.evict(partition, whole.first));
            self.counters.add(Count::MistakesForgotten, 1);
        }
    }

    /// Changes the mistakes of a stripe, and updates the totals.
    pub(super) fn change<T>(
        &self,
        mistakes: &mut Mistakes,
        change: impl FnOnce(&mut Mistakes) -> T,
    ) -> T {
        let before = (mistakes.len(), mistakes.marked());
        let changed = change(mistakes);
        let update = |total: &AtomicUsize, before, now| {
            // If there are fewer mistakes now, both the difference and the sum wrap around, and the
            // total is right.
            total.fetch_add(usize::wrapping_sub(now, before), Ordering::Relaxed);
        };
        update(&self.mistakes, before.0, mistakes.len());
        update(&self.marked, before.1, mistakes.marked());
        changed
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
            let partition = self.hash(piece.first);
            self.change(locked.stripe_mut(partition), |mistakes| mistakes.load(partition, piece));
        }
        self.storage.forget_mistakes(&batch)
    }

    /// Adds up to `most` outdated records of some partitions to a batch, and returns their places.
    /// After the batch was written, pass the places to [`written`](Self::written).
    pub(super) fn write_outdated(
        locked: &mut Locked<'_, Mistakes>,
        hashes: &RangeInclusive<Hash>,
        most: usize,
        batch: &mut Batch,
    ) -> Vec<Place> {
        let outdated = locked.stripes(hashes).flat_map(|mistakes| mistakes.outdated(hashes));
        let outdated: Vec<_> = outdated.take(most).collect();
        for &(place, last) in &outdated {
            let first = stored::<K>(place.1);
            match last {
                Some(last) => batch.insert(Keyspace::Mistakes, first, stored::<K>(last)),
                None => batch.remove(Keyspace::Mistakes, first),
            }
            locked.stripe_mut(place.0).writing(place);
        }
        outdated.into_iter().map(|(place, _)| place).collect()
    }

    /// Notes that records were written.
    pub(super) fn written(&self, locked: &mut Locked<'_, Mistakes>, places: &[Place]) {
        for &place in places {
            self.change(locked.stripe_mut(place.0), |mistakes| mistakes.written(place));
        }
    }

    /// Writes records that are out of date, without syncing the backend. Returns whether there are more. If
    /// this fails, they are written later. Don't hold a stripe.
    fn flush_some(&self) -> Result<bool> {
        let mut locked = self.stripes.lock([Hash::MIN..=Hash::MAX]);
        let mut batch = Batch::new();
        let places =
            Self::write_outdated(&mut locked, &(Hash::MIN..=Hash::MAX), AT_ONCE, &mut batch);
        if !batch.is_empty() {
            self.storage.write_hints(&batch)?;
        }
        self.written(&mut locked, &places);
        Ok(places.len() == AT_ONCE)
    }

    /// Writes all records that are out of date, without syncing the backend.
    pub(super) fn flush_records(&self) -> Result<()> {
        while self.marked.load(Ordering::Relaxed) > 0 && self.flush_some()? {}
        Ok(())
    }

    /// Writes records if many are out of date. Call this after a write, without holding a stripe.
    pub(super) fn flush_many_records(&self) {
        if self.marked.load(Ordering::Relaxed) >= AT_ONCE / 2 {
            // If this fails, the next write tries again.
            let _ = self.flush_some();
        }
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

/// Returns the bytes with which a number is stored on disk.
pub(super) fn stored<K: StoredKey>(number: u128) -> impl AsRef<[u8]> {
    Number::<K>::new(number).to_bytes()
}
