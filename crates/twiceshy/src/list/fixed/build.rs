//! Building a filter from two lists.

use super::block::{self, BLOCK, BitWriter, Group, MOST_KEYS};
use super::lookup::quotient;
use super::seed::Mix;
use super::shape::{BLOCK_BITS, Shape};
use super::{Tally, YesNoFilter, index_bytes};
use crate::bits::memory::{LINE, Lines};
use crate::{BuildError, Hash, Key, Keyed, KeyedHasher, Secret};
use core::borrow::Borrow;
use core::ops::Range;

/// Builds a [`YesNoFilter`].
#[derive(Clone, Debug)]
pub struct YesNoFilterBuilder {
    rate: Option<f64>,
    room: f64,
    secret: Option<Secret>,
    base: Option<(Shape, f64)>,
    label: u32,
}

/// Bits of a remainder, at least, where there are no-keys: with one bit, a quotient of two yes-keys
/// has no seed as a rule.
const LEAST_BITS: u32 = 2;

/// The rate, if nothing is said.
const DEFAULT_RATE: f64 = 0.01;

/// Seeds that are tried before it is looked whether a key is on both lists: then none is found.
const TRIED: u64 = 1 << 9;

/// Seeds that are tried at all. If none does, there is another try with longer remainders: it takes
/// short ones, of three bits or less, and large lists.
pub(super) const MOST_TRIED: u64 = 1 << 16;

/// How many seeds a group should have to try at most, when longer remainders are chosen for it.
const FEW_TRIES: f64 = 64.0;

/// How many hashes may be computed for each key, and for a filter, to find seeds. Lists of random
/// hashes need fewer than [`Shape::plan`] allows, on the average. An attacker who knows the secret can choose
/// keys that share a quotient, for which no seed would ever be found.
const HASHES_PER_KEY: f64 = 512.0;
const HASHES: f64 = (1 << 22) as f64;

impl Default for YesNoFilterBuilder {
    fn default() -> Self {
        Self { rate: None, room: 0.0, secret: None, base: None, label: 0 }
    }
}

impl YesNoFilterBuilder {
    /// How often a key that is on neither list is answered yes, at most: 0.01, if nothing is said,
    /// or that of the filter that this one is to be [like](Self::like).
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Leaves room for lists to grow by that share, so that filters of later lists can be
    /// [like](Self::like) this one.
    #[must_use]
    pub fn room(mut self, share: f64) -> Self {
        self.room = share;
        self
    }

    /// The secret to hash keys with, instead of a fresh one.
    ///
    /// A filter that is shipped contains its secret. An attacker who reads it can choose keys that collide,
    /// and if these get on the lists, the next filter with the same secret is larger. So use the
    /// secret of an older filter only to build one that is [like](Self::like) it.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// To be of the same shape as another filter, as long as that serves: then the
    /// [delta](YesNoFilter::delta_to) between them is small. Keys must be hashed with the same
    /// [secret](Self::secret).
    #[must_use]
    pub fn like(mut self, base: &YesNoFilter) -> Self {
        self.base = Some((base.shape, base.tally.rate));
        self
    }

    /// A number of your own, which the filter keeps: it may say how keys were made of what is asked
    /// for, so that nobody asks otherwise.
    #[must_use]
    pub fn label(mut self, label: u32) -> Self {
        self.label = label;
        self
    }

    /// As [`build`](Self::build), of keys.
    ///
    /// # Errors
    /// As there, or if the system gives no secret.
    pub fn build_keyed<K: Key + ?Sized, Q: Borrow<K>>(
        mut self,
        yes: &[Q],
        no: &[Q],
    ) -> Result<Keyed<K, YesNoFilter>, BuildError> {
        let secret = self.take_secret()?;
        let hasher = KeyedHasher::new(&secret);
        let hashes = |keys: &[Q]| keys.iter().map(|key| hasher.hash(key.borrow())).collect();
        let (yes, no): (Vec<Hash>, Vec<Hash>) = (hashes(yes), hashes(no));
        Ok(Keyed::new(self.build(&yes, &no)?, secret))
    }

    /// Takes the secret to hash keys with, or a fresh one.
    pub(crate) fn take_secret(&mut self) -> Result<Secret, BuildError> {
        Ok(self.secret.take().map_or_else(Secret::generate, Ok)?)
    }

    /// Builds a filter of two lists of hashes, in any order.
    ///
    /// # Errors
    /// [`BuildError::OnBothLists`] names a hash that is on both. Else if the rate is impossible,
    /// or there is no memory.
    pub fn build(self, yes: &[Hash], no: &[Hash]) -> Result<YesNoFilter, BuildError> {
        let rate = self.rate.or(self.base.map(|(_, rate)| rate)).unwrap_or(DEFAULT_RATE);
        if !(f64::exp2(-56.0)..1.0).contains(&rate) {
            return Err(BuildError::Rate(rate));
        }
        if !(0.0..=10.0).contains(&self.room) {
            return Err(BuildError::Room(self.room));
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
                    return Err(BuildError::OnBothLists { hash, yes, no });
                }
                Err(Unseparated::Build(error)) => return Err(error),
                Ok(filter) => return Ok(filter),
            }
        }
    }

    fn plan(&self, counts: [u64; 2], rate: f64, least: u32) -> Result<Shape, BuildError> {
        let [yes, no] = counts.map(|count| (count as f64 * (1.0 + self.room)).ceil() as u64);
        Shape::plan(yes, no, rate, least).ok_or(BuildError::Lists { yes: counts[0] })
    }
}

/// Why there is no filter.
#[derive(Debug)]
enum Unseparated {
    /// A group has no seed, unless remainders have at least this many bits.
    Group {
        least_bits: u32,
    },
    /// This is on both lists.
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

/// Those of a sorted list that are not the same as the one before.
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

/// Hashes, block by block.
struct Scattered {
    hashes: Vec<Hash>,
    /// Where those of each block begin, and where the last one's end.
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
        let no_memory = |_| BuildError::Bits(128 * hashes.len() as u64);
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

    /// The hashes of a block, quotient by quotient: where those of each begin.
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

/// The keys of a block, whose groups are to get seeds.
struct SeededBlock<'a> {
    shape: &'a Shape,
    /// In order, and different.
    yes: &'a [Hash],
    /// Quotient by quotient, beginning at `starts`.
    no: &'a [Hash],
    starts: &'a [u32; BLOCK + 1],
}

impl SeededBlock<'_> {
    /// The groups, with their seeds; what that takes is subtracted from `hashes_left`.
    fn groups(&self, hashes_left: &mut f64) -> Result<Vec<Group>, Unseparated> {
        let quotients = self.shape.quotients();
        let mut rest = self.yes;
        let mut groups = Vec::with_capacity(self.shape.groups());
        // Of the yes-keys of a quotient: how many are before them in the group.
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

    /// A group whose first quotient is this one, with the first seed that tells its yes-keys from
    /// its no-keys.
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
        for seed in 0..MOST_TRIED {
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
            if seed == TRIED {
                let is_equal = |&hash: &&Hash| yes.binary_search(hash).is_ok();
                if let Some(&hash) = pairs.iter().flat_map(|(_, no)| *no).find(is_equal) {
                    return Err(Unseparated::Equal(hash));
                }
            }
        }
        Err(Unseparated::Group { least_bits: bits + 1 })
    }

    /// How many hashes are computed to find a seed for these yes-keys and no-keys of quotients, on
    /// the average.
    ///
    /// A seed does if none of the pairs of a yes-key and a no-key of a quotient have the same
    /// remainder, which happens with probability e^(-pairs/2^bits). If that is too seldom, the error
    /// says how many bits would do.
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
            tries.min(MOST_TRIED as f64) * keys
        };
        let roughly = hashes(estimate(&|no| no.len()));
        if roughly <= hashes_left {
            return Ok(roughly);
        }
        // A no-key that is there many times is one.
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

/// Writes blocks behind each other, and the index before them.
pub(super) struct Writer {
    shape: Shape,
    /// Where each block begins, in words.
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
        self.starts.push(u32::try_from(words).map_err(|_| BuildError::Bits(64 * words as u64))?);
        Ok(())
    }

    /// Words that were written so far.
    pub(super) fn words(&self) -> usize {
        self.blocks.words.len()
    }

    pub(super) fn finish(self) -> Result<Lines, BuildError> {
        let index = index_bytes(self.shape.blocks);
        let bytes = index + 8 * self.blocks.words.len();
        let lines = Lines::zeroed(bytes.div_ceil(LINE));
        let mut lines = lines.ok_or(BuildError::Bits(8 * bytes as u64))?;
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
