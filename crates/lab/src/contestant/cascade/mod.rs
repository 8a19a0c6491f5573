//! A cascade of quotient filters.
//!
//! Each level answers for the mistakes of the levels above it, like in the [adaptive Bloom
//! filter](twiceshy::AdaptiveBloomFilter). A cell of the first level is an interval of hashes: a
//! quotient and a remainder. A cell *dies* when a mistake in it is repaired. No list of dead cells
//! is needed, because the depth of a cell is stored as the value of its fingerprint, which all
//! members of the cell share.
//!
//! # Invariants
//! 1. The first level holds all members, and never lengthens a fingerprint, so a cell has at most
//!    one entry, with the number of its members and its depth; depth 0 means alive.
//! 2. All members of a cell are in the level of its depth, under a [different hash](rehash).
//! 3. The last level only holds hashes of cells of its depth.
//!
//! A lookup answers "absent" if the first level doesn't have the cell, or if the level of the
//! cell's depth doesn't hold the hash. By invariants 1 and 2, it never does so for a member.

mod contestant;
mod repair;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod validate;

pub(super) use contestant::new;

use twiceshy::{
    Answer, Hash, Member, QuotientFilter,
    error::{BuildError, InsertError, PlanError},
    members::OrderedHashes,
};

/// The number of bits of a depth.
const DEPTH_BITS: u32 = 2;

/// The maximum number of levels between the first and the last. At rates up to 1/4, the schedule
/// has no more.
const MOST_DEEPER: usize = 2;

/// The lowest possible rate. At lower rates, a list of whole hashes is no larger than a filter.
const LEAST_RATE: f64 = 1.0 / (1u64 << 48) as f64;

/// The load at which a level below the first doubles.
const GROWTH_LOAD: f64 = 0.95;

/// An adaptive filter that consists of several plain quotient filters.
///
/// This is the construction of Bender et al.'s theorem 20, for comparison. Prefer a
/// [`QuotientFilter`]: it lengthens fingerprints in place, in less space and without further
/// lookups. A cascade can make any filter adaptive if its cells are intervals. It has at most log*
/// n levels with the rates ε, ε^(1/√ε), ε^(1/ε₁), …. At ε = 1/4 they are 1/4, 1/16 and 2⁻³². Below
/// about 1/16, the second level is already the last one, which holds whole hashes.
///
/// # Guarantees
/// The same as those of an [`AdaptiveBloomFilter`](twiceshy::AdaptiveBloomFilter) between two
/// rebuilds, except that the filter knows how many members a cell has, and refuses a list that
/// lacks one. If the cell was repaired before, it also refuses a list with hashes that the level
/// below doesn't hold. Otherwise it can't detect a list of the right length with wrong hashes, and
/// loses the members that are missing from it.
pub(super) struct QuotientCascade {
    first: QuotientFilter,
    /// The levels below the first, except for the last.
    deeper: Vec<QuotientFilter>,
    last: OrderedHashes,
}

/// Returns the hash that level `number` uses instead of `hash`. It mixes the bits, so that the
/// hashes of a cell no longer have bits in common. Different hashes stay different.
fn rehash(hash: Hash, number: u32) -> Hash {
    let odd = 0x2d99_787e_fda9_9e3c_9e37_79b9_7f4a_7c15_u128;
    let mut value = hash.as_u128().wrapping_add(u128::from(number));
    for _ in 0..2 {
        value = (value ^ value >> 67).wrapping_mul(odd);
    }
    Hash::from_u128(value ^ value >> 65)
}

/// Returns the false-positive rates of the levels between the first and the last.
fn schedule(rate: f64) -> impl Iterator<Item = f64> {
    let second = rate.powf(rate.sqrt().recip());
    let rates = std::iter::successors(Some(second), move |above| Some(rate.powf(above.recip())));
    rates.take_while(|&rate| rate >= LEAST_RATE).take(MOST_DEEPER)
}

impl QuotientCascade {
    /// Builds an empty filter with this false-positive rate. It has room for `capacity` members,
    /// and for the repairs after as many queries. If there are more repairs, deeper levels grow.
    ///
    /// The fingerprints of a level have exactly as many bits as the schedule says. At rates above
    /// 1/64, this saves no space, because a block of the table holds no more slots if the slots are
    /// smaller.
    ///
    /// # Errors
    /// If no such filter is possible, or if there is not enough memory.
    fn new(rate: f64, capacity: usize) -> Result<Self, BuildError> {
        if !(LEAST_RATE..1.0).contains(&rate) {
            return Err(PlanError::Rate { rate, least: LEAST_RATE }.into());
        }
        let level = |rate: f64, members: f64| {
            let bits = rate.recip().log2().ceil().max(1.0) as u32;
            let builder = QuotientFilter::builder().remainder_bits(bits);
            builder.capacity(members as usize)
        };
        let repairs = (rate * capacity as f64).ceil();
        // Storing a depth takes one or two slots more than the fingerprint alone.
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

    /// Returns the level that answers for a hash. The first level must contain the hash.
    fn depth(&self, hash: Hash) -> u32 {
        self.first.value(hash).unwrap_or(0) as u32
    }

    /// Returns whether a key with this hash may be a member. "No" is always right.
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

    /// Like [`contains`](Self::contains), but "maybe" carries a claim to repair a mistake with.
    fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { self.first.check(hash) } else { Answer::Absent }
    }

    /// Inserts a member into the first level. If its cell is dead, also inserts it into the level
    /// that answers for the cell.
    ///
    /// # Errors
    /// [`InsertError::Full`] if no slot is left; the filter is unchanged.
    ///
    /// # Panics
    /// Never, because it only undoes an insert that has just succeeded.
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.first.insert(hash)?;
        let depth = self.depth(hash);
        if depth > 0
            && let Err(error) = self.insert_below(depth, hash.into())
        {
            self.first.remove_trusting(hash).expect("it was inserted just now");
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

    /// Returns the number of members in each level below the first. The last level holds whole
    /// hashes.
    #[cfg(test)]
    fn members_below(&self) -> impl Iterator<Item = usize> {
        let deeper = self.deeper.iter().map(QuotientFilter::len);
        deeper.chain(std::iter::once(self.last.len()))
    }

    /// Returns the memory usage in bytes.
    fn memory_usage(&self) -> u64 {
        let levels = std::iter::once(&self.first).chain(&self.deeper);
        let beside = size_of::<Self>() - size_of_val(&self.first) - size_of_val(&self.last);
        let levels: u64 = levels.map(|level| level.stats().memory).sum();
        levels + self.last.memory_usage() + beside as u64
    }

    /// Returns the number of bytes that members and repairs currently need.
    fn used_bytes(&self) -> f64 {
        let levels = std::iter::once(&self.first).chain(&self.deeper);
        let used = levels.map(|level| level.stats().memory as f64 * level.stats().load);
        used.sum::<f64>() + self.last.memory_usage() as f64
    }
}
