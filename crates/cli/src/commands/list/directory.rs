//! Directories with a yes list and a no list that can be changed.

use crate::commands::closing::closed;
use crate::commands::making::{Making, remove_abandoned};
use crate::input::{Encoding, Lines};
use crate::interrupt;
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use twiceshy_store::{FjallBackend, ListStore, OpenOptions, StoreError};

pub(super) type KeptLists = ListStore<FjallBackend>;

/// Opens the existing lists in a directory.
pub(super) fn existing(directory: &Path) -> Result<KeptLists> {
    match OpenOptions::new().create(false).open_lists(directory) {
        Err(StoreError::Missing) => {
            bail!(
                "{}: there are no lists here; create them with `twiceshy list add`",
                directory.display()
            )
        }
        opened => opened.with_context(|| directory.display().to_string()),
    }
}

/// Opens or creates lists, calls `work` with them, and closes them. If `work` fails, removes lists
/// that were created.
pub(super) fn in_new_or_existing<T>(
    directory: &Path,
    options: &OpenOptions,
    work: impl FnOnce(&KeptLists) -> Result<T>,
) -> Result<T> {
    let name = || directory.display().to_string();
    remove_abandoned(directory);
    // Variables are dropped in reverse order, so the lists are closed before their directory is
    // removed.
    let (making, lists) = match options.clone().create(false).open_lists(directory) {
        Err(StoreError::Missing) => {
            let making = Making::begin(directory, "a directory of lists")?;
            // Without the lock, opening the lists could create files in a directory that the signal
            // handler has just removed.
            let _held = interrupt::hold();
            let lists = options.open_lists(making.path()).with_context(name)?;
            (Some(making), lists)
        }
        opened => (None, opened.with_context(name)?),
    };
    let done = work(&lists)?;
    closed(directory, lists.close())?;
    making.map_or(Ok(()), Making::finish)?;
    Ok(done)
}

/// Reads the files block by block, and calls `each` with the lines of each block.
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
