//! Lists that change, in directories.

use crate::input::{Encoding, Lines};
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
