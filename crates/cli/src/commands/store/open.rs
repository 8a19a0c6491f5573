//! Finding, making and opening stores.

use crate::commands::closing::closed;
use crate::commands::making::{DATA, Making, remove_abandoned};
use crate::interrupt;
use crate::progress::{Total, turn_to};
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use twiceshy_store::{FjallBackend, FjallOptions, GuardedStore, Options, StoreError};

pub(super) type Store = GuardedStore<FjallBackend>;

/// When a store may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// At once: after a crash, without a filter at first.
    Behind,
    /// When all of the filter answers.
    Ready,
}

/// Whether there is a store, or what is left of one.
pub(super) fn is_there(directory: &Path) -> bool {
    directory.join(DATA).exists()
}

/// Opens a store that is there.
pub(super) fn existing(directory: &Path, filter: Filter, session: &Session) -> Result<Store> {
    let options = Options::new().create(false);
    found(directory, open(directory, &options, filter, session))
}

/// Opens a store that is there with a filter that is built again.
pub(super) fn rebuilt(directory: &Path, options: &Options, session: &Session) -> Result<Store> {
    found(directory, forget_filter(directory))?;
    found(directory, open(directory, options, Filter::Ready, session))
}

/// Has a store know no saved filter any more: opened without a place for one, it forgets it. What
/// it begins to build then is given up at once.
fn forget_filter(directory: &Path) -> twiceshy_store::Result<()> {
    let backend = FjallBackend::open_existing(directory.join(DATA), FjallOptions::default())?;
    let store: Store = Options::new().create(false).open_with(backend, None)?;
    store.close()
}

/// Says of which store something is wrong, and if there is none, what is there instead.
fn found<T>(directory: &Path, opened: twiceshy_store::Result<T>) -> Result<T> {
    let name = || directory.display().to_string();
    if !matches!(opened, Err(StoreError::Missing)) {
        return opened.with_context(name);
    }
    if !fs::metadata(directory).with_context(name)?.is_dir() {
        bail!("{}: this is no directory, so it is no store", name());
    }
    bail!("{}: this is no store; `twiceshy store import` makes one", name());
}

fn open(
    directory: &Path,
    options: &Options,
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

/// Does some work with a store, and closes it; creates the store first, if there is none. If the
/// work fails, a new store is removed again.
pub(super) fn in_new_or_existing<T>(
    directory: &Path,
    options: &Options,
    session: &Session,
    work: impl FnOnce(&Store, Origin) -> Result<T>,
) -> Result<T> {
    let existing = options.clone().create(false);
    remove_abandoned(directory);
    match open(directory, &existing, Filter::Ready, session) {
        Err(StoreError::Missing) => {
            let making = Making::begin(directory, "a store")?;
            // Opening would create again what a signal has just removed.
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

/// Whether a store was there before.
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
