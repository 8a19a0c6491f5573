//! Lists that change, in directories.

use crate::commands::closing::closed;
use crate::commands::making::{Making, remove_abandoned};
use crate::input::{Encoding, Lines};
use crate::interrupt;
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use twiceshy_store::{FjallBackend, ListOptions, ListStore, StoreError};

pub(super) type KeptLists = ListStore<FjallBackend>;

/// Opens lists that are there.
pub(super) fn existing(directory: &Path) -> Result<KeptLists> {
    match ListOptions::new().create(false).open(directory) {
        Err(StoreError::Missing) => {
            bail!("{}: there are no lists; `twiceshy list add` makes them", directory.display())
        }
        opened => opened.with_context(|| directory.display().to_string()),
    }
}

/// Does some work with lists, and closes them; creates them first, if there are none. If the work
/// fails, new lists are removed again.
pub(super) fn in_new_or_existing<T>(
    directory: &Path,
    options: &ListOptions,
    work: impl FnOnce(&KeptLists) -> Result<T>,
) -> Result<T> {
    let name = || directory.display().to_string();
    remove_abandoned(directory);
    // The lists are dropped before their directory is removed.
    let (making, lists) = match options.clone().create(false).open(directory) {
        Err(StoreError::Missing) => {
            let making = Making::begin(directory, "a directory of lists")?;
            // Opening would create again what a signal has just removed.
            let _held = interrupt::hold();
            let lists = options.open(making.path()).with_context(name)?;
            (Some(making), lists)
        }
        opened => (None, opened.with_context(name)?),
    };
    let done = work(&lists)?;
    closed(directory, lists.close())?;
    making.map_or(Ok(()), Making::finish)?;
    Ok(done)
}

/// Calls `each` with the lines of files, block by block.
pub(super) fn each_block(
    paths: &[PathBuf],
    encoding: Encoding,
    session: &Session,
    mut each: impl FnMut(&[&[u8]]) -> Result<()>,
) -> Result<()> {
    for path in paths {
        let mut lines = Lines::open(path, encoding, session)?;
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            each(&keys)?;
            drop(keys);
            lines.reuse(block);
        }
    }
    Ok(())
}
