//! Tests that each error prints one line, returns exit code 2, and creates no files.

use crate::common::{Sandbox, all_fail, lines, prepared};
use predicates::prelude::*;
use std::fs;

#[test]
fn missing_file_is_an_error() {
    let none = "none: No such file or directory";
    all_fail(
        &prepared(),
        &[
            ("filter build none -o new", none),
            ("filter build keys none -o new", none),
            ("filter build keys -o none/new", none),
            ("filter build keys --like none -o new", none),
            ("filter build keys -o keys/new", "keys/new: Not a directory"),
            ("filter check none keys", none),
            ("filter check filter none", none),
            ("filter info none", none),
            ("filter merge filter none -o new", none),
            ("filter merge filter filter -o none/new", none),
            ("filter verify none", none),
            ("filter verify filter --keys none", none),
            ("store import new none", none),
            ("store import store none", none),
            ("store import new pairs none", none),
            ("store export none", none),
            ("store export none -o new", none),
            ("store export store -o none/new", none),
            ("store get none alice", none),
            ("store put new alice --from none", none),
            ("store delete none alice", none),
            ("store check none keys", none),
            ("store check store none", none),
            ("store stats none", none),
            ("store verify none", none),
            ("store rebuild none", none),
        ],
    );
}

#[test]
fn directory_instead_of_file_is_an_error() {
    let folder = "folder: Is a directory";
    all_fail(
        &prepared(),
        &[
            ("filter build folder -o new", folder),
            ("filter build keys -o folder", "folder: this is a directory"),
            ("filter build keys --secret-file folder -o new", folder),
            ("filter check folder keys", folder),
            ("filter check filter folder", folder),
            ("filter info folder", folder),
            ("filter merge filter folder -o new", folder),
            ("filter verify folder", folder),
            ("store import new folder", folder),
            ("store put new alice --from folder", folder),
            ("store check store folder", folder),
        ],
    );
}

#[test]
fn path_that_is_not_a_store_is_refused_and_unchanged() {
    let sandbox = prepared();
    let folder = "folder: this is not a store; create one with `twiceshy store import`";
    let keys = "keys: this is not a directory";
    all_fail(
        &sandbox,
        &[
            ("store export folder -o new", folder),
            ("store get folder alice", folder),
            ("store delete folder alice", folder),
            ("store check folder keys", folder),
            ("store stats folder", folder),
            ("store verify folder", folder),
            ("store rebuild folder", folder),
            ("store get keys alice", keys),
            ("store stats keys", keys),
            ("store put none/new alice 1", "none/new: No such file"),
            ("store put keys alice 1", "keys: Not a directory"),
            ("store import keys pairs", "keys: Not a directory"),
        ],
    );
    assert!(fs::read_dir(sandbox.path("folder")).unwrap().next().is_none());
    fs::write(sandbox.path("folder/letter"), "dear").unwrap();
    sandbox.fails(
        "store import folder pairs",
        "",
        "folder: this directory is neither a store nor empty",
    );
    sandbox.fails(
        "store put folder alice 1",
        "",
        "folder: this directory is neither a store nor empty",
    );
    assert_eq!(fs::read_dir(sandbox.path("folder")).unwrap().count(), 1);
}

#[test]
fn directories_of_other_kinds_are_refused_and_unchanged() {
    let sandbox = prepared();
    sandbox.yes("list add lists --yes keys");
    for directory in ["folder", "store", "lists"] {
        fs::write(sandbox.path(directory).join("filter-notes.snapshot"), "mine").unwrap();
    }
    all_fail(
        &sandbox,
        &[
            (
                "list add folder --yes keys",
                "folder: this directory is neither a directory of lists nor empty",
            ),
            ("store put folder x 1", "folder: this directory is neither a store nor empty"),
            ("list add store --yes keys", "store: this is a store of keys and values"),
            ("list remove store --yes keys", "store: this is a store of keys and values"),
            ("store put lists x 1", "lists: this is a yes list and a no list"),
            ("store get lists x", "lists: this is a yes list and a no list"),
        ],
    );
    sandbox.yes("store put store x 1");
    sandbox.yes("store rebuild store");
    sandbox.expect("list add lists --yes -", "x\n", 0);
    for directory in ["folder", "store", "lists"] {
        assert_eq!(sandbox.read(&format!("{directory}/filter-notes.snapshot")), b"mine");
    }
}

#[test]
fn every_flipped_byte_of_filter_is_detected() {
    let sandbox = prepared();
    let good = sandbox.read("filter");
    let commands = [
        "filter check bad keys",
        "filter info bad",
        "filter verify bad",
        "filter verify bad --keys keys",
        "filter merge filter bad -o new",
        "filter build keys --like bad -o new",
    ];
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 4;
        sandbox.write("bad", bad);
        let line = commands[byte % commands.len()];
        sandbox.fails(line, "", "bad: ");
    }
    let lines: Vec<_> = commands.iter().map(|line| (*line, "bad: ")).collect();
    let longer = [&good[..], b"x"].concat();
    for bad in [&b""[..], b"alice\nbob\n", &good[..100], &good[..good.len() - 1], &longer] {
        sandbox.write("bad", bad);
        all_fail(&sandbox, &lines);
    }
    fs::copy(saved_filter(&sandbox), sandbox.path("bad")).unwrap();
    sandbox.fails("filter info bad", "", "bad: this is a snapshot of a concurrent quotient filter");
}

/// Returns the path of the store's saved filter.
fn saved_filter(sandbox: &Sandbox) -> std::path::PathBuf {
    let files = fs::read_dir(sandbox.path("store")).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.is_file()).unwrap()
}

#[test]
fn damaged_filter_of_store_is_rebuilt() {
    let sandbox = prepared();
    let path = saved_filter(&sandbox);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    sandbox.yes("store check store keys");
    sandbox.yes("store verify store");
}

#[test]
fn error_names_line_that_is_not_utf8() {
    let sandbox = prepared();
    let latin = "latin: line 3 is not UTF-8";
    all_fail(
        &sandbox,
        &[
            ("filter build latin -o new", latin),
            ("filter check filter latin --count", latin),
            ("filter verify filter --keys latin", latin),
            ("store import new latin --keys-only", latin),
            ("store import store latin --keys-only", latin),
            ("store check store latin", latin),
        ],
    );
    sandbox.fails("filter build -o new", b"\xff", "standard input: line 1 is not UTF-8");
    assert_eq!(sandbox.run("store stats store --json").json()["members"], 3);
    sandbox.yes("filter build latin -o new --bytes");
}

#[test]
fn error_names_line_without_separator() {
    let sandbox = prepared();
    sandbox.write("bad", "dave\t4\nerin\n");
    let bad = "bad: line 2 has no separator";
    all_fail(&sandbox, &[("store import new bad", bad), ("store import store bad", bad)]);
    let stdin = "dave\t4\nerin\n";
    sandbox.fails("store import new", stdin, "standard input: line 2 has no separator");
    assert!(!sandbox.path("new").exists());
    sandbox.fails("store import folder", stdin, "standard input: line 2 has no separator");
    assert!(fs::read_dir(sandbox.path("folder")).unwrap().next().is_none());
    let many = format!("{}end\n", lines("key\t", 100_000));
    sandbox.fails("store import store", many, "pairs before this error: standard input");
    sandbox.fails(
        "store import store",
        stdin,
        "imported 1 pairs before this error: standard input",
    );
    assert_eq!(sandbox.yes("store get store dave"), "4");
    let latin = b"frank\t5\ngrace\t6\n\xff\t7\n";
    sandbox.fails(
        "store import store",
        latin,
        "imported 2 pairs before this error: standard input",
    );
    assert_eq!(sandbox.yes("store get store grace"), "6");
    sandbox.fails("store import new - --separator=", "", "--separator must not be empty");
    sandbox.yes("store verify store");
}

#[test]
fn impossible_rate_is_an_error() {
    let mut cases = Vec::new();
    for rate in ["0", "1", "2", "-0.5", "1e-30", "nan", "inf"] {
        cases.push(format!("filter build keys -o new --rate {rate}"));
        cases.push(format!("store import new pairs --rate {rate}"));
        cases.push(format!("store rebuild store --rate {rate}"));
    }
    let cases: Vec<_> = cases.iter().map(|line| (line.as_str(), "is impossible")).collect();
    all_fail(&prepared(), &cases);
    let sandbox = prepared();
    let huge = format!("filter build keys -o new --capacity {}", u64::MAX);
    sandbox.fails(&huge, "", "a capacity of 18446744073709551615 is impossible");
}

/// The store writes more than 2^18 pairs in several steps, so an error could come after the first
/// step.
#[test]
fn overlong_key_in_a_file_is_reported_before_anything_is_written() {
    let sandbox = prepared();
    let pairs = lines("key", 300_000).replace('\n', "\tvalue\n");
    let pairs = format!("{pairs}{}\t1\n", "x".repeat(1 << 16));
    sandbox.write("long", &pairs);
    let reason = "long: line 300001: a key of 65536 bytes is too long";
    all_fail(&sandbox, &[("store import new long", reason), ("store import store long", reason)]);
    assert_eq!(sandbox.run("store stats store --json").json()["members"], 3);
    let reason =
        "imported 300000 pairs before this error: standard input: line 300001: a key of 65536";
    sandbox.fails("store import store", &pairs, reason);
    assert_eq!(sandbox.run("store stats store --json").json()["members"], 300_003);
}

#[test]
fn damaged_compressed_file_is_an_error() {
    use std::io::Write as _;
    let sandbox = prepared();
    let text = lines("key", 10_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    // Add a checksum, as the program `zstd` does.
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(text.as_bytes()).unwrap();
    let zstd = zstd.finish().unwrap();
    for whole in [gzip, zstd] {
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x10;
        for bad in [&whole[..whole.len() / 2], &flipped[..]] {
            sandbox.write("bad", bad);
            all_fail(&sandbox, &[("filter build bad -o new", "bad: ")]);
            sandbox.fails("filter check filter - --count", bad, "standard input: ");
        }
    }
}

#[test]
fn unwritable_output_is_an_error_before_anything_is_read() {
    let reason = "/proc/new: ";
    all_fail(
        &prepared(),
        &[
            ("filter build none -o /proc/new", reason),
            ("list build --yes none -o /proc/new", reason),
            ("store export none -o /proc/new", reason),
            ("demo --directory none --out /proc/new", reason),
        ],
    );
}

#[test]
fn standard_input_cannot_be_given_twice() {
    let reason = "standard input can be read only once";
    all_fail(&prepared(), &[("filter build - - -o new", reason), ("store import new - -", reason)]);
}

#[test]
fn dash_is_not_accepted_as_output() {
    let reason = "-: use /dev/stdout for standard output";
    let cases = [
        "filter build keys -o -",
        "filter merge filter filter -o -",
        "store export store -o -",
        "demo --out -",
    ];
    all_fail(&prepared(), &cases.map(|line| (line, reason)));
}

#[test]
fn opening_a_store_that_is_already_open_is_an_error() {
    let sandbox = prepared();
    let store = twiceshy_store::OpenOptions::new().open(sandbox.path("store")).unwrap();
    all_fail(
        &sandbox,
        &[
            ("store get store alice", "is already open"),
            ("store import store pairs", "is already open"),
            ("store put store x 1", "is already open"),
        ],
    );
    drop(store);
    sandbox.yes("store get store alice");
}

#[test]
fn wrong_arguments_are_explained() {
    all_fail(
        &prepared(),
        &[
            ("nonsense", "unrecognized subcommand 'nonsense'; see --help"),
            ("filter build keys", "not provided: --output <FILTER>; see --help"),
            ("filter build keys -o new --rate often", "'often' for '--rate <RATE>'"),
            ("filter merge filter -o new", "2 values required"),
            ("store put store x", "not provided: <VALUE>"),
        ],
    );
}

#[test]
fn incomplete_command_prints_usage() {
    let sandbox = Sandbox::new();
    for line in ["", "filter", "store"] {
        let usage = predicate::str::contains("Usage: twiceshy");
        sandbox.command(line).assert().code(2).stdout("").stderr(usage);
    }
}
