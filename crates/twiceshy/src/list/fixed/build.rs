//! Builds a filter from two lists.

use super::block::{self, BLOCK, BitWriter, Group, MOST_KEYS};
use super::lookup::{quotient, remainder};
use super::shape::{MAX_REMAINDER_BITS, Shape};
use super::{Details, Tally, YesNoFilter, bytes_of, index_bytes};
use crate::bits::memory::{LINE, Lines};
use crate::builder::{Builder, DEFAULT_RATE, Limits, Plan, Plannable, sealed};
use crate::error::{BuildError, PlanError};
use crate::list::ListError;
use crate::sorting::scatter;
use crate::{Hash, Key, Keyed, hash::KeyedHasher};
use core::borrow::Borrow;

/// Builder options that only a [`YesNoFilter`] has.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    no_capacity: u64,
    /// The shape of the filter that was given to [`like`](Builder::like).
    base: Option<Shape>,
    label: u32,
}

/// Minimum width of a remainder if the no list isn't empty. With one bit, a quotient with two
/// yes-list keys and a no-list key usually has no seed.
const LEAST_BITS: u32 = 2;

/// The lowest rate that can be requested.
const LEAST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// Maximum number of seeds to try per group. If none works, the filter is planned again with longer
/// remainders. This happens only with remainders of three bits or less, and large lists.
pub(super) const MAX_SEEDS: u64 = 1 << 16;

/// Average number of hashes per bucket when lists are sorted.
const BUCKET: usize = 16;

/// Maximum average number of seeds that a group should try after longer remainders were chosen.
const FEW_TRIES: f64 = 64.0;

/// Maximum number of hashes to compute per key to find all seeds of a filter. Lists of random
/// hashes stay below it, because [`Shape::plan`] limits the tries. But an attacker who knows the
/// secret can choose keys that share a quotient, and no seed would ever separate them.
const HASHES_PER_KEY: f64 = 512.0;
const HASHES: f64 = (1 << 22) as f64;

impl sealed::Sealed for YesNoFilter {}

impl Plannable for YesNoFilter {
    type Options = Options;
    type Details = Details;
    /// The size follows from the lists.
    const CAPACITY: Option<usize> = Some(0);

    fn limits(_: &Builder<Self>) -> Result<Limits, PlanError> {
        Ok(Limits { least_rate: LEAST_RATE, most_bits: MAX_REMAINDER_BITS })
    }

    /// Plans a filter with `capacity` yes-list keys. The plan's memory is an estimate, because the
    /// seeds depend on the keys. If memory is limited, it includes room for random variation.
    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<Details>> {
        let Options { no_capacity: no, label, .. } = builder.options;
        let (yes, rate) = (capacity as u64, builder.rate().unwrap_or(DEFAULT_RATE));
        let shape = builder.shape([yes, no], [yes, no], rate)?;
        let expected_rate = -(-(yes as f64) / shape.fingerprints()).exp_m1();
        let bits = shape.expected_bits(yes, no);
        let spare = if builder.memory.is_some() { 0.01 * bits + 8.0 * bits.sqrt() } else { 0.0 };
        let lines = ((bits + spare) / (8 * LINE) as f64).ceil() as usize;
        let size = (shape.quotients(), shape.remainder_bits);
        let details = shape.details(Tally { yes, no, fingerprints: yes, rate, label });
        Some(Plan::new(capacity, size, expected_rate, bytes_of(lines), details))
    }
}

/// The size of a [`YesNoFilter`] follows from its two lists. A capacity makes it larger than that,
/// so that longer lists still fit. A memory limit restricts the number of yes-list keys.
///
/// ```
/// use twiceshy::YesNoFilter;
///
/// let builder = YesNoFilter::builder().false_positive_rate(1.0 / 256.0);
/// let plan = builder.capacity(1_000_000).no_capacity(1_000_000).plan()?;
/// assert!(plan.bits_per_member < 10.3 && plan.expected_rate < 1.0 / 256.0);
/// # Ok::<(), twiceshy::error::PlanError>(())
/// ```
impl Builder<YesNoFilter> {
    /// Plans the filter for at least `keys` no-list keys; see [`capacity`](Self::capacity).
    #[must_use]
    pub fn no_capacity(mut self, keys: usize) -> Self {
        self.options.no_capacity = keys as u64;
        self
    }

    /// Makes the filter similar to `base`, so that the [delta](YesNoFilter::delta_to) between the
    /// two is small. The filter gets the same shape if the lists fit in it, and the same rate
    /// unless a rate was set. Keys must be hashed with the same [secret](Self::secret).
    ///
    /// A published filter contains its secret. An attacker who reads it can choose keys that
    /// collide, and if these get on the lists, the next filter with the same secret is larger. So
    /// use the secret of an older filter only to build one that is like it.
    #[must_use]
    pub fn like(mut self, base: &YesNoFilter) -> Self {
        self.options.base = Some(base.shape);
        self.rate = self.rate.or(Some(base.tally.rate));
        self
    }

    /// Sets a number that is stored in the filter for your own use. For example, it can record how
    /// keys are made from lines.
    #[must_use]
    pub fn label(mut self, label: u32) -> Self {
        self.options.label = label;
        self
    }

    /// Builds a filter from two lists of keys, in any order.
    ///
    /// # Errors
    /// The same as for [`build`](Self::build), or if there is no entropy for a fresh secret.
    pub fn build_keyed<K: Key + ?Sized, Q: Borrow<K>>(
        &self,
        yes: &[Q],
        no: &[Q],
    ) -> Result<Keyed<K, YesNoFilter>, ListError> {
        let secret = self.secret_or_fresh().map_err(BuildError::from)?;
        let hasher = KeyedHasher::new(&secret);
        let [yes, no] = [yes, no]
            .map(|keys| keys.iter().map(|key| hasher.hash(key.borrow())).collect::<Vec<Hash>>());
        Ok(Keyed::new(self.build(&yes, &no)?, secret))
    }

    /// Builds a filter from two lists of hashes, in any order. Duplicates in a list don't matter,
    /// except that they count when a limited size is planned.
    ///
    /// # Errors
    /// [`ListError::OnBothLists`] names a hash that is on both lists. [`ListError::Build`] if the
    /// options are impossible, if there is not enough memory, or if the lists don't fit in the
    /// [memory](Self::memory) that was given. [`ListError::Uneven`] if the hashes aren't random.
    pub fn build(&self, yes: &[Hash], no: &[Hash]) -> Result<YesNoFilter, ListError> {
        let mut with_no_list = self.clone();
        with_no_list.options.no_capacity = self.options.no_capacity.max(no.len() as u64);
        let plan = with_no_list.plan()?;
        let lists = [sorted(yes)?, sorted(no)?];
        if let Some(hash) = first_common(&lists[0], &lists[1]) {
            let position = |list: &[Hash]| list.iter().position(|&other| other == hash);
            let [yes, no] = [yes, no].map(|list| position(list).unwrap_or_default());
            return Err(ListError::OnBothLists { hash, yes, no });
        }
        let [different, capacity] = [lists[0].len(), plan.capacity].map(|count| count as u64);
        if self.memory.is_some() && different > capacity {
            return Err(BuildError::Members { capacity }.into());
        }
        let Options { no_capacity, label, .. } = self.options;
        let counts = [yes.len() as u64, no.len() as u64];
        let [planned_yes, planned_no] = [counts[0].max(capacity), counts[1].max(no_capacity)];
        let planned = [planned_yes, planned_no];
        let rate = plan.details.planned_rate;
        let tally = Tally { yes: different, no: counts[1], fingerprints: 0, rate, label };
        let too_many = || BuildError::from(PlanError::Capacity(planned_yes as usize));
        let mut shape = self.shape(counts, planned, rate).ok_or_else(too_many)?;
        loop {
            match write(shape, tally, [&lists[0], &lists[1]])? {
                Ok(filter) => {
                    let used = filter.stats().memory;
                    return match self.memory.filter(|&most| used > most) {
                        Some(most) => Err(PlanError::Budget(most).into()),
                        None => Ok(filter),
                    };
                }
                // Some quotient has too many keys of both lists.
                Err(NoSeed { least_bits }) => {
                    let larger = Shape::plan(planned_yes, planned_no, rate, least_bits);
                    shape = larger.ok_or_else(too_many)?;
                }
            }
        }
    }

    /// Returns the base's shape if it can hold as many keys as `counts` says, and otherwise the
    /// smallest shape for the `planned` numbers of keys.
    fn shape(&self, counts: [u64; 2], planned: [u64; 2], rate: f64) -> Option<Shape> {
        let base = self.options.base.filter(|base| base.serves(counts[0], counts[1], rate));
        let least_bits = if counts[1] == 0 { 1 } else { LEAST_BITS };
        base.or_else(|| Shape::plan(planned[0], planned[1], rate, least_bits))
    }
}

/// Returns a sorted copy of a list, without duplicates. Takes linear time if the hashes are random,
/// because it first scatters them into buckets by their leading bits.
fn sorted(list: &[Hash]) -> Result<Vec<Hash>, BuildError> {
    let bits = (list.len() / BUCKET).max(1).ilog2();
    let bucket = |hash: &Hash| hash.as_u128().unbounded_shr(128 - bits) as usize;
    let mut sorted = Vec::new();
    let no_memory = |_| BuildError::Memory { bytes: size_of_val(list) as u64 };
    sorted.try_reserve_exact(list.len()).map_err(no_memory)?;
    sorted.resize(list.len(), Hash::MIN);
    let items = list.iter().map(|hash| (bucket(hash), *hash));
    scatter(1 << bits, items, |place, hash| sorted[place] = hash);
    sorted.chunk_by_mut(|a, b| bucket(a) == bucket(b)).for_each(<[Hash]>::sort_unstable);
    sorted.dedup();
    Ok(sorted)
}

/// Returns the first hash that is on both of two sorted lists.
pub(in crate::list) fn first_common(yes: &[Hash], no: &[Hash]) -> Option<Hash> {
    let mut no = no.iter().copied().peekable();
    yes.iter().copied().find(|&yes| {
        while no.next_if(|&no| no < yes).is_some() {}
        no.peek() == Some(&yes)
    })
}

/// The error when a group has no seed. Remainders must have at least `least_bits` bits.
struct NoSeed {
    least_bits: u32,
}

/// The yes-list keys and the no-list keys of a quotient.
type Keys<'a> = [&'a [Hash]; 2];

/// Builds a filter of this shape. The lists are sorted, so they are in the order of quotients.
fn write(
    shape: Shape,
    mut tally: Tally,
    mut lists: Keys<'_>,
) -> Result<Result<YesNoFilter, NoSeed>, ListError> {
    let mut hashes_left = HASHES + HASHES_PER_KEY * (lists[0].len() + lists[1].len()) as f64;
    let mut writer = Writer::new(shape);
    for block in 0..shape.blocks {
        let numbers = block * BLOCK as u64..(block + 1) * BLOCK as u64;
        let keys_of = |number: u64| {
            lists.each_mut().map(|list| {
                let is_here = |&&hash: &&Hash| quotient(hash, shape.quotients()) == number;
                let count = list.iter().take_while(is_here).count();
                list.split_off(..count).expect("the list is longer")
            })
        };
        let keys: Vec<Keys<'_>> = numbers.map(keys_of).collect();
        let groups = keys.chunks(1 << shape.group_bits);
        let groups = groups.map(|keys| seeded(shape.remainder_bits, keys, &mut hashes_left));
        match groups.collect::<Result<Vec<Group>, NoSeed>>() {
            Ok(groups) => tally.fingerprints += writer.push(&groups)?,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(YesNoFilter::from_parts(shape, tally, writer.finish()?)))
}

/// Finds the smallest seed that separates the yes-list keys of each quotient from its no-list keys,
/// and returns the group. Subtracts the expected number of computed hashes from `hashes_left`.
fn seeded(bits: u32, quotients: &[Keys<'_>], hashes_left: &mut f64) -> Result<Group, NoSeed> {
    *hashes_left -= hashes_to_seed(bits, quotients, *hashes_left)?;
    let mut fingerprints = Vec::new();
    'seeds: for seed in 0..MAX_SEEDS {
        fingerprints.clear();
        for (quotient, [yes, no]) in (0u64..).zip(quotients) {
            if yes.is_empty() {
                continue;
            }
            let fingerprint = |&hash: &Hash| quotient << bits | remainder(hash, seed, bits);
            let start = fingerprints.len();
            fingerprints.extend(yes.iter().map(fingerprint));
            if no.iter().any(|hash| fingerprints[start..].contains(&fingerprint(hash))) {
                continue 'seeds;
            }
        }
        fingerprints.sort_unstable();
        fingerprints.dedup();
        return Ok(Group { seed, fingerprints });
    }
    Err(NoSeed { least_bits: bits + 1 })
}

/// Returns the average number of hashes to compute until a seed is found.
///
/// A seed works if no yes-list key has the same remainder as a no-list key of its quotient. The
/// probability is e^(-pairs/2^bits), if there are `pairs` such pairs of keys. If it is too low, the
/// error names a sufficient number of bits.
fn hashes_to_seed(bits: u32, quotients: &[Keys<'_>], hashes_left: f64) -> Result<f64, NoSeed> {
    let counts = quotients.iter().map(|[yes, no]| (yes.len() as f64, no.len() as f64));
    let both = counts.filter(|(yes, no)| yes * no > 0.0);
    let (pairs, keys) =
        both.fold((0.0, 0.0), |(pairs, keys), (yes, no)| (pairs + yes * no, keys + yes + no));
    let tries = (pairs / f64::from(bits).exp2()).exp();
    let hashes = tries.min(MAX_SEEDS as f64) * keys;
    if hashes <= hashes_left {
        return Ok(hashes);
    }
    let enough = (pairs / FEW_TRIES.ln()).log2().ceil() as u32;
    Err(NoSeed { least_bits: enough.max(bits + 1) })
}

/// Writes an index and the blocks.
pub(super) struct Writer {
    shape: Shape,
    /// The start of each block, in words.
    starts: Vec<u32>,
    pub(super) blocks: BitWriter,
}

impl Writer {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, starts: vec![0], blocks: BitWriter::default() }
    }

    /// Writes the next block. Returns the number of its fingerprints.
    pub(super) fn push(&mut self, groups: &[Group]) -> Result<u64, ListError> {
        let keys: usize = groups.iter().map(|group| group.fingerprints.len()).sum();
        if keys > MOST_KEYS {
            return Err(ListError::Uneven);
        }
        block::write(&self.shape, groups, &mut self.blocks);
        let words = self.blocks.words.len();
        let no_memory = |_| BuildError::Memory { bytes: 8 * words as u64 };
        self.starts.push(u32::try_from(words).map_err(no_memory)?);
        Ok(keys as u64)
    }

    pub(super) fn finish(self) -> Result<Lines, BuildError> {
        let index = index_bytes(self.shape.blocks);
        let bytes = index + 8 * self.blocks.words.len();
        let lines = Lines::zeroed(bytes.div_ceil(LINE));
        let mut lines = lines.ok_or(BuildError::Memory { bytes: bytes as u64 })?;
        let (starts, blocks) = lines.bytes_mut().split_at_mut(index);
        for (place, start) in starts.as_chunks_mut().0.iter_mut().zip(&self.starts) {
            *place = start.to_le_bytes();
        }
        for (place, word) in blocks.as_chunks_mut().0.iter_mut().zip(&self.blocks.words) {
            *place = word.to_le_bytes();
        }
        Ok(lines)
    }
}
