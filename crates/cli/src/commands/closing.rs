//! Closes stores and lists.

use crate::exit;
use anyhow::{Context as _, Result};
use std::path::Path;
use twiceshy_store::StoreError;

/// Adds the directory to an error from closing a store or lists. If only the filter could not be
/// saved, prints a warning and returns `Ok`, because all data is safe, and the next command builds
/// the filter again.
pub(super) fn closed(directory: &Path, closed: twiceshy_store::Result<()>) -> Result<()> {
    let is_warning = matches!(closed, Err(StoreError::FilterNotSaved { .. }));
    match closed.with_context(|| directory.display().to_string()) {
        Err(error) if is_warning => {
            exit::warn(&error);
            Ok(())
        }
        closed => closed,
    }
}
