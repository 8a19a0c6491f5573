//! The directory of a store on the default backend.

use crate::backend::{FjallBackend, FjallOptions, has_data, io_error, is_unfinished};
use crate::error::{Result, StoreError};
use crate::saved_filter::is_our_file;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The name of the backend's directory in the directory of a store.
pub(crate) const DATA: &str = "data";

/// Opens the backend of the store in a directory. `create` says whether to create a missing backend.
pub(crate) fn open_backend(directory: &Path, create: bool) -> Result<FjallBackend> {
    if create {
        refuse_foreign(directory)?;
    }
    let options = FjallOptions { create, ..FjallOptions::default() };
    Ok(FjallBackend::open(directory.join(DATA), options)?)
}

/// Returns an error if a directory has files that don't belong to a store.
fn refuse_foreign(directory: &Path) -> Result<()> {
    let data = directory.join(DATA);
    if has_data(&data)? {
        return Ok(());
    }
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io_error("list", directory))?,
    };
    for entry in entries {
        let name = entry.map_err(io_error("list", directory))?.file_name();
        // A process that was killed while it created a store may have left these files.
        let is_ours = if name == DATA { is_unfinished(&data)? } else { is_our_file(&name) };
        if !is_ours {
            return Err(StoreError::Foreign { path: directory.to_owned() });
        }
    }
    Ok(())
}
