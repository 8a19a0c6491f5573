//! Builds a filter from two lists.

use super::block::{self, BLOCK, BitWriter, Group, MOST_KEYS};
use super::lookup::quotient;
use super::seed::Mix;
use super::shape::{BLOCK_BITS, Shape};
use super::{Tally, YesNoFilter, index_bytes};
use crate::bits::memory::{LINE, Lines};
use crate::builder::DEFAULT_RATE;
use crate::error::{BuildError, EntropyError, PlanError};
use crate::list::ListError;
use crate::{Hash, Key, Keyed, Secret, hash::KeyedHasher};
use core::borrow::Borrow;
use core::ops::Range;

/// Builds a [`YesNoFilter`], with the words of the common [`Builder`](crate::builder::Builder) where
/// they make sense: the size follows from the two lists.
#[derive(Clone, Debug, Default)]
pub struct FilterBuilder {
    rate: Option<f64>,
    /// Yes-keys and no-keys to plan for, at least.
    capacities: [u64; 2],
    secret: Option<Secret>,
    base: Option<(Shape, f64)>,
    label: u32,
}

/// Minimum width of a remainder if there are no keys. With one bit, a quotient with two yes keys
/// and a no key usually has no seed.
const LEAST_BITS: u32 = 2;

/// The lowest rate: that of the other filters.
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
    /// Sets the highest probability that a key on neither list is answered yes; 0.001 by default, or
    /// the rate of the filter that this one is to be [like](Self::like).
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Plans the filter for at least this many yes-keys, so that filters of later, longer lists can be
    /// [like](Self::like) this one.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacities[0] = keys as u64;
        self
    }

    /// Plans the filter for at least this many no-keys; see [`capacity`](Self::capacity).
    #[must_use]
    pub fn no_capacity(mut self, keys: usize) -> Self {
        self.capacities[1] = keys as u64;
        self
    }

    /// Sets the secret that hashes keys; a fresh one by default.
    ///
    /// A filter that is shipped contains its secret. An attacker who reads it can choose keys that
    /// collide. If these get on the lists, the next filter with the same secret is larger. So use the
    /// secret of an older filter only to build one that is [like](Self::like) it.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Gives the filter the same shape as another, as long as that serves: then the
    /// [delta](YesNoFilter::delta_to) between them is small. Keys must be hashed with the same
    /// [secret](Self::secret).
    #[must_use]
    pub fn like(mut self, base: &YesNoFilter) -> Self {
        self.base = Some((base.shape, base.tally.rate));
        self
    }

    /// Sets a number of your own, which the filter keeps: for example, how keys are made from what is
    /// asked for.
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
        let hashes = |keys: &[Q]| keys.iter().map(|key| hasher.hash(key.borrow())).collect();
        let (yes, no): (Vec<Hash>, Vec<Hash>) = (hashes(yes), hashes(no));
        Ok(Keyed::new(self.build(&yes, &no)?, secret))
    }

    pub(crate) fn secret_or_fresh(&self) -> Result<Secret, EntropyError> {
        self.secret.clone().map_or_else(Secret::generate, Ok)
    }

    /// Builds a filter of two lists of hashes, in any order. A hash that is on a list twice is on it
    /// once.
    ///
    /// # Errors
    /// [`ListError::OnBothLists`] names a hash that is on both lists. Another error if the rate is
    /// impossible, or if there is no memory.
    pub fn build(&self, yes: &[Hash], no: &[Hash]) -> Result<YesNoFilter, ListError> {
        let rate = self.rate.or(self.base.map(|(_, rate)| rate)).unwrap_or(DEFAULT_RATE);
        if !(LEAST_RATE..1.0).contains(&rate) {
            return Err(PlanError::Rate { rate, least: LEAST_RATE }.into());
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
                Err(Unseparated::Build(error)) => return Err(error),
                Ok(filter) => return Ok(filter),
            }
        }
    }

    fn plan(&self, counts: [u64; 2], rate: f64, least: u32) -> Result<Shape, PlanError> {
        let [yes, no] = [0, 1].map(|list| counts[list].max(self.capacities[list]));
        Shape::plan(yes, no, rate, least).ok_or(PlanError::Capacity(yes as usize))
    }
}

/// Why building failed.
#[derive(Debug)]
enum Unseparated {
    /// A group has no seed unless remainders have at least this many bits.
    Group {
        least_bits: u32,
    },
    /// This hash is on both lists.
    Equal(Hash),
    Build(ListError),
}

impl<E: Into<ListError>> From<E> for Unseparated {
    fn from(error: E) -> Self {
        Self::Build(error.into())
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
    let blocks = shape.blocks as usize;
    let mut yes = Scattered::new(yes, &shape, blocks)?;
    let no = Scattered::new(no, &shape, blocks)?;
    let mut writer = Writer::new(shape);
    let mut in_order = Vec::new();
    let keys = yes.hashes.len() + no.hashes.len();
    let mut hashes_left = HASHES + HASHES_PER_KEY * keys as f64;
    for number in 0..blocks {
        let yes = yes.block_mut(number);
        yes.sort_unstable();
        let yes = deduplicated(yes);
        tally.yes += yes.len() as u64;
        let no = no.by_quotient(number, &mut in_order);
        let block = SeededBlock { shape: &shape, yes, no: &in_order, starts: &no };
        let groups = block.groups(&mut hashes_left)?;
        tally.fingerprints +=
            groups.iter().map(|group| group.fingerprints.len() as u64).sum::<u64>();
        writer.push(&groups)?;
    }
    Ok(YesNoFilter::from_parts(shape, tally, writer.finish()?))
}

/// Removes the duplicates of a sorted list.
fn deduplicated(hashes: &mut [Hash]) -> &[Hash] {
    let mut kept = 0;
    for at in 0..hashes.len() {
        if at == 0 || hashes[at] != hashes[kept - 1] {
            hashes[kept] = hashes[at];
            kept += 1;
        }
    }
    &hashes[..kept]
}

/// Hashes, grouped by block.
struct Scattered {
    hashes: Vec<Hash>,
    /// The start of each block's hashes, and the end of the last block's.
    starts: Vec<usize>,
    quotients: u64,
}

impl Scattered {
    fn new(hashes: &[Hash], shape: &Shape, blocks: usize) -> Result<Self, BuildError> {
        let quotients = shape.quotients();
        let block_of = |hash: Hash| (quotient(hash, quotients) >> BLOCK_BITS) as usize;
        let mut starts = vec![0; blocks + 1];
        for &hash in hashes {
            starts[block_of(hash) + 1] += 1;
        }
        for block in 0..blocks {
            starts[block + 1] += starts[block];
        }
        let mut next = starts.clone();
        let mut scattered = Vec::new();
        let no_memory = |_| BuildError::Memory { bytes: 16 * hashes.len() as u64 };
        scattered.try_reserve_exact(hashes.len()).map_err(no_memory)?;
        scattered.resize(hashes.len(), Hash::MIN);
        for &hash in hashes {
            let place = &mut next[block_of(hash)];
            scattered[*place] = hash;
            *place += 1;
        }
        Ok(Self { hashes: scattered, starts, quotients })
    }

    fn range(&self, block: usize) -> Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    fn block_mut(&mut self, block: usize) -> &mut [Hash] {
        let range = self.range(block);
        &mut self.hashes[range]
    }

    /// Fills `in_order` with the hashes of a block, grouped by quotient, and returns where each
    /// quotient begins.
    fn by_quotient(&self, block: usize, in_order: &mut Vec<Hash>) -> [u32; BLOCK + 1] {
        let hashes = &self.hashes[self.range(block)];
        let place = |hash: Hash| quotient(hash, self.quotients) as usize % BLOCK;
        let mut starts = [0; BLOCK + 1];
        for &hash in hashes {
            starts[place(hash) + 1] += 1;
        }
        for quotient in 0..BLOCK {
            starts[quotient + 1] += starts[quotient];
        }
        let mut next = starts;
        in_order.clear();
        in_order.resize(hashes.len(), Hash::MIN);
        for &hash in hashes {
            let next = &mut next[place(hash)];
            in_order[*next as usize] = hash;
            *next += 1;
        }
        starts
    }
}

/// The keys of a block whose groups need seeds.
struct SeededBlock<'a> {
    shape: &'a Shape,
    /// Sorted, without duplicates.
    yes: &'a [Hash],
    /// Grouped by quotient; each begins at its entry in `starts`.
    no: &'a [Hash],
    starts: &'a [u32; BLOCK + 1],
}

impl SeededBlock<'_> {
    /// Finds seeds for all groups, and subtracts the work from `hashes_left`.
    fn groups(&self, hashes_left: &mut f64) -> Result<Vec<Group>, Unseparated> {
        let quotients = self.shape.quotients();
        let mut rest = self.yes;
        let mut groups = Vec::with_capacity(self.shape.groups());
        // The end of each quotient's yes keys in the group.
        let mut ends = Vec::with_capacity(BLOCK);
        for group in 0..self.shape.groups() {
            let size = 1 << self.shape.group_bits;
            let first = group * size;
            ends.clear();
            let mut count = 0;
            for number in first..first + size {
                let of_quotient = rest[count..]
                    .iter()
                    .take_while(|&&hash| quotient(hash, quotients) as usize % BLOCK == number);
                count += of_quotient.count();
                ends.push(count);
            }
            let (yes, others) = rest.split_at(count);
            rest = others;
            groups.push(self.seeded(first, yes, &ends, hashes_left)?);
        }
        Ok(groups)
    }

    /// Returns the group that begins at quotient `first`, with the smallest seed that separates its
    /// yes keys from its no keys.
    fn seeded(
        &self,
        first: usize,
        yes: &[Hash],
        ends: &[usize],
        hashes_left: &mut f64,
    ) -> Result<Group, Unseparated> {
        let bits = self.shape.remainder_bits;
        let mut remainders = vec![0; yes.len()];
        let pairs: Vec<(Range<usize>, &[Hash])> = (first..)
            .zip(ends.iter().scan(0, |start, &end| Some(core::mem::replace(start, end)..end)))
            .map(|(number, yes)| {
                let no = self.starts[number] as usize..self.starts[number + 1] as usize;
                (yes, &self.no[no])
            })
            .filter(|(yes, no)| !yes.is_empty() && !no.is_empty())
            .collect();
        *hashes_left -= self.hashes_to_seed(&pairs, *hashes_left)?;
        for seed in 0..MAX_SEEDS {
            let mix = Mix::of(seed);
            for (remainder, &hash) in remainders.iter_mut().zip(yes) {
                *remainder = mix.remainder(hash, bits);
            }
            let is_confused = |(yes, no): &(Range<usize>, &[Hash])| {
                let stored = &remainders[yes.clone()];
                no.iter().any(|&hash| stored.contains(&mix.remainder(hash, bits)))
            };
            if !pairs.iter().any(is_confused) {
                let quotients =
                    ends.iter().scan(0, |start, &end| Some(core::mem::replace(start, end)..end));
                let mut fingerprints = Vec::with_capacity(yes.len());
                for (number, range) in (0u64..).zip(quotients) {
                    fingerprints.extend(remainders[range].iter().map(|&r| number << bits | r));
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

    /// Returns the average number of hashes needed to find a seed for the yes and no keys of these
    /// quotients.
    ///
    /// A seed works if no yes key has the same remainder as a no key of its quotient. The
    /// probability is e^(-pairs/2^bits). If it is too low, the error names a sufficient number of
    /// bits.
    fn hashes_to_seed(
        &self,
        pairs: &[(Range<usize>, &[Hash])],
        hashes_left: f64,
    ) -> Result<f64, Unseparated> {
        let bits = self.shape.remainder_bits;
        let estimate = |no_keys: &dyn Fn(&[Hash]) -> usize| {
            let counts = pairs.iter().map(|(yes, no)| (yes.len() as f64, no_keys(no) as f64));
            counts.fold((0.0, 0.0), |(products, keys), (yes, no)| {
                (products + yes * no, keys + yes + no)
            })
        };
        let hashes = |(products, keys): (f64, f64)| {
            let tries = (products / f64::from(bits).exp2()).exp();
            tries.min(MAX_SEEDS as f64) * keys
        };
        let roughly = hashes(estimate(&|no| no.len()));
        if roughly <= hashes_left {
            return Ok(roughly);
        }
        // Duplicates of a no key don't make it harder to find a seed.
        let different = |no: &[Hash]| {
            let mut no = no.to_vec();
            no.sort_unstable();
            no.dedup();
            no.len()
        };
        let (products, keys) = estimate(&different);
        let exactly = hashes((products, keys));
        if exactly <= hashes_left {
            return Ok(exactly);
        }
        let enough = (products / FEW_TRIES.ln()).log2().ceil() as u32;
        Err(Unseparated::Group { least_bits: enough.max(bits + 1) })
    }
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
    pub(super) fn push(&mut self, groups: &[Group]) -> Result<(), ListError> {
        let keys: usize = groups.iter().map(|group| group.fingerprints.len()).sum();
        if keys > MOST_KEYS {
            return Err(ListError::Uneven);
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
