//! Disks and pipes that take no more.

#![cfg(target_os = "linux")]

mod common;

use common::{all_fail, failed, lines, prepared};
use std::fs;

#[test]
fn an_output_that_is_full() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 100_000));
    for line in [
        "filter build keys -o new",
        "filter check filter keys",
        "filter check filter many",
        "filter info filter",
        "filter merge filter filter -o new",
        "filter verify filter",
        "store import store pairs",
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

#[test]
fn a_device_that_is_full() {
    let sandbox = prepared();
    // By a link: if it should ever be replaced, it isn't the device.
    std::os::unix::fs::symlink("/dev/full", sandbox.path("full")).unwrap();
    let full = "full: No space left on device";
    all_fail(
        &sandbox,
        &[
            ("filter build keys -o full", full),
            ("filter build keys -o full --secret-file new", full),
            ("filter merge filter filter -o full", full),
            ("demo --keys 1000 --queries 1000 --out full", full),
        ],
    );
    assert!(sandbox.path("full").is_symlink());
}

/// Files that may not grow are as good as a disk that is full, and need no rights.
#[test]
fn a_disk_that_is_full() {
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

#[test]
fn a_reader_that_has_had_enough() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 1_000_000));
    let run = sandbox.shell("{ $T filter check filter many; echo $? > code; } | head -n 1");
    assert_eq!((run.stdout.len(), run.stderr.as_str()), ("absent\tkey0\n".len(), ""));
    assert_eq!(sandbox.read("code"), b"0\n");
}
