//! The part that all stores share: a backend, the filter that is saved beside it, and their maintenance.

use crate::backend::{Backend, BackendClaim, Batch, Durability, create_directory};
use crate::error::{Result, StoreError};
use crate::kind::Kind;
use crate::layout::{self, Identity};
use crate::maintained::Doubt;
use crate::options::{OpenOptions, Place};
use crate::saved_filter::SavedFilter;
use crate::sizing::{DEFAULT_CAPACITY, Sizing};
use std::path::Path;
use twiceshy::{error::BuildError, snapshot::SnapshotError};

/// A claimed backend, and the filter that is saved beside it.
pub(crate) struct Storage<B> {
    pub(crate) backend: B,
    _claim: BackendClaim,
    durability: Durability,
    saved: SavedFilter,
    /// The path of the backend within the directory of a backup.
    data: &'static str,
}

/// A store that is being opened: its backend is claimed, and nothing is written yet.
pub(crate) struct Opening<'a, B> {
    options: &'a OpenOptions,
    place: Place<'a, B>,
    claim: BackendClaim,
    /// The sizing that is recorded in the store.
    remembered: Option<Sizing>,
    /// The sizing to build the filter with.
    pub(crate) sizing: Sizing,
}

/// A store that is open.
pub(crate) struct Opened<B, F> {
    pub(crate) storage: Storage<B>,
    /// The filter: restored, or empty.
    pub(crate) filter: F,
    pub(crate) is_restored: bool,
    /// The sizing of the filter, if it is empty.
    pub(crate) sizing: Sizing,
}

impl<'a, B: Backend> Opening<'a, B> {
    /// Claims the backend.
    ///
    /// Next, [`check`](Self::check) that the filter can be built. Then [`identify`](Self::identify) the
    /// store, and [`finish`](Self::finish).
    pub(crate) fn begin(options: &'a OpenOptions, place: Place<'a, B>) -> Result<Self> {
        let claim = place.backend.claim()?;
        if !options.create && !layout::is_store(&place.backend)? {
            return Err(StoreError::Missing);
        }
        let remembered = layout::sizing(&place.backend)?;
        let sizing = options.sizing(remembered);
        // The store doesn't save the memory limit, so use the current one.
        let remembered =
            remembered.map(|remembered| Sizing { memory: sizing.memory, ..remembered });
        Ok(Self { options, place, claim, remembered, sizing })
    }

    /// Returns whether the store has recorded a sizing.
    pub(crate) fn is_remembered(&self) -> bool {
        self.remembered.is_some()
    }

    /// Builds an empty filter, unless the store has recorded this sizing. If the filter can't be built,
    /// opening fails before anything is written.
    pub(crate) fn check<F>(
        &self,
        build: impl Fn(&Sizing) -> Result<F, BuildError>,
    ) -> Result<Option<(F, Sizing)>, BuildError> {
        let is_remembered = self.remembered == Some(self.sizing);
        (!is_remembered).then(|| self.build(build)).transpose()
    }

    /// Builds or plans a filter, and returns it with its sizing.
    ///
    /// If the capacity is recorded in the store, and is too large for this machine, the filter starts
    /// with the default capacity and grows. So a store from a machine with more memory can be opened here.
    pub(crate) fn build<F, E>(
        &self,
        build: impl Fn(&Sizing) -> Result<F, E>,
    ) -> Result<(F, Sizing), E> {
        let mut sizing = self.sizing;
        let built = match build(&sizing) {
            Err(_) if self.options.capacity.is_none() && sizing.capacity > DEFAULT_CAPACITY => {
                sizing.capacity = DEFAULT_CAPACITY;
                build(&sizing)
            }
            built => built,
        };
        built.map(|filter| (filter, sizing))
    }

    /// Reads the identity of the store, or creates a store of this kind.
    pub(crate) fn identify(&self, kind: Kind) -> Result<Identity> {
        Identity::of(&self.place.backend, kind, self.options.secret.as_ref())
    }

    /// Records the sizing, and restores the saved filter if it is exact and has the requested properties.
    /// Otherwise builds an empty filter, unless one is built already.
    pub(crate) fn finish<F>(
        self,
        empty: Option<(F, Sizing)>,
        build: impl Fn(&Sizing) -> Result<F, BuildError>,
        restore: impl FnOnce(&Path) -> Result<F, SnapshotError>,
        is_wanted: impl FnOnce(&F) -> bool,
    ) -> Result<Opened<B, F>> {
        let Place { backend, directory, data } = &self.place;
        if self.remembered != Some(self.sizing) {
            layout::keep_sizing(backend, &self.sizing)?;
        }
        if let Some(directory) = directory {
            create_directory(directory)?;
        }
        let (saved, restored) = SavedFilter::open(backend, *directory, restore)?;
        let is_unwanted = restored.as_ref().is_some_and(|restored| !is_wanted(restored));
        if is_unwanted {
            saved.invalidate(backend)?;
        }
        let restored = restored.filter(|_| !is_unwanted);
        let is_restored = restored.is_some();
        let (filter, sizing) = match restored.map(|filter| (filter, self.sizing)).or(empty) {
            Some(built) => built,
            None => self.build(build)?,
        };
        let (durability, data) = (self.options.durability, *data);
        let storage =
            Storage { backend: self.place.backend, _claim: self.claim, durability, saved, data };
        Ok(Opened { storage, filter, is_restored, sizing })
    }
}

impl<B: Backend> Storage<B> {
    /// Writes a batch. The saved filter is invalid from then on.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        self.write_as(batch, self.durability)
    }

    /// Writes a batch with this durability instead of the one in the options.
    pub(crate) fn write_as(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.saved.write(&self.backend, batch, durability)
    }

    /// Writes a batch that contains only records of mistakes, and that a crash may lose. The saved filter
    /// stays valid, because it holds every member with or without them.
    pub(crate) fn write_hints(&self, batch: &Batch) -> Result<()> {
        Ok(self.backend.write(batch, Durability::Eventual)?)
    }

    /// Deletes mistakes that exceed the limit when a store is opened. The saved filter, if any, has
    /// repaired these mistakes, and stays valid.
    pub(crate) fn forget_mistakes(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() { Ok(()) } else { Ok(self.backend.write(batch, self.durability)?) }
    }

    /// Makes sure that the saved filter is not used again.
    pub(crate) fn invalidate_saved(&self) -> Result<()> {
        self.saved.invalidate(&self.backend)
    }

    /// Returns whether a write has failed, so that only reopening shows what the backend holds.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.saved.is_doubtful()
    }

    /// Returns whether a failed write may take effect after reopening.
    pub(crate) fn doubt(&self) -> Doubt {
        if self.is_doubtful() { Doubt::UntilReopened } else { Doubt::None }
    }

    pub(crate) fn backup(&self, to: &Path) -> Result<()> {
        Ok(self.backend.backup(&to.join(self.data))?)
    }

    /// Returns whether closing may save the filter. It does so if the filter is exact.
    pub(crate) fn may_save_filter(&self) -> bool {
        self.saved.may_save()
    }

    /// Syncs the backend, and saves the filter if it is exact, and if the saved one is invalid or outdated.
    /// Only the first call does anything.
    pub(crate) fn close(
        &self,
        is_exact: bool,
        is_outdated: bool,
        save: impl FnOnce(&Path) -> Result<(), SnapshotError>,
    ) -> Result<()> {
        self.saved.close(&self.backend, is_exact, is_outdated, save)
    }
}

/// Implements the maintenance operations that are the same for all stores. `$storage` is the path of the
/// [`Storage`] within the store; `$prepare` writes what the store has in memory only; `finish` closes the
/// store.
macro_rules! impl_upkeep {
    ([$($generics:tt)*] $store:ty, $($storage:ident).+, $prepare:expr) => {
        impl<$($generics)*> $store {
            /// Returns the number of bytes that the backend's files take on disk.
            ///
            /// # Errors
            /// If the backend fails.
            pub fn bytes_on_disk(&self) -> $crate::Result<u64> {
                Ok(self.$($storage).+.backend.bytes_on_disk()?)
            }

            /// Makes all earlier writes survive a power cut.
            ///
            /// # Errors
            /// If the backend fails.
            pub fn sync(&self) -> $crate::Result<()> {
                let prepare: fn(&Self) = $prepare;
                prepare(self);
                Ok(self.$($storage).+.backend.sync()?)
            }

            /// Moves data from memory and journals to the backend's tables, and syncs it. The next open
            /// is faster then.
            ///
            /// # Errors
            /// If the backend fails.
            pub fn flush(&self) -> $crate::Result<()> {
                let prepare: fn(&Self) = $prepare;
                prepare(self);
                Ok(self.$($storage).+.backend.flush()?)
            }

            /// Rewrites the backend's files to make them smaller and reads faster.
            ///
            /// # Errors
            /// If the backend fails.
            pub fn compact(&self) -> $crate::Result<()> {
                Ok(self.$($storage).+.backend.compact()?)
            }

            /// Copies all data, as it is at one moment, into a new directory that can be opened as a store.
            /// Before the copy appears, it is opened and compared. Reads and writes go on in the meantime.
            /// Opening the copy rebuilds its filter.
            ///
            /// # Errors
            /// If the backend fails; then there is no copy.
            pub fn backup(&self, to: impl AsRef<std::path::Path>) -> $crate::Result<()> {
                let prepare: fn(&Self) = $prepare;
                prepare(self);
                self.$($storage).+.backup(to.as_ref())
            }

            /// Closes the store: syncs the backend, and saves the filter, so that the next open is
            /// fast. If the filter is being rebuilt, `close` waits for that. Dropping the store closes it
            /// too, but ignores errors, and waits only for the shard that is being rebuilt.
            ///
            /// # Errors
            /// [`FilterNotSaved`](crate::StoreError::FilterNotSaved) if all data is safe and only the
            /// filter could not be saved. If the backend can't be synced, the backend's error.
            pub fn close(mut self) -> $crate::Result<()> {
                self.finish()
            }
        }
    };
}

pub(crate) use impl_upkeep;
