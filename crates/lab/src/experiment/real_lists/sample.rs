//! Members and queries from files.

use super::super::why;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use twiceshy::{KeyedHasher, Secret};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::load::{Lines, LoadError, Trace};
use twiceshy_workloads::stream::Zipf;

/// What is looked for in the directory.
pub(super) const FILES: &str = "`blocked-domains.txt`, a domain a line; `popular-origins.txt`, \
                                an origin a line, popular ones first; and `block-io-trace.csv`, \
                                with the columns `time`, `op`, `size` and `lbn`. Each may be \
                                compressed, and then ends in `.gz` or `.zst`";

/// How popular the origin of a rank is: what is usual on the web.
const EXPONENT: f64 = 1.0;

/// Members, and queries none of which is one.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) members: Vec<u64>,
    pub(super) queries: Vec<u64>,
}

impl Sample {
    /// How many different queries there are.
    pub(super) fn different(&self) -> u64 {
        self.queries.iter().collect::<HashSet<_>>().len() as u64
    }
}

/// Loads all samples of a directory; of queries that are drawn, so many.
pub(super) fn load(directory: &Path, queries: usize, seed: u64) -> Result<[Sample; 2], String> {
    Ok([domains(directory, queries, seed)?, blocks(directory)?])
}

/// A file of this name, compressed or not, and what reading it gives.
fn read<T>(
    directory: &Path,
    name: &str,
    read: impl FnOnce(&Path) -> Result<T, LoadError>,
) -> Result<T, String> {
    let paths = ["", ".gz", ".zst"].map(|end| directory.join(format!("{name}{end}")));
    let path: Option<&PathBuf> = paths.iter().find(|path| path.exists());
    let path = path.ok_or_else(|| format!("there is no file `{name}`"))?;
    read(path).map_err(|error| format!("`{name}`: {}", why(&error)))
}

/// The keys of a file's lines, without what some of them begin with, each once.
fn keys(path: &Path, without: &str) -> Result<Vec<u64>, LoadError> {
    // No filter's own secret, or keys would be in its order.
    let hasher = KeyedHasher::new(&Secret::from_bytes([3; 16]));
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    for line in Lines::open(path)? {
        let line = line?;
        let line = line.strip_prefix(without.as_bytes()).unwrap_or(&line);
        let key = hasher.hash_bytes(line).as_u128() as u64;
        if seen.insert(key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Blocked domains, asked for popular ones that aren't blocked.
fn domains(directory: &Path, queries: usize, seed: u64) -> Result<Sample, String> {
    let members = read(directory, "blocked-domains.txt", |path| keys(path, ""))?;
    let mut popular = read(directory, "popular-origins.txt", |path| keys(path, "https://"))?;
    let blocked: HashSet<u64> = members.iter().copied().collect();
    popular.retain(|key| !blocked.contains(key));
    let law = Zipf::new(popular.len() as u64, EXPONENT)
        .map_err(|_| "`popular-origins.txt` has no origin that isn't blocked".to_owned())?;
    let queries = law.stream(seed).take(queries).map(|rank| popular[rank as usize]).collect();
    Ok(Sample { name: "Blocked domains", members, queries })
}

/// A random half of a disk's blocks, asked for the others in the order of the trace.
fn blocks(directory: &Path) -> Result<Sample, String> {
    let accesses = read(directory, "block-io-trace.csv", |path| {
        Trace::open(path)?.map(|access| Ok(scatter(access?.block))).collect::<Result<Vec<_>, _>>()
    })?;
    let (members, queries): (Vec<u64>, Vec<u64>) =
        accesses.into_iter().partition(|key| key.is_multiple_of(2));
    let members: HashSet<u64> = members.into_iter().collect();
    let mut members: Vec<u64> = members.into_iter().collect();
    members.sort_unstable();
    Ok(Sample { name: "Blocks of a disk", members, queries })
}
