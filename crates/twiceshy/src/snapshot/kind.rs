//! The kinds of snapshots, and the magic numbers that tell them apart.

use super::SnapshotError;

/// The kind of a snapshot: the letter that its magic number contains.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Quotient = b'Y',
    /// A concurrent quotient filter. The other `…Shards` are also concurrent filters.
    QuotientShards = b'C',
    Ranges = b'R',
    /// A yes/no filter.
    Lists = b'L',
    /// A yes list and a no list that can change.
    ChangingLists = b'M',
    Bloom = b'B',
    Telescoping = b'T',
    TelescopingShards = b't',
    Extending = b'E',
    ExtendingShards = b'e',
    /// A quotient filter that doesn't adapt.
    Plain = b'P',
    PlainShards = b'p',
}

impl Kind {
    pub(super) fn magic(self) -> [u8; 8] {
        [0x89, b'T', b'W', b'S', b'H', self as u8, b'\r', b'\n']
    }

    /// Returns the kind of a concurrent filter with shards of this kind.
    pub(crate) const fn of_shards(self) -> Self {
        match self {
            Self::Telescoping => Self::TelescopingShards,
            Self::Extending => Self::ExtendingShards,
            Self::Plain => Self::PlainShards,
            _ => Self::QuotientShards,
        }
    }

    /// Checks that a snapshot with these first bytes is of this kind.
    pub(super) fn check(self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let mut expected = self.magic();
        let found = &bytes[..bytes.len().min(expected.len())];
        if expected.starts_with(found) {
            return Ok(());
        }
        let letter = found.get(5).copied().unwrap_or(0);
        expected[5] = letter;
        let other = self.name_of_other(letter).filter(|_| expected.starts_with(found));
        Err(other.map_or(SnapshotError::NotASnapshot, |found| SnapshotError::OtherKind { found }))
    }

    /// Returns the name of the kind with this letter, for the error message when `self` was
    /// expected.
    fn name_of_other(self, letter: u8) -> Option<&'static str> {
        Some(match letter {
            b'Y' if self == Self::QuotientShards => "a quotient filter that is not concurrent",
            b'Y' if self == Self::Ranges => "a quotient filter for single keys",
            b'Y' => "a quotient filter",
            b'C' => "a concurrent quotient filter",
            b'R' => "a range filter",
            b'L' => "a yes/no filter",
            b'M' => "a pair of lists that can change",
            b'B' => "an adaptive Bloom filter",
            b'T' => "a telescoping filter",
            b't' => "a concurrent telescoping filter",
            b'E' => "an extension filter",
            b'e' => "a concurrent extension filter",
            b'P' => "a plain quotient filter",
            b'p' => "a concurrent plain quotient filter",
            _ => return None,
        })
    }
}
