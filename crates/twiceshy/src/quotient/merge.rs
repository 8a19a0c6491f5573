//! Many filters into one, from their fingerprints alone.
//!
//! A hash is a fraction, so the fingerprints of filters whose sizes differ by powers of two
//! are prefixes of the same number, and a filter's are in order: merging is one pass over
//! all of them. The answers of the merged filter are exactly those of all filters together:
//! where one has a fingerprint that is a prefix of another's, the shorter one covers both,
//! and counts both.

use super::entry::Entry;
use super::{AdaptiveQuotientFilter, Parameters, builder};
use crate::error::{BuildError, MergeError};
use crate::fingerprint::Digits;
use crate::table::Stored;

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

    fn merge_into(parameters: Parameters, filters: &[&Self]) -> Result<Self, MergeError> {
        let mut merged = Self::empty(parameters)?;
        let digits = merged.digits;
        let mut streams = filters
            .iter()
            .map(|filter| Stream::new(filter, digits))
            .collect::<Result<Vec<_>, _>>()?;
        let mut writer = merged.writer();
        loop {
            let next = streams.iter_mut().filter(|stream| stream.next.is_some());
            let Some(stream) = next.min_by_key(|stream| stream.next.map(|entry| entry.fingerprint))
            else {
                break;
            };
            writer.push(stream.take()?.expect("one that has a next"))?;
        }
        let written = writer.finish()?;
        merged.count_written(written);
        merged.adaptations = filters.iter().map(|filter| filter.adaptations).sum();
        Ok(merged)
    }
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

/// The entries of a filter, in order, as another one would store them.
struct Stream<'a, I> {
    filter: &'a AdaptiveQuotientFilter,
    rest: I,
    digits: Digits,
    doublings: u32,
    next: Option<Entry>,
}

impl<'a> Stream<'a, crate::table::Reader<'a>> {
    fn new(filter: &'a AdaptiveQuotientFilter, digits: Digits) -> Result<Self, MergeError> {
        let slots = filter.table.slots();
        let doublings = doublings(slots, digits.slots).expect("sizes that were compared");
        let rest = filter.table.stored();
        let mut stream = Self { filter, rest, digits, doublings, next: None };
        stream.take()?;
        Ok(stream)
    }
}

impl<I: Iterator<Item = Stored>> Stream<'_, I> {
    /// The next entry, and goes on.
    #[inline(always)]
    fn take(&mut self) -> Result<Option<Entry>, MergeError> {
        let next = self.rest.next().map(|stored| self.convert(stored)).transpose()?;
        Ok(core::mem::replace(&mut self.next, next))
    }

    #[inline(always)]
    fn convert(&self, stored: Stored) -> Result<Entry, MergeError> {
        let mut entry = self.filter.decode(stored);
        let is_lengthened = entry.fingerprint.bits() > self.filter.digits.remainder;
        let fingerprint = entry.fingerprint.doubled(self.doublings);
        if !is_lengthened {
            entry.fingerprint = fingerprint.truncated(self.digits.remainder);
            return Ok(entry);
        }
        if self.filter.digits.remainder - self.doublings != self.digits.remainder {
            return Err(MergeError::Lengthened);
        }
        entry.fingerprint = fingerprint;
        Ok(entry)
    }
}
