//! The kinds of snapshots, and the magic numbers that tell them apart.

use super::SnapshotError;

/// The kind of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Quotient,
    /// A concurrent quotient filter; the other `Shards` are likewise concurrent.
    QuotientShards,
    Ranges,
    /// A yes/no filter.
    Lists,
    Telescoping,
    TelescopingShards,
    Extending,
    ExtendingShards,
    /// A quotient filter that doesn't adapt.
    Plain,
    PlainShards,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Quotient,
        Self::QuotientShards,
        Self::Ranges,
        Self::Lists,
        Self::Telescoping,
        Self::TelescopingShards,
        Self::Extending,
        Self::ExtendingShards,
        Self::Plain,
        Self::PlainShards,
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
            Self::Plain => *b"\x89TWSHP\r\n",
            Self::PlainShards => *b"\x89TWSHp\r\n",
        }
    }

    /// Checks that a snapshot with these first bytes is of this kind.
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

    /// Names this kind in the error of a reader that expected a different one.
    fn name(self, expected: Self) -> &'static str {
        match (self, expected) {
            (Self::Quotient, Self::QuotientShards) => "a quotient filter that is not concurrent",
            (Self::Quotient, Self::Ranges) => "a quotient filter for single keys",
            (Self::Quotient, _) => "a quotient filter",
            (Self::QuotientShards, _) => "a concurrent quotient filter",
            (Self::Ranges, _) => "a range filter",
            (Self::Lists, _) => "a yes/no filter",
            (Self::Telescoping, _) => "a telescoping filter",
            (Self::TelescopingShards, _) => "a concurrent telescoping filter",
            (Self::Extending, _) => "an extension filter",
            (Self::ExtendingShards, _) => "a concurrent extension filter",
            (Self::Plain, _) => "a plain quotient filter",
            (Self::PlainShards, _) => "a concurrent plain quotient filter",
        }
    }
}
