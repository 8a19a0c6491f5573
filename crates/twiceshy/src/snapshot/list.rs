//! Snapshots of filters of yes and no lists.

use super::SnapshotError;
use super::error::at;
use super::header::{Kind, SIZE, check_unknown, code_of, impossible, number, scheme_of};
use super::replace::{Readers, replace};
use super::restore::Input;
use super::sections::{Sections, Telling, header_of, put};
use crate::list::{Shape, Tally};
use crate::{HashScheme, Keyed, Secret, YesNoFilter};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

mod offset {
    pub(super) const BLOCKS: usize = 16;
    pub(super) const REMAINDER_BITS: usize = 24;
    pub(super) const GROUP_BITS: usize = 28;
    pub(super) const LOW_BITS: usize = 32;
    pub(super) const HASH: usize = 36;
    pub(super) const YES: usize = 40;
    pub(super) const NO: usize = 48;
    pub(super) const FINGERPRINTS: usize = 56;
    pub(super) const RATE: usize = 64;
    pub(super) const LABEL: usize = 88;
    pub(super) const RESERVED: usize = 92;
    pub(super) const BEHIND: usize = 116;
}

/// Snapshots of hashes; who has keys ships a [`Keyed`] filter.
impl YesNoFilter {
    /// Writes a [snapshot](crate::snapshot) without any secret.
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self, Telling::Nothing, writer)
    }

    /// Reads a [snapshot](crate::snapshot), all of it and not a byte more. Its checksums and all
    /// that can be known without the lists are checked.
    ///
    /// # Errors
    /// If reading fails, or if it is no snapshot of a valid filter.
    pub fn restore(reader: impl Read) -> Result<Self, SnapshotError> {
        Ok(read(&mut Input::new(reader))?.0)
    }
}

/// Snapshots to ship: **the secret is in them**, because nobody can look a key up without it. So
/// who has one can test any key, and search for keys that are wrongly answered yes, at home.
impl<K: ?Sized> Keyed<K, YesNoFilter> {
    /// Writes a [snapshot](crate::snapshot), with the secret.
    ///
    /// ```
    /// use twiceshy::{Keyed, YesNoFilter};
    /// let filter = Keyed::<str, YesNoFilter>::build(&["evil"], &["good"], 0.01)?;
    /// let mut file = Vec::new();
    /// filter.ship(&mut file)?;
    /// let shipped = Keyed::<str, YesNoFilter>::shipped(&file[..])?;
    /// assert!(shipped.contains("evil") && !shipped.contains("good"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails.
    pub fn ship(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.filter(), Telling::All(self.secret()), writer)
    }

    /// As [`ship`](Self::ship), to a file, at once or not at all; see
    /// [`save_to`](crate::AdaptiveQuotientFilter::save_to). Whoever may read files there may read
    /// it.
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn ship_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        at(path.as_ref(), |path| replace(path, Readers::AsBefore, |file| self.ship(file)))
    }

    /// Reads a [snapshot](crate::snapshot), all of it and not a byte more. Its checksums and all
    /// that can be known without the lists are checked.
    ///
    /// # Errors
    /// If reading fails, or if it is no snapshot of a valid filter, or
    /// [`SnapshotError::NoSecret`] if it is one of hashes.
    pub fn shipped(reader: impl Read) -> Result<Self, SnapshotError> {
        Self::of(read(&mut Input::new(reader))?)
    }

    /// As [`shipped`](Self::shipped), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`shipped`](Self::shipped), or if the file can't be opened or is too long.
    pub fn shipped_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| {
            let mut input = Input::new(File::open(path)?);
            let read = read(&mut input)?;
            input.end()?;
            Self::of(read)
        })
    }

    fn of((filter, secret): (YesNoFilter, Option<Secret>)) -> Result<Self, SnapshotError> {
        Ok(Self::new(filter, secret.ok_or(SnapshotError::NoSecret)?))
    }
}

#[cfg(feature = "matching")]
mod matching {
    use super::{Keyed, Path, SnapshotError, YesNoFilter, at};
    use crate::MatchingFilter;

    /// Lists to ship: **the secret is in them**, as in those of a [`Keyed`] filter.
    impl MatchingFilter {
        /// Writes the list to a file; see [`Keyed::ship_to`].
        ///
        /// # Errors
        /// If the file can't be replaced.
        pub fn ship_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
            self.keyed().ship_to(path)
        }

        /// Reads a list from a file that holds nothing else.
        ///
        /// # Errors
        /// As [`Keyed::shipped_from`], or [`SnapshotError::UnknownMatching`].
        pub fn shipped_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
            let filter = Keyed::shipped_from(&path)?;
            at(path.as_ref(), |_| Self::try_from(filter))
        }
    }

    /// Fails with [`SnapshotError::UnknownMatching`] if the filter's label is not that of a
    /// [`Matching`](crate::Matching).
    impl TryFrom<Keyed<[u8], YesNoFilter>> for MatchingFilter {
        type Error = SnapshotError;

        fn try_from(filter: Keyed<[u8], YesNoFilter>) -> Result<Self, SnapshotError> {
            let label = filter.filter().label();
            Self::new(filter).ok_or(SnapshotError::UnknownMatching { label })
        }
    }
}

fn write(
    filter: &YesNoFilter,
    telling: Telling<'_>,
    mut writer: impl Write,
) -> Result<(), SnapshotError> {
    let (shape, tally, lines) = filter.parts();
    let header = Header { shape, tally, sections: Sections::of(lines, telling) };
    Sections::write(&header.to_bytes(), lines, telling, &mut writer)?;
    writer.flush()?;
    Ok(())
}

fn read(input: &mut Input<impl Read>) -> Result<(YesNoFilter, Option<Secret>), SnapshotError> {
    let header = input.read_header_by(Header::read)?;
    let (lines, secret) = input.read_sections(&header.sections)?;
    let filter = YesNoFilter::from_parts(header.shape, header.tally, lines);
    filter.validate()?;
    Ok((filter, secret))
}

/// What a snapshot says of itself.
struct Header {
    shape: Shape,
    tally: Tally,
    sections: Sections,
}

impl Header {
    fn to_bytes(&self) -> [u8; SIZE] {
        let Self { shape, tally, sections } = self;
        let mut bytes = [0; SIZE];
        for (at, number) in [
            (offset::REMAINDER_BITS, shape.remainder_bits),
            (offset::GROUP_BITS, shape.group_bits),
            (offset::LOW_BITS, shape.low_bits),
            (offset::HASH, code_of(HashScheme::Aes128SipHash13)),
            (offset::LABEL, tally.label),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        for (at, number) in [
            (offset::BLOCKS, shape.blocks),
            (offset::YES, tally.yes),
            (offset::NO, tally.no),
            (offset::FINGERPRINTS, tally.fingerprints),
            (offset::RATE, tally.rate.to_bits()),
        ] {
            put(&mut bytes, at, number.to_le_bytes());
        }
        sections.seal(Kind::Lists, 0, &mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let bytes = header_of(Kind::Lists, bytes)?;
        let long = |at| number(&bytes[at..at + 8]);
        let short = |at| number(&bytes[at..at + 4]) as u32;
        scheme_of(short(offset::HASH))?;
        let (sections, flags) = Sections::read(bytes)?;
        check_unknown(flags, &bytes[offset::RESERVED..offset::BEHIND])?;
        let shape = Shape {
            blocks: long(offset::BLOCKS),
            remainder_bits: short(offset::REMAINDER_BITS),
            group_bits: short(offset::GROUP_BITS),
            low_bits: short(offset::LOW_BITS),
        };
        let tally = Tally {
            yes: long(offset::YES),
            no: long(offset::NO),
            fingerprints: long(offset::FINGERPRINTS),
            rate: f64::from_bits(long(offset::RATE)),
            label: short(offset::LABEL),
        };
        if !shape.is_possible() || !tally.is_possible() {
            return Err(impossible("there is no filter of such sizes"));
        }
        Ok(Self { shape, tally, sections })
    }
}
