//! Finding, making and opening stores.

use super::making::Making;
use crate::progress::{Total, turn_to};
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use twiceshy_store::{FjallBackend, FjallOptions, GuardedStore, Options};

pub(super) type Store = GuardedStore<FjallBackend>;

/// Where a store has its data. Opening makes what isn't there, so it has to be looked for.
pub(super) const DATA: &str = "data";
const ENGINE: &str = "fjall";

/// When a store may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// At once: after a crash, without a filter at first.
    Behind,
    /// When all of the filter answers.
    Ready,
}

/// Opens a store that is there.
pub(super) fn existing(directory: &Path, filter: Filter, session: &Session) -> Result<Store> {
    find(directory)?;
    open(directory, &Options::new(), filter, session)
}

/// Opens a store that is there with a filter that is built again.
pub(super) fn rebuilt(directory: &Path, options: &Options, session: &Session) -> Result<Store> {
    find(directory)?;
    forget_filter(directory).with_context(|| directory.display().to_string())?;
    open(directory, options, Filter::Ready, session)
}

/// Has a store know no saved filter any more: opened without a place for one, it forgets it. What
/// it begins to build then is given up at once.
fn forget_filter(directory: &Path) -> twiceshy_store::Result<()> {
    let backend = FjallBackend::open(directory.join(DATA), FjallOptions::default())?;
    let store: Store = Options::new().open_with(backend, None)?;
    store.close()
}

fn find(directory: &Path) -> Result<()> {
    let name = || directory.display().to_string();
    if !fs::metadata(directory).with_context(name)?.is_dir() {
        bail!("{}: this is no directory, so it is no store", name());
    }
    if !is_store(directory)? {
        bail!("{}: this is no store; `twiceshy store import` makes one", name());
    }
    Ok(())
}

pub(super) fn is_store(directory: &Path) -> Result<bool> {
    let data = directory.join(DATA).join(ENGINE);
    data.try_exists().with_context(|| data.display().to_string())
}

fn open(directory: &Path, options: &Options, filter: Filter, session: &Session) -> Result<Store> {
    let name = || directory.display().to_string();
    let progress = session.progress("opening", Total::Unknown);
    let bar = progress.bar();
    let options = options.clone().on_progress(move |progress| {
        turn_to(&bar, "building the filter again", Total::Items(progress.shards as u64));
        bar.set_position(progress.ready as u64);
    });
    let mut store = options.open(directory).with_context(name)?;
    if filter == Filter::Ready {
        store.wait_until_ready().with_context(name)?;
    }
    Ok(store)
}

/// Does something with a store, and closes it; makes it first, if there is none. If that fails,
/// there is none either.
pub(super) fn in_new_or_existing<T>(
    directory: &Path,
    options: &Options,
    session: &Session,
    work: impl FnOnce(&Store, Origin) -> Result<T>,
) -> Result<T> {
    let making = Making::begin(directory)?;
    let (path, origin) = match &making {
        Some(making) => (making.path(), Origin::New),
        None => (directory, Origin::Existing),
    };
    let store = open(path, options, Filter::Ready, session)?;
    let done = work(&store, origin)?;
    close(store, path, session)?;
    making.map_or(Ok(()), Making::finish)?;
    Ok(done)
}

/// Whether a store was there before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    New,
    Existing,
}

/// Saves the filter.
pub(super) fn close(store: Store, directory: &Path, session: &Session) -> Result<()> {
    let _progress = session.progress("saving the filter", Total::Unknown);
    store.close().with_context(|| directory.display().to_string())
}
