//! Tests commands with too little memory.

#![cfg(target_os = "linux")]

use crate::common::{lines, prepared};

/// Each limit makes the program run out of memory at a different point, for example when it starts
/// a thread.
#[test]
fn commands_that_run_out_of_memory_fail_with_a_message() {
    let sandbox = prepared();
    sandbox.write("many", lines("key", 50_000));
    sandbox.yes("store import large many --keys-only");
    let mut failures = 0;
    for line in [
        "filter build many -o new",
        "filter check filter many --count",
        "list build --yes many -o new.list",
        "list add new.lists --yes many",
        "store import new.store many --keys-only",
        "store put store alice 2",
        "store get large key7",
        "store rebuild large",
        "demo --keys 1000 --queries 1000 --directory folder",
    ] {
        for kilobytes in [11_000, 13_000, 16_000, 20_000, 25_000, 35_000, 100_000] {
            let start = format!("ulimit -v {kilobytes}; $T --version > version || exit 100");
            let run = sandbox.shell(&format!("{start}; $T {line}"));
            if run.code == 100 {
                continue; // Too little memory to load the program.
            }
            assert!(run.code <= 2, "{line}: {} {}", run.code, run.stderr);
            assert_eq!(run.code == 2, !run.stderr.is_empty(), "{line}: {}", run.stderr);
            failures += u64::from(run.code == 2);
            sandbox.shell("rm -rf new new.list new.lists new.store");
        }
    }
    assert!(failures > 0);
    sandbox.yes("store verify store");
    sandbox.yes("store verify large");
}

#[test]
fn error_names_line_that_needs_too_much_memory() {
    let sandbox = prepared();
    let line = "{ ulimit -v 200000; $T filter build -o new; }";
    let run = sandbox.shell(&format!("yes | tr -d '\\n' | head -c 300000000 | {line}"));
    crate::common::failed(&run, line, "standard input: line 1: memory allocation failed");
}

#[test]
fn capacity_that_needs_too_much_memory_is_an_error() {
    let sandbox = prepared();
    let before = sandbox.names();
    for line in [
        "filter build keys -o new --capacity 10000000000",
        "store import new pairs --capacity 10000000000",
        "store rebuild store --capacity 10000000000",
    ] {
        let run = sandbox.shell(&format!("ulimit -v 1000000; $T {line}"));
        crate::common::failed(&run, line, "memory");
        assert_eq!(sandbox.names(), before, "{line}");
    }
    sandbox.yes("store verify store");
}
