//! Tests that signals undo unfinished work.

// The tests need `env` of the GNU core utilities. It sets which signals the program ignores.
#![cfg(target_os = "linux")]

use crate::common::{PATIENCE, Sandbox, lines};
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The running program. If it takes too long, it is killed, so that no test waits forever.
struct Program {
    child: Child,
    /// A channel to the thread that kills the program. It is dropped when the program has ended.
    over: Sender<()>,
}

impl Program {
    /// Starts the program so that it ignores exactly these signals.
    fn start_ignoring(ignored: &str, sandbox: &Sandbox, line: &str) -> Self {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP,TERM").arg(format!("--ignore-signal={ignored}"));
        command.arg(assert_cmd::cargo::cargo_bin!("twiceshy"));
        command.current_dir(sandbox.path("")).args(line.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let (over, is_over) = channel::<()>();
        let id = child.id();
        std::thread::spawn(move || {
            if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                signal(id, "-KILL");
            }
        });
        Self { child, over }
    }

    fn start(sandbox: &Sandbox, line: &str) -> Self {
        Self::start_ignoring("", sandbox, line)
    }

    fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn ended(self) -> Output {
        let output = self.child.wait_with_output().unwrap();
        drop(self.over);
        output
    }

    fn expect_interrupted(self) {
        let output = self.ended();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(130), ""), "{:?}", output.status);
        assert_eq!(output.stdout, b"");
    }
}

fn signal(id: u32, name: &str) {
    let killed = Command::new("kill").args([name, &id.to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Waits until a condition holds. Fails after a minute.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a store or lists are being created in a directory.
fn wait_until_making(sandbox: &Sandbox, name: &str) {
    wait_until("the command has begun", || !hidden(sandbox, name).is_empty());
}

/// Returns the names of the hidden directories in a directory.
fn hidden(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path(name)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// The demo is interrupted while it opens, fills and queries its stores.
#[test]
fn interrupted_demo_removes_its_stores() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let disk = || fs::read_dir(sandbox.path("disk")).unwrap().count();
    for milliseconds in [0, 20, 100, 500, 1500] {
        let line = "demo --keys 100000 --queries 100000000 --directory disk";
        let demo = Program::start(&sandbox, line);
        wait_until("the stores exist", || disk() > 0);
        std::thread::sleep(Duration::from_millis(milliseconds));
        demo.signal("-INT");
        demo.expect_interrupted();
        assert_eq!(disk(), 0, "after {milliseconds} ms");
        assert_eq!(sandbox.names(), ["disk"]);
    }
}

/// The demo would run for days, but it needs little memory.
#[test]
fn demo_with_very_many_queries_starts() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let line = "demo --keys 1000 --queries 1000000000000 --directory disk";
    let mut demo = Program::start(&sandbox, line);
    wait_until("the stores exist", || fs::read_dir(sandbox.path("disk")).unwrap().next().is_some());
    std::thread::sleep(Duration::from_secs(3));
    assert!(demo.is_running(), "the demo still sends queries");
    demo.signal("-INT");
    demo.expect_interrupted();
}

#[test]
fn sigterm_and_sighup_undo_an_import() {
    let sandbox = Sandbox::new();
    for name in ["-TERM", "-HUP"] {
        let mut import = Program::start(&sandbox, "store import new");
        let stdin = import.stdin();
        wait_until_making(&sandbox, "new");
        import.signal(name);
        import.expect_interrupted();
        drop(stdin);
        assert!(sandbox.names().is_empty());
    }
}

/// A command started by `nohup`, or by a script with `&`, ignores some signals.
#[test]
fn each_signal_undoes_an_import_even_if_the_other_signals_are_ignored() {
    let sandbox = Sandbox::new();
    for (ignored, name) in [("INT,HUP", "-TERM"), ("HUP,TERM", "-INT"), ("INT,TERM", "-HUP")] {
        let mut import = Program::start_ignoring(ignored, &sandbox, "store import new");
        let stdin = import.stdin();
        wait_until_making(&sandbox, "new");
        import.signal(name);
        import.expect_interrupted();
        drop(stdin);
        assert!(sandbox.names().is_empty(), "{name}");
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let sandbox = Sandbox::new();
    let mut import = Program::start_ignoring("INT,HUP,TERM", &sandbox, "store import new");
    let mut stdin = import.stdin();
    wait_until_making(&sandbox, "new");
    for name in ["-INT", "-HUP", "-TERM"] {
        import.signal(name);
    }
    stdin.write_all(b"alice\t1\n").unwrap();
    drop(stdin);
    assert_eq!(import.ended().status.code(), Some(0));
    assert_eq!(sandbox.yes("store get new alice"), "1");
}

/// The command is waiting for more lines on standard input when it is interrupted.
#[test]
fn interrupted_import_removes_new_store_and_keeps_existing_one() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs", "alice\t1\n");
    sandbox.yes("store import old pairs");
    fs::create_dir(sandbox.path("empty")).unwrap();
    for store in ["new", "empty", "old"] {
        let mut import = Program::start(&sandbox, &format!("store import {store}"));
        let mut stdin = import.stdin();
        stdin.write_all(lines("key\t", 100_000).as_bytes()).unwrap();
        if store != "old" {
            wait_until_making(&sandbox, store);
        }
        import.signal("-INT");
        import.expect_interrupted();
    }
    assert_eq!(sandbox.names(), ["empty", "old", "pairs"]);
    assert_eq!(fs::read_dir(sandbox.path("empty")).unwrap().count(), 0);
    sandbox.yes("store verify old");
    assert_eq!(sandbox.yes("store get old alice"), "1");
}

#[test]
fn interrupted_list_add_removes_new_lists_and_keeps_existing_ones() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", "alice\n");
    sandbox.yes("list add old --yes keys");
    for lists in ["new", "old"] {
        let mut add = Program::start(&sandbox, &format!("list add {lists} --yes -"));
        let mut stdin = add.stdin();
        stdin.write_all(lines("key", 100_000).as_bytes()).unwrap();
        if lists == "new" {
            wait_until_making(&sandbox, lists);
        }
        add.signal("-INT");
        add.expect_interrupted();
    }
    assert_eq!(sandbox.names(), ["keys", "old"]);
    sandbox.yes("list build --from old -o list");
    sandbox.yes("list verify list --yes keys");
}

#[test]
fn hidden_directories_of_killed_imports_are_removed() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs", "alice\t1\n");
    sandbox.write("keys", "alice\n");
    for (begin, finish) in [
        ("store import new", "store import new pairs"),
        ("list add new --yes -", "list add new --yes keys"),
    ] {
        let mut killed = Program::start(&sandbox, begin);
        let stdin = killed.stdin();
        wait_until_making(&sandbox, "new");
        killed.signal("-KILL");
        killed.ended();
        drop(stdin);
        assert_eq!(hidden(&sandbox, "new").len(), 1);
        sandbox.yes(finish);
        assert!(hidden(&sandbox, "new").is_empty());
        fs::remove_dir_all(sandbox.path("new")).unwrap();
    }
}

#[test]
fn hidden_directories_of_running_imports_stay() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs", "alice\t1\n");
    let mut slow = Program::start(&sandbox, "store import new");
    let stdin = slow.stdin();
    wait_until_making(&sandbox, "new");
    sandbox.yes("store import new pairs");
    sandbox.yes("store put new bob 2");
    assert_eq!(hidden(&sandbox, "new").len(), 1);
    drop(stdin);
    let output = slow.ended();
    assert_eq!(output.status.code(), Some(2), "the other import was faster");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("another process has just created a store or lists here"), "{told}");
    assert!(hidden(&sandbox, "new").is_empty());
    assert_eq!(sandbox.yes("store get new alice"), "1");
}

/// After the interruption, there is a complete filter or none.
#[test]
fn interrupted_build_leaves_no_partial_filter() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 300_000));
    let build = "filter build keys -o new --secret-file secret";
    for milliseconds in (0..200).step_by(10) {
        let build = Program::start(&sandbox, build);
        std::thread::sleep(Duration::from_millis(milliseconds));
        build.signal("-INT");
        build.ended();
        if sandbox.names() != ["keys"] {
            assert_eq!(sandbox.names(), ["keys", "new", "secret"], "after {milliseconds} ms");
            sandbox.yes("filter verify new --keys keys --secret-file secret");
            for name in ["new", "secret"] {
                fs::remove_file(sandbox.path(name)).unwrap();
            }
        }
    }
}

/// Interrupts the export while the file is being written. Tries again if the command was faster
/// than the signal.
#[test]
fn interrupted_export_leaves_no_file() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 300_000));
    sandbox.write("new", "old");
    sandbox.yes("store import store keys --keys-only");
    let is_interrupted = || {
        let mut export = Program::start(&sandbox, "store export store --keys-only -o new");
        while hidden(&sandbox, "").is_empty() && export.is_running() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !export.is_running() {
            return false;
        }
        export.signal("-INT");
        export.ended().status.code() == Some(130)
    };
    assert!((0..20).any(|_| is_interrupted()));
    assert_eq!(sandbox.names(), ["keys", "new", "store"]);
    assert_eq!(sandbox.read("new"), b"old");
    sandbox.yes("store verify store");
}

/// Nobody reads the output, so that the command waits.
#[test]
fn export_that_waits_for_its_reader_can_be_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.write("keys", lines("key", 300_000));
    sandbox.yes("store import store keys --keys-only");
    let mut export = Program::start(&sandbox, "store export store --keys-only");
    // Wait for the first lines.
    export.child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    export.signal("-INT");
    while export.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(export.ended().status.code(), Some(130));
    sandbox.yes("store check store keys");
}
