//! Snapshots of plain and adaptive range filters, which have the same format.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::range::{Details, MementoFilter, RangeKey, RangeShape};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Assemble, Describe, Fields, Header, MAX_COUNT, bad_header};
use crate::snapshot::frozen::{Frozen, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::verbs::WithSecret;
use crate::traits::filter_traits;
use crate::{RangeFilter, Secret};
use core::ops::RangeBounds;
use std::borrow::Cow;

/// Flag of a filter whose boxes have ages.
const AGES: u32 = 2;

impl<K: RangeKey, const ADAPTIVE: bool> Describe for MementoFilter<K, ADAPTIVE> {
    const KIND: Kind = Kind::Ranges;
    const FLAGS: u32 = AGES;

    fn fields(&self) -> Fields {
        let shape = self.shape();
        Fields {
            flags: if shape.has_ages { AGES } else { 0 },
            size: shape.slots,
            bits: [shape.remainder_bits, shape.slot_bits(), shape.memento_bits],
            counts: [
                shape.len,
                u64::from(shape.oldest) << 32 | u64::from(K::BITS),
                shape.used,
                shape.adaptations.min(MAX_COUNT),
            ],
            ..Fields::default()
        }
    }

    fn lines(&self) -> Result<Cow<'_, Lines>, SnapshotError> {
        Ok(Cow::Borrowed(self.lines()))
    }

    fn decode(header: &Header) -> Result<Assemble<Self>, SnapshotError> {
        let Fields { flags, size: slots, bits, counts, .. } = header.fields;
        let [remainder_bits, slot_bits, memento_bits] = bits;
        let [len, key_bits_and_oldest, used, adaptations] = counts;
        let (key_bits, oldest) = (key_bits_and_oldest as u32, (key_bits_and_oldest >> 32) as u32);
        let has_ages = flags & AGES != 0;
        let shape = RangeShape {
            slots,
            remainder_bits,
            memento_bits,
            has_ages,
            oldest,
            len,
            used,
            adaptations,
        };
        if !shape.is_possible(key_bits) {
            return Err(bad_header("its sizes are impossible"));
        }
        if shape.slot_bits() != slot_bits {
            return Err(bad_header("the width of a slot is not the sum of its parts"));
        }
        if len > MAX_COUNT || adaptations > MAX_COUNT {
            return Err(bad_header("it counts too many members or repairs"));
        }
        header.check_lines(shape.lines(), format_args!("{slots} slots of {slot_bits} bits"))?;
        // Check this last, because the other errors are clearer if the whole header is wrong.
        if key_bits != K::BITS {
            return Err(SnapshotError::KeyBits { found: key_bits, expected: K::BITS });
        }
        Ok(Box::new(move |lines, secret| {
            let secret = secret.ok_or(SnapshotError::NoSecret)?;
            let filter = Self::from_parts(shape, lines, secret);
            Ok(filter.expect("decoding checked the number of lines"))
        }))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> WithSecret for MementoFilter<K, ADAPTIVE> {
    type Table = Self;

    fn parts(&self) -> (&Self, &Secret) {
        (self, self.secret())
    }

    fn of_parts(filter: Self, _: Secret) -> Self {
        filter
    }
}

impl<K: RangeKey> WithSecret for Frozen<RangeFilter<K>> {
    type Table = Self;

    fn parts(&self) -> (&Self, &Secret) {
        (self, self.unchecked().secret())
    }

    fn of_parts(filter: Self, _: Secret) -> Self {
        filter
    }
}

impl<K: RangeKey> InPlace for RangeFilter<K> {
    fn limit_lookups(&mut self) {
        self.limit_lookups();
    }

    fn own_secret(&self) -> Option<Secret> {
        Some(self.secret().clone())
    }
}

impl<K: RangeKey> Frozen<RangeFilter<K>> {
    /// Returns whether a key may be a member. "No" is certain if the snapshot is valid.
    pub fn contains(&self, key: K) -> bool {
        self.unchecked().contains(key)
    }

    /// Returns whether a range may contain a member; see [`RangeFilter::contains_range`]. "No" is
    /// certain if the snapshot is valid.
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.unchecked().contains_range(range)
    }

    /// Answers lookups of many ranges; see [`RangeFilter::contains_ranges`].
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.unchecked().contains_ranges(ranges, maybe);
    }

    /// Returns the number of members that the header records, each counted as often as it was
    /// inserted.
    pub fn len(&self) -> usize {
        self.unchecked().len()
    }

    filter_traits!(@is_empty);

    /// Returns the figures that only range filters have.
    pub fn details(&self) -> Details {
        self.unchecked().details()
    }
}
