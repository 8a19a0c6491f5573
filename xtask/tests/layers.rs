//! Checks that no module imports from a layer that is listed after its own.
//!
//! The table under "Layers" in `ARCHITECTURE.md` lists the layers, the lowest first. Its second
//! column names the folders and files of each layer, relative to the repository's root. If several
//! of these paths contain a file, the longest one decides its layer. Every source file of the core
//! and of the store must have a layer. Unit tests may import anything.
//!
//! Modules at the top of these crates must not import each other in a circle, not even within one
//! layer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules are checked.
const CRATES: [&str; 2] = ["crates/twiceshy/src", "crates/store/src"];

#[test]
fn modules_do_not_import_from_layers_listed_after_their_own() {
    let layers = Layers::read();
    let mut violations = Vec::new();
    for source in CRATES {
        let tree = Tree::read(source);
        for file in &tree.files {
            let own = layers.of(file);
            for import in tree.imports(file) {
                let target = tree.resolve(&import);
                // An exported macro is at the crate's root, wherever it is defined. So an import
                // from the root proves nothing.
                if tree.module_of(&target) == "lib" {
                    continue;
                }
                let used = layers.of(&target);
                if used.0 > own.0 {
                    violations.push(format!(
                        "{} ({}) imports {} from {} ({})",
                        file.display(),
                        own.1,
                        import.join("::"),
                        target.display(),
                        used.1
                    ));
                }
            }
        }
    }
    violations.sort();
    violations.dedup();
    assert!(violations.is_empty(), "{} imports:\n{}", violations.len(), violations.join("\n"));
}

#[test]
fn top_level_modules_import_each_other_without_cycles() {
    let mut cycles = Vec::new();
    for source in CRATES {
        let tree = Tree::read(source);
        let mut imports: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for file in &tree.files {
            let own = tree.module_of(file);
            for import in tree.imports(file) {
                let used = tree.module_of(&tree.resolve(&import));
                if used != own && used != "lib" {
                    let example = format!("{} imports {}", file.display(), import.join("::"));
                    imports.entry(own.clone()).or_default().entry(used).or_insert(example);
                }
            }
        }
        cycles.extend(circular(&imports));
    }
    assert!(cycles.is_empty(), "{} imports are in cycles:\n{}", cycles.len(), cycles.join("\n"));
}

#[test]
fn import_cycles_are_found() {
    let imports = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "a")];
    let mut graph: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (from, to) in imports {
        let example = format!("{from} imports {to}");
        graph.entry(from.to_owned()).or_default().insert(to.to_owned(), example);
    }
    assert_eq!(circular(&graph), ["b -> c: b imports c", "c -> b: c imports b"]);
}

/// Returns the edges of a graph that are part of a cycle.
fn circular(imports: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<String> {
    let leads_to = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            if module == to {
                return true;
            }
            if seen.insert(module) {
                next.extend(imports.get(module).into_iter().flatten().map(|(used, _)| &**used));
            }
        }
        false
    };
    let edges = imports.iter().flat_map(|(own, used)| used.iter().map(move |edge| (own, edge)));
    let circular = edges.filter(|(own, (used, _))| leads_to(used, own));
    circular.map(|(own, (used, example))| format!("{own} -> {used}: {example}")).collect()
}

#[test]
fn imports_are_found_in_groups_and_expressions() {
    let code = "use crate::{claim::{Claim, Version}, Hash};\n// crate::comment\n\
                fn f() { crate::table::read(); $crate::sorting::sort!(super::super::bits::low(super::STEP)) }\n\
                #[cfg(test)]\nmod tests { use crate::snapshot::Frozen; }";
    let found: Vec<String> =
        paths(code, &["quotient", "adapt"]).iter().map(|path| path.join("::")).collect();
    let expected = [
        "claim::Claim",
        "claim::Version",
        "Hash",
        "table::read",
        "sorting::sort",
        "bits::low",
        "quotient::STEP",
    ];
    assert_eq!(found, expected);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").into()
}

/// The paths of each layer, bottom layer first.
struct Layers(Vec<(String, Vec<PathBuf>)>);

impl Layers {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
        let section = text.split("\n## ").find(|section| section.starts_with("Layers\n"));
        let rows =
            section.expect("a section \"Layers\"").lines().filter(|line| line.starts_with('|'));
        let layers = rows.skip(2).map(|row| {
            let mut cells = row.split('|').skip(1).map(str::trim);
            let (name, places) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
            let paths = places.split('`').skip(1).step_by(2).map(PathBuf::from);
            (name.to_owned(), paths.collect::<Vec<_>>())
        });
        let layers: Vec<_> = layers.collect();
        for path in layers.iter().flat_map(|(_, paths)| paths) {
            assert!(root().join(path).exists(), "the layer table names {}", path.display());
        }
        Self(layers)
    }

    /// Returns the number and the name of a file's layer.
    fn of(&self, file: &Path) -> (usize, &str) {
        let paths = self.0.iter().enumerate().flat_map(|(number, (name, paths))| {
            paths.iter().map(move |path| (path, (number, name.as_str())))
        });
        let containing = paths.filter(|(path, _)| file.starts_with(path));
        let longest = containing.max_by_key(|(path, _)| path.components().count());
        longest.unwrap_or_else(|| panic!("{} has no layer in ARCHITECTURE.md", file.display())).1
    }
}

/// The source files of a crate.
struct Tree {
    source: PathBuf,
    /// All files except `lib.rs` and tests, relative to the repository's root.
    files: Vec<PathBuf>,
    /// The path of each name that `lib.rs` re-exports.
    exports: BTreeMap<String, Vec<String>>,
}

impl Tree {
    fn read(source: &str) -> Self {
        let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from(source)]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root().join(&folder)).expect("a source folder") {
                let name = entry.expect("an entry").file_name();
                let path = folder.join(&name);
                if name == "tests" || name == "tests.rs" || name == "lib.rs" {
                    continue;
                }
                if root().join(&path).is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    files.push(path);
                }
            }
        }
        let library = read(&Path::new(source).join("lib.rs"));
        let uses = ["pub use ", "pub(crate) use "];
        let uses = uses.iter().flat_map(|word| library.match_indices(word));
        let uses = uses.flat_map(|(at, word)| {
            let mut paths = Vec::new();
            tree(&mut library[at + word.len()..].trim_start(), &mut Vec::new(), &mut paths);
            paths
        });
        let exports = uses.filter_map(|path| Some((path.last()?.clone(), path))).collect();
        Self { source: source.into(), files, exports }
    }

    /// Returns the paths that a file mentions, from the crate's root.
    fn imports(&self, file: &Path) -> Vec<Vec<String>> {
        let within = file.strip_prefix(&self.source).expect("a file of this crate");
        let module: Vec<&str> = within
            .iter()
            .map(|part| part.to_str().expect("a name in UTF-8").trim_end_matches(".rs"))
            .filter(|&part| part != "mod")
            .collect();
        paths(&read(file), &module)
    }

    /// Returns the name of the module at the top of the crate that contains a file.
    fn module_of(&self, file: &Path) -> String {
        let within = file.strip_prefix(&self.source).expect("a file of this crate");
        let first = within.iter().next().and_then(|part| part.to_str()).expect("a name in UTF-8");
        first.trim_end_matches(".rs").to_owned()
    }

    /// Returns the file or folder of the module that a path leads to.
    fn resolve(&self, path: &[String]) -> PathBuf {
        let path =
            path.first().and_then(|first| self.exports.get(first)).map_or(path, Vec::as_slice);
        let mut found = self.source.clone();
        for segment in path {
            let (folder, file) = (found.join(segment), found.join(format!("{segment}.rs")));
            if root().join(&folder).is_dir() {
                found = folder;
            } else if root().join(&file).is_file() {
                return file;
            } else {
                break;
            }
        }
        if found == self.source { found.join("lib.rs") } else { found }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(root().join(file))
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the paths in `code` that begin with `crate` or `super`, from the crate's root. Ignores
/// comments and unit tests.
fn paths(code: &str, module: &[&str]) -> Vec<Vec<String>> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code);
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or(line));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let is_inside = code[..at].ends_with(|before: char| before == ':' || is_word(before));
        if is_inside {
            continue;
        }
        let (mut rest, mut depth) = (&code[at..], module.len());
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, depth) = (above, depth.saturating_sub(1));
        }
        if let Some(within) = rest.strip_prefix("crate::") {
            (rest, depth) = (within, 0);
        }
        let mut prefix = module[..depth].iter().map(ToString::to_string).collect();
        tree(&mut rest, &mut prefix, &mut found);
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Reads one path, or a group of paths in braces, and collects the paths in it.
fn tree(code: &mut &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    *code = code.trim_start();
    if let Some(inside) = code.strip_prefix('{') {
        *code = inside;
        loop {
            *code = code.trim_start();
            if let Some(behind) = code.strip_prefix('}') {
                *code = behind;
                return;
            }
            tree(code, prefix, found);
            *code = code.trim_start();
            *code = code.strip_prefix(',').unwrap_or(code);
        }
    }
    let end = code.find(|letter| !is_word(letter)).unwrap_or(code.len());
    let (word, rest) = code.split_at(end);
    assert!(!word.is_empty() || rest.starts_with('*'), "a path expected before {rest:.40}");
    *code = rest.strip_prefix('*').unwrap_or(rest);
    prefix.push(word.to_owned());
    match code.strip_prefix("::") {
        Some(rest)
            if rest.trim_start().starts_with(|next| is_word(next) || "{*".contains(next)) =>
        {
            *code = rest;
            tree(code, prefix, found);
        }
        _ => {
            found.push(prefix.clone());
            if let Some(renamed) = code.strip_prefix(" as ") {
                *code = renamed.trim_start_matches(is_word);
            }
        }
    }
    prefix.pop();
}
