//! The kinds of snapshots, and the magic numbers that tell them apart.

use super::SnapshotError;

/// What a snapshot is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A quotient filter.
    Quotient,
    /// A concurrent quotient filter.
    QuotientShards,
    /// A filter for ranges.
    Ranges,
    /// A filter of yes and no lists.
    Lists,
    Telescoping,
    TelescopingShards,
    Extending,
    ExtendingShards,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Quotient,
        Self::QuotientShards,
        Self::Ranges,
        Self::Lists,
        Self::Telescoping,
        Self::TelescopingShards,
        Self::Extending,
        Self::ExtendingShards,
    ];

    pub(super) fn magic(self) -> [u8; 8] {
        match self {
            Self::Quotient => *b"\x89TWSHY\r\n",
            Self::QuotientShards => *b"\x89TWSHC\r\n",
            Self::Ranges => *b"\x89TWSHR\r\n",
            Self::Lists => *b"\x89TWSHL\r\n",
            Self::Telescoping => *b"\x89TWSHT\r\n",
            Self::TelescopingShards => *b"\x89TWSHt\r\n",
            Self::Extending => *b"\x89TWSHE\r\n",
            Self::ExtendingShards => *b"\x89TWSHe\r\n",
        }
    }

    /// Checks that the first bytes of a snapshot are of this kind.
    pub(super) fn check(self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let begins_as = |kind: Self| {
            let magic = kind.magic();
            let common = bytes.len().min(magic.len());
            bytes[..common] == magic[..common]
        };
        if begins_as(self) {
            return Ok(());
        }
        let other = Self::ALL.into_iter().find(|&kind| begins_as(kind));
        Err(other.map_or(SnapshotError::NotASnapshot, |kind| SnapshotError::OtherKind {
            found: kind.name(self),
        }))
    }

    /// The name of this kind in an error of a reader that expected another one.
    fn name(self, expected: Self) -> &'static str {
        match (self, expected) {
            (Self::Quotient, Self::QuotientShards) => "a filter that isn't concurrent",
            (Self::Quotient, Self::Ranges) => "a filter for single keys",
            (Self::Quotient, _) => "an adaptive quotient filter",
            (Self::QuotientShards, _) => "a concurrent filter",
            (Self::Ranges, _) => "a filter for ranges",
            (Self::Lists, _) => "a filter of yes and no lists",
            (Self::Telescoping, _) => "a telescoping filter",
            (Self::TelescopingShards, _) => "a concurrent telescoping filter",
            (Self::Extending, _) => "an extension filter",
            (Self::ExtendingShards, _) => "a concurrent extension filter",
        }
    }
}
