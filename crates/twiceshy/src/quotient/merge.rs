//! Merges filters, using only their fingerprints.
//!
//! A hash is a fraction. If remainders are plain, and the sizes of filters differ by powers of two,
//! their fingerprints are prefixes of the same numbers. Fingerprints with other remainders can be
//! merged if all filters have the same remainders and size. Each filter stores its fingerprints in
//! order, so a merge is one pass over all of them. Unless remainders are cut, the merged filter
//! answers "maybe" exactly where at least one of the filters does. If a fingerprint of one filter
//! is a prefix of another filter's, the merged filter keeps only the shorter one, which covers and
//! counts the members of both.

use super::construct::EntryWriter;
use super::entry::Entry;
use super::stream::{Number, Stream, doublings, fit_a_word};
use super::{MergeError, Parameters, QuotientFilter};
use crate::bits::machine::dispatched;
use crate::builder::PLANNED_LOAD;
use crate::error::BuildError;
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
    /// The filters must make remainders in the same way. If their [remainders](super::Remainders)
    /// aren't plain, all filters must have the same number of slots. The merged filter then has
    /// that number, too.
    ///
    /// If slots times 2^r is the same for all filters, where r is the number of bits in a
    /// remainder, the merged filter answers "maybe" exactly where one of them does. Otherwise, the
    /// longer fingerprints are cut to the length of the shortest, and the merged filter answers
    /// "maybe" more often. To keep every repair, pass the members and the mistakes to
    /// [`rebuilt`](Self::rebuilt).
    ///
    /// The merged filter grows automatically if one of the filters does, at the lowest of their
    /// loads.
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
    /// A [`MergeError`] if there are no filters, if their hashes, slot widths, sizes or remainders
    /// don't match, if no bit is left for remainders, if lengthened fingerprints would have to be
    /// cut, if there are more members than can be counted, or if members don't fit in a filter that
    /// can't be doubled.
    pub fn merged(filters: &[&Self]) -> Result<Self, MergeError> {
        let (mut parameters, mut bits) = common_parameters(filters)?;
        let used: u64 = filters.iter().map(|filter| filter.usage.used).sum();
        loop {
            let remainder_bits = u32::try_from(bits).ok().filter(|&bits| bits > 0);
            parameters.remainder_bits = remainder_bits.ok_or(MergeError::NoRemainder)?;
            let is_fixed = !parameters.remainders.is_plain();
            if is_fixed || used as f64 <= parameters.slots as f64 * PLANNED_LOAD {
                match Self::merge_into(parameters, filters) {
                    // The hashes are uneven, so the filter has to be larger.
                    Err(MergeError::Build(BuildError::Full { .. })) if !is_fixed => {}
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
        let digits = merged.shared.digits;
        let writer = merged.writer();
        let all_digits = filters.iter().map(|filter| filter.shared.digits);
        if fit_a_word(all_digits.chain([digits])) {
            write_merged(Stream::<u64>::new(filters, digits), writer)
        } else {
            write_merged(Stream::<u128>::new(filters, digits), writer)
        }?;
        merged.succeed_all(filters);
        Ok(merged)
    }
}

dispatched! {
    fn write_merged<'a, N: Number>(
        entries: Stream<'a, N>,
        writer: EntryWriter<'a>,
    ) -> Result<(), MergeError> => writer.target, Widths, |_| {
        let (mut entries, mut writer) = (entries, writer);
        let digits = writer.spelling.digits;
        // The [`Number`] of the last entry, if that entry was a single remainder.
        let mut last = None;
        while let Some(batch) = entries.batch() {
            let alone = count_alone(batch, last);
            let (singles, others) = batch.split_at(alone);
            let next = others.first().map(|number| number.place(digits));
            if let Some(&number) = singles.last() {
                last = Some(number);
                writer.write_singles::<SHAPE, _>(singles, |number| number.place(digits))?;
                entries.pass(alone);
            }
            if let Some(place) = next {
                let with_last = last.is_some_and(|last| last.place(digits) == place);
                write_minirun(&mut entries, &mut writer, place, with_last)?;
                last = None;
            }
        }
        Ok(writer.finish()?)
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

/// Writes the next entries, which are all entries with this quotient and remainder. If `with_last`
/// is true, the previous entry is one of them. An entry that covers others also counts their
/// members.
#[cold]
#[inline(never)]
fn write_minirun<N: Number>(
    entries: &mut Stream<'_, N>,
    writer: &mut EntryWriter<'_>,
    place: (u64, u64),
    with_last: bool,
) -> Result<(), MergeError> {
    let (digits, mut all) = (writer.spelling.digits, Vec::new());
    if with_last {
        let last = writer.waiting.pop().expect("the last single entry waits for the next one");
        all.push(Entry::bare(digits, last));
    }
    entries.take_minirun(place, digits, &mut all)?;
    all.sort_unstable_by_key(|entry| entry.fingerprint);
    let mut merged: Vec<Entry> = Vec::with_capacity(all.len());
    for entry in all {
        match merged.last_mut() {
            // If one of the two is a tombstone, the one with members stays.
            Some(last) if last.fingerprint.covers_all(&entry.fingerprint) => {
                if last.count == 0 && entry.count > 0 {
                    *last = entry;
                } else if last.count == 0 || entry.count > 0 {
                    let sum = last.count.checked_add(entry.count);
                    last.count = sum.ok_or(BuildError::Uncountable)?;
                    last.value = last.value.max(entry.value);
                }
            }
            _ => merged.push(entry),
        }
    }
    Ok(merged.into_iter().try_for_each(|entry| writer.write(entry))?)
}

/// Returns the parameters of the largest filter, with values as wide as the widest. Also returns
/// the number of remainder bits that every filter still has when it is doubled to that size. It may
/// be less than 1.
fn common_parameters(filters: &[&QuotientFilter]) -> Result<(Parameters, i64), MergeError> {
    let each = || filters.iter().map(|filter| filter.parameters());
    let mut common = each().max_by_key(|each| each.slots).ok_or(MergeError::Nothing)?;
    let mut remainder_bits = i64::MAX;
    for Parameters { slots, remainder_bits: bits, slot_bits, value_bits, remainders } in each() {
        if slot_bits != common.slot_bits {
            return Err(MergeError::SlotBits(slot_bits, common.slot_bits));
        }
        let doublings =
            doublings(slots, common.slots).ok_or(MergeError::Sizes(slots, common.slots))?;
        if remainders != common.remainders || !remainders.is_plain() && doublings > 0 {
            return Err(MergeError::Remainders);
        }
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
