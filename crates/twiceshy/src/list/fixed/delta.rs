//! Deltas update a filter without its lists.
//!
//! A delta lists changed fingerprints and seeds. A list of added and removed keys would not be
//! enough: a new yes-list key may change the seed of its group because of an old no-list key.
//!
//! # Format, version 1
//! All numbers are little-endian.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 44 0d 0a`, "\x89TWSHD\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0 is set if the whole new table follows, else edits follow |
//! | 16 | 16 | digest of the old filter |
//! | 32 | 16 | digest of the new filter |
//! | 48 | 8 | mark of the secret, or 0 if it is unknown |
//! | 56 | 8 | number of blocks |
//! | 64 | 4 | bits per remainder, *r* |
//! | 68 | 4 | log₂ of the quotients per group, *g* |
//! | 72 | 4 | low bits of a seed that are stored verbatim |
//! | 76 | 4 | label |
//! | 80 | 8 | yes-list keys |
//! | 88 | 8 | no-list keys |
//! | 96 | 8 | fingerprints |
//! | 104 | 8 | the requested rate, a 64-bit floating-point number |
//! | 112 | 8 | size of the body in bytes, *n* |
//! | 120 | *n* | body: the table, or edits padded to whole words |
//! | 120 + *n* | 4 | checksum of all bytes before: CRC-32, as in snapshots |
//!
//! Edits are bits, beginning with the lowest bit of the first byte. For each changed group, in
//! order, they contain the number of unchanged groups before it, and one of these:
//!
//! - a 0, the number of removed fingerprints, the number of kept fingerprints before each of them,
//!   the number of added fingerprints, and these fingerprints;
//! - a 1, the new seed, the number of fingerprints, and these fingerprints.
//!
//! At the end is the number of unchanged groups after the last changed one. A fingerprint takes
//! *g* + *r* bits. Any other number *x* is the Elias gamma code of *x* + 1.
//!
//! A digest is the 128-bit SipHash-1-3, with a key of zeros, of bytes 56 to 111 of the header and
//! the lines of the table.

use super::block::{BitWriter, Group};
use super::build::{MAX_SEEDS, Writer};
use super::shape::Shape;
use super::{Tally, YesNoFilter};
use crate::bits::memory::{LINE, Lines};
use crate::error::Invalid;
use crate::list::ListError;
use crate::{Key, Keyed};
use core::fmt;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

const MAGIC: [u8; 8] = *b"\x89TWSHD\r\n";
const VERSION: u32 = 1;

/// Maximum size of an edited filter, as a multiple of the old filter and the edits together.
const MAX_GROWTH: usize = 16;

/// Size of the header in bytes.
const HEADER: usize = 120;

/// The difference between two [`YesNoFilter`]s.
///
/// ```
/// use twiceshy::{Keyed, YesNoFilter, list::Delta};
/// let builder = || YesNoFilter::builder().false_positive_rate(0.01).capacity(10).no_capacity(10);
/// let old = builder().build_keyed::<str, _>(&["evil", "worse"], &["good"])?;
/// let builder = builder().like(old.filter()).secret(old.secret().clone());
/// let new = builder.build_keyed::<str, _>(&["evil", "worst"], &["good", "better"])?;
///
/// let bytes = old.delta_to(&new)?.to_bytes();
/// // On a machine that has only the old filter:
/// let updated = old.apply(&Delta::from_bytes(&bytes)?)?;
/// assert!(updated.contains("worst") && !updated.contains("better"));
/// assert_eq!(updated.filter(), new.filter());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Delta {
    from: u128,
    to: u128,
    mark: u64,
    shape: Shape,
    tally: Tally,
    is_whole: bool,
    /// The lines of the table, or words of edits.
    body: Vec<u8>,
}

/// An error when making, reading or applying a delta.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The delta is for a different filter.
    #[error("the delta is for a different filter; get the delta for this one, or the new filter")]
    OtherBase,
    /// The filters' keys are hashed with different secrets.
    #[error("the filters have different secrets; build the new one with the secret of the old one")]
    Secrets,
    /// The file doesn't begin like a delta.
    #[error("this is not a delta; check the file name")]
    NotADelta,
    /// The delta has an unknown format version.
    #[error("the delta has format version {0}, not 1; read it with a newer program")]
    Version(u32),
    /// The delta is too short or too long.
    #[error("the delta has {found} bytes, not {expected}; copy it again")]
    Length {
        /// Number of bytes found.
        found: u64,
        /// Number of bytes according to the header.
        expected: u64,
    },
    /// The delta has changed since it was written.
    #[error("the delta has changed since it was written; copy it again")]
    Checksum,
    /// The delta is invalid, although its checksum is correct.
    #[error("the delta is invalid: {0}; make it again")]
    Impossible(&'static str),
    /// The filter breaks an invariant.
    #[error("the filter is invalid: {0}; copy it again")]
    Invalid(Invalid),
    /// There is not enough memory for the new filter.
    #[error("not enough memory for the new filter")]
    Memory,
}

impl From<ListError> for DeltaError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Uneven => Self::Impossible("a block has too many keys"),
            _ => Self::Memory,
        }
    }
}

impl YesNoFilter {
    /// Returns the delta from this filter to `new`. It is small if `new` was built
    /// [like](crate::builder::Builder::like) this filter. If the shapes differ, it contains all of
    /// `new`.
    ///
    /// # Errors
    /// If one of the filters is invalid.
    pub fn delta_to(&self, new: &Self) -> Result<Delta, DeltaError> {
        let edits = if self.shape == new.shape { Some(edits(self, new)?) } else { None };
        let edits = edits.filter(|edits| edits.len() < new.table().len());
        Ok(Delta {
            from: self.digest(),
            to: new.digest(),
            mark: 0,
            shape: new.shape,
            tally: new.tally,
            is_whole: edits.is_none(),
            body: edits.unwrap_or_else(|| new.table().to_vec()),
        })
    }

    /// Applies a delta to this filter. The result is identical to the new filter that the delta was
    /// made from, bit for bit.
    ///
    /// # Errors
    /// [`DeltaError::OtherBase`] if the delta is for a different filter,
    /// [`DeltaError::Impossible`] if the result doesn't match the delta's digest.
    pub fn apply(&self, delta: &Delta) -> Result<Self, DeltaError> {
        if delta.from != self.digest() {
            return Err(DeltaError::OtherBase);
        }
        let lines = if delta.is_whole {
            let lines = Lines::zeroed(delta.body.len() / LINE);
            let mut lines = lines.ok_or(DeltaError::Memory)?;
            lines.bytes_mut().copy_from_slice(&delta.body);
            lines
        } else if self.shape == delta.shape {
            edited(self, &delta.body)?
        } else {
            return Err(DeltaError::Impossible("its edits are for a different shape"));
        };
        let new = Self::from_parts(delta.shape, delta.tally, lines);
        if new.digest() != delta.to {
            return Err(DeltaError::Impossible("the result has a different digest"));
        }
        new.validate().map_err(DeltaError::Invalid)?;
        Ok(new)
    }

    fn digest(&self) -> u128 {
        let mut hasher = SipHasher13::new();
        hasher.write(&settings(&self.shape, &self.tally));
        hasher.write(self.table());
        hasher.finish128().as_u128()
    }
}

impl<K: Key + ?Sized> Keyed<K, YesNoFilter> {
    /// Returns the delta from this filter to `new`; see [`YesNoFilter::delta_to`].
    ///
    /// # Errors
    /// The same as for [`YesNoFilter::delta_to`], or [`DeltaError::Secrets`].
    pub fn delta_to(&self, new: &Self) -> Result<Delta, DeltaError> {
        if self.secret().expose() != new.secret().expose() {
            return Err(DeltaError::Secrets);
        }
        Ok(Delta { mark: self.secret().mark(), ..self.filter().delta_to(new.filter())? })
    }

    /// Applies a delta to this filter; see [`YesNoFilter::apply`].
    ///
    /// # Errors
    /// The same as for [`YesNoFilter::apply`], or [`DeltaError::Secrets`].
    pub fn apply(&self, delta: &Delta) -> Result<Self, DeltaError> {
        if ![0, self.secret().mark()].contains(&delta.mark) {
            return Err(DeltaError::Secrets);
        }
        Ok(Self::new(self.filter().apply(delta)?, self.secret().clone()))
    }
}

/// Reads all groups of a filter.
fn groups(filter: &YesNoFilter) -> Result<Vec<Group>, DeltaError> {
    let mut groups = Vec::new();
    filter.each_group(|group| groups.push(group)).map_err(DeltaError::Invalid)?;
    Ok(groups)
}

fn edits(old: &YesNoFilter, new: &YesNoFilter) -> Result<Vec<u8>, DeltaError> {
    let bits = new.shape.group_bits + new.shape.remainder_bits;
    let mut writer = BitWriter::default();
    let mut unchanged = 0;
    for (old, new) in groups(old)?.into_iter().zip(groups(new)?) {
        if old == new {
            unchanged += 1;
            continue;
        }
        gamma(&mut writer, core::mem::take(&mut unchanged));
        let has_new_seed = old.seed != new.seed;
        writer.push(has_new_seed.into(), 1);
        let mut added = new.fingerprints;
        if has_new_seed {
            gamma(&mut writer, new.seed);
        } else {
            write_removed(&mut writer, &old.fingerprints, &added);
            added.retain(|fingerprint| old.fingerprints.binary_search(fingerprint).is_err());
        }
        gamma(&mut writer, added.len() as u64);
        for fingerprint in added {
            writer.push(fingerprint, bits);
        }
    }
    gamma(&mut writer, unchanged);
    Ok(writer.bytes().collect())
}

/// Writes the positions of the old fingerprints that are not among the new ones. Both lists are
/// sorted.
fn write_removed(writer: &mut BitWriter, old: &[u64], new: &[u64]) {
    let is_removed = |&at: &usize| new.binary_search(&old[at]).is_err();
    let removed: Vec<usize> = (0..old.len()).filter(is_removed).collect();
    gamma(writer, removed.len() as u64);
    let mut next = 0;
    for at in removed {
        gamma(writer, (at - next) as u64);
        next = at + 1;
    }
}

/// Writes the Elias gamma code of `number + 1`: for n bits, first n − 1 zeros, and then the bits,
/// the highest first.
fn gamma(writer: &mut BitWriter, number: u64) {
    let number = number + 1;
    let bits = number.ilog2();
    writer.push(0, bits);
    writer.push(number.reverse_bits() >> (63 - bits), bits + 1);
}

/// Applies edits to a filter.
fn edited(filter: &YesNoFilter, edits: &[u8]) -> Result<Lines, DeltaError> {
    let shape = filter.shape;
    let bits = shape.group_bits + shape.remainder_bits;
    let mut reader = BitReader { bytes: edits, at: 0 };
    let mut unchanged = reader.gamma()?;
    let mut groups = groups(filter)?;
    for Group { seed, fingerprints } in &mut groups {
        if unchanged > 0 {
            unchanged -= 1;
            continue;
        }
        if reader.read(1)? == 1 {
            *seed = reader.gamma()?;
            if *seed >= MAX_SEEDS {
                return Err(DeltaError::Impossible("a seed is too large"));
            }
            fingerprints.clear();
        } else {
            *fingerprints = reader.kept(fingerprints)?;
        }
        // Don't reserve memory: a damaged count may exceed what the remaining bits can hold.
        for _ in 0..reader.gamma()? {
            fingerprints.push(reader.read(bits)?);
        }
        fingerprints.sort_unstable();
        unchanged = reader.gamma()?;
    }
    if unchanged > 0 || 8 * reader.at.div_ceil(64) != edits.len() {
        return Err(DeltaError::Impossible("it edits more groups than there are"));
    }
    // A few bits of edits can describe large seeds, so the size of the new filter is limited.
    let most = MAX_GROWTH * (filter.table().len() + edits.len()) / 8;
    let mut writer = Writer::new(shape);
    for block in groups.chunks(shape.groups()) {
        writer.push(block)?;
        if writer.blocks.words.len() > most {
            return Err(DeltaError::Impossible("the new filter is far larger than the old one"));
        }
    }
    writer.finish().map_err(|_| DeltaError::Memory)
}

/// Reads what [`BitWriter`] wrote.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// Index of the next bit.
    at: usize,
}

impl BitReader<'_> {
    fn read(&mut self, count: u32) -> Result<u64, DeltaError> {
        (0..count).try_fold(0, |number, place| {
            let byte = self.bytes.get(self.at / 8);
            let byte = byte.ok_or(DeltaError::Impossible("it ends too early"))?;
            let bit = u64::from(byte >> (self.at % 8) & 1);
            self.at += 1;
            Ok(number | bit << place)
        })
    }

    fn gamma(&mut self) -> Result<u64, DeltaError> {
        let mut bits = 0;
        while self.read(1)? == 0 {
            bits += 1;
            if bits > 48 {
                return Err(DeltaError::Impossible("a number is too large"));
            }
        }
        let number = (0..bits).try_fold(1, |number, _| Ok(number << 1 | self.read(1)?));
        number.map(|number| number - 1)
    }

    /// Reads what [`write_removed`] wrote, and returns the old fingerprints that were not removed.
    fn kept(&mut self, old: &[u64]) -> Result<Vec<u64>, DeltaError> {
        let (mut old, mut kept) = (old.iter(), Vec::new());
        for _ in 0..self.gamma()? {
            let count = usize::try_from(self.gamma()?).unwrap_or(usize::MAX);
            kept.extend(old.by_ref().take(count));
            let removed = old.next();
            removed.ok_or(DeltaError::Impossible("it removes a fingerprint that doesn't exist"))?;
        }
        kept.extend(old);
        Ok(kept)
    }
}

/// Returns the part of the header that the digest covers.
fn settings(shape: &Shape, tally: &Tally) -> Vec<u8> {
    let mut bytes = shape.blocks.to_le_bytes().to_vec();
    let words = [shape.remainder_bits, shape.group_bits, shape.low_bits, tally.label];
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let longs = [tally.yes, tally.no, tally.fingerprints, tally.rate.to_bits()];
    bytes.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    bytes
}

impl Delta {
    /// Returns whether the delta contains all of the new filter, because the shapes differ or
    /// because edits would be longer.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Encodes the delta as bytes. `src/list/fixed/delta.rs` describes the format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            &u32::from(self.is_whole).to_le_bytes(),
            &self.from.to_le_bytes(),
            &self.to.to_le_bytes(),
            &self.mark.to_le_bytes(),
            &settings(&self.shape, &self.tally),
            &(self.body.len() as u64).to_le_bytes(),
            &self.body,
        ]
        .concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a delta, which must consist of exactly these bytes.
    ///
    /// # Errors
    /// If the bytes aren't a delta. [`YesNoFilter::apply`] checks the edits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DeltaError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(DeltaError::NotADelta);
        }
        let length = |expected: u64| DeltaError::Length { found: bytes.len() as u64, expected };
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or_else(|| length(HEADER as u64 + 4))?;
        let mut rest = &header[8..];
        let mut number = |size: usize| {
            let field = rest.split_off(..size).unwrap_or_default();
            field.iter().rev().fold(0u128, |number, &byte| number << 8 | u128::from(byte))
        };
        let [version, flags] = [4; 2].map(|size| number(size) as u32);
        let [from, to] = [16; 2].map(&mut number);
        let [mark, blocks] = [8; 2].map(|size| number(size) as u64);
        let [remainder_bits, group_bits, low_bits, label] = [4; 4].map(|size| number(size) as u32);
        let [yes, no, fingerprints, rate, size] = [8; 5].map(|size| number(size) as u64);
        if version != VERSION {
            return Err(DeltaError::Version(version));
        }
        let expected = size.saturating_add(HEADER as u64 + 4);
        if bytes.len() as u64 != expected {
            return Err(length(expected));
        }
        let (body, checksum) = bytes.split_at(bytes.len() - 4);
        if crc32fast::hash(body).to_le_bytes() != checksum {
            return Err(DeltaError::Checksum);
        }
        let shape = Shape { blocks, remainder_bits, group_bits, low_bits };
        let tally = Tally { yes, no, fingerprints, rate: f64::from_bits(rate), label };
        if !shape.is_possible() || !tally.is_possible() || flags > 1 {
            return Err(DeltaError::Impossible("its sizes are impossible"));
        }
        let (is_whole, body) = (flags == 1, body[HEADER..].to_vec());
        if body.len() % if is_whole { LINE } else { 8 } != 0 {
            return Err(DeltaError::Impossible("its body is not a whole number of lines or words"));
        }
        Ok(Self { from, to, mark, shape, tally, is_whole, body })
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delta")
            .field("shape", &self.shape)
            .field("tally", &self.tally)
            .field("is_whole", &self.is_whole)
            .finish_non_exhaustive()
    }
}
