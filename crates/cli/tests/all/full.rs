//! Tests full disks and closed pipes.

#![cfg(target_os = "linux")]

use crate::common::{all_fail, failed, lines, prepared};
use std::fs;

#[test]
fn full_standard_output_is_an_error() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 100_000));
    for line in [
        "--help",
        "store put --help",
        "--version",
        "filter build keys -o new",
        "filter check filter keys",
        "filter check filter many",
        "filter info filter",
        "filter merge filter filter -o new",
        "filter verify filter",
        "store import store pairs",
        "store export store",
        "store export store -o new",
        "store get store alice",
        "store delete store mallory --json",
        "store check store keys",
        "store check store many --missing",
        "store stats store",
        "store verify store",
        "store rebuild store",
        "completions bash",
        "demo --keys 1000 --queries 1000 --out page.html",
    ] {
        let run = sandbox.shell(&format!("$T {line} > /dev/full"));
        failed(&run, line, "standard output: No space left on device");
    }
    sandbox.yes("store verify store");
}

/// The reader of the output stops after the first line, long before the last key.
#[test]
fn delete_deletes_all_keys_even_if_output_is_closed() {
    let sandbox = prepared();
    let run = sandbox.shell(
        "$T store delete store $(seq 10000) alice --json | head -n 1; $T store get store alice",
    );
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
}

#[test]
fn full_device_is_an_error() {
    let sandbox = prepared();
    // Write through a link. If a bug replaced the output file, it would replace the link and not
    // the device.
    std::os::unix::fs::symlink("/dev/full", sandbox.path("full")).unwrap();
    let full = "full: No space left on device";
    all_fail(
        &sandbox,
        &[
            ("filter build keys -o full", full),
            ("filter build keys -o full --secret-file new", full),
            ("filter merge filter filter -o full", full),
            ("store export store -o full", full),
            ("demo --keys 1000 --queries 1000 --out full", full),
        ],
    );
    assert!(sandbox.path("full").is_symlink());
}

/// A limit on the file size acts like a full disk, and needs no privileges.
#[test]
fn full_disk_is_an_error() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 100_000));
    let (before, filter) = (sandbox.names(), sandbox.read("filter"));
    for line in [
        "filter build many -o new",
        "filter build many -o filter",
        "filter build many -o new --secret-file new.secret",
        "store import new many --keys-only",
        "store import folder many --keys-only",
        "store put new alice 1",
    ] {
        let run = sandbox.shell(&format!("trap '' XFSZ; ulimit -f 8; $T {line}"));
        failed(&run, line, "File too large");
        assert_eq!(run.stdout, b"");
        assert_eq!(sandbox.names(), before, "{line}");
    }
    assert_eq!(sandbox.read("filter"), filter);
    assert!(fs::read_dir(sandbox.path("folder")).unwrap().next().is_none());
    sandbox.shell("trap '' XFSZ; ulimit -f 8; $T store import store many --keys-only");
    sandbox.yes("store verify store");
    sandbox.yes("store check store keys");
}

/// The limit on the file size stops only the filter's file, which is larger than the engine's
/// files.
#[test]
fn failure_to_save_filter_is_only_a_warning() {
    let sandbox = prepared();
    sandbox.yes("list add lists --yes keys");
    sandbox.write("other", "dave\n");
    let full = "trap '' XFSZ; ulimit -f 8;";
    for (line, code, answer) in [
        ("store put store dave 4", 0, ""),
        ("store get store dave", 0, "4"),
        ("store get store mallory", 1, ""),
        ("store export store --keys-only", 0, "alice\n"),
        ("store delete store dave", 0, ""),
        ("store delete store dave", 1, ""),
        ("store check store keys --present", 0, "alice\nbob\ncarol\n"),
        ("store check store other --missing", 1, "dave\n"),
        ("store verify store --json", 0, "\"valid\":true"),
        ("store stats store --json", 0, "\"members\":3"),
        ("store rebuild store --json", 0, "\"members\":3"),
        ("store import store pairs --json", 0, "\"members\":3"),
        ("list add lists --no other --json", 0, "\"no_keys\":1"),
        ("list remove lists --yes other --json", 1, "\"missing\":1"),
    ] {
        let run = sandbox.shell(&format!("{full} $T {line}"));
        assert_eq!(run.code, code, "{line}: {}", run.stderr);
        assert!(run.text().contains(answer), "{line}: {}", run.text());
        assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
        let name = line.split(' ').nth(2).unwrap();
        let warning = format!("twiceshy: warning: {name}: all data is safe, but the filter");
        assert!(run.stderr.starts_with(&warning), "{line}: {}", run.stderr);
        assert!(run.stderr.contains("File too large"), "{line}: {}", run.stderr);
    }
    let run = sandbox.shell(&format!("{full} $T store get store alice 2>&1"));
    assert!(run.text().starts_with("1twiceshy: warning: "), "the answer comes first");
    sandbox.yes("store verify store");
    sandbox.yes("list build --from lists -o list");
    sandbox.yes("list verify list --yes keys --no other");
}

#[test]
fn closed_pipe_is_not_an_error() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 1_000_000));
    let run = sandbox.shell("{ $T filter check filter many; echo $? > code; } | head -n 1");
    assert_eq!((run.stdout.len(), run.stderr.as_str()), ("absent\tkey0\n".len(), ""));
    assert_eq!(sandbox.read("code"), b"0\n");
}
