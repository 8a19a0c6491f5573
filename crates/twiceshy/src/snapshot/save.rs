//! Writing a snapshot.

use super::error::{SnapshotError, at};
use super::header::{Header, SECRET_SIZE};
use super::replace::{Readers, replace};
use crate::bits::memory::{LINE, Lines};
use crate::quotient::Tally;
use crate::{AdaptiveQuotientFilter, Parameters, Secret};
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use zeroize::Zeroizing;

/// What a snapshot tells of the secret.
#[derive(Clone, Copy)]
pub(super) enum Telling<'a> {
    Nothing,
    /// Its mark: whether another is the same.
    Mark(&'a Secret),
    /// The secret itself.
    All(&'a Secret),
}

impl AdaptiveQuotientFilter {
    /// Writes a [snapshot](crate::snapshot), without the secret.
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self, Telling::Nothing, writer)
    }

    /// Writes a [snapshot](crate::snapshot) to a file: after a crash at any moment there is
    /// the old one or the new one, complete. A link at `path` is followed, and to what is no file,
    /// such as `/dev/stdout`, the snapshot is written as it is.
    ///
    /// It is written to a temporary file beside it, `.NAME.….tmp`, which a crash may leave.
    ///
    /// ```
    /// # use twiceshy::AdaptiveQuotientFilter;
    /// # let path = std::env::temp_dir().join(format!("twiceshy-doc-{}", std::process::id()));
    /// let filter = AdaptiveQuotientFilter::builder().slots(1000).build()?;
    /// filter.save_to(&path)?;
    /// let restored = AdaptiveQuotientFilter::restore_from(&path)?;
    /// assert_eq!(restored.parameters(), filter.parameters());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file can't be replaced; the old one is still there then, unless only the
    /// folder couldn't be told to keep the new one.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self, Telling::Nothing, path.as_ref())
    }
}

pub(super) fn write_to(
    filter: &AdaptiveQuotientFilter,
    telling: Telling<'_>,
    path: &Path,
) -> Result<(), SnapshotError> {
    let readers = match telling {
        Telling::All(_) => Readers::Owner,
        _ => Readers::AsBefore,
    };
    at(path, |path| replace(path, readers, |file| write(filter, telling, file)))
}

pub(super) fn write(
    filter: &AdaptiveQuotientFilter,
    telling: Telling<'_>,
    mut writer: impl Write,
) -> Result<(), SnapshotError> {
    Image::of(filter).write(telling, &mut writer)?;
    writer.flush()?;
    Ok(())
}

/// What is saved of a filter.
pub(super) struct Image<'a> {
    parameters: Parameters,
    tally: Tally,
    lines: Cow<'a, Lines>,
}

impl<'a> Image<'a> {
    fn of(filter: &'a AdaptiveQuotientFilter) -> Self {
        let (parameters, tally) = (filter.parameters(), filter.tally());
        Self { parameters, tally, lines: Cow::Borrowed(filter.lines()) }
    }

    /// An image that stays as it is, whatever becomes of the filter.
    pub(super) fn copied(filter: &AdaptiveQuotientFilter) -> Result<Self, SnapshotError> {
        let memory = SnapshotError::Memory { bytes: (filter.lines().len() * LINE) as u64 };
        let lines = Cow::Owned(filter.lines().copied().ok_or(memory)?);
        Ok(Self { parameters: filter.parameters(), tally: filter.tally(), lines })
    }

    /// Writes it, and returns the header.
    pub(super) fn write(
        &self,
        telling: Telling<'_>,
        mut writer: impl Write,
    ) -> Result<Header, SnapshotError> {
        let table = &self.lines.bytes()[..self.lines.len() * LINE];
        let mut secret = Zeroizing::new([0; SECRET_SIZE]);
        let (mark, has_secret) = match telling {
            Telling::Nothing => (0, false),
            Telling::Mark(secret) => (secret.mark(), false),
            Telling::All(told) => {
                secret[..told.expose().len()].copy_from_slice(told.expose());
                (told.mark(), true)
            }
        };
        let header = Header {
            parameters: self.parameters,
            tally: self.tally,
            lines: self.lines.len(),
            mark,
            table_checksum: table_checksum(table),
            secret_checksum: has_secret.then(|| crc32fast::hash(&*secret)),
        };
        writer.write_all(&header.to_bytes())?;
        writer.write_all(table)?;
        writer.write_all(&[0; LINE])?;
        if has_secret {
            writer.write_all(&*secret)?;
        }
        Ok(header)
    }
}

/// The checksum of the section of a table: its lines, and one of zeros.
pub(super) fn table_checksum(table: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(table);
    checksum.update(&[0; LINE]);
    checksum.finalize()
}
