//! Checks that the documents name only files that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders that a path in a document may be relative to: the root, and the sources and tests of
/// crates.
const ROOTS: [&str; 7] = [
    "",
    "crates/twiceshy/src",
    "crates/twiceshy",
    "crates/store",
    "crates/store/src",
    "crates/cli",
    "crates/lab/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").into()
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension == ending)
}

/// Returns the documents of the repository.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/papers"].map(|folder| root().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| has_ending(path, "md")).collect()
}

/// Returns each piece of text between a `start` and the next `end` on the same line.
fn between<'a>(text: &'a str, start: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.lines().flat_map(move |line| {
        line.split(start).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
    })
}

/// Returns the paths that a document names in backticks. A path has a folder and a file extension.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let is_plain =
            word.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
        is_plain
            && word.contains('/')
            && (has_ending(Path::new(word), "rs") || word.starts_with("crates/"))
    };
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path)
}

#[test]
fn links_lead_to_files_that_exist() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let folder = document.parent().expect("a folder");
        for link in between(&text, "](", ')').filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap_or(link);
            if !file.is_empty() && !folder.join(file).exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links to files that don't exist:\n{}", broken.join("\n"));
}

#[test]
fn named_source_files_exist() {
    let mut missing = Vec::new();
    for document in documents().iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let text = fs::read_to_string(document).expect("a document");
        for path in named(&text) {
            if !ROOTS.iter().any(|start| root().join(start).join(path).exists()) {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "files that don't exist:\n{}", missing.join("\n"));
}

#[test]
fn paths_and_links_are_found_in_text() {
    let text = "See `table/scan.rs`, `crates/store`, `u8/..=9` and [a](b.md#c) or [d](https://e).";
    assert_eq!(named(text).collect::<Vec<_>>(), ["table/scan.rs", "crates/store"]);
    assert_eq!(between(text, "](", ')').collect::<Vec<_>>(), ["b.md#c", "https://e"]);
}

#[test]
fn published_crates_contain_the_licences() {
    let crates = fs::read_dir(root().join("crates")).expect("a folder");
    let paths = crates.map(|entry| entry.expect("an entry").path());
    let is_published = |path: &PathBuf| {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        !manifest.contains("publish = false")
    };
    let published: Vec<PathBuf> = paths.filter(is_published).collect();
    assert!(published.len() >= 5, "{published:?}");
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = fs::read_to_string(root().join(name)).expect("a licence");
        for path in published.iter().map(|path| path.join(name)) {
            let copy = fs::read_to_string(&path).unwrap_or_default();
            assert!(copy == text, "{} isn't the licence", path.display());
        }
    }
}
