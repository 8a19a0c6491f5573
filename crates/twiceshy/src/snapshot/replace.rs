//! Replacing a file at once, or not at all; or writing to what is no file.

use super::SnapshotError;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Who may read the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Who could read the one before; who usually can, if there was none.
    AsBefore,
    /// Its owner alone, where the system knows that.
    Owner,
}

/// Writes a file that then takes the place of the one at `path`, if there is one. Links are
/// followed. To a device or a pipe it is written: putting a file in its place is not what
/// anybody means.
pub(super) fn replace(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut File) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file() && !there.is_dir()) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let followed = if path.is_symlink() { Some(fs::canonicalize(path)?) } else { None };
    let path = followed.as_deref().unwrap_or(path);
    let before = match readers {
        Readers::AsBefore => there.filter(fs::Metadata::is_file),
        Readers::Owner => None,
    };
    // Nobody else may open it before it is known who may.
    let at_first = if before.is_some() { Readers::Owner } else { readers };
    let (mut temporary, mut file) = Temporary::beside(path, at_first)?;
    if let Some(before) = before {
        file.set_permissions(before.permissions())?;
    }
    write(&mut file)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary.path, path)?;
    temporary.is_gone = true;
    sync_folder(path)?;
    Ok(())
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Has the file's new name kept, where folders can be asked for that.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder(path))?.sync_all() } else { Ok(()) }
}

/// A file that is removed again, unless it was moved away.
struct Temporary {
    path: PathBuf,
    is_gone: bool,
}

impl Temporary {
    fn beside(path: &Path, readers: Readers) -> io::Result<(Self, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "a file name is missing");
        let name = path.file_name().ok_or_else(no_name)?;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{number}.tmp", std::process::id()));
            let path = folder(path).join(hidden);
            match options(readers).open(&path) {
                Ok(file) => return Ok((Self { path, is_gone: false }, file)),
                // Left by a process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_gone {
            // There is nobody to tell, and it does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn options(readers: Readers) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A folder of its own for a test.
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
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
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

    #[cfg(unix)]
    #[test]
    fn readers_stay_as_before_or_are_the_owner_alone() {
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
    fn links_are_followed_unless_they_lead_nowhere() {
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

    /// By a link: if it should ever be replaced, it isn't the device.
    #[cfg(unix)]
    #[test]
    fn devices_and_pipes_are_written_to() {
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
    fn a_path_without_a_name_is_refused() {
        assert!(replace(Path::new("/"), Readers::AsBefore, |_| Ok(())).is_err());
    }
}
