//! Creates, opens and closes stores.

use crate::commands::closing::closed;
use crate::commands::making::{DATA, Making, remove_abandoned};
use crate::interrupt;
use crate::progress::{Total, turn_to};
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use twiceshy_store::{FjallBackend, FjallOptions, OpenOptions, StoreError};

pub(super) type Store = twiceshy_store::Store<FjallBackend>;

/// Whether opening a store waits for its filter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// Do not wait. After a crash, the filter is built while the store is in use.
    Later,
    /// Wait until the filter is complete.
    Ready,
}

/// Returns whether a directory contains a store, which may be damaged.
pub(super) fn is_there(directory: &Path) -> bool {
    directory.join(DATA).exists()
}

/// Opens an existing store.
pub(super) fn existing(directory: &Path, filter: Filter, session: &Session) -> Result<Store> {
    let options = OpenOptions::new().create(false);
    found(directory, open(directory, &options, filter, session))
}

/// Opens an existing store, and builds its filter again.
pub(super) fn rebuilt(directory: &Path, options: &OpenOptions, session: &Session) -> Result<Store> {
    found(directory, forget_filter(directory))?;
    found(directory, open(directory, options, Filter::Ready, session))
}

/// Discards the saved filter: opens the store without a directory for the filter, and closes it
/// immediately, so that no new filter is built.
fn forget_filter(directory: &Path) -> twiceshy_store::Result<()> {
    let mut options = FjallOptions::default();
    options.create = false;
    let backend = FjallBackend::open(directory.join(DATA), options)?;
    let store: Store = OpenOptions::new().create(false).open_with(backend, None)?;
    store.close()
}

/// Adds the store's path to an error. If there is no store at this path, the error says what is
/// there instead.
fn found<T>(directory: &Path, opened: twiceshy_store::Result<T>) -> Result<T> {
    let name = || directory.display().to_string();
    if !matches!(opened, Err(StoreError::Missing)) {
        return opened.with_context(name);
    }
    if !fs::metadata(directory).with_context(name)?.is_dir() {
        bail!("{}: this is not a directory, so it is not a store", name());
    }
    bail!("{}: this is not a store; create one with `twiceshy store import`", name());
}

fn open(
    directory: &Path,
    options: &OpenOptions,
    filter: Filter,
    session: &Session,
) -> twiceshy_store::Result<Store> {
    let progress = session.progress("opening", Total::Unknown);
    let bar = progress.bar();
    let options = options.clone().on_progress(move |progress| {
        turn_to(&bar, "building the filter again", Total::Items(progress.shards as u64));
        bar.set_position(progress.ready as u64);
    });
    let mut store = options.open(directory)?;
    if filter == Filter::Ready {
        store.wait_until_ready()?;
    }
    Ok(store)
}

/// Opens or creates a store, calls `work` with it, and closes it. If `work` fails, removes a store
/// that was created.
pub(super) fn in_new_or_existing<T>(
    directory: &Path,
    options: &OpenOptions,
    session: &Session,
    work: impl FnOnce(&Store, Origin) -> Result<T>,
) -> Result<T> {
    let existing = options.clone().create(false);
    remove_abandoned(directory);
    match open(directory, &existing, Filter::Ready, session) {
        Err(StoreError::Missing) => {
            let making = Making::begin(directory, "a store")?;
            // Without the lock, opening the store could create files in a directory that the signal
            // handler has just removed.
            let held = interrupt::hold();
            let store = found(directory, open(making.path(), options, Filter::Ready, session))?;
            drop(held);
            let done = work(&store, Origin::New)?;
            close(store, directory, session)?;
            making.finish()?;
            Ok(done)
        }
        opened => {
            let store = found(directory, opened)?;
            let done = work(&store, Origin::Existing)?;
            close(store, directory, session)?;
            Ok(done)
        }
    }
}

/// Whether a store existed before this command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    New,
    Existing,
}

/// Closes a store, and saves its filter.
pub(super) fn close(store: Store, directory: &Path, session: &Session) -> Result<()> {
    let _progress = session.progress("saving the filter", Total::Unknown);
    closed(directory, store.close())
}
