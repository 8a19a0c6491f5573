//! Snapshots of filters for ranges: the same for those that adapt and those that don't.

use crate::bits::memory::Lines;
use crate::error::Invalid;
use crate::range::RangeShape;
use crate::snapshot::SnapshotError;
use crate::snapshot::describe::{Describe, Fields, MOST, impossible};
use crate::snapshot::frozen::{Frozen, InPlace};
use crate::snapshot::kind::Kind;
use crate::snapshot::sections::{Need, Sections};
use crate::snapshot::verbs::{CarriesSecret, KeyedSnapshot};
use crate::{AdaptiveRangeFilter, Hash, HashScheme, RangeFilter, RangeKey, Secret};
use core::ops::RangeBounds;
use std::sync::Arc;

/// Flags: whether boxes have ages.
const AGES: u32 = 2;

impl<K: RangeKey> KeyedSnapshot for RangeFilter<K> {}
impl<K: RangeKey> KeyedSnapshot for AdaptiveRangeFilter<K> {}
impl<K: RangeKey> KeyedSnapshot for Frozen<RangeFilter<K>> {}

impl<K: RangeKey> Describe for RangeFilter<K> {
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
                shape.adaptations.min(MOST),
            ],
            last: 0,
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
            return Err(impossible("there is no filter of such sizes"));
        }
        if shape.slot_bits() != slot_bits {
            return Err(impossible("slots are not as wide as what is in them"));
        }
        if len > MOST || adaptations > MOST {
            return Err(impossible("more members or repairs than can be counted"));
        }
        sections.check_lines(shape.lines(), format_args!("{slots} slots of {slot_bits} bits"))?;
        // Last, because the other errors are clearer where the whole header is nonsense.
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
        Ok(filter.expect("no fewer lines than the header allows"))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.validate()
    }
}

impl<K: RangeKey> Describe for AdaptiveRangeFilter<K> {
    const KIND: Kind = Kind::Ranges;
    const FLAGS: u32 = AGES;

    type Header = RangeShape;

    fn header(&self) -> RangeShape {
        self.shape()
    }

    fn lines(&self) -> &Lines {
        self.plain().lines()
    }

    fn encode(shape: &RangeShape) -> Fields {
        RangeFilter::<K>::encode(shape)
    }

    fn decode(fields: &Fields, sections: &Sections) -> Result<RangeShape, SnapshotError> {
        RangeFilter::<K>::decode(fields, sections)
    }

    fn assemble(
        shape: &RangeShape,
        lines: Lines,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::of(RangeFilter::assemble(shape, lines, secret)?, shape.adaptations))
    }

    fn check_all(&self) -> Result<(), Invalid> {
        self.plain().validate()
    }
}

impl<K: RangeKey> CarriesSecret for RangeFilter<K> {
    fn carried_secret(&self) -> &Secret {
        self.secret()
    }
}

impl<K: RangeKey> CarriesSecret for AdaptiveRangeFilter<K> {
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

    fn memory(&self) -> u64 {
        self.memory_usage()
    }
}

impl<K: RangeKey> Frozen<RangeFilter<K>> {
    /// Opens a snapshot in memory; see [`Frozen::from_bytes`].
    ///
    /// # Errors
    /// As there, if its keys have another width, or as [`KeyedSnapshot::open`] if the secret is
    /// missing or wrong.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Option<Secret>,
    ) -> Result<Self, SnapshotError> {
        Ok(Self::of(Arc::new(bytes), Need::from(secret))?.0)
    }

    /// Whether a key may be a member. "No" is certain if the snapshot is valid.
    pub fn contains(&self, key: K) -> bool {
        self.unchecked().contains(key)
    }

    /// Whether a member may be in a range; see [`RangeFilter::contains_range`]. "No" is certain
    /// if the snapshot is valid.
    pub fn contains_range(&self, range: impl RangeBounds<K>) -> bool {
        self.unchecked().contains_range(range)
    }

    /// Answers for many ranges; see [`RangeFilter::contains_ranges`].
    pub fn contains_ranges<R: RangeBounds<K>>(&self, ranges: &[R], maybe: &mut Vec<bool>) {
        self.unchecked().contains_ranges(ranges, maybe);
    }

    /// Number of members, each counted as often as it was inserted, as the header says.
    pub fn len(&self) -> usize {
        self.unchecked().len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.unchecked().is_empty()
    }

    /// Length of the longest range for which the false-positive rate holds.
    pub fn longest_range(&self) -> u64 {
        self.unchecked().longest_range()
    }

    /// Bits of a fingerprint's remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.unchecked().remainder_bits()
    }

    /// The hash of a key's partition, by which members are listed.
    pub fn hash_of(&self, key: K) -> Hash {
        self.unchecked().hash_of(key)
    }
}
