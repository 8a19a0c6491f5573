//! Merging of filters, from their fingerprints alone.
//!
//! A hash is a fraction. If the sizes of filters differ by powers of two, their fingerprints are
//! prefixes of the same numbers. Each filter stores them in order, so a merge is one pass over all
//! of them. Unless remainders are cut, the merged filter answers "maybe" exactly where at least one
//! of the filters does: if one has a fingerprint that is a prefix of another filter's, the shorter
//! one covers and counts the members of both.

use super::construct::{EntryWriter, Written};
use super::entry::Entry;
use super::stream::{Number, Stream, doublings, fit_a_word, single};
use super::{MergeError, Parameters, QuotientFilter};
use crate::bits::machine::{Machine, Operation};
use crate::builder::PLANNED_LOAD;
use crate::error::BuildError;
use crate::fingerprint::Digits;
use crate::table::Widths;
use crate::{Key, Keyed};

impl QuotientFilter {
    /// Merges filters into one that has the members of all of them. It takes one pass, and needs
    /// only their fingerprints. All hashes must have been made with the same secret.
    ///
    /// The numbers of slots must be equal, or differ by powers of two. The merged filter has as
    /// many slots as the largest one, doubled until all members fit. Each doubling takes one bit
    /// from the remainders, and doubles the false-positive rate at the same load. See
    /// [`parameters`](Self::parameters) and [`stats`](Self::stats) for the result.
    ///
    /// If the fingerprints of all filters are equally long, the merged filter answers "maybe"
    /// exactly where one of them does. They are equally long if slots times 2^r is the same for
    /// all, where r is the number of bits in a remainder. A mistake that one filter has repaired
    /// but another one still makes is not repaired in the merged filter.
    ///
    /// Otherwise, the longer fingerprints are cut to the length of the shortest. The merged filter
    /// then answers "maybe" more often, also to mistakes that had been repaired. To keep every
    /// repair, pass the members and the mistakes to [`rebuilt`](Self::rebuilt).
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let builder = QuotientFilter::builder().slots(100).remainder_bits(12);
    /// let (mut one, mut other) = (builder.build()?, builder.build()?);
    /// one.insert(Hash::from_u128(1 << 120))?;
    /// other.insert(Hash::from_u128(2 << 120))?;
    /// let both = QuotientFilter::merged(&[&one, &other])?;
    /// assert_eq!(both.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`MergeError`] if there are no filters, if their hashes, slot widths or sizes don't match,
    /// if no bit is left for remainders, if lengthened fingerprints would have to be cut, or if
    /// there are more members than can be counted.
    pub fn merged(filters: &[&Self]) -> Result<Self, MergeError> {
        let common = Common::of(filters)?;
        for doublings in 0.. {
            let parameters = common.parameters(doublings)?;
            if common.used as f64 > parameters.slots as f64 * PLANNED_LOAD {
                continue;
            }
            match Self::merge_into(parameters, filters) {
                // The hashes are uneven, so the filter has to be larger.
                Err(MergeError::Build(BuildError::Full { .. })) => {}
                merged => return merged,
            }
        }
        unreachable!("there are only so many bits of a remainder")
    }

    /// Writes the entries of filters, in order, into a filter with these parameters. Its number of
    /// slots must be a power of two times that of each filter, and its fingerprints must not be
    /// longer.
    pub(super) fn merge_into(
        parameters: Parameters,
        filters: &[&Self],
    ) -> Result<Self, MergeError> {
        let mut merged = Self::empty(parameters)?;
        let digits = merged.digits;
        let (target, writer) = (merged.table.target(), merged.writer());
        let all_digits = filters.iter().map(|filter| filter.digits);
        let written = if fit_a_word(all_digits.chain([digits])) {
            target.run(Merge { entries: Stream::<u64>::new(filters, digits), writer, digits })
        } else {
            target.run(Merge { entries: Stream::<u128>::new(filters, digits), writer, digits })
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
    type Argument = ();
    type Output = Result<Written, MergeError>;
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(mut self, _: M, (): ()) -> Self::Output {
        let digits = self.digits;
        // Number of the last entry, if that was a single remainder.
        let mut last = None;
        while let Some(batch) = self.entries.batch() {
            let alone = count_alone(batch, last);
            let (singles, others) = batch.split_at(alone);
            let next = others.first().map(|number| number.place(digits));
            if let Some(&number) = singles.last() {
                last = Some(number);
                self.writer.write_singles::<SHAPE, _>(singles, |number| number.place(digits))?;
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

/// Returns how many entries at the start of the batch are single remainders, all different from
/// each other and from `last`.
#[inline(always)]
fn count_alone<N: Number>(batch: &[N], last: Option<N>) -> usize {
    if batch[0].has_more() || last == Some(batch[0]) {
        return 0;
    }
    let is_alone = |pair: &&[N]| !pair[1].has_more() && pair[0] != pair[1];
    1 + batch.windows(2).take_while(is_alone).count()
}

impl<N: Number> Merge<'_, N> {
    /// Writes the next entries, which are all entries with this quotient and remainder. If
    /// `with_last`, the entry that was written last is also one of them.
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

/// Appends an entry, or adds it to the last one if that covers it. If one of the two is a tombstone
/// and the other has members, only the members stay.
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

/// Properties that the filters have in common.
struct Common {
    /// Parameters of the largest filter.
    parameters: Parameters,
    /// Bits of the shortest fingerprint that isn't lengthened, as a remainder of the largest
    /// filter. Less than 1 if no bit is left.
    remainder_bits: i64,
    used: u64,
}

impl Common {
    fn of(filters: &[&QuotientFilter]) -> Result<Self, MergeError> {
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

    /// Returns the parameters of the merged filter, if it is the largest one doubled `doublings`
    /// times.
    fn parameters(&self, doublings: u32) -> Result<Parameters, MergeError> {
        let remainder_bits = u32::try_from(self.remainder_bits - i64::from(doublings))
            .ok()
            .filter(|&bits| bits > 0)
            .ok_or(MergeError::NoRemainder)?;
        let slots = self.parameters.slots << doublings;
        Ok(Parameters { slots, remainder_bits, ..self.parameters })
    }
}

impl<K: Key + ?Sized> Keyed<K, QuotientFilter> {
    /// Merges filters into one that has the members of all of them; see
    /// [`merged`](QuotientFilter::merged).
    ///
    /// # Errors
    /// The same as for [`QuotientFilter::merged`], or if the secrets differ.
    pub fn merged(filters: &[&Self]) -> Result<Self, MergeError> {
        let first = filters.first().ok_or(MergeError::Nothing)?;
        if filters.iter().any(|filter| filter.secret().expose() != first.secret().expose()) {
            return Err(MergeError::Secrets);
        }
        let merged: Vec<_> = filters.iter().map(|filter| filter.filter()).collect();
        Ok(Self::new(QuotientFilter::merged(&merged)?, first.secret().clone()))
    }
}
