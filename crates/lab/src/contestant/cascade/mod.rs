//! The cascade over quotient filters.
//!
//! As in the [adaptive Bloom filter](twiceshy::AdaptiveBloomFilter), each level answers for the
//! mistakes of those above, and a cell of the first one that dies is an interval of hashes: here a
//! quotient and a remainder. It needs no list of dead cells: the depth of a cell is the value of its
//! fingerprint, which all members of the cell share.
//!
//! # Invariants
//! 1. The first level holds all members, and lengthens no fingerprint: so a cell has one entry at
//!    most, with the number of its members and its depth, 0 if it is alive.
//! 2. All members of a cell are in the level of its depth, under [another hash](rehash).
//! 3. The last level holds hashes of cells of its depth only.
//!
//! A lookup says "absent" if the first level has no such cell, or if the level of its depth doesn't
//! hold the hash: by the first two, never of a member.

mod contestant;
mod repair;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod validate;

pub(super) use contestant::Cascade;

use twiceshy::{
    AdaptiveQuotientFilter, Answer, BuildError, Hash, InsertError, Member, OrderedHashes,
};

/// Bits of a depth.
const DEPTH_BITS: u32 = 2;

/// The most levels between the first and the last: the schedule has no more at rates up to 1/4.
const MOST_DEEPER: usize = 2;

/// Rates below this one aren't worth a filter: whole hashes are no larger.
const LEAST_RATE: f64 = 1.0 / (1u64 << 48) as f64;

/// The load at which a deeper level doubles.
const GROWTH_LOAD: f64 = 0.95;

/// Plain quotient filters that learn from their mistakes together.
///
/// This is the construction of Bender et al.'s theorem 20, for comparison: an
/// [`AdaptiveQuotientFilter`] lengthens fingerprints where they are, in less space and without
/// another lookup, and is what to take. A cascade makes any filter adaptive whose cells are
/// intervals, and has no more than log* n levels: rates ε, then ε^(1/√ε), then ε^(1/ε₁), so that at
/// ε = 1/4 they are 1/4, 1/16 and 2⁻³², and below 1/16 or so the second is the last one already,
/// which holds whole hashes.
///
/// # Guarantees
/// As those of an [`AdaptiveBloomFilter`](twiceshy::AdaptiveBloomFilter) between two rebuilds, except
/// that the filter knows how many members a cell has, and refuses a list that misses one. If the
/// cell was repaired before, it also refuses a list with hashes that the level below doesn't hold.
/// Otherwise it can't notice a list of the right length with wrong hashes, and loses the members
/// that are missing there.
struct QuotientCascade {
    first: AdaptiveQuotientFilter,
    /// The levels below it, but for the last.
    deeper: Vec<AdaptiveQuotientFilter>,
    last: OrderedHashes,
}

/// Another hash for level `number`, without anything that hashes of one cell have in common.
/// Different hashes stay different.
fn rehash(hash: Hash, number: u32) -> Hash {
    let odd = 0x2d99_787e_fda9_9e3c_9e37_79b9_7f4a_7c15_u128;
    let mut value = hash.as_u128().wrapping_add(u128::from(number));
    for _ in 0..2 {
        value = (value ^ value >> 67).wrapping_mul(odd);
    }
    Hash::from_u128(value ^ value >> 65)
}

/// The rates of the levels between the first and the last.
fn schedule(rate: f64) -> impl Iterator<Item = f64> {
    let second = rate.powf(rate.sqrt().recip());
    let rates = std::iter::successors(Some(second), move |above| Some(rate.powf(above.recip())));
    rates.take_while(|&rate| rate >= LEAST_RATE).take(MOST_DEEPER)
}

impl QuotientCascade {
    /// Builds an empty filter of that rate with room for `capacity` members, and for the repairs of
    /// that many queries. Deeper levels grow if there are more.
    ///
    /// The levels have as many bits as the schedule says, no more: at rates above 1/64 that saves
    /// nothing, as a block of the table has no more slots for it.
    ///
    /// # Errors
    /// If no such filter is possible, or if there is no memory for it.
    fn new(rate: f64, capacity: usize) -> Result<Self, BuildError> {
        if !(LEAST_RATE..1.0).contains(&rate) {
            return Err(BuildError::Rate(rate));
        }
        let level = |rate: f64, members: f64| {
            let bits = rate.recip().log2().ceil().max(1.0) as u32;
            let builder = AdaptiveQuotientFilter::builder().remainder_bits(bits);
            builder.capacity(members as usize)
        };
        let repairs = (rate * capacity as f64).ceil();
        // A depth takes a slot or two beside the fingerprint.
        let first = level(rate, capacity as f64).adaptations((2.0 * repairs) as usize);
        let first = first.value_bits(DEPTH_BITS).build()?;
        let (mut deeper, mut above) = (Vec::new(), rate);
        for below in schedule(rate) {
            let moved = (repairs * above / rate).ceil().max(1.0);
            deeper.push(level(below, moved).adaptations(0).grow_at(GROWTH_LOAD).build()?);
            above = below;
        }
        Ok(Self { first, deeper, last: OrderedHashes::new() })
    }

    fn last_depth(&self) -> u32 {
        self.deeper.len() as u32 + 1
    }

    /// The level that answers for a hash, which is in the first.
    fn depth(&self, hash: Hash) -> u32 {
        self.first.value(hash).unwrap_or(0) as u32
    }

    /// Whether a key of this hash may be a member. "No" is certain.
    fn contains(&self, hash: Hash) -> bool {
        self.first.contains(hash)
            && match self.depth(hash) {
                0 => true,
                depth => self.level_contains(depth, hash),
            }
    }

    fn level_contains(&self, depth: u32, hash: Hash) -> bool {
        let level = self.deeper.get(depth as usize - 1);
        level.map_or_else(|| self.last.contains(hash), |level| level.contains(rehash(hash, depth)))
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used
    /// to repair the filter if it was a mistake.
    fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { self.first.check(hash) } else { Answer::Absent }
    }

    /// Inserts a member; one that is in a dead cell into the level that answers for it, too.
    ///
    /// # Errors
    /// [`InsertError::Full`], and nothing has changed, if no slot is left.
    ///
    /// # Panics
    /// Never: what is taken back was inserted just before.
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.first.insert(hash)?;
        let depth = self.depth(hash);
        if depth > 0
            && let Err(error) = self.insert_below(depth, hash.into())
        {
            self.first.remove(hash).expect("it was inserted just now");
            return Err(error);
        }
        Ok(())
    }

    fn insert_below(&mut self, depth: u32, member: Member) -> Result<(), InsertError> {
        if let Some(level) = self.deeper.get_mut(depth as usize - 1) {
            return level.insert_times(rehash(member.hash, depth), member.count);
        }
        self.last.insert(member.hash);
        Ok(())
    }

    /// How many members the levels below the first have; the last is the one of whole hashes.
    #[cfg(test)]
    fn members_below(&self) -> impl Iterator<Item = usize> {
        let deeper = self.deeper.iter().map(AdaptiveQuotientFilter::len);
        deeper.chain(std::iter::once(self.last.len()))
    }

    /// Bytes of memory that the filter takes.
    fn memory_usage(&self) -> u64 {
        let levels = std::iter::once(&self.first).chain(&self.deeper);
        let beside = size_of::<Self>() - size_of_val(&self.first) - size_of_val(&self.last);
        let levels: u64 = levels.map(AdaptiveQuotientFilter::memory_usage).sum();
        levels + self.last.memory_usage() + beside as u64
    }
    /// Bytes of memory that members and repairs need now.
    fn used_bytes(&self) -> f64 {
        let levels = std::iter::once(&self.first).chain(&self.deeper);
        let used = levels.map(|level| level.memory_usage() as f64 * level.load());
        used.sum::<f64>() + self.last.memory_usage() as f64
    }
}
