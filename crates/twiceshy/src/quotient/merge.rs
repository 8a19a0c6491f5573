//! Merging of filters, from their fingerprints alone.
//!
//! A hash is a fraction. If the sizes of filters differ by powers of two, their fingerprints are
//! prefixes of the same numbers. Each filter stores them in order, so a merge is one pass over all
//! of them. Unless remainders are cut, the merged filter answers "maybe" exactly where at least one
//! of the filters does: if one has a fingerprint that is a prefix of another filter's, the shorter
//! one covers and counts the members of both.

use super::construct::{EntryWriter, Written};
use super::entry::Entry;
use super::stream::{Number, Stream, doublings, fit_a_word};
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
    /// from the remainders, and doubles the false-positive rate at the same load.
    ///
    /// If slots times 2^r is the same for all filters, where r is the number of bits in a
    /// remainder, the merged filter answers "maybe" exactly where one of them does. Otherwise, the
    /// longer fingerprints are cut to the length of the shortest, and the merged filter answers
    /// "maybe" more often. To keep every repair, pass the members and the mistakes to
    /// [`rebuilt`](Self::rebuilt).
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
        let (mut parameters, mut bits) = common_parameters(filters)?;
        let used: u64 = filters.iter().map(|filter| filter.table.used()).sum();
        loop {
            let remainder_bits = u32::try_from(bits).ok().filter(|&bits| bits > 0);
            parameters.remainder_bits = remainder_bits.ok_or(MergeError::NoRemainder)?;
            if used as f64 <= parameters.slots as f64 * PLANNED_LOAD {
                match Self::merge_into(parameters, filters) {
                    // The hashes are uneven, so the filter has to be larger.
                    Err(MergeError::Build(BuildError::Full { .. })) => {}
                    merged => return merged,
                }
            }
            parameters.slots *= 2;
            bits -= 1;
        }
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
            all.push(Entry::bare(self.digits, self.writer.take_single()));
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

/// Returns the parameters of the largest filter, with values as wide as the widest, and with only as
/// many remainder bits as every filter has at that size. These may be less than 1.
fn common_parameters(filters: &[&QuotientFilter]) -> Result<(Parameters, i64), MergeError> {
    let each = || filters.iter().map(|filter| filter.parameters());
    let mut common = each().max_by_key(|each| each.slots).ok_or(MergeError::Nothing)?;
    let mut remainder_bits = i64::MAX;
    for Parameters { slots, remainder_bits: bits, slot_bits, value_bits, hash } in each() {
        if hash != common.hash {
            return Err(MergeError::Hashes);
        }
        if slot_bits != common.slot_bits {
            return Err(MergeError::SlotBits(slot_bits, common.slot_bits));
        }
        let doublings =
            doublings(slots, common.slots).ok_or(MergeError::Sizes(slots, common.slots))?;
        remainder_bits = remainder_bits.min(i64::from(bits) - i64::from(doublings));
        common.value_bits = common.value_bits.max(value_bits);
    }
    Ok((common, remainder_bits))
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
