//! `twiceshy-lab bench reverse-map`: the cost of maintaining our reverse map and those of the
//! papers.
//!
//! | map | how a fingerprint's key is found | used by |
//! | --- | --- | --- |
//! | `hash` | all members whose hash lies in an interval | Twiceshy |
//! | `rank` | by minirun, and rank within it | the `AdaptiveQF` |
//! | `quotient_array` | an array, shifted whenever the filter's slots are | telescoping and extension quotient filters |
//! | `cuckoo_array` | an array in which an entry moves with each kick | the adaptive cuckoo filter |
//! | `hasty_cuckoo_array` | the same, but a key kicks before it looks into its second bucket | the same, as the `AdaptiveQF`'s authors measured it |
//!
//! Each map is fully implemented, and is checked against its filter after each phase: every
//! fingerprint must lead to a key that has it, and the keys must be the members. Only accesses to
//! the map are counted, because the map would be on disk and the filter in memory. The first two
//! maps are ordered maps in pages of 4 KiB with their inner nodes in memory. A log-structured tree
//! would defer the page access of a blind write.
//!
//! The first map uses our own filter. That filter doesn't report which slots it moves, and has no
//! ranks, so the next two maps use a [model](quotient::QuotientModel) of the positions of entries
//! in a quotient filter.
//!
//! The papers' telescoping and cuckoo filters don't support deletes. Their maps could, so deletes
//! are counted for these maps too.

mod by_hash;
mod by_rank;
mod cuckoo_array;
mod pages;
mod quotient;
mod quotient_array;

use super::measure;
use super::random::Random;
use crate::output::print_rows;
use by_hash::ByHash;
use by_rank::ByRank;
use cuckoo_array::{CuckooArray, Haste};
use pages::Traffic;
use quotient_array::QuotientArray;
use serde::Serialize;
use std::process::ExitCode;
use twiceshy::{Secret, hash::KeyedHasher};
use twiceshy_report::{Column, Table};

/// Options of `bench reverse-map`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Binary logarithm of the number of slots of the filters.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(10..=28))]
    pub(crate) log2_slots: u32,
    /// Bits per remainder. A cuckoo filter's fingerprints have three bits more, for about the same
    /// false-positive rate.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(6..=16))]
    pub(crate) remainder_bits: u32,
    /// Number of members as a share of the slots.
    #[arg(long, default_value_t = 0.9, value_parser = measure::load)]
    pub(crate) load: f64,
    /// Seed of the keys.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One row of the result. All numbers except `count` are per operation.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) map: &'static str,
    pub(crate) op: &'static str,
    /// The number of operations.
    pub(crate) count: u64,
    /// The number of entries that were read.
    pub(crate) reads: f64,
    /// The number of entries that were written or removed, including those that moved.
    pub(crate) writes: f64,
    /// The number of existing entries whose address changed.
    pub(crate) moved: f64,
    /// The number of different pages of 4 KiB that were accessed.
    pub(crate) pages: f64,
    log2_slots: u32,
    load: f64,
}

/// A key. It has the same size as in `bench store`.
type Key = u128;

const KEY_BYTES: usize = size_of::<Key>();

/// A filter and its reverse map.
trait Mapped {
    fn insert(&mut self, member: Key);

    /// Queries a non-member. If the answer is "maybe", repairs the mistake and returns `true`.
    fn ask(&mut self, stranger: Key) -> bool;

    fn delete(&mut self, member: Key);

    /// Returns the counts of accesses to the map.
    fn traffic(&mut self) -> &mut Traffic;

    /// Checks that each fingerprint leads to a key that has it, and returns all keys.
    fn verified(&self) -> Vec<Key>;
}

/// One of `DELETED` members is deleted.
const DELETED: usize = 8;

/// Returns members and non-members, all different.
fn keys(options: &Options) -> (Vec<Key>, Vec<Key>) {
    let count = ((1u64 << options.log2_slots) as f64 * options.load) as u64;
    let mut random = Random(options.seed);
    let mut key = |number| Key::from(random.next()) << 64 | Key::from(number);
    let members = (0..count).map(&mut key).collect();
    (members, (count..2 * count).map(key).collect())
}

/// Runs all operations on one map, and counts the accesses.
fn count(name: &'static str, options: &Options, scheme: &mut dyn Mapped) -> [Row; 3] {
    let (mut members, strangers) = keys(options);
    let row = |op, count: u64, traffic: &mut Traffic| {
        let traffic = std::mem::take(traffic);
        let each = |total: u64| total as f64 / count.max(1) as f64;
        Row {
            map: name,
            op,
            count,
            reads: each(traffic.reads),
            writes: each(traffic.writes),
            moved: each(traffic.moved),
            pages: each(traffic.pages),
            log2_slots: options.log2_slots,
            load: options.load,
        }
    };
    for &member in &members {
        scheme.insert(member);
        scheme.traffic().end_of_operation();
    }
    let inserts = row("insert", members.len() as u64, scheme.traffic());
    check(name, scheme, &members);

    let mut mistakes = 0;
    for &stranger in &strangers {
        mistakes += u64::from(scheme.ask(stranger));
        scheme.traffic().end_of_operation();
    }
    let adaptations = row("adapt", mistakes, scheme.traffic());
    check(name, scheme, &members);

    let deleted = members.split_off(members.len() - members.len() / DELETED);
    for &member in &deleted {
        scheme.delete(member);
        scheme.traffic().end_of_operation();
    }
    let deletes = row("delete", deleted.len() as u64, scheme.traffic());
    check(name, scheme, &members);
    [inserts, adaptations, deletes]
}

/// Checks a map. If the map were wrong, its counts would be worthless.
fn check(name: &str, scheme: &dyn Mapped, members: &[Key]) {
    let (mut found, mut members) = (scheme.verified(), members.to_vec());
    found.sort_unstable();
    members.sort_unstable();
    assert!(found == members, "{name}: the keys of the map aren't the members");
}

/// Returns the counts for the inserts, repairs and deletes of each map.
pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let hasher = KeyedHasher::new(&Secret::from_bytes([5; 16]));
    let &Options { log2_slots, remainder_bits, .. } = options;
    let mut rows = Vec::new();
    let mut run = |name, mut scheme: Box<dyn Mapped>| {
        rows.extend(count(name, options, scheme.as_mut()));
    };
    run("hash", Box::new(ByHash::new(hasher.clone(), log2_slots, remainder_bits)));
    run("rank", Box::new(ByRank::new(hasher.clone(), log2_slots, remainder_bits)));
    run("quotient_array", Box::new(QuotientArray::new(hasher.clone(), log2_slots, remainder_bits)));
    for (name, haste) in [("cuckoo_array", Haste::Patient), ("hasty_cuckoo_array", Haste::Hasty)] {
        let scheme = CuckooArray::new(hasher.clone(), haste, log2_slots, remainder_bits + 3);
        run(name, Box::new(scheme));
    }
    rows
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    print_rows(&rows(options), options.json, table)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("map"),
        Column::text("op"),
        Column::decimals("count", "", 0),
        Column::decimals("reads", "", 3),
        Column::decimals("writes", "", 3),
        Column::decimals("moved", "", 3),
        Column::decimals("pages", "", 3),
    ];
    rows.iter().fold(Table::default().columns(columns), |table, row| {
        table.row([
            row.map.into(),
            row.op.into(),
            row.count.into(),
            row.reads.into(),
            row.writes.into(),
            row.moved.into(),
            row.pages.into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(log2_slots: u32, remainder_bits: u32) -> Options {
        Options { log2_slots, remainder_bits, load: 0.9, seed: 1, json: true }
    }

    /// The function `rows` checks the maps. The remainders are short, so that miniruns are long.
    #[test]
    fn maps_are_correct_in_all_phases() {
        for (log2_slots, remainder_bits) in [(10, 4), (11, 6), (14, 9)] {
            for row in rows(&options(log2_slots, remainder_bits)) {
                assert!(row.writes >= 1.0 || row.op == "adapt", "{row:?}");
                assert!(row.moved <= row.reads && row.moved <= row.writes, "{row:?}");
                assert!(row.pages >= 1.0, "{row:?}");
            }
        }
    }

    #[test]
    fn only_reverse_maps_in_arrays_move_entries_on_insert() {
        for row in rows(&options(12, 6)).iter().filter(|row| row.op == "insert") {
            let is_array = row.map.ends_with("array");
            assert_eq!(row.reads > 0.0, is_array, "{row:?}");
            assert_eq!(row.moved > 0.0, is_array, "{row:?}");
            assert_eq!(row.writes > 1.0, is_array, "{row:?}");
        }
    }

    /// Table 1 of the `AdaptiveQF`'s paper: 584 829 kicks for 943 718 inserts.
    #[test]
    fn hasty_cuckoo_filter_kicks_as_often_as_in_the_paper() {
        let rows = rows(&options(16, 9));
        let moved =
            |map| rows.iter().find(|row| row.map == map && row.op == "insert").unwrap().moved;
        assert!((0.58..0.66).contains(&moved("hasty_cuckoo_array")));
        assert!((0.31..0.38).contains(&moved("cuckoo_array")));
    }

    #[test]
    #[should_panic(expected = "the keys of the map aren't the members")]
    fn check_detects_a_missing_member() {
        let hasher = KeyedHasher::new(&Secret::from_bytes([5; 16]));
        let mut scheme = QuotientArray::new(hasher, 8, 6);
        scheme.insert(7);
        check("test", &scheme, &[7, 8]);
    }
}
