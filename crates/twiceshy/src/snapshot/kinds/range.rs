//! Snapshots of plain and adaptive range filters, which have the same format.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::range::{MementoFilter, RangeKey, RangeShape};
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MAX_COUNT, bad_header};
use crate::snapshot::frozen::{Frozen, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::Sections;
use crate::snapshot::verbs::CarriesSecret;
#[cfg(doc)]
use crate::snapshot::verbs::KeyedSnapshot;
use crate::{Hash, RangeFilter, Secret, hash::HashScheme};
use core::ops::RangeBounds;
use std::sync::Arc;

/// Flag of a filter whose boxes have ages.
const AGES: u32 = 2;

impl<K: RangeKey, const ADAPTIVE: bool> Describe for MementoFilter<K, ADAPTIVE> {
    const KIND: Kind = Kind::Ranges;
    const FLAGS: u32 = AGES;

    type Header = RangeShape;

    fn header(&self) -> RangeShape {
        self.shape()
    }

    fn lines(&self) -> &Lines {
        self.lines()
    }

    fn encode(shape: &RangeShape) -> Fields {
        Fields {
            flags: if shape.has_ages { AGES } else { 0 },
            size: shape.slots,
            bits: [shape.remainder_bits, shape.slot_bits(), shape.memento_bits],
            hash: HashScheme::Aes128SipHash13,
            counts: [
                shape.len,
                u64::from(shape.oldest) << 32 | u64::from(K::BITS),
                shape.used,
                shape.adaptations.min(MAX_COUNT),
            ],
            extra: 0,
        }
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<RangeShape, SnapshotError> {
        let &Fields { flags, size: slots, bits, counts, .. } = fields;
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
        sections.check_lines(shape.lines(), format_args!("{slots} slots of {slot_bits} bits"))?;
        // This check is last, because the other errors are clearer if the whole header is wrong.
        if key_bits != K::BITS {
            return Err(SnapshotError::KeyBits { found: key_bits, expected: K::BITS });
        }
        Ok(shape)
    }

    fn assemble(
        shape: &RangeShape,
        lines: Lines,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        let secret = secret.ok_or(SnapshotError::NoSecret)?;
        let filter = Self::from_parts(*shape, lines, secret);
        Ok(filter.expect("decoding checked the number of lines"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl<K: RangeKey, const ADAPTIVE: bool> CarriesSecret for MementoFilter<K, ADAPTIVE> {
    fn carried_secret(&self) -> &Secret {
        self.secret()
    }
}

impl<K: RangeKey> CarriesSecret for Frozen<RangeFilter<K>> {
    fn carried_secret(&self) -> &Secret {
        self.unchecked().secret()
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
    /// Opens a snapshot in memory; see [`Frozen::from_bytes`].
    ///
    /// # Errors
    /// As [`Frozen::from_bytes`], or if its keys have a different width, or as
    /// [`KeyedSnapshot::open`] if the secret is missing or wrong.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::of(Arc::new(bytes), secret.into())?.0)
    }

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

    /// Returns the number of members in the header. Each counts as often as it was inserted.
    pub fn len(&self) -> usize {
        self.unchecked().len()
    }

    /// Returns whether the filter has no members.
    pub fn is_empty(&self) -> bool {
        self.unchecked().is_empty()
    }

    /// Returns the length of the longest range for which the false-positive rate holds.
    pub fn longest_range(&self) -> u64 {
        self.unchecked().longest_range()
    }

    /// Returns the number of bits per remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.unchecked().remainder_bits()
    }

    /// Returns the hash of a key's partition. Members are listed by this hash.
    pub fn hash_of(&self, key: K) -> Hash {
        self.unchecked().hash_of(key)
    }
}
