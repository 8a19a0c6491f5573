//! The kinds of stores, as plain data that every module may use.

use crate::backend::MAX_KEY_BYTES;
use std::fmt;

/// The number of leading bytes of a hash by which members are sorted on disk.
pub(crate) const PREFIX_BYTES: usize = 4;

/// The longest key that a store takes, in bytes.
pub(crate) const MAX_USER_KEY_BYTES: usize = MAX_KEY_BYTES - PREFIX_BYTES;

/// How keys and values are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One map in hash order: a put is one write, and reading a key is one point read.
    #[default]
    Merged,
    /// Two maps: one in key order, for ranges of keys, and one in hash order, for repairs.
    Split,
}

/// One of the two lists of a [`ListStore`](crate::ListStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// The list whose keys are answered "yes".
    Yes,
    /// The list whose keys are answered "no".
    No,
}

impl List {
    /// Returns the other list.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
        })
    }
}

/// The kind of a store, and the properties that only this kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A [`Store`](crate::Store).
    Points(Layout),
    /// A [`RangeStore`](crate::RangeStore).
    Ranges(Numbers),
    /// A [`ListStore`](crate::ListStore).
    Lists,
}

/// The size of a range store's keys, and its longest range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) key_bits: u32,
    /// The number of possible keys per partition. It is a power of two.
    pub(crate) longest_range: u64,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(_) => write!(f, "a store of keys and values"),
            Self::Ranges(Numbers { key_bits, longest_range }) => {
                write!(
                    f,
                    "a range store of {key_bits}-bit keys, for ranges of up to {longest_range}"
                )
            }
            Self::Lists => write!(f, "a yes list and a no list"),
        }
    }
}
