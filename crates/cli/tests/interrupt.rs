//! Ctrl-C leaves nothing half done.

#![cfg(unix)]

mod common;

use common::{Sandbox, lines};
use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn start(sandbox: &Sandbox, line: &str) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("twiceshy"));
    command.current_dir(sandbox.path("")).args(line.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until it is so, but not for ever.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn interrupt(child: &Child) {
    signal(child, "-INT");
}

fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

fn expect_interrupted(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(130), ""), "{:?}", output.status);
    assert_eq!(output.stdout, b"");
}

/// At several moments: while stores are opened, filled, and asked.
#[test]
fn a_demo_removes_its_stores() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let disk = || fs::read_dir(sandbox.path("disk")).unwrap().count();
    for milliseconds in [0, 20, 100, 500, 1500] {
        let child = start(&sandbox, "demo --keys 100000 --queries 100000000 --directory disk");
        wait_until("the stores are there", || disk() > 0);
        std::thread::sleep(Duration::from_millis(milliseconds));
        interrupt(&child);
        expect_interrupted(&child.wait_with_output().unwrap());
        assert_eq!(disk(), 0, "after {milliseconds} ms");
        assert_eq!(sandbox.names(), ["disk"]);
    }
}

/// It would take days, but not much memory.
#[test]
fn a_demo_of_very_many_queries_begins() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let line = "demo --keys 1000 --queries 1000000000000 --directory disk";
    let mut child = start(&sandbox, line);
    wait_until("the stores are there", || {
        fs::read_dir(sandbox.path("disk")).unwrap().next().is_some()
    });
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none(), "it is still asking");
    interrupt(&child);
    expect_interrupted(&child.wait_with_output().unwrap());
}

#[test]
fn who_is_told_to_end_or_loses_the_terminal_tidies_up_as_well() {
    let sandbox = Sandbox::new();
    for name in ["-TERM", "-HUP"] {
        let mut child = start(&sandbox, "store import new");
        let stdin = child.stdin.take().unwrap();
        wait_until("it has begun", || sandbox.path("new").exists());
        signal(&child, name);
        expect_interrupted(&child.wait_with_output().unwrap());
        drop(stdin);
        assert!(sandbox.names().is_empty());
    }
}

/// More may come on the standard input, so it isn't done.
#[test]
fn a_store_that_is_being_made_is_gone_and_another_stays() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs", "alice\t1\n");
    sandbox.yes("store import old pairs");
    fs::create_dir(sandbox.path("empty")).unwrap();
    for (store, is_begun) in [("new", true), ("empty", true), ("old", false)] {
        let mut child = start(&sandbox, &format!("store import {store}"));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines("key\t", 100_000).as_bytes()).unwrap();
        let path = sandbox.path(store);
        let is_making = || fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
        wait_until("it has begun", || !is_begun || is_making());
        interrupt(&child);
        expect_interrupted(&child.wait_with_output().unwrap());
    }
    assert_eq!(sandbox.names(), ["empty", "old", "pairs"]);
    assert_eq!(fs::read_dir(sandbox.path("empty")).unwrap().count(), 0);
    sandbox.yes("store verify old");
    assert_eq!(sandbox.yes("store get old alice"), "1");
}

/// There is a whole filter, or none.
#[test]
fn a_filter_is_never_half_written() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 300_000));
    let build = "filter build keys -o new --secret-file secret";
    for milliseconds in (0..200).step_by(10) {
        let child = start(&sandbox, build);
        std::thread::sleep(Duration::from_millis(milliseconds));
        interrupt(&child);
        child.wait_with_output().unwrap();
        if sandbox.names() != ["keys"] {
            assert_eq!(sandbox.names(), ["keys", "new", "secret"], "after {milliseconds} ms");
            sandbox.yes("filter verify new --keys keys --secret-file secret");
            for name in ["new", "secret"] {
                fs::remove_file(sandbox.path(name)).unwrap();
            }
        }
    }
}
