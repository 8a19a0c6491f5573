//! The directory of a store.

use crate::backend::BackendError;
#[cfg(feature = "fjall")]
use crate::backend::{FjallBackend, FjallOptions, has_data, is_unfinished};
#[cfg(feature = "fjall")]
use crate::error::StoreError;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Where the default backend is, in the directory of a store.
#[cfg(feature = "fjall")]
pub(crate) const DATA: &str = "data";

/// Opens the default backend of the store in a directory; creates it, if it is to be created.
#[cfg(feature = "fjall")]
pub(crate) fn open_backend(directory: &Path, create: bool) -> crate::Result<FjallBackend> {
    let data = directory.join(DATA);
    let options = FjallOptions::default();
    if !create {
        return Ok(FjallBackend::open_existing(data, options)?);
    }
    refuse_foreign(directory)?;
    Ok(FjallBackend::open(data, options)?)
}

/// Refuses a directory that has no store in it, but something else.
#[cfg(feature = "fjall")]
fn refuse_foreign(directory: &Path) -> crate::Result<()> {
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
        // A store that was never finished may have left these.
        let is_ours =
            if name == DATA { is_unfinished(&data)? } else { crate::saved::is_our_file(&name) };
        if !is_ours {
            return Err(StoreError::Foreign { path: directory.to_owned() });
        }
    }
    Ok(())
}

/// Creates a directory and those that it is in, unless they are there. The names of new ones
/// survive a power cut.
pub(crate) fn create_directory(path: &Path) -> Result<(), BackendError> {
    let new = missing(path).map_err(io_error("look for", path))?;
    fs::create_dir_all(path).map_err(io_error("create", path))?;
    for path in new {
        let parent = parent(path);
        sync_directory(parent).map_err(io_error("sync", parent))?;
    }
    Ok(())
}

/// Those of a directory and of those that it is in that aren't there.
fn missing(path: &Path) -> io::Result<Vec<&Path>> {
    let mut missing = Vec::new();
    for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        match path.try_exists() {
            Ok(true) => break,
            Ok(false) => missing.push(path),
            // A file, which creating the directory fails for.
            Err(error) if error.kind() == ErrorKind::NotADirectory => {}
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the names in a directory survive a power cut.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(windows) {
        // Directories can't be opened there, and needn't be.
        return Ok(());
    }
    match File::open(path) {
        // Names can be made in a directory that can't be read.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        directory => directory?.sync_all(),
    }
}

pub(crate) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> BackendError {
    move |source| BackendError::Io { operation, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_new_directory_is_synced_into_its_parent() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c");
        let new = missing(&path).unwrap();
        let names: Vec<_> = new.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(parent(new[2]), root.path());
        create_directory(&path).unwrap();
        assert!(path.is_dir() && missing(&path).unwrap().is_empty());
        assert_eq!(parent(Path::new("store")), Path::new("."));
    }
}
