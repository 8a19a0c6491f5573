//! Snapshots of filters for ranges: the same for those that adapt and those that don't.

mod frozen;
mod header;

pub use frozen::FrozenRangeFilter;

use super::error::{SnapshotError, at};
use super::restore::Input;
use super::save::replace_by;
use super::sections::{Sections, Telling, check_mark};
use crate::bits::memory::Lines;
use crate::range::RangeShape;
use crate::{AdaptiveRangeFilter, RangeFilter, RangeKey, Secret};
use core::marker::PhantomData;
use header::Header;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Snapshots. Of the type of the keys only the bits are recorded: restore them as the type that
/// they were. One of a filter that adapts can be restored as one that doesn't, and the other way
/// round: repairs are kept, but not how many there were.
impl<K: RangeKey> RangeFilter<K> {
    /// Writes a [snapshot](crate::snapshot) without the secret, which is to be kept apart,
    /// but with a mark of it, so that another is noticed when it is restored.
    ///
    /// ```
    /// use twiceshy::{RangeFilter, Secret, SnapshotError};
    /// let mut filter = RangeFilter::<u64>::builder().capacity(100).build()?;
    /// filter.insert(1000)?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    ///
    /// let secret = filter.secret().clone();
    /// let restored = RangeFilter::<u64>::restore(&snapshot[..], secret)?;
    /// assert!(restored.contains_range(990..1010));
    /// let other = RangeFilter::<u64>::restore(&snapshot[..], Secret::generate()?);
    /// assert!(matches!(other, Err(SnapshotError::OtherSecret)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self, self.shape(), Telling::Mark(self.secret()), writer)
    }

    /// As [`save`](Self::save), to a file, at once or not at all; see
    /// [`save_to`](crate::AdaptiveQuotientFilter::save_to).
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self, self.shape(), Telling::Mark(self.secret()), path.as_ref())
    }

    /// Writes a [snapshot](crate::snapshot) **with the secret**: who can read it can find
    /// out the members, and false positives, at home.
    ///
    /// # Errors
    /// If writing fails.
    pub fn save_with_secret(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self, self.shape(), Telling::All(self.secret()), writer)
    }

    /// As [`save_with_secret`](Self::save_with_secret), to a file, at once or not at all.
    /// Where the system can tell, only its owner may read it.
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_with_secret_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self, self.shape(), Telling::All(self.secret()), path.as_ref())
    }

    /// Reads a [snapshot](crate::snapshot) of keys whose partitions were hashed with this secret,
    /// all of it and not a byte more. Its checksums and all invariants are checked.
    ///
    /// # Errors
    /// If reading fails, if it is no snapshot of a valid filter, if that is one of keys of another
    /// width, or [`SnapshotError::OtherSecret`].
    pub fn restore(reader: impl Read, secret: Secret) -> Result<Self, SnapshotError> {
        Ok(read(reader)?.with(secret)?.0)
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>, secret: Secret) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Ok(read_from(path)?.with(secret)?.0))
    }

    /// Reads a [snapshot](crate::snapshot) that was saved
    /// [with the secret](Self::save_with_secret).
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or [`SnapshotError::NoSecret`].
    pub fn restore_with_secret(reader: impl Read) -> Result<Self, SnapshotError> {
        Ok(read(reader)?.with_its_own()?.0)
    }

    /// As [`restore_with_secret`](Self::restore_with_secret), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore_with_secret`](Self::restore_with_secret), or if the file can't be opened or is
    /// too long.
    pub fn restore_with_secret_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Ok(read_from(path)?.with_its_own()?.0))
    }
}

/// Snapshots, as those of a [`RangeFilter`]. The filter that is restored is another one than the
/// one that was saved: claims of that one are stale.
impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::save`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.plain(), self.shape(), Telling::Mark(self.secret()), writer)
    }

    /// As [`RangeFilter::save_to`].
    ///
    /// ```
    /// use twiceshy::{AdaptiveRangeFilter, FrozenRangeFilter};
    /// # let path = std::env::temp_dir().join(format!("twiceshy-range-{}", std::process::id()));
    /// let builder = AdaptiveRangeFilter::<u32>::builder().capacity(1000);
    /// let mut filter = builder.build_adaptive()?;
    /// filter.insert(7)?;
    /// filter.save_to(&path)?;
    /// let secret = filter.secret().clone();    // kept elsewhere
    ///
    /// let frozen = FrozenRangeFilter::<u32>::open_file(&path, secret.clone())?;
    /// assert!(frozen.contains_range(0..10));
    /// let restored = AdaptiveRangeFilter::<u32>::restore_from(&path, secret)?;
    /// assert!(restored.contains_range(0..10));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self.plain(), self.shape(), Telling::Mark(self.secret()), path.as_ref())
    }

    /// As [`RangeFilter::save_with_secret`].
    ///
    /// # Errors
    /// If writing fails.
    pub fn save_with_secret(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.plain(), self.shape(), Telling::All(self.secret()), writer)
    }

    /// As [`RangeFilter::save_with_secret_to`].
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_with_secret_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self.plain(), self.shape(), Telling::All(self.secret()), path.as_ref())
    }

    /// As [`RangeFilter::restore`].
    ///
    /// # Errors
    /// As there.
    pub fn restore(reader: impl Read, secret: Secret) -> Result<Self, SnapshotError> {
        Ok(adaptive(read(reader)?.with(secret)?))
    }

    /// As [`RangeFilter::restore_from`].
    ///
    /// # Errors
    /// As there.
    pub fn restore_from(path: impl AsRef<Path>, secret: Secret) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Ok(adaptive(read_from(path)?.with(secret)?)))
    }

    /// As [`RangeFilter::restore_with_secret`].
    ///
    /// # Errors
    /// As there.
    pub fn restore_with_secret(reader: impl Read) -> Result<Self, SnapshotError> {
        Ok(adaptive(read(reader)?.with_its_own()?))
    }

    /// As [`RangeFilter::restore_with_secret_from`].
    ///
    /// # Errors
    /// As there.
    pub fn restore_with_secret_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        at(path.as_ref(), |path| Ok(adaptive(read_from(path)?.with_its_own()?)))
    }
}

fn adaptive<K: RangeKey>((filter, shape): (RangeFilter<K>, RangeShape)) -> AdaptiveRangeFilter<K> {
    AdaptiveRangeFilter::of(filter, shape.adaptations)
}

fn write<K: RangeKey>(
    filter: &RangeFilter<K>,
    shape: RangeShape,
    telling: Telling<'_>,
    mut writer: impl Write,
) -> Result<(), SnapshotError> {
    let lines = filter.lines();
    let header = Header { shape, sections: Sections::of(lines, telling) };
    Sections::write(&header.to_bytes::<K>(), lines, telling, &mut writer)?;
    writer.flush()?;
    Ok(())
}

fn write_to<K: RangeKey>(
    filter: &RangeFilter<K>,
    shape: RangeShape,
    telling: Telling<'_>,
    path: &Path,
) -> Result<(), SnapshotError> {
    replace_by(telling, path, |file| write(filter, shape, telling, file))
}

/// What a snapshot holds, not validated yet.
struct Loaded<K> {
    header: Header,
    lines: Lines,
    secret: Option<Secret>,
    keys: PhantomData<fn(K)>,
}

fn read<K: RangeKey>(reader: impl Read) -> Result<Loaded<K>, SnapshotError> {
    read_input(&mut Input::new(reader))
}

/// Reads a snapshot from a file, behind which nothing may follow.
fn read_from<K: RangeKey>(path: &Path) -> Result<Loaded<K>, SnapshotError> {
    let mut input = Input::new(File::open(path)?);
    let loaded = read_input(&mut input)?;
    input.end()?;
    Ok(loaded)
}

fn read_input<K: RangeKey>(input: &mut Input<impl Read>) -> Result<Loaded<K>, SnapshotError> {
    let header = input.read_header_by(Header::read::<K>)?;
    let (lines, secret) = input.read_sections(&header.sections)?;
    Ok(Loaded { header, lines, secret, keys: PhantomData })
}

impl<K: RangeKey> Loaded<K> {
    fn with(self, secret: Secret) -> Result<(RangeFilter<K>, RangeShape), SnapshotError> {
        check_mark(self.header.sections.mark, &secret)?;
        let shape = self.header.shape;
        Ok((validated(shape, self.lines, secret)?, shape))
    }

    fn with_its_own(mut self) -> Result<(RangeFilter<K>, RangeShape), SnapshotError> {
        let secret = self.secret.take().ok_or(SnapshotError::NoSecret)?;
        self.with(secret)
    }
}

/// The filter of a shape and lines, all invariants checked.
fn validated<K: RangeKey>(
    shape: RangeShape,
    lines: Lines,
    secret: Secret,
) -> Result<RangeFilter<K>, SnapshotError> {
    let filter = RangeFilter::from_parts(shape, lines, secret);
    let filter = filter.expect("no fewer lines than the header allows");
    filter.validate()?;
    Ok(filter)
}
