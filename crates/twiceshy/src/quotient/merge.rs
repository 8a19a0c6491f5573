//! Many filters into one, from their fingerprints alone.
//!
//! A hash is a fraction, so the fingerprints of filters whose sizes differ by powers of two
//! are prefixes of the same number, and a filter's are in order: merging is one pass over
//! all of them. The answers of the merged filter are exactly those of all filters together:
//! where one has a fingerprint that is a prefix of another's, the shorter one covers both,
//! and counts both.

use super::construct::{EntryWriter, Written};
use super::entry::Entry;
use super::{AdaptiveQuotientFilter, Parameters, builder};
use crate::bits::machine::{Machine, Operation};
use crate::bits::word::low_bits;
use crate::error::{BuildError, MergeError};
use crate::fingerprint::Digits;
use crate::table::{Reader, Stored};

impl AdaptiveQuotientFilter {
    /// A filter of the members of all `filters`, whose hashes must have been made with the
    /// same secret; in one pass, from their fingerprints alone.
    ///
    /// Their numbers of slots must be the same, or differ by powers of two; the merged
    /// filter has the largest one's, or doubles it until all fit. Every repair is kept: it
    /// answers "maybe" exactly where one of them does. So a mistake that one of them had
    /// repaired and another makes is still made; to repair these in the same pass,
    /// [`rebuilt`](Self::rebuilt) takes the members and the mistakes.
    ///
    /// A fingerprint of the merged filter can only have as many bits as the shortest
    /// unlengthened one: with each doubling, a remainder loses a bit, and the rate of false
    /// positives, at the same load, doubles. See [`parameters`](Self::parameters) and
    /// [`statistics`](Self::statistics).
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let builder = AdaptiveQuotientFilter::builder().slots(100).remainder_bits(12);
    /// let (mut one, mut other) = (builder.build()?, builder.build()?);
    /// one.insert(Hash::from_u128(1 << 120))?;
    /// other.insert(Hash::from_u128(2 << 120))?;
    /// let both = AdaptiveQuotientFilter::merged(&[&one, &other])?;
    /// assert_eq!(both.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`MergeError`] if there are none, if their hashes, slots or sizes don't match, if
    /// there is no bit left for a remainder, or if lengthened fingerprints would have to be
    /// cut: where sizes differ, but the lengths of their fingerprints don't.
    pub fn merged(filters: &[&Self]) -> Result<Self, MergeError> {
        let common = Common::of(filters)?;
        for doublings in 0.. {
            let parameters = common.parameters(doublings)?;
            if common.used as f64 > parameters.slots as f64 * builder::PLANNED_LOAD {
                continue;
            }
            match Self::merge_into(parameters, filters) {
                // Hashes that lie unevenly.
                Err(MergeError::Build(BuildError::Full { .. })) => {}
                merged => return merged,
            }
        }
        unreachable!("there are only so many bits of a remainder")
    }

    /// Writes the entries of filters, in order, into one of these parameters, which must be
    /// such that each fingerprint can be [converted](Stream::convert).
    pub(super) fn merge_into(
        parameters: Parameters,
        filters: &[&Self],
    ) -> Result<Self, MergeError> {
        let mut merged = Self::empty(parameters)?;
        let digits = merged.digits;
        let streams = filters.iter().map(|filter| Stream::new(filter, digits)).collect();
        let level = merged.table.level();
        let written = level.run(Merge { streams, writer: merged.writer(), digits })?;
        merged.count_written(written);
        merged.adaptations = filters.iter().map(|filter| filter.adaptations).sum();
        Ok(merged)
    }
}

struct Merge<'a> {
    streams: Vec<Stream<'a>>,
    writer: EntryWriter<'a>,
    digits: Digits,
}

impl Operation for Merge<'_> {
    type Output = Result<Written, MergeError>;

    #[inline(always)]
    fn run<M: Machine>(self, _: M) -> Self::Output {
        let Self { mut streams, mut writer, digits } = self;
        // All that have the same quotient and remainder.
        let mut minirun = Vec::new();
        loop {
            let (mut first, mut owner, mut shared) = (NONE, 0, false);
            for (index, stream) in streams.iter().enumerate() {
                shared = stream.next == first || shared && stream.next > first;
                if stream.next < first {
                    (first, owner) = (stream.next, index);
                }
            }
            if first == NONE {
                break;
            }
            let (origin, stored) = streams[owner].take();
            let is_single = stored.slots.end - stored.slots.start == 1;
            if is_single && !shared && streams[owner].next != first {
                writer.write_single(((first >> 64) as u64, first as u64))?;
                continue;
            }
            minirun.push((origin, stored));
            for stream in &mut streams {
                while stream.next == first {
                    minirun.push(stream.take());
                }
            }
            write_minirun(&mut writer, &minirun, digits)?;
            minirun.clear();
        }
        Ok(writer.finish())
    }
}

/// Writes entries that have the same quotient and remainder.
#[cold]
fn write_minirun(
    writer: &mut EntryWriter<'_>,
    minirun: &[(Origin<'_>, Stored)],
    digits: Digits,
) -> Result<(), MergeError> {
    let convert = |(origin, stored): &(Origin<'_>, Stored)| origin.convert(stored, digits);
    let mut converted: Vec<Entry> = minirun.iter().map(convert).collect::<Result<_, _>>()?;
    converted.sort_unstable_by_key(|entry| entry.fingerprint);
    let mut entries = Vec::with_capacity(converted.len());
    for entry in converted {
        absorb(&mut entries, entry)?;
    }
    for entry in entries {
        writer.write(entry)?;
    }
    Ok(())
}

/// Appends an entry. One that the last one covers is added to it; but of a tombstone and
/// members, only the members stay.
fn absorb(entries: &mut Vec<Entry>, entry: Entry) -> Result<(), BuildError> {
    match entries.last_mut() {
        Some(last) if last.fingerprint.covers_all(&entry.fingerprint) => {
            if last.count == 0 && entry.count > 0 {
                *last = entry;
            } else if last.count == 0 || entry.count > 0 {
                let sum = last.count.checked_add(entry.count);
                last.count = sum.ok_or(BuildError::Uncountable)?;
                last.value = last.value.max(entry.value);
            }
        }
        _ => entries.push(entry),
    }
    Ok(())
}

/// What filters have in common.
struct Common {
    /// Of the largest.
    parameters: Parameters,
    /// Bits of the shortest fingerprint that isn't lengthened, as a remainder of the largest
    /// filter; not one, if there are none left.
    remainder_bits: i64,
    used: u64,
}

impl Common {
    fn of(filters: &[&AdaptiveQuotientFilter]) -> Result<Self, MergeError> {
        let each = || filters.iter().map(|filter| filter.parameters());
        let largest =
            each().max_by_key(|parameters| parameters.slots).ok_or(MergeError::Nothing)?;
        let mut common = Self {
            parameters: largest,
            remainder_bits: i64::MAX,
            used: filters.iter().map(|filter| filter.table.used()).sum(),
        };
        for parameters in each() {
            if parameters.hash != largest.hash {
                return Err(MergeError::Hashes);
            }
            if parameters.slot_bits != largest.slot_bits {
                return Err(MergeError::SlotBits(parameters.slot_bits, largest.slot_bits));
            }
            let doublings = doublings(parameters.slots, largest.slots)
                .ok_or(MergeError::Sizes(parameters.slots, largest.slots))?;
            let bits = i64::from(parameters.remainder_bits) - i64::from(doublings);
            common.remainder_bits = common.remainder_bits.min(bits);
            common.parameters.value_bits = common.parameters.value_bits.max(parameters.value_bits);
        }
        Ok(common)
    }

    /// The parameters of the merged filter, if it is the largest one doubled so many times.
    fn parameters(&self, doublings: u32) -> Result<Parameters, MergeError> {
        let remainder_bits = u32::try_from(self.remainder_bits - i64::from(doublings))
            .ok()
            .filter(|&bits| bits > 0)
            .ok_or(MergeError::NoRemainder)?;
        let slots = self.parameters.slots << doublings;
        Ok(Parameters { slots, remainder_bits, ..self.parameters })
    }
}

/// How often `slots` has to be doubled to be `larger`.
fn doublings(slots: u64, larger: u64) -> Option<u32> {
    let times = larger / slots;
    (larger.is_multiple_of(slots) && times.is_power_of_two()).then(|| times.ilog2())
}

/// A filter whose entries go into another one.
#[derive(Clone, Copy)]
struct Origin<'a> {
    filter: &'a AdaptiveQuotientFilter,
    /// How often it has to be doubled to be as large as the other one.
    doublings: u32,
}

impl Origin<'_> {
    /// An entry as it is in a filter of these digits.
    fn convert(self, stored: &Stored, digits: Digits) -> Result<Entry, MergeError> {
        let mut entry = self.filter.decode(stored.clone());
        let is_lengthened = entry.fingerprint.bits() > self.filter.digits.remainder;
        entry.fingerprint = entry.fingerprint.doubled(self.doublings);
        if !is_lengthened {
            entry.fingerprint = entry.fingerprint.truncated(digits.remainder);
        } else if self.filter.digits.remainder - self.doublings != digits.remainder {
            return Err(MergeError::Lengthened);
        }
        Ok(entry)
    }
}

/// No quotient and remainder.
const NONE: u128 = u128::MAX;

/// The entries of a filter, in order.
struct Stream<'a> {
    origin: Origin<'a>,
    rest: Reader<'a>,
    stored: Option<Stored>,
    /// The quotient and the remainder that the next one has in the other filter, or
    /// [`NONE`].
    next: u128,
    /// Bits of a remainder that are left when `doublings` have gone to the quotient, and
    /// how many of them have no place.
    left: u32,
    cut: u32,
}

impl<'a> Stream<'a> {
    fn new(filter: &'a AdaptiveQuotientFilter, digits: Digits) -> Self {
        let slots = filter.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let left = filter.digits.remainder - doublings;
        let mut stream = Self {
            origin: Origin { filter, doublings },
            rest: filter.table.stored(),
            stored: None,
            next: NONE,
            left,
            cut: left - digits.remainder,
        };
        stream.advance();
        stream
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<Stored> {
        let stored = self.rest.next();
        self.next = stored.as_ref().map_or(NONE, |stored| {
            let quotient = stored.quotient << self.origin.doublings | stored.remainder >> self.left;
            let remainder = (stored.remainder & low_bits(self.left)) >> self.cut;
            u128::from(quotient) << 64 | u128::from(remainder)
        });
        core::mem::replace(&mut self.stored, stored)
    }

    /// The next entry; there must be one.
    #[inline(always)]
    fn take(&mut self) -> (Origin<'a>, Stored) {
        (self.origin, self.advance().expect("an entry"))
    }
}
