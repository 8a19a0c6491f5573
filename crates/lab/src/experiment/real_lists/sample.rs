//! Loads members and queries from files.

use super::super::why;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use twiceshy::{Secret, hash::KeyedHasher};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::load::{Lines, LoadError, Trace};
use twiceshy_workloads::stream::Zipf;

/// The files that the data directory must contain.
pub(super) const FILES: &str = "\
    `blocked-domains.txt`, with one domain per line; `popular-origins.txt`, with one origin per \
    line, most popular first; and `block-io-trace.csv`, with the columns `time`, `op`, `size` and \
    `lbn`. Compressed files end in `.gz` or `.zst`";

/// The exponent of Zipf's law for the popularity of origins. It is typical for the web.
const EXPONENT: f64 = 1.0;

/// Members, and queries for non-members.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) members: Vec<u64>,
    pub(super) queries: Vec<u64>,
}

impl Sample {
    /// Returns the number of different queries.
    pub(super) fn different(&self) -> u64 {
        self.queries.iter().collect::<HashSet<_>>().len() as u64
    }
}

/// Loads all samples in a directory. If the queries of a sample are random, draws `queries` of
/// them.
pub(super) fn load(directory: &Path, queries: usize, seed: u64) -> Result<[Sample; 2], String> {
    Ok([domains(directory, queries, seed)?, blocks(directory)?])
}

/// Reads a file of this name, compressed or not.
fn read<T>(
    directory: &Path,
    name: &str,
    read: impl FnOnce(&Path) -> Result<T, LoadError>,
) -> Result<T, String> {
    let paths = ["", ".gz", ".zst"].map(|end| directory.join(format!("{name}{end}")));
    let path: Option<&PathBuf> = paths.iter().find(|path| path.exists());
    let path = path.ok_or_else(|| format!("the file `{name}` is missing"))?;
    read(path).map_err(|error| format!("`{name}`: {}", why(&error)))
}

/// Returns the keys of a file's lines, each once. Removes the prefix `without` from each line.
fn keys(path: &Path, without: &str) -> Result<Vec<u64>, LoadError> {
    // This secret must differ from that of a filter. With the same secret, keys would be in the
    // filter's order.
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

/// Loads blocked domains as members, and popular domains that aren't blocked as queries.
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

/// Takes a random half of a disk's blocks as members, and the other half as queries, in the order
/// of the trace.
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
