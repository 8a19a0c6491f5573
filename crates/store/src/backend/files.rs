//! Creating directories that survive a power cut.

use super::BackendError;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Creates a directory and its missing ancestors. The names of new directories survive a power cut.
pub(crate) fn create_directory(path: &Path) -> Result<(), BackendError> {
    let new = missing(path).map_err(io_error("look for", path))?;
    fs::create_dir_all(path).map_err(io_error("create", path))?;
    for path in new {
        let parent = parent(path);
        sync_directory(parent).map_err(io_error("sync", parent))?;
    }
    Ok(())
}

/// Returns the missing directories among a directory and its ancestors.
fn missing(path: &Path) -> io::Result<Vec<&Path>> {
    let mut missing = Vec::new();
    for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        match path.try_exists() {
            Ok(true) => break,
            Ok(false) => missing.push(path),
            // An ancestor is a file. Creating the directory will fail and say so.
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
        // Windows can't open directories, and doesn't need to sync them.
        return Ok(());
    }
    match File::open(path) {
        // Without read permission, a directory can't be opened to sync it, although files can be created in
        // it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        directory => directory?.sync_all(),
    }
}

/// Returns a function that adds the operation and the path to an I/O error.
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
    fn create_directory_creates_all_missing_ancestors() {
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
