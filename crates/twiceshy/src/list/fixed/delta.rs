//! Deltas update a filter without its lists.
//!
//! A delta lists changed fingerprints and seeds. A list of added and removed keys would not be
//! enough: a new yes key may change the seed of its group because of an old no key.
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
//! | 80 | 8 | yes keys |
//! | 88 | 8 | no keys |
//! | 96 | 8 | fingerprints |
//! | 104 | 8 | the requested rate, a 64-bit floating-point number |
//! | 112 | 8 | size of the body in bytes, *n* |
//! | 120 | *n* | body: the table, or edits padded to whole words |
//! | 120 + *n* | 4 | checksum of all bytes before: CRC-32, as in snapshots |
//!
//! Edits are a sequence of bits, beginning with the lowest bit of the first byte. For each changed
//! group, in order, they contain the number of unchanged groups before it, and one of these:
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
use crate::bits::word::low_bits;
use crate::error::Invalid;
use crate::list::ListError;
use crate::{Key, Keyed};
use core::fmt;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

const MAGIC: [u8; 8] = *b"\x89TWSHD\r\n";
const VERSION: u32 = 1;
const WHOLE: u32 = 1;

/// A new filter of the same shape may be this many times as large as the old filter and the edits.
const MAX_GROWTH: usize = 16;

/// Size of the header in bytes.
const HEADER: usize = 120;

/// The part of the header that the digest covers.
const DIGESTED: core::ops::Range<usize> = 56..112;

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
    change: Change,
}

#[derive(Clone, PartialEq)]
enum Change {
    /// Words of edits.
    Edits(Vec<u64>),
    /// The lines of the table.
    Whole(Vec<u8>),
}

/// An error when making, reading or applying a delta. An error changes nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The delta is for a different filter.
    #[error("the delta is for a different filter; get the delta for this one, or the new filter")]
    OtherBase,
    /// The filters' keys are hashed with different secrets.
    #[error(
        "the filters' keys were hashed with different secrets; build the new filter with the \
         secret of the old one"
    )]
    Secrets,
    /// The file doesn't begin like a delta.
    #[error("this is not a delta; check the file name")]
    NotADelta,
    /// The delta has an unknown format version.
    #[error(
        "the delta has format version {0}, and this program reads only version 1; read it with a \
         newer program"
    )]
    Version(u32),
    /// The delta is too short or too long.
    #[error("the delta has {found} bytes, not {expected}; copy it again")]
    Length {
        /// Number of bytes found.
        found: u64,
        /// Number of bytes in the header.
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

impl From<Invalid> for DeltaError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<ListError> for DeltaError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Uneven => Self::Impossible("a block has more keys than it can"),
            _ => Self::Memory,
        }
    }
}

impl YesNoFilter {
    /// Returns the delta from this filter to `new`. It is small if `new` was built
    /// [like](super::FilterBuilder::like) this filter. If the shapes differ, it contains all of
    /// `new`.
    ///
    /// # Errors
    /// If one of the filters is invalid.
    pub fn delta_to(&self, new: &Self) -> Result<Delta, DeltaError> {
        let whole = || Change::Whole(new.lines.bytes()[..new.lines.len() * LINE].to_vec());
        let change = if self.shape == new.shape {
            let edits = edits(self, new)?;
            if 8 * edits.len() < LINE * new.lines.len() { Change::Edits(edits) } else { whole() }
        } else {
            whole()
        };
        let (from, to) = (self.digest(), new.digest());
        Ok(Delta { from, to, mark: 0, shape: new.shape, tally: new.tally, change })
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
        let lines = match &delta.change {
            Change::Whole(bytes) => {
                let mut lines = Lines::zeroed(bytes.len() / LINE).ok_or(DeltaError::Memory)?;
                lines.bytes_mut().copy_from_slice(bytes);
                lines
            }
            Change::Edits(_) if self.shape != delta.shape => {
                return Err(DeltaError::Impossible("its edits are for a different shape"));
            }
            Change::Edits(edits) => edited(self, edits)?,
        };
        let new = Self::from_parts(delta.shape, delta.tally, lines);
        if new.digest() != delta.to {
            return Err(DeltaError::Impossible("the result has a different digest"));
        }
        new.validate()?;
        Ok(new)
    }

    fn digest(&self) -> u128 {
        let mut hasher = SipHasher13::new();
        hasher.write(&header_of(&self.shape, &self.tally)[DIGESTED]);
        hasher.write(&self.lines.bytes()[..self.lines.len() * LINE]);
        hasher.finish128().as_u128()
    }
}

impl<K: Key + ?Sized> Keyed<K, YesNoFilter> {
    /// Returns the delta from this filter to `new`; see [`YesNoFilter::delta_to`].
    ///
    /// # Errors
    /// As [`YesNoFilter::delta_to`], or [`DeltaError::Secrets`].
    pub fn delta_to(&self, new: &Self) -> Result<Delta, DeltaError> {
        if self.secret().expose() != new.secret().expose() {
            return Err(DeltaError::Secrets);
        }
        Ok(Delta { mark: self.secret().mark(), ..self.filter().delta_to(new.filter())? })
    }

    /// Applies a delta to this filter; see [`YesNoFilter::apply`].
    ///
    /// # Errors
    /// As [`YesNoFilter::apply`], or [`DeltaError::Secrets`].
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
    filter.each_group(|_, group| groups.push(group))?;
    Ok(groups)
}

fn edits(old: &YesNoFilter, new: &YesNoFilter) -> Result<Vec<u64>, DeltaError> {
    let bits = new.shape.group_bits + new.shape.remainder_bits;
    let mut writer = BitWriter::default();
    let mut passed = 0;
    for (old, new) in groups(old)?.into_iter().zip(groups(new)?) {
        if old == new {
            passed += 1;
            continue;
        }
        gamma(&mut writer, passed);
        passed = 0;
        if old.seed == new.seed {
            writer.push(0, 1);
            write_edits(&mut writer, &old.fingerprints, &new.fingerprints, bits);
        } else {
            writer.push(1, 1);
            gamma(&mut writer, new.seed);
            write_fingerprints(&mut writer, &new.fingerprints, bits);
        }
    }
    gamma(&mut writer, passed);
    Ok(writer.words)
}

/// Writes the removed and the added fingerprints. Both lists are sorted.
fn write_edits(writer: &mut BitWriter, old: &[u64], new: &[u64], bits: u32) {
    let goes = |fingerprint: &u64| new.binary_search(fingerprint).is_err();
    let gone: Vec<usize> = (0..old.len()).filter(|&at| goes(&old[at])).collect();
    let come = new.iter().copied().filter(|fingerprint| old.binary_search(fingerprint).is_err());
    gamma(writer, gone.len() as u64);
    let mut next = 0;
    for at in gone {
        gamma(writer, (at - next) as u64);
        next = at + 1;
    }
    write_fingerprints(writer, &come.collect::<Vec<_>>(), bits);
}

fn write_fingerprints(writer: &mut BitWriter, fingerprints: &[u64], bits: u32) {
    gamma(writer, fingerprints.len() as u64);
    for &fingerprint in fingerprints {
        writer.push(fingerprint, bits);
    }
}

/// Writes the Elias gamma code of `number + 1`: one zero less than it has bits, then its bits, the
/// highest first.
fn gamma(writer: &mut BitWriter, number: u64) {
    let number = number + 1;
    let bits = number.ilog2();
    writer.push(0, bits);
    writer.push(number.reverse_bits() >> (63 - bits), bits + 1);
}

fn edited(filter: &YesNoFilter, edits: &[u64]) -> Result<Lines, DeltaError> {
    let shape = filter.shape;
    let bits = shape.group_bits + shape.remainder_bits;
    let mut reader = BitReader { words: edits, at: 0 };
    let mut passed = reader.gamma()?;
    let mut groups = groups(filter)?;
    for group in &mut groups {
        if passed > 0 {
            passed -= 1;
            continue;
        }
        if reader.read(1)? == 1 {
            group.seed = reader.gamma()?;
            if group.seed >= MAX_SEEDS {
                return Err(DeltaError::Impossible("a seed is too large"));
            }
            group.fingerprints = reader.fingerprints(bits)?;
        } else {
            read_edits(&mut reader, &mut group.fingerprints, bits)?;
        }
        passed = reader.gamma()?;
    }
    if passed > 0 || reader.at.div_ceil(64) != edits.len() {
        return Err(DeltaError::Impossible("it edits more groups than there are"));
    }
    // A few bits of edits can describe large seeds, so the size of the new filter is limited.
    let most = MAX_GROWTH * (filter.lines.len() * LINE / 8 + edits.len());
    let mut writer = Writer::new(shape);
    for block in groups.chunks(shape.groups()) {
        writer.push(block)?;
        if writer.words() > most {
            return Err(DeltaError::Impossible("the new filter is far larger than the old one"));
        }
    }
    Ok(writer.finish().map_err(ListError::from)?)
}

fn read_edits(
    reader: &mut BitReader<'_>,
    fingerprints: &mut Vec<u64>,
    bits: u32,
) -> Result<(), DeltaError> {
    let (gone, mut next) = (reader.gamma()?, 0u64);
    if gone > fingerprints.len() as u64 {
        return Err(DeltaError::Impossible("it removes more fingerprints than there are"));
    }
    let mut goes = vec![false; fingerprints.len()];
    for _ in 0..gone {
        let at = next.saturating_add(reader.gamma()?);
        let place = goes.get_mut(usize::try_from(at).unwrap_or(usize::MAX));
        *place.ok_or(DeltaError::Impossible("it removes a fingerprint that doesn't exist"))? = true;
        next = at + 1;
    }
    let mut goes = goes.into_iter();
    fingerprints.retain(|_| !goes.next().unwrap_or(false));
    fingerprints.extend(reader.fingerprints(bits)?);
    fingerprints.sort_unstable();
    Ok(())
}

/// Reads what [`BitWriter`] wrote.
struct BitReader<'a> {
    words: &'a [u64],
    at: usize,
}

impl BitReader<'_> {
    fn read(&mut self, count: u32) -> Result<u64, DeltaError> {
        if self.at + count as usize > 64 * self.words.len() {
            return Err(DeltaError::Impossible("it ends too early"));
        }
        let (word, used) = (self.at / 64, self.at % 64);
        self.at += count as usize;
        let next = self.words.get(word + 1).copied().unwrap_or(0);
        let both = u128::from(self.words.get(word).copied().unwrap_or(0)) | u128::from(next) << 64;
        Ok((both >> used) as u64 & low_bits(count))
    }

    fn gamma(&mut self) -> Result<u64, DeltaError> {
        let mut bits = 0;
        while self.read(1)? == 0 {
            bits += 1;
            if bits > 48 {
                return Err(DeltaError::Impossible("a number is too large"));
            }
        }
        let rest = self.read(bits)?;
        Ok(if bits == 0 { 0 } else { (1 << bits | rest.reverse_bits() >> (64 - bits)) - 1 })
    }

    fn fingerprints(&mut self, bits: u32) -> Result<Vec<u64>, DeltaError> {
        // Reserves no memory: the count may be larger than the number of bits allows.
        let count = self.gamma()?;
        let mut fingerprints = Vec::new();
        for _ in 0..count {
            fingerprints.push(self.read(bits)?);
        }
        Ok(fingerprints)
    }
}

/// Returns a header with only the fields that the digest covers.
fn header_of(shape: &Shape, tally: &Tally) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(56, &shape.blocks.to_le_bytes());
    put(64, &shape.remainder_bits.to_le_bytes());
    put(68, &shape.group_bits.to_le_bytes());
    put(72, &shape.low_bits.to_le_bytes());
    put(76, &tally.label.to_le_bytes());
    put(80, &tally.yes.to_le_bytes());
    put(88, &tally.no.to_le_bytes());
    put(96, &tally.fingerprints.to_le_bytes());
    put(104, &tally.rate.to_le_bytes());
    header
}

impl Delta {
    /// Returns whether the delta contains all of the new filter, because its shape differs or
    /// because that is shorter.
    pub fn is_whole(&self) -> bool {
        matches!(self.change, Change::Whole(_))
    }

    /// Returns the number of yes keys in the new filter.
    pub fn yes_keys(&self) -> u64 {
        self.tally.yes
    }

    /// Encodes the delta as bytes. `src/list/fixed/delta.rs` describes the format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body: Vec<u8> = match &self.change {
            Change::Edits(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Change::Whole(bytes) => bytes.clone(),
        };
        let mut header = header_of(&self.shape, &self.tally);
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &if self.is_whole() { WHOLE } else { 0 }.to_le_bytes());
        put(16, &self.from.to_le_bytes());
        put(32, &self.to.to_le_bytes());
        put(48, &self.mark.to_le_bytes());
        put(112, &(body.len() as u64).to_le_bytes());
        let mut bytes = [&header[..], &body].concat();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a delta, which must consist of exactly these bytes.
    ///
    /// # Errors
    /// If the bytes aren't a delta. [`YesNoFilter::apply`] checks the edits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DeltaError> {
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(DeltaError::NotADelta);
        }
        let length = |expected: u64| DeltaError::Length { found: bytes.len() as u64, expected };
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or_else(|| length(HEADER as u64 + 4))?;
        let number = |at: usize, size: usize| {
            let bytes = header[at..at + size].iter().rev();
            bytes.fold(0u128, |number, &byte| number << 8 | u128::from(byte))
        };
        let (wide, long) = (|at| number(at, 16), |at| number(at, 8) as u64);
        let short = |at| number(at, 4) as u32;
        if short(8) != VERSION {
            return Err(DeltaError::Version(short(8)));
        }
        let expected = long(112).saturating_add(HEADER as u64 + 4);
        if bytes.len() as u64 != expected {
            return Err(length(expected));
        }
        let (rest, checksum) = bytes.split_last_chunk().ok_or_else(|| length(expected))?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*checksum) {
            return Err(DeltaError::Checksum);
        }
        let shape = Shape {
            blocks: long(56),
            remainder_bits: short(64),
            group_bits: short(68),
            low_bits: short(72),
        };
        let rate = f64::from_bits(long(104));
        let (yes, no, fingerprints) = (long(80), long(88), long(96));
        let tally = Tally { yes, no, fingerprints, rate, label: short(76) };
        if !shape.is_possible() || !tally.is_possible() || short(12) > WHOLE {
            return Err(DeltaError::Impossible("its sizes are impossible"));
        }
        let body = &rest[HEADER..];
        let change = if short(12) == WHOLE {
            if body.len() % LINE != 0 {
                return Err(DeltaError::Impossible("its table is not a whole number of lines"));
            }
            Change::Whole(body.to_vec())
        } else {
            let (words, others) = body.as_chunks();
            if !others.is_empty() {
                return Err(DeltaError::Impossible("its edits are not a whole number of words"));
            }
            Change::Edits(words.iter().map(|&word| u64::from_le_bytes(word)).collect())
        };
        Ok(Self { from: wide(16), to: wide(32), mark: long(48), shape, tally, change })
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delta")
            .field("shape", &self.shape)
            .field("tally", &self.tally)
            .field("is_whole", &self.is_whole())
            .finish_non_exhaustive()
    }
}
