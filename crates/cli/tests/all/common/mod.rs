//! Creates a directory for each test, and runs the program in it.

#![allow(dead_code, reason = "each test file uses a part of this module")]

use assert_cmd::Command;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The maximum time that a program may run.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) struct Sandbox {
    directory: TempDir,
}

/// The program's output and exit code.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).expect("JSON")
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns the names of all files, including hidden ones.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(name).map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = assert_cmd::cargo_bin_cmd!("twiceshy");
        command.current_dir(self.directory.path()).args(line.split_whitespace());
        command.env_remove("CLICOLOR_FORCE");
        command
    }

    /// Runs the program with these words as arguments.
    pub(crate) fn run(&self, line: &str) -> Run {
        self.run_with(line, "")
    }

    /// Runs the program with these words as arguments and this standard input.
    pub(crate) fn run_with(&self, line: &str, stdin: impl AsRef<[u8]>) -> Run {
        finished(self.command(line).write_stdin(stdin.as_ref()))
    }

    /// Runs the program, and expects exit code 0. Returns the output.
    pub(crate) fn yes(&self, line: &str) -> String {
        self.expect(line, "", 0)
    }

    /// Runs the program, and expects exit code 1. Returns the output.
    pub(crate) fn no(&self, line: &str) -> String {
        self.expect(line, "", 1)
    }

    pub(crate) fn expect(&self, line: &str, stdin: impl AsRef<[u8]>, code: i32) -> String {
        let run = self.run_with(line, stdin);
        assert_eq!((run.code, run.stderr.as_str()), (code, ""), "twiceshy {line}");
        run.text().into()
    }

    /// Runs the program, and expects exit code 2 and one line of error message that contains
    /// `reason`.
    pub(crate) fn fails(&self, line: &str, stdin: impl AsRef<[u8]>, reason: &str) {
        let run = self.run_with(line, stdin);
        failed(&run, line, reason);
        assert_eq!(run.stdout, b"", "twiceshy {line}");
    }

    /// Runs a shell command in which `$T` is the program.
    pub(crate) fn shell(&self, line: &str) -> Run {
        // `timeout` kills all processes of the command, so that none of them keeps the output open.
        let mut shell = Command::new("timeout");
        let seconds = PATIENCE.as_secs().to_string();
        shell.current_dir(self.directory.path()).args([
            "--signal=KILL",
            &seconds,
            "sh",
            "-c",
            line,
        ]);
        shell.env("T", assert_cmd::cargo::cargo_bin!("twiceshy"));
        shell.env_remove("RUST_BACKTRACE");
        finished(&mut shell)
    }
}

/// Checks that a run failed, and that it printed one line that contains `reason`.
pub(crate) fn failed(run: &Run, line: &str, reason: &str) {
    assert_eq!(run.code, 2, "{line}: {}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{line}: {}", run.stderr);
    assert!(run.stderr.starts_with("twiceshy: "), "{line}: {}", run.stderr);
    assert!(run.stderr.contains(reason), "{line}: {}", run.stderr);
}

fn finished(command: &mut Command) -> Run {
    let output = command.timeout(2 * PATIENCE).output().unwrap();
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Returns `count` distinct lines that begin with `prefix`.
pub(crate) fn lines(prefix: &str, count: usize) -> String {
    (0..count).map(|number| format!("{prefix}{number}\n")).collect::<Vec<_>>().concat()
}

/// Creates a filter and a store with three keys each, and files that cause errors.
pub(crate) fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("keys", "alice\nbob\ncarol\n");
    sandbox.write("pairs", "alice\t1\nbob\t2\ncarol\t3\n");
    sandbox.write("latin", b"alice\nbob\ncaf\xe9\t4\n");
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.yes("filter build keys -o filter");
    sandbox.yes("store import store pairs");
    sandbox
}

/// Checks that these commands fail and create no files.
pub(crate) fn all_fail(sandbox: &Sandbox, cases: &[(&str, &str)]) {
    let before = sandbox.names();
    for (line, reason) in cases {
        sandbox.fails(line, "", reason);
        assert_eq!(sandbox.names(), before, "twiceshy {line}");
    }
}
