//! Builds a filter from two lists.

use super::block::{self, BLOCK, BitWriter, Group, MOST_KEYS};
use super::lookup::quotient;
use super::seed::Mix;
use super::shape::{BLOCK_BITS, Shape};
use super::{Tally, YesNoFilter, index_bytes};
use crate::bits::memory::{LINE, Lines};
use crate::builder::DEFAULT_RATE;
use crate::error::{BuildError, PlanError};
use crate::list::ListError;
use crate::{Hash, Key, Keyed, Secret, hash::KeyedHasher};
use core::borrow::Borrow;
use core::ops::Range;
use std::collections::HashSet;

/// Builds a [`YesNoFilter`]. The options have the same names as those of the common
/// [`Builder`](crate::builder::Builder). The size follows from the two lists.
#[derive(Clone, Debug, Default)]
pub struct FilterBuilder {
    rate: Option<f64>,
    /// Minimum number of yes keys and of no keys to plan for.
    capacities: [u64; 2],
    secret: Option<Secret>,
    base: Option<(Shape, f64)>,
    label: u32,
}

/// Minimum width of a remainder if there are no keys. With one bit, a quotient with two yes keys
/// and a no key usually has no seed.
const LEAST_BITS: u32 = 2;

/// The lowest rate, the same as for the other filters.
const LEAST_RATE: f64 = 1.0 / (1u64 << 56) as f64;

/// After this many seeds, check whether a key is on both lists; then no seed works.
const SEEDS_BEFORE_CHECK: u64 = 1 << 9;

/// Maximum number of seeds to try. If none works, the filter is planned again with longer
/// remainders. This happens only with remainders of three bits or less, and large lists.
pub(super) const MAX_SEEDS: u64 = 1 << 16;

/// Number of seeds that a group should need at most, when longer remainders are chosen for it.
const FEW_TRIES: f64 = 64.0;

/// Limit of the hashes that are computed to find seeds, per key and per filter. Lists of random
/// hashes stay below it, because [`Shape::plan`] limits the tries. But an attacker who knows the
/// secret can choose keys that share a quotient, and no seed would ever separate them.
const HASHES_PER_KEY: f64 = 512.0;
const HASHES: f64 = (1 << 22) as f64;

impl FilterBuilder {
    /// Sets the highest probability that a key on neither list is answered yes; 0.001 by default,
    /// or the rate of the filter that this one is [like](Self::like).
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Plans the filter for at least this many yes keys, so that filters of later, longer lists can
    /// be [like](Self::like) this one.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacities[0] = keys as u64;
        self
    }

    /// Plans the filter for at least this many no keys; see [`capacity`](Self::capacity).
    #[must_use]
    pub fn no_capacity(mut self, keys: usize) -> Self {
        self.capacities[1] = keys as u64;
        self
    }

    /// Sets the secret that hashes keys; a fresh one by default.
    ///
    /// A published filter contains its secret. An attacker who reads it can choose keys that
    /// collide, and if these get on the lists, the next filter with the same secret is larger. So
    /// use the secret of an older filter only to build one that is [like](Self::like) it.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Gives the filter the same shape as another, if the lists fit in that shape. Then the
    /// [delta](YesNoFilter::delta_to) between them is small. Keys must be hashed with the same
    /// [secret](Self::secret).
    #[must_use]
    pub fn like(mut self, base: &YesNoFilter) -> Self {
        self.base = Some((base.shape, base.tally.rate));
        self
    }

    /// Sets a number of your own, which the filter keeps: for example, how keys are made from
    /// lines.
    #[must_use]
    pub fn label(mut self, label: u32) -> Self {
        self.label = label;
        self
    }

    /// Builds a filter of two lists of keys, in any order.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there is no entropy for a fresh secret.
    pub fn build_keyed<K: Key + ?Sized, Q: Borrow<K>>(
        &self,
        yes: &[Q],
        no: &[Q],
    ) -> Result<Keyed<K, YesNoFilter>, ListError> {
        let secret = self.secret_or_fresh()?;
        let hasher = KeyedHasher::new(&secret);
        let [yes, no] = [yes, no]
            .map(|keys| keys.iter().map(|key| hasher.hash(key.borrow())).collect::<Vec<Hash>>());
        Ok(Keyed::new(self.build(&yes, &no)?, secret))
    }

    pub(crate) fn secret_or_fresh(&self) -> Result<Secret, BuildError> {
        Ok(self.secret.clone().map_or_else(Secret::generate, Ok)?)
    }

    /// Builds a filter of two lists of hashes, in any order. Duplicates in a list don't matter.
    ///
    /// # Errors
    /// [`ListError::OnBothLists`] names a hash that is on both lists. [`ListError::Build`] if the
    /// rate is impossible, or if there is not enough memory.
    pub fn build(&self, yes: &[Hash], no: &[Hash]) -> Result<YesNoFilter, ListError> {
        let rate = self.rate.or(self.base.map(|(_, rate)| rate)).unwrap_or(DEFAULT_RATE);
        if !(LEAST_RATE..1.0).contains(&rate) {
            return Err(BuildError::from(PlanError::Rate { rate, least: LEAST_RATE }).into());
        }
        let counts = [yes.len() as u64, no.len() as u64];
        let like = self.base.map(|(shape, _)| shape);
        let mut shape = match like.filter(|shape| shape.serves(counts[0], counts[1], rate)) {
            Some(shape) => shape,
            None => self.plan(counts, rate, if no.is_empty() { 1 } else { LEAST_BITS })?,
        };
        loop {
            match write(shape, rate, self.label, yes, no) {
                // Many keys of both lists have one quotient.
                Err(Unseparated::Group { least_bits }) => {
                    shape = self.plan(counts, rate, least_bits)?;
                }
                Err(Unseparated::Equal(hash)) => {
                    let place = |hashes: &[Hash]| hashes.iter().position(|&other| other == hash);
                    let (yes, no) = (place(yes).unwrap_or(0), place(no).unwrap_or(0));
                    return Err(ListError::OnBothLists { hash, yes, no });
                }
                Err(Unseparated::Build(error)) => return Err(error.into()),
                Ok(filter) => return Ok(filter),
            }
        }
    }

    fn plan(&self, counts: [u64; 2], rate: f64, least: u32) -> Result<Shape, BuildError> {
        let [yes, no] = [0, 1].map(|list| counts[list].max(self.capacities[list]));
        let shape = Shape::plan(yes, no, rate, least);
        Ok(shape.ok_or(PlanError::Capacity(yes as usize))?)
    }
}

/// The reason why building failed.
enum Unseparated {
    /// A group has no seed unless remainders have at least this many bits.
    Group {
        least_bits: u32,
    },
    /// This hash is on both lists.
    Equal(Hash),
    Build(BuildError),
}

impl From<BuildError> for Unseparated {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

fn write(
    shape: Shape,
    rate: f64,
    label: u32,
    yes: &[Hash],
    no: &[Hash],
) -> Result<YesNoFilter, Unseparated> {
    let mut tally = Tally { yes: 0, no: no.len() as u64, fingerprints: 0, rate, label };
    let (blocks, quotients) = (shape.blocks as usize, shape.quotients());
    let block_of = |hash: Hash| (quotient(hash, quotients) >> BLOCK_BITS) as usize;
    let index_in_block = |hash: Hash| quotient(hash, quotients) as usize % BLOCK;
    let [mut yes_blocks, mut no_blocks, mut block_yes, mut block_no] =
        [const { Grouped { hashes: Vec::new(), starts: Vec::new() } }; 4];
    yes_blocks.fill(yes, blocks, block_of)?;
    no_blocks.fill(no, blocks, block_of)?;
    let mut writer = Writer::new(shape);
    let mut hashes_left = HASHES + HASHES_PER_KEY * (yes.len() + no.len()) as f64;
    for number in 0..blocks {
        let mut yes = yes_blocks.group(number).to_vec();
        yes.sort_unstable();
        yes.dedup();
        tally.yes += yes.len() as u64;
        block_yes.fill(&yes, BLOCK, index_in_block)?;
        block_no.fill(no_blocks.group(number), BLOCK, index_in_block)?;
        let block = SeededBlock { shape: &shape, yes: &block_yes, no: &block_no };
        let groups = (0..shape.groups()).map(|group| block.seeded(group, &mut hashes_left));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let fingerprints = groups.iter().map(|group| group.fingerprints.len() as u64);
        tally.fingerprints += fingerprints.sum::<u64>();
        writer.push(&groups)?;
    }
    Ok(YesNoFilter::from_parts(shape, tally, writer.finish()?))
}

/// Hashes, grouped by block or by quotient.
struct Grouped {
    hashes: Vec<Hash>,
    /// The start of each group, and the end of the last group.
    starts: Vec<usize>,
}

impl Grouped {
    /// Replaces the hashes. A stable counting sort puts each into its group, of `groups`.
    fn fill(
        &mut self,
        hashes: &[Hash],
        groups: usize,
        group_of: impl Fn(Hash) -> usize,
    ) -> Result<(), BuildError> {
        let Self { hashes: grouped, starts } = self;
        // While placing, `starts[group + 1]` is the next free position of `group`; afterwards, its
        // end.
        starts.clear();
        starts.resize(groups + 2, 0);
        for &hash in hashes {
            starts[group_of(hash) + 2] += 1;
        }
        for group in 0..=groups {
            starts[group + 1] += starts[group];
        }
        grouped.clear();
        let no_memory = |_| BuildError::Memory { bytes: size_of_val(hashes) as u64 };
        grouped.try_reserve_exact(hashes.len()).map_err(no_memory)?;
        grouped.resize(hashes.len(), Hash::MIN);
        for &hash in hashes {
            let place = &mut starts[group_of(hash) + 1];
            grouped[*place] = hash;
            *place += 1;
        }
        Ok(())
    }

    fn group(&self, group: usize) -> &[Hash] {
        &self.hashes[self.starts[group]..self.starts[group + 1]]
    }
}

/// The keys of a block whose groups need seeds, grouped by quotient.
struct SeededBlock<'a> {
    shape: &'a Shape,
    /// The yes keys, sorted and without duplicates.
    yes: &'a Grouped,
    no: &'a Grouped,
}

/// The yes keys of a quotient, as positions in its group, and its no keys.
type Pair<'a> = (Range<usize>, &'a [Hash]);

impl SeededBlock<'_> {
    /// Returns a group with the smallest seed that separates its yes keys from its no keys, and
    /// subtracts the work from `hashes_left`.
    fn seeded(&self, group: usize, hashes_left: &mut f64) -> Result<Group, Unseparated> {
        let Shape { group_bits, remainder_bits: bits, .. } = *self.shape;
        let quotients = group << group_bits..(group + 1) << group_bits;
        let starts = &self.yes.starts;
        let first = starts[quotients.start];
        let yes = &self.yes.hashes[first..starts[quotients.end]];
        let place = |quotient: usize| starts[quotient] - first..starts[quotient + 1] - first;
        let pairs = quotients.clone().map(|quotient| (place(quotient), self.no.group(quotient)));
        let pairs: Vec<Pair<'_>> =
            pairs.filter(|(yes, no)| !yes.is_empty() && !no.is_empty()).collect();
        *hashes_left -= hashes_to_seed(bits, &pairs, *hashes_left)?;
        let mut remainders = vec![0; yes.len()];
        for seed in 0..MAX_SEEDS {
            let mix = Mix::of(seed);
            for (remainder, &hash) in remainders.iter_mut().zip(yes) {
                *remainder = mix.remainder(hash, bits);
            }
            let is_confused = |(yes, no): &Pair<'_>| {
                let stored = &remainders[yes.clone()];
                no.iter().any(|&hash| stored.contains(&mix.remainder(hash, bits)))
            };
            if !pairs.iter().any(is_confused) {
                let mut fingerprints = Vec::with_capacity(yes.len());
                for (number, quotient) in (0u64..).zip(quotients) {
                    let remainders = remainders[place(quotient)].iter();
                    fingerprints.extend(remainders.map(|&remainder| number << bits | remainder));
                }
                fingerprints.sort_unstable();
                fingerprints.dedup();
                return Ok(Group { seed, fingerprints });
            }
            if seed == SEEDS_BEFORE_CHECK {
                let is_equal = |&hash: &&Hash| yes.binary_search(hash).is_ok();
                if let Some(&hash) = pairs.iter().flat_map(|(_, no)| *no).find(is_equal) {
                    return Err(Unseparated::Equal(hash));
                }
            }
        }
        Err(Unseparated::Group { least_bits: bits + 1 })
    }
}

/// Returns the average number of hashes needed to find a seed for the yes and no keys of these
/// quotients.
///
/// A seed works if no yes key has the same remainder as a no key of its quotient. The probability is
/// e^(-products/2^bits), if `products` is the number of such pairs of keys. If it is too low, the
/// error names a sufficient number of bits.
fn hashes_to_seed(bits: u32, pairs: &[Pair<'_>], hashes_left: f64) -> Result<f64, Unseparated> {
    let products_and_hashes = |no_keys: fn(&[Hash]) -> usize| {
        let counts = pairs.iter().map(|(yes, no)| (yes.len() as f64, no_keys(no) as f64));
        let (products, keys) = counts
            .fold((0.0, 0.0), |(products, keys), (yes, no)| (products + yes * no, keys + yes + no));
        let tries = (products / f64::from(bits).exp2()).exp();
        (products, tries.min(MAX_SEEDS as f64) * keys)
    };
    let (_, roughly) = products_and_hashes(<[Hash]>::len);
    if roughly <= hashes_left {
        return Ok(roughly);
    }
    // Duplicates of a no key don't make it harder to find a seed.
    let (products, exactly) = products_and_hashes(|no| no.iter().collect::<HashSet<_>>().len());
    if exactly <= hashes_left {
        return Ok(exactly);
    }
    let enough = (products / FEW_TRIES.ln()).log2().ceil() as u32;
    Err(Unseparated::Group { least_bits: enough.max(bits + 1) })
}

/// Writes an index and the blocks.
pub(super) struct Writer {
    shape: Shape,
    /// The start of each block, in words.
    starts: Vec<u32>,
    blocks: BitWriter,
}

impl Writer {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, starts: vec![0], blocks: BitWriter::default() }
    }

    /// Writes the next block.
    pub(super) fn push(&mut self, groups: &[Group]) -> Result<(), BuildError> {
        let keys: usize = groups.iter().map(|group| group.fingerprints.len()).sum();
        if keys > MOST_KEYS {
            return Err(BuildError::Uneven);
        }
        block::write(&self.shape, groups, &mut self.blocks);
        let words = self.blocks.words.len();
        let no_memory = |_| BuildError::Memory { bytes: 8 * words as u64 };
        self.starts.push(u32::try_from(words).map_err(no_memory)?);
        Ok(())
    }

    /// Returns the number of words written so far.
    pub(super) fn words(&self) -> usize {
        self.blocks.words.len()
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
