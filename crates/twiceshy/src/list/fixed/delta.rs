//! From one filter to another, for those who have neither list.
//!
//! What has changed are fingerprints and seeds, and that is what a delta tells: which keys came and
//! went wouldn't do, because a new yes-key may get its group another seed on account of a no-key
//! that has been there all the time.
//!
//! # Format, version 1
//! All numbers are little-endian.
//!
//! | byte | size | |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic: `89 54 57 53 48 44 0d 0a`, "\x89TWSHD\r\n" |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | flags: bit 0, the whole new table follows, else edits |
//! | 16 | 16 | digest of the filter that it is for |
//! | 32 | 16 | digest of the filter that comes out |
//! | 48 | 8 | mark of the secret, or 0 if it isn't known |
//! | 56 | 8 | blocks |
//! | 64 | 4 | bits of a remainder, *r* |
//! | 68 | 4 | quotients of a group, as a power of two, *g* |
//! | 72 | 4 | bits of a seed that are written as they are |
//! | 76 | 4 | label |
//! | 80 | 8 | yes-keys |
//! | 88 | 8 | no-keys |
//! | 96 | 8 | fingerprints |
//! | 104 | 8 | the rate that was asked for, a 64-bit floating-point number |
//! | 112 | 8 | bytes that follow, without the last four, *n* |
//! | 120 | *n* | the table, or edits, to whole words |
//! | 120 + *n* | 4 | checksum of all bytes before: CRC-32, as of snapshots |
//!
//! Edits are bits, from the lowest of the first byte on: for each group that has changed, in order,
//! how many are passed over; then a 0, how many fingerprints go, how many stay before each of them,
//! how many come, and these; or a 1, the new seed, how many fingerprints there are, and these. A
//! fingerprint is *g* + *r* bits, any other number its Elias gamma code, 1 being added. After the
//! last group as many are passed over as are left.
//!
//! A digest is the 128-bit SipHash-1-3, with a key of zeros, of the bytes 56 to 112 as above and the
//! lines of the table.

use super::block::{BitWriter, Group};
use super::build::{MOST_TRIED, Writer};
use super::shape::Shape;
use super::{Tally, YesNoFilter};
use crate::bits::memory::{LINE, Lines};
use crate::bits::word::low_bits;
use crate::error::Invalid;
use crate::{BuildError, Keyed};
use core::fmt;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

const MAGIC: [u8; 8] = *b"\x89TWSHD\r\n";
const VERSION: u32 = 1;
const WHOLE: u32 = 1;

/// How much larger than the old filter and the edits a new one of the same shape may be.
const LARGER: usize = 16;

/// Bytes before what has changed.
const HEADER: usize = 120;

/// Where what is digested begins in the header, and where it ends.
const DIGESTED: core::ops::Range<usize> = 56..112;

/// What makes one [`YesNoFilter`] of another: the fingerprints that come and go.
///
/// ```
/// use twiceshy::{Delta, Keyed, YesNoFilter};
/// let builder = || YesNoFilter::builder().false_positive_rate(0.01).room(0.2);
/// let old = builder().build_keyed::<str, _>(&["evil", "worse"], &["good"])?;
/// let builder = builder().like(old.filter()).secret(old.secret().clone());
/// let new = builder.build_keyed::<str, _>(&["evil", "worst"], &["good", "better"])?;
///
/// let bytes = old.delta_to(&new)?.to_bytes();
/// // Elsewhere, where only the old filter is:
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

/// A delta could not be made, read or applied; nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// It is for another filter.
    #[error("the delta is for another filter than this; get the one for this, or the new filter")]
    OtherBase,
    /// The filters' keys are hashed with different secrets.
    #[error(
        "the filters' keys were hashed with different secrets; build the new one with the secret \
         of the old"
    )]
    Secrets,
    /// It doesn't begin as a delta does.
    #[error("this is no delta; look for another file")]
    NotADelta,
    /// Its format is of another version.
    #[error("the delta is of version {0}, and this program reads version 1; use one that reads it")]
    Version(u32),
    /// It is shorter or longer than it says.
    #[error("the delta has {found} bytes, not {expected}; get it again")]
    Length {
        /// Bytes that are there.
        found: u64,
        /// Bytes that there must be.
        expected: u64,
    },
    /// It has changed.
    #[error("the delta has changed since it was written; get it again")]
    Checksum,
    /// What it says can't be, though its checksum is right.
    #[error("the delta is impossible: {0}; make it again")]
    Impossible(&'static str),
    /// The filter breaks an invariant.
    #[error("the filter is broken: {0}; get it again")]
    Invalid(Invalid),
    /// There is no memory for the new filter.
    #[error("there is no memory for the new filter")]
    Memory,
}

impl From<Invalid> for DeltaError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<BuildError> for DeltaError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Uneven => Self::Impossible("a block has more keys than it can"),
            _ => Self::Memory,
        }
    }
}

impl YesNoFilter {
    /// What makes `new` of this filter: small if `new` was built [like](super::YesNoFilterBuilder::like)
    /// this one, and all of it if it is of another shape.
    ///
    /// # Errors
    /// If one of the filters is broken.
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

    /// The filter that a delta makes of this one: bit for bit the one that it was made from.
    ///
    /// # Errors
    /// [`DeltaError::OtherBase`] if the delta is for another filter, [`DeltaError::Impossible`] if
    /// what comes out isn't what it says.
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
                return Err(DeltaError::Impossible("edits are for another shape"));
            }
            Change::Edits(edits) => edited(self, edits)?,
        };
        let new = Self::from_parts(delta.shape, delta.tally, lines);
        if new.digest() != delta.to {
            return Err(DeltaError::Impossible("what comes out is another filter"));
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

impl<K: ?Sized> Keyed<K, YesNoFilter> {
    /// As [`YesNoFilter::delta_to`].
    ///
    /// # Errors
    /// As there, or [`DeltaError::Secrets`].
    pub fn delta_to(&self, new: &Self) -> Result<Delta, DeltaError> {
        if self.secret().expose() != new.secret().expose() {
            return Err(DeltaError::Secrets);
        }
        Ok(Delta { mark: self.secret().mark(), ..self.filter().delta_to(new.filter())? })
    }

    /// As [`YesNoFilter::apply`].
    ///
    /// # Errors
    /// As there, or [`DeltaError::Secrets`].
    pub fn apply(&self, delta: &Delta) -> Result<Self, DeltaError> {
        if ![0, self.secret().mark()].contains(&delta.mark) {
            return Err(DeltaError::Secrets);
        }
        Ok(Self::new(self.filter().apply(delta)?, self.secret().clone()))
    }
}

/// The groups of a filter.
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

/// Which fingerprints go and come: both lists are in order.
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

/// Writes a number so that small ones are short: as many zeros as it has bits but one, then these,
/// the highest first.
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
            if group.seed >= MOST_TRIED {
                return Err(DeltaError::Impossible("no group has such a seed"));
            }
            group.fingerprints = reader.fingerprints(bits)?;
        } else {
            read_edits(&mut reader, &mut group.fingerprints, bits)?;
        }
        passed = reader.gamma()?;
    }
    if passed > 0 || reader.at.div_ceil(64) != edits.len() {
        return Err(DeltaError::Impossible("there are edits of groups that aren't there"));
    }
    // However few bits say how large seeds are, what they take is bounded by what there was.
    let most = LARGER * (filter.lines.len() * LINE / 8 + edits.len());
    let mut writer = Writer::new(shape);
    for block in groups.chunks(shape.groups()) {
        writer.push(block)?;
        if writer.words() > most {
            return Err(DeltaError::Impossible("the new filter is far larger than the old one"));
        }
    }
    Ok(writer.finish()?)
}

fn read_edits(
    reader: &mut BitReader<'_>,
    fingerprints: &mut Vec<u64>,
    bits: u32,
) -> Result<(), DeltaError> {
    let (gone, mut next) = (reader.gamma()?, 0u64);
    if gone > fingerprints.len() as u64 {
        return Err(DeltaError::Impossible("more fingerprints go than there are"));
    }
    let mut goes = vec![false; fingerprints.len()];
    for _ in 0..gone {
        let at = next.saturating_add(reader.gamma()?);
        let place = goes.get_mut(usize::try_from(at).unwrap_or(usize::MAX));
        *place.ok_or(DeltaError::Impossible("a fingerprint goes that isn't there"))? = true;
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
        // However many it says there are, no more are kept than it has bits for.
        let count = self.gamma()?;
        let mut fingerprints = Vec::new();
        for _ in 0..count {
            fingerprints.push(self.read(bits)?);
        }
        Ok(fingerprints)
    }
}

/// A header with nothing but what is digested.
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
    /// Whether all of the new filter is in it, because it is of another shape than the old one, or
    /// because that is shorter.
    pub fn is_whole(&self) -> bool {
        matches!(self.change, Change::Whole(_))
    }

    /// How many yes-keys the new filter has.
    pub fn yes_keys(&self) -> u64 {
        self.tally.yes
    }

    /// The delta as bytes, in the format that is described in the source, version 1.
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

    /// The delta of these bytes, all of them and no more.
    ///
    /// # Errors
    /// If they aren't those of a delta. Whether it is right shows when it is applied.
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
            return Err(DeltaError::Impossible("there is no such filter"));
        }
        let body = &rest[HEADER..];
        let change = if short(12) == WHOLE {
            if body.len() % LINE != 0 {
                return Err(DeltaError::Impossible("its table is no table"));
            }
            Change::Whole(body.to_vec())
        } else {
            let (words, others) = body.as_chunks();
            if !others.is_empty() {
                return Err(DeltaError::Impossible("its edits are no words"));
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
