//! Snapshots of filters for keys.

use super::error::{SnapshotError, at};
use super::restore::{Loaded, read, read_from};
use super::save::{write, write_to};
use super::sections::{Telling, check_mark};
use crate::{AdaptiveQuotientFilter, FrozenFilter, Key, Keyed, Secret};
use core::borrow::Borrow;
use std::io::{Read, Write};
use std::path::Path;

/// Snapshots. The type of the keys is not recorded: restore them as the type that they were.
impl<K: ?Sized> Keyed<K, AdaptiveQuotientFilter> {
    /// Writes a [snapshot](crate::snapshot) without the secret, which is to be kept apart,
    /// but with a mark of it, so that another is noticed when it is restored.
    ///
    /// ```
    /// use twiceshy::{AdaptiveQuotientFilter, Keyed, Secret, SnapshotError};
    /// let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<str>()?;
    /// filter.insert("alice")?;
    /// let mut snapshot = Vec::new();
    /// filter.save(&mut snapshot)?;
    ///
    /// let secret = filter.secret().clone();
    /// let restored = Keyed::<str, _>::restore(&snapshot[..], secret)?;
    /// assert!(restored.contains("alice"));
    /// let other = Keyed::<str, _>::restore(&snapshot[..], Secret::generate()?);
    /// assert!(matches!(other, Err(SnapshotError::OtherSecret)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If writing fails.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        write(self.filter(), Telling::Mark(self.secret()), writer)
    }

    /// As [`save`](Self::save), to a file, at once or not at all; see
    /// [`save_to`](AdaptiveQuotientFilter::save_to).
    ///
    /// # Errors
    /// If the file can't be replaced.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        write_to(self.filter(), Telling::Mark(self.secret()), path.as_ref())
    }

    /// Writes a [snapshot](crate::snapshot) **with the secret**: who can read it can find
    /// out the members, and false positives, at home.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Keyed};
    /// let mut filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<u64>()?;
    /// filter.insert(&7)?;
    /// let mut snapshot = Vec::new();
    /// filter.save_with_secret(&mut snapshot)?;
    /// assert!(Keyed::<u64, _>::restore_with_secret(&snapshot[..])?.contains(&7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Reads a [snapshot](crate::snapshot) of keys that were hashed with this secret, as
    /// [`AdaptiveQuotientFilter::restore`] does.
    ///
    /// # Errors
    /// As there, or [`SnapshotError::OtherSecret`]. A snapshot of a filter that was saved
    /// alone, as one of hashes, doesn't know its secret; then any is taken, and with a wrong one
    /// members are missing. Saved from here, it knows it again.
    pub fn restore(reader: impl Read, secret: Secret) -> Result<Self, SnapshotError> {
        Self::with(read(reader)?, secret)
    }

    /// As [`restore`](Self::restore), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), or if the file can't be opened or is too long.
    pub fn restore_from(path: impl AsRef<Path>, secret: Secret) -> Result<Self, SnapshotError> {
        let loaded = read_from(path.as_ref())?;
        at(path.as_ref(), |_| Self::with(loaded, secret))
    }

    /// Reads a [snapshot](crate::snapshot) that was saved
    /// [with the secret](Self::save_with_secret).
    ///
    /// # Errors
    /// As [`AdaptiveQuotientFilter::restore`], or [`SnapshotError::NoSecret`].
    pub fn restore_with_secret(reader: impl Read) -> Result<Self, SnapshotError> {
        Self::with_its_own(read(reader)?)
    }

    /// As [`restore_with_secret`](Self::restore_with_secret), of a file that holds nothing else.
    ///
    /// # Errors
    /// As [`restore_with_secret`](Self::restore_with_secret), or if the file can't be opened or is
    /// too long.
    pub fn restore_with_secret_from(path: impl AsRef<Path>) -> Result<Self, SnapshotError> {
        let loaded = read_from(path.as_ref())?;
        at(path.as_ref(), |_| Self::with_its_own(loaded))
    }

    fn with(loaded: Loaded, secret: Secret) -> Result<Self, SnapshotError> {
        check_mark(loaded.mark, &secret)?;
        Ok(Self::new(loaded.filter, secret))
    }

    fn with_its_own(loaded: Loaded) -> Result<Self, SnapshotError> {
        let secret = loaded.secret.ok_or(SnapshotError::NoSecret)?;
        Ok(Self::new(loaded.filter, secret))
    }
}

/// Snapshots that are read where they are.
impl<K: ?Sized> Keyed<K, FrozenFilter> {
    /// Opens a snapshot in memory; see [`FrozenFilter::open`].
    ///
    /// # Errors
    /// As there, or [`SnapshotError::OtherSecret`].
    pub fn open(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
        secret: Secret,
    ) -> Result<Self, SnapshotError> {
        Self::frozen(FrozenFilter::open(bytes)?, secret)
    }

    /// Reads a file into memory, and opens the snapshot in it; see [`FrozenFilter::open_file`].
    ///
    /// # Errors
    /// As there, or [`SnapshotError::OtherSecret`].
    pub fn open_file(path: impl AsRef<Path>, secret: Secret) -> Result<Self, SnapshotError> {
        let filter = FrozenFilter::open_file(path.as_ref())?;
        at(path.as_ref(), |_| Self::frozen(filter, secret))
    }

    /// A copy in memory that can be changed, for the same keys; see [`FrozenFilter::to_filter`].
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, FrozenFilter, Keyed};
    /// # let filter = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<str>()?;
    /// # let (mut snapshot, secret) = (Vec::new(), filter.secret().clone());
    /// # filter.save(&mut snapshot)?;
    /// let frozen = Keyed::<str, FrozenFilter>::open(snapshot, secret)?;
    /// let mut filter = frozen.to_filter()?;
    /// filter.insert("bob")?;
    /// assert!(filter.contains("bob"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn to_filter(&self) -> Result<Keyed<K, AdaptiveQuotientFilter>, SnapshotError> {
        Ok(Keyed::new(self.filter().to_filter()?, self.secret().clone()))
    }

    fn frozen(filter: FrozenFilter, secret: Secret) -> Result<Self, SnapshotError> {
        filter.check_secret(&secret)?;
        Ok(Self::new(filter, secret))
    }
}

impl<K: Key + ?Sized> Keyed<K, FrozenFilter> {
    /// Answers many lookups, as of [`contains`](Self::contains); see
    /// [`FrozenFilter::contains_many`].
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], maybe: &mut Vec<bool>) {
        self.filter().contains_each(keys, |key| self.hash(key.borrow()), maybe);
    }
}
