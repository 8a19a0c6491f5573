//! Snapshots of telescoping and extension filters.

mod header;
mod shards;

use super::error::{SnapshotError, at};
use super::header::impossible;
use super::restore::Input;
use super::save::replace_by;
use super::sections::{Telling, check_mark};
use crate::bits::memory::Lines;
use crate::coded::Scheme;
use crate::{CodedFilter, CodedScheme, Keyed, Secret};
use core::marker::PhantomData;
use header::Header;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

impl<S: CodedScheme> CodedFilter<S> {
    /// Writes a [snapshot](crate::snapshot), without the secret.
    ///
    /// ```
    /// use twiceshy::{Hash, TelescopingFilter};
    /// let mut filter = TelescopingFilter::builder().slots(1000).build()?;
    /// filter.insert(Hash::from_u128(7 << 100))?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    /// let restored = TelescopingFilter::restore(&snapshot[..])?;
    /// assert!(restored.contains(Hash::from_u128(7 << 100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self, Telling::Nothing, writer)
    }

    /// Writes a [snapshot](crate::snapshot) to a file, at once or not at all; see
    /// [`AdaptiveQuotientFilter::save_to`](crate::AdaptiveQuotientFilter::save_to).
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self, Telling::Nothing, path.as_ref())
    }

    /// Reads a [snapshot](crate::snapshot), all of it and not a byte more. Its checksums and
    /// all invariants are checked. A secret that is in it, or the mark of one, is passed over.
    ///
    /// The filter is another one than the one that was saved: claims of that one are stale.
    ///
    /// # Errors
    /// If reading fails, or if it is no snapshot of a valid filter.
    pub fn restore(reader: impl Read) -> Result<Self, SnapshotError> {
        read(&mut Input::new(reader))?.filter()
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| read_file(path)?.filter())
    }

    /// Reads a [snapshot](crate::snapshot) of keys that were hashed with this secret, as
    /// [`restore`](Self::restore) does. The type of the keys is not recorded: restore them
    /// as the type that they were.
    ///
    /// # Errors
    /// As there, or [`SnapshotError::OtherSecret`]. A snapshot of a filter of hashes doesn't know
    /// its secret; then any is taken, and with a wrong one members are missing.
    pub fn restore_keyed<K: ?Sized>(
        reader: impl Read,
        secret: Secret,
    ) -> Result<Keyed<K, Self>, SnapshotError> {
        read(&mut Input::new(reader))?.with(secret)
    }

    /// As [`restore_keyed`](Self::restore_keyed), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore_keyed`](Self::restore_keyed), or if the file can't be opened or is too long.
    pub fn restore_keyed_from<K: ?Sized>(
        path: impl AsRef<Path>,
        secret: Secret,
    ) -> Result<Keyed<K, Self>, SnapshotError> {
        at(path.as_ref(), |path| read_file(path)?.with(secret))
    }

    /// Reads a [snapshot](crate::snapshot) that was saved
    /// [with the secret](Keyed::save_with_secret).
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or [`SnapshotError::NoSecret`].
    pub fn restore_keyed_with_secret<K: ?Sized>(
        reader: impl Read,
    ) -> Result<Keyed<K, Self>, SnapshotError> {
        read(&mut Input::new(reader))?.with_its_own()
    }

    /// As [`restore_keyed_with_secret`](Self::restore_keyed_with_secret), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore_keyed_with_secret`](Self::restore_keyed_with_secret), or if the file can't be opened or is
    /// too long.
    pub fn restore_keyed_with_secret_from<K: ?Sized>(
        path: impl AsRef<Path>,
    ) -> Result<Keyed<K, Self>, SnapshotError> {
        at(path.as_ref(), |path| read_file(path)?.with_its_own())
    }
}

/// Snapshots, to be restored by [`CodedFilter::restore_keyed`].
impl<K: ?Sized, S: CodedScheme> Keyed<K, CodedFilter<S>> {
    /// Writes a [snapshot](crate::snapshot) without the secret, which is to be kept apart,
    /// but with a mark of it, so that another is noticed when it is restored.
    ///
    /// ```
    /// use twiceshy::{ExtensionFilter, Keyed, Secret, SnapshotError};
    /// let filter = ExtensionFilter::builder().capacity(100).build()?;
    /// let mut filter = Keyed::<str, _>::new(filter, Secret::generate()?);
    /// filter.insert("alice")?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    ///
    /// let secret = filter.secret().clone();
    /// let restored = ExtensionFilter::restore_keyed::<str>(&snapshot[..], secret)?;
    /// assert!(restored.contains("alice"));
    /// let other = ExtensionFilter::restore_keyed::<str>(&snapshot[..], Secret::generate()?);
    /// assert!(matches!(other, Err(SnapshotError::OtherSecret)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.filter(), Telling::Mark(self.secret()), writer)
    }

    /// As [`save`](Self::save), to a file, at once or not at all.
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self.filter(), Telling::Mark(self.secret()), path.as_ref())
    }

    /// Writes a [snapshot](crate::snapshot) **with the secret**: who can read it can find
    /// out the members, and false positives, at home.
    ///
    /// # Errors
    /// If writing fails.
    pub fn save_with_secret(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.filter(), Telling::All(self.secret()), writer)
    }

    /// As [`save_with_secret`](Self::save_with_secret), to a file, at once or not at all.
    /// Where the system can tell, only its owner may read it.
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_with_secret_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self.filter(), Telling::All(self.secret()), path.as_ref())
    }
}

fn write<S: Scheme>(
    filter: &CodedFilter<S>,
    telling: Telling<'_>,
    mut writer: impl Write,
) -> Result<(), SnapshotError> {
    Header::of(filter, telling).write::<S>(filter.lines(), telling, &mut writer)?;
    writer.flush()?;
    Ok(())
}

fn write_to<S: Scheme>(
    filter: &CodedFilter<S>,
    telling: Telling<'_>,
    path: &Path,
) -> Result<(), SnapshotError> {
    replace_by(telling, path, |file| write(filter, telling, file))
}

/// What a snapshot of a filter of this scheme holds, not validated yet.
struct Loaded<S> {
    header: Header,
    lines: Lines,
    secret: Option<Secret>,
    scheme: PhantomData<fn() -> S>,
}

fn read<S: Scheme>(input: &mut Input<impl Read>) -> Result<Loaded<S>, SnapshotError> {
    let header = input.read_header_by(Header::read::<S>)?;
    let (lines, secret) = input.read_sections(&header.sections)?;
    Ok(Loaded { header, lines, secret, scheme: PhantomData })
}

/// Reads a snapshot from a file, behind which nothing may follow.
fn read_file<S: Scheme>(path: &Path) -> Result<Loaded<S>, SnapshotError> {
    let mut input = Input::new(File::open(path)?);
    let loaded = read(&mut input)?;
    input.end()?;
    Ok(loaded)
}

impl<S: Scheme> Loaded<S> {
    /// The filter, all invariants checked.
    fn filter(self) -> Result<CodedFilter<S>, SnapshotError> {
        let Loaded { header: Header { parameters, odds, tally, .. }, lines, .. } = self;
        let filter = CodedFilter::from_parts(parameters, odds, tally, lines);
        let filter =
            filter.ok_or_else(|| impossible("no filter has such odds, or repairs nothing"))?;
        filter.validate()?;
        Ok(filter)
    }

    fn with<K: ?Sized>(self, secret: Secret) -> Result<Keyed<K, CodedFilter<S>>, SnapshotError> {
        check_mark(self.header.sections.mark, &secret)?;
        Ok(Keyed::new(self.filter()?, secret))
    }

    fn with_its_own<K: ?Sized>(mut self) -> Result<Keyed<K, CodedFilter<S>>, SnapshotError> {
        let secret = self.secret.take().ok_or(SnapshotError::NoSecret)?;
        self.with(secret)
    }
}
