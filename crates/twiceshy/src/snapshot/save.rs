//! Writing a snapshot.

use super::error::{SnapshotError, at};
use super::header::Header;
use super::replace::{Readers, replace};
use super::sections::{Sections, Telling};
use crate::bits::memory::{LINE, Lines};
use crate::quotient::Tally;
use crate::{AdaptiveQuotientFilter, Parameters};
use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::path::Path;

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
    replace_by(telling, path, |file| write(filter, telling, file))
}

/// Writes the file at `path`, which will tell so much of the secret, at once or not at all.
pub(super) fn replace_by(
    telling: Telling<'_>,
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let readers = match telling {
        Telling::All(_) => Readers::Owner,
        _ => Readers::AsBefore,
    };
    at(path, |path| replace(path, readers, write))
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
        writer: impl Write,
    ) -> Result<Header, SnapshotError> {
        let sections = Sections::of(&self.lines, telling);
        let header = Header { parameters: self.parameters, tally: self.tally, sections };
        Sections::write(&header.to_bytes(), &self.lines, telling, writer)?;
        Ok(header)
    }
}
