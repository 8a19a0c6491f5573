//! Tests of the size of the public interface.

use std::fs;
use std::path::Path;

/// The public functions that open, save or copy a store, a guard or a backend.
const ENTRY_POINTS: [&str; 12] = [
    // All stores have this one.
    "$store::backup",
    "FjallBackend::open",
    "OpenOptions::open",
    "OpenOptions::open_guard",
    "OpenOptions::open_guard_unready",
    "OpenOptions::open_lists",
    "OpenOptions::open_lists_with",
    "OpenOptions::open_ranges",
    "OpenOptions::open_ranges_with",
    "OpenOptions::open_with",
    "RedbBackend::open",
    "Store::open",
];

/// Returns the public functions in a source file whose names begin with a verb of opening or saving.
fn entry_points(source: &str) -> Vec<String> {
    let (mut functions, mut owner) = (Vec::new(), "");
    for line in source.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("impl") {
            let named = named.split(" for ").last().unwrap_or(named);
            let generics = named.starts_with('<').then(|| named.split_once("> ")).flatten();
            let named = generics.map_or(named, |(_, named)| named).trim_start();
            owner = named.split(['<', ' ']).next().unwrap_or(named);
        }
        let Some(function) = line.strip_prefix("pub fn ") else { continue };
        let name = function.split(['<', '(']).next().unwrap_or(function);
        if ["open", "save", "load", "restore", "backup"].iter().any(|verb| name.starts_with(verb)) {
            functions.push(format!("{owner}::{name}"));
        }
    }
    functions
}

/// Adds the entry points in all source files in a folder, except those for tests.
fn collect_entry_points(folder: &Path, functions: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_entry_points(&path, functions);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("testing.rs") {
            functions.extend(entry_points(&fs::read_to_string(path).unwrap()));
        }
    }
}

#[test]
fn stores_have_twelve_public_functions_that_open_or_save() {
    let mut functions = Vec::new();
    collect_entry_points(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut functions);
    functions.sort();
    assert_eq!(functions, ENTRY_POINTS);
}
