//! Replaces a file atomically, or writes to a device or pipe.

use super::SnapshotError;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The users who may read the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// The permissions of the file that is replaced, or the default ones for a new file.
    AsBefore,
    /// Only the owner may read the file, if the system supports that.
    Owner,
}

/// Writes a temporary file and moves it to `path`. Follows links. Writes directly to a device or
/// a pipe instead of replacing it with a file.
pub(super) fn replace(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut File) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file() && !existing.is_dir()) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let followed = if path.is_symlink() { Some(fs::canonicalize(path)?) } else { None };
    let path = followed.as_deref().unwrap_or(path);
    let before = match readers {
        Readers::AsBefore => existing.filter(fs::Metadata::is_file),
        Readers::Owner => None,
    };
    // Until the old file's permissions are copied, only the owner may open the new one.
    let initial = if before.is_some() { Readers::Owner } else { readers };
    let (temporary, mut file) = create_beside(path, initial)?;
    if let Some(before) = before {
        file.set_permissions(before.permissions())?;
    }
    write(&mut file)?;
    file.sync_all()?;
    drop(file);
    temporary.move_to(path)?;
    // Make the rename durable, on systems where folders can be synced.
    if cfg!(unix) {
        File::open(folder(path))?.sync_all()?;
    }
    Ok(())
}

/// A temporary file that is removed on drop unless it was moved.
struct Temporary {
    path: PathBuf,
    is_moved: bool,
}

impl Temporary {
    fn move_to(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_moved = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_moved {
            // A file that can't be removed is harmless.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the folder of a file.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Creates a temporary file in the same folder.
fn create_beside(path: &Path, readers: Readers) -> io::Result<(Temporary, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let name = path.file_name().ok_or_else(no_name)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.tmp", std::process::id()));
        let path = folder(path).join(hidden);
        match options.open(&path) {
            // An earlier process with the same process id left this file. Try the next name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((Temporary { path, is_moved: false }, opened?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Creates an empty folder for one test.
    fn fresh_folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("twiceshy-replace-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn failed_write_leaves_only_the_old_file() {
        let folder = fresh_folder("fails");
        let path = folder.join("filter");
        replace(&path, Readers::AsBefore, |file| Ok(file.write_all(b"old")?)).unwrap();
        let error = replace(&path, Readers::AsBefore, |file| {
            file.write_all(b"ne")?;
            Err(io::Error::from(io::ErrorKind::StorageFull).into())
        });
        assert!(matches!(error, Err(SnapshotError::Io(_))));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&folder), ["filter"]);
        replace(&path, Readers::AsBefore, |file| Ok(file.write_all(b"new")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(&folder), ["filter"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn panicking_write_leaves_only_the_old_file() {
        let folder = fresh_folder("panics");
        let path = folder.join("filter");
        fs::write(&path, b"old").unwrap();
        let write = || replace(&path, Readers::AsBefore, |_| panic!("as planned"));
        assert!(std::panic::catch_unwind(write).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&folder), ["filter"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_kept_or_restricted_to_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = fresh_folder("readers");
        let path = folder.join("filter");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, Readers::AsBefore, |_| Ok(())).unwrap();
        assert_eq!(mode(), 0o640);
        replace(&path, Readers::Owner, |_| Ok(())).unwrap();
        assert_eq!(mode(), 0o600);
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_broken_links_refused() {
        use std::os::unix::fs::symlink;
        let folder = fresh_folder("links");
        let [file, link, chain, broken] =
            ["file", "link", "chain", "broken"].map(|name| folder.join(name));
        fs::write(&file, b"old").unwrap();
        symlink("file", &link).unwrap();
        symlink(&link, &chain).unwrap();
        symlink("nowhere", &broken).unwrap();
        for path in [&link, &chain] {
            let text = path.to_str().unwrap().as_bytes();
            replace(path, Readers::AsBefore, |file| Ok(file.write_all(text)?)).unwrap();
            assert_eq!(fs::read(&file).unwrap(), text);
            assert!(path.is_symlink() && !file.is_symlink());
        }
        assert!(replace(&broken, Readers::AsBefore, |_| Ok(())).is_err());
        assert_eq!(names(&folder).len(), 4);
        fs::remove_dir_all(folder).unwrap();
    }

    // The test uses a link to the device, so that a faulty `replace` would replace only the link.
    #[cfg(unix)]
    #[test]
    fn device_is_written_to_and_not_replaced() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = fresh_folder("devices");
        let null = folder.join("null");
        symlink("/dev/null", &null).unwrap();
        for readers in [Readers::AsBefore, Readers::Owner] {
            replace(&null, readers, |file| Ok(file.write_all(b"new")?)).unwrap();
        }
        assert!(null.is_symlink());
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(names(&folder), ["null"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn path_without_file_name_is_refused() {
        assert!(replace(Path::new("/"), Readers::AsBefore, |_| Ok(())).is_err());
    }
}
