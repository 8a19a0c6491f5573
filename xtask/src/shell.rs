//! Runs other programs. Every wait has a time limit.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The result of a step: success, or an error message for the user.
pub(crate) type Done = Result<(), String>;

/// The maximum time that a program may take by default.
pub(crate) const LIMIT: Duration = Duration::from_hours(1);

/// The maximum time that a package manager may take.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

const POLL: Duration = Duration::from_millis(50);

/// Whether a step has failed. Steps that run at the same time then stop early.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Stops all running programs, and prevents new ones from starting.
pub(crate) fn stop() {
    IS_STOPPED.store(true, Ordering::Relaxed);
}

/// Waits until a condition holds.
///
/// # Errors
/// If a step fails before, or if it takes too long.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) -> Done {
    let start = Instant::now();
    while !holds() {
        if IS_STOPPED.load(Ordering::Relaxed) {
            return Err(format!("waiting for the {what} was ended, because another step failed"));
        }
        if start.elapsed() > LIMIT {
            return Err(format!("waited {} s for the {what}", LIMIT.as_secs()));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Returns the repository's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").into()
}

/// Returns the folder for logs. Steps that run beside the main steps write there.
pub(crate) fn logs() -> PathBuf {
    root().join("target/xtask")
}

/// Returns a command that runs in the repository's folder. Its builds are not incremental, because
/// most things are built only once, and incremental files take several times the space.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root()).stdin(Stdio::null());
    command.env("CARGO_INCREMENTAL", "0").env_remove("CARGO_TARGET_DIR");
    command
}

/// Returns the command as a person would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Where programs write their output.
#[derive(Clone)]
pub(crate) enum Screen {
    Terminal,
    /// A file, for steps that run beside the main steps.
    Log(PathBuf),
}

impl Screen {
    /// Prints a command and runs it.
    ///
    /// # Errors
    /// If it fails or takes too long.
    pub(crate) fn run(&self, command: Command) -> Done {
        self.run_at_most(LIMIT, command)
    }

    /// Prints a command and runs it, with a given time limit.
    ///
    /// # Errors
    /// If it fails or takes too long.
    pub(crate) fn run_at_most(&self, limit: Duration, command: Command) -> Done {
        self.print(&format!("\n$ {}", line(&command)));
        self.run_quietly(limit, command)
    }

    fn run_quietly(&self, limit: Duration, mut command: Command) -> Done {
        if let Self::Log(path) = self {
            let failed = |error: io::Error| format!("{}: {error}", path.display());
            let log = open(path).map_err(failed)?;
            command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        }
        run_within(limit, command)
    }

    pub(crate) fn print(&self, text: &str) {
        match self {
            Self::Terminal => eprintln!("{text}"),
            // Ignore the error: if the log can't be written, the next command fails.
            Self::Log(path) => drop(open(path).and_then(|mut log| writeln!(log, "{text}"))),
        }
    }
}

/// Opens a log for appending.
fn open(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    File::options().create(true).append(true).open(path)
}

fn run_within(limit: Duration, mut command: Command) -> Done {
    let line = line(&command);
    if IS_STOPPED.load(Ordering::Relaxed) {
        return Err(format!("`{line}` did not start, because another step failed"));
    }
    let child = command.spawn().map_err(|error| format!("`{line}` did not start: {error}"))?;
    let status = wait(child, limit).map_err(|error| format!("`{line}` {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}")) }
}

fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        let reason = match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Err(error) => return Err(format!("was lost: {error}")),
            Ok(None) if start.elapsed() > limit => {
                format!("was ended after {} s", limit.as_secs())
            }
            Ok(None) if IS_STOPPED.load(Ordering::Relaxed) => {
                "was ended, because another step failed".into()
            }
            Ok(None) => {
                thread::sleep(POLL);
                continue;
            }
        };
        end_with_descendants(&mut child);
        return Err(reason);
    }
}

/// Kills a program and its child processes.
fn end_with_descendants(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let mut next = 0;
    while let Some(&parent) = doomed.get(next) {
        doomed.extend(children(parent));
        next += 1;
    }
    let ids: Vec<String> = doomed.iter().map(u32::to_string).collect();
    let _ = Command::new("kill").arg("-KILL").args(&ids).stderr(Stdio::null()).status();
    // This also works on systems without the program `kill`.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the child processes of a process. Returns none on systems without `/proc`.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

/// Returns the parent of a process, from a line `ID (NAME) STATE PARENT …`. The name may contain
/// any characters.
fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Runs a program, and returns whether this succeeds.
pub(crate) fn succeeds(words: &[&str]) -> bool {
    let mut command = command(words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a program, and returns what it prints to its standard output and its standard error.
///
/// # Errors
/// If it fails or takes too long. The error contains what it printed.
pub(crate) fn output(words: &[&str]) -> Result<String, String> {
    output_of(command(words))
}

/// Runs a command, and returns what it prints to its standard output and its standard error.
///
/// # Errors
/// If it fails or takes too long. The error contains what it printed.
pub(crate) fn output_of(command: Command) -> Result<String, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = logs().join(format!("output-{}-{number}", std::process::id()));
    let done = Screen::Log(path.clone()).run_quietly(LIMIT, command);
    let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
    let _ = fs::remove_file(&path);
    done.map_err(|error| format!("{error}\n{text}"))?;
    Ok(text)
}

/// Installs a system package, unless the program in it already works.
pub(crate) fn install(package: &str, works: &[&str]) -> Done {
    if succeeds(works) {
        return Ok(());
    }
    for words in [&["apt-get", "update"][..], &["apt-get", "install", "--yes", package]] {
        let mut command = command(words);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        run_within(INSTALL_LIMIT, command)?;
    }
    Ok(())
}
