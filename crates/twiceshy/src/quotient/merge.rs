//! Many filters into one, from their fingerprints alone.
//!
//! A hash is a fraction, so the fingerprints of filters whose sizes differ by powers of two
//! are prefixes of the same number, and a filter's are in order: merging is one pass over
//! all of them. Unless remainders are cut, the answers of the merged filter are exactly those
//! of all filters together: where one has a fingerprint that is a prefix of another's, the
//! shorter one covers both, and counts both.

use super::construct::{EntryWriter, Written};
use super::entry::Entry;
use super::stream::{Number, Stream, doublings, fit_a_word, single};
use super::{AdaptiveQuotientFilter, Parameters, builder};
use crate::bits::machine::{Machine, Operation};
use crate::error::{BuildError, MergeError};
use crate::fingerprint::Digits;

impl AdaptiveQuotientFilter {
    /// Merges filters into one that has the members of all of them, in one pass, from their
    /// fingerprints alone. Their hashes must have been made with the same secret.
    ///
    /// The numbers of slots must be the same, or differ by powers of two. The merged filter has
    /// as many slots as the largest one, or doubles them until all fit. With each doubling, a
    /// remainder loses a bit, and the rate of false positives, at the same load, doubles. See
    /// [`parameters`](Self::parameters) and [`statistics`](Self::statistics).
    ///
    /// If the fingerprints of all filters are equally long (slots times 2^r is the same number,
    /// r being the bits of a remainder), the merged filter answers "maybe" exactly where one
    /// of them does. A mistake that one filter had repaired and another makes is still made.
    ///
    /// If they are not, the longer fingerprints are cut to the length of the shortest. The
    /// merged filter then answers "maybe" more often, also to mistakes that had been repaired.
    /// To keep every repair, give the members and the mistakes to [`rebuilt`](Self::rebuilt).
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
    /// A [`MergeError`] if there are no filters, if their hashes, slots or sizes don't match, if
    /// no bit is left for a remainder, if lengthened fingerprints would have to be cut, or if
    /// there are more members than can be counted.
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
        let (level, writer) = (merged.table.level(), merged.writer());
        let all_digits = filters.iter().map(|filter| filter.digits);
        let written = if fit_a_word(all_digits.chain([digits])) {
            level.run(Merge { entries: Stream::<u64>::new(filters, digits), writer, digits })
        } else {
            level.run(Merge { entries: Stream::<u128>::new(filters, digits), writer, digits })
        }?;
        merged.count_written(written);
        let adaptations = filters.iter().map(|filter| filter.adaptations);
        merged.adaptations = adaptations.fold(0, u64::saturating_add);
        Ok(merged)
    }
}

struct Merge<'a, N> {
    entries: Stream<'a, N>,
    writer: EntryWriter<'a>,
    digits: Digits,
}

impl<N: Number> Operation for Merge<'_, N> {
    type Output = Result<Written, MergeError>;

    #[inline(always)]
    fn run<M: Machine>(mut self, _: M) -> Self::Output {
        let digits = self.digits;
        // Of the last entry, if that was a remainder and no more.
        let mut last = None;
        while let Some(batch) = self.entries.batch() {
            let alone = count_alone(batch, last);
            let (singles, others) = batch.split_at(alone);
            let next = others.first().map(|number| number.place(digits));
            if let Some(&number) = singles.last() {
                last = Some(number);
                self.writer.write_singles(singles, |number| number.place(digits))?;
                self.entries.pass(alone);
            }
            if let Some(place) = next {
                let with_last = last.is_some_and(|last| last.place(digits) == place);
                self.write_minirun(place, with_last)?;
                last = None;
            }
        }
        Ok(self.writer.finish()?)
    }
}

/// How many of the first entries are remainders and no more, all different from each other
/// and from the `last` one.
#[inline(always)]
fn count_alone<N: Number>(batch: &[N], last: Option<N>) -> usize {
    if batch[0].has_more() || last == Some(batch[0]) {
        return 0;
    }
    let is_alone = |pair: &&[N]| !pair[1].has_more() && pair[0] != pair[1];
    1 + batch.windows(2).take_while(is_alone).count()
}

impl<N: Number> Merge<'_, N> {
    /// Writes the next entries, which are all that have this quotient and remainder, except
    /// that the last one that was written may be one of them.
    #[cold]
    #[inline(never)]
    fn write_minirun(&mut self, place: (u64, u64), with_last: bool) -> Result<(), MergeError> {
        let mut all = Vec::new();
        if with_last {
            all.push(single(self.writer.take_single(), self.digits));
        }
        self.entries.take_minirun(place, self.digits, &mut all)?;
        all.sort_unstable_by_key(|entry| entry.fingerprint);
        let mut entries = Vec::with_capacity(all.len());
        for entry in all {
            absorb(&mut entries, entry)?;
        }
        Ok(entries.into_iter().try_for_each(|entry| self.writer.write(entry))?)
    }
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
