use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::{Lines, LoadError, Source};

/// The entries of a list of domains and URLs by category, such as Shalla's.
///
/// Such a list is a tree with one directory per category. A directory may contain other categories,
/// a file `domains` with one domain per line, and a file `urls` with one URL per line, without its
/// scheme. Compressed files end in `.gz` or `.zst`. Other files are ignored.
///
/// Entries are in the order of their paths, which is always the same.
pub struct Urls {
    files: VecDeque<(PathBuf, String, Kind)>,
    current: Option<(Lines<Source>, String, Kind)>,
}

/// The kind of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A domain, with everything on it.
    Domain,
    /// A URL, or a prefix of one.
    Url,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The directories that contain the file, separated by `/`.
    pub category: String,
    /// Whether the file that contains the line lists domains or URLs.
    pub kind: Kind,
    /// The line.
    pub text: Vec<u8>,
}

impl Urls {
    /// Opens a single file of any name, or a whole tree.
    ///
    /// A single file contains URLs unless it is called `domains`; its category is the name of its
    /// directory.
    ///
    /// # Errors
    ///
    /// If the path doesn't exist, or can't be listed.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let mut files = Vec::new();
        let metadata = std::fs::metadata(path)
            .map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
        if metadata.is_dir() {
            list(path, "", &mut files)?;
        } else {
            let directory = path.parent().and_then(Path::file_name);
            let category = directory.unwrap_or_default().to_string_lossy().into_owned();
            files.push((path.to_owned(), category, kind(path).unwrap_or(Kind::Url)));
        }
        Ok(Self { files: files.into(), current: None })
    }

    fn fail(&mut self, error: LoadError) -> LoadError {
        self.files.clear();
        self.current = None;
        error
    }
}

/// Returns the kind of a file by its name, if it belongs to the list.
fn kind(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(name);
    match stem {
        "domains" => Some(Kind::Domain),
        "urls" => Some(Kind::Url),
        _ => None,
    }
}

/// Appends the list's files in a directory and below it. Symbolic links to directories aren't
/// followed, since they could form a cycle.
fn list(
    directory: &Path,
    category: &str,
    files: &mut Vec<(PathBuf, String, Kind)>,
) -> Result<(), LoadError> {
    let failed = |source| LoadError::Open { path: directory.to_owned(), source };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(directory).map_err(failed)?.collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let category = if category.is_empty() { name } else { format!("{category}/{name}") };
            list(&path, &category, files)?;
        } else if let Some(kind) = kind(&path) {
            files.push((path, category.to_owned(), kind));
        }
    }
    Ok(())
}

impl Iterator for Urls {
    type Item = Result<Entry, LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((lines, category, kind)) = &mut self.current {
                match lines.next() {
                    Some(Ok(text)) => {
                        return Some(Ok(Entry { category: category.clone(), kind: *kind, text }));
                    }
                    Some(Err(error)) => return Some(Err(self.fail(error))),
                    None => self.current = None,
                }
            }
            let (path, category, kind) = self.files.pop_front()?;
            match Lines::open(path) {
                Ok(lines) => self.current = Some((lines, category, kind)),
                Err(error) => return Some(Err(self.fail(error))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::{Entry, Kind, Urls};
    use crate::load::LoadError;

    fn entry(category: &str, kind: Kind, text: &str) -> Entry {
        Entry { category: category.into(), kind, text: text.into() }
    }

    #[test]
    fn lists_in_a_directory_tree_are_read_in_path_order() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for category in ["spyware", "hobby/games", "hobby/cooking"] {
            create_dir_all(root.join(category)).unwrap();
        }
        write(root.join("spyware/domains"), "bad.example\nworse.example\n").unwrap();
        write(root.join("spyware/urls"), "fine.example/bad\n").unwrap();
        let packed = zstd::encode_all(&b"dice.example\n"[..], 1).unwrap();
        write(root.join("hobby/games/domains.zst"), packed).unwrap();
        write(root.join("hobby/cooking/urls"), "soup.example/hot\r\n").unwrap();
        write(root.join("global_usage"), "not a list\n").unwrap();
        let entries: Vec<Entry> = Urls::open(root).unwrap().map(Result::unwrap).collect();
        let wanted = [
            entry("hobby/cooking", Kind::Url, "soup.example/hot"),
            entry("hobby/games", Kind::Domain, "dice.example"),
            entry("spyware", Kind::Domain, "bad.example"),
            entry("spyware", Kind::Domain, "worse.example"),
            entry("spyware", Kind::Url, "fine.example/bad"),
        ];
        assert_eq!(entries, wanted);

        let single = Urls::open(root.join("spyware/urls")).unwrap();
        assert_eq!(single.map(Result::unwrap).collect::<Vec<_>>(), wanted[4..]);
    }

    #[test]
    fn iteration_ends_after_an_error() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path().join("domains"), [0x1F, 0x8B, 0, 0, 0]).unwrap();
        write(directory.path().join("urls"), "a.example/b\n").unwrap();
        let mut urls = Urls::open(directory.path()).unwrap();
        assert!(matches!(urls.next(), Some(Err(LoadError::Read(_)))));
        assert!(urls.next().is_none());
        assert!(matches!(Urls::open("no/such/list"), Err(LoadError::Open { .. })));
    }
}
