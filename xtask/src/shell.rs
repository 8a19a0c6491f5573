//! Runs other programs. No wait is without a bound.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Success, or an error message for a person.
pub(crate) type Done = Result<(), String>;

/// The longest that a program may take, unless its caller says how long it takes.
pub(crate) const LIMIT: Duration = Duration::from_hours(1);

/// The longest that a package manager may take.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

const POLL: Duration = Duration::from_millis(50);

/// Set when something has failed, so that what runs beside it stops early.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Makes all programs that are running stop, and no others start.
pub(crate) fn stop() {
    IS_STOPPED.store(true, Ordering::Relaxed);
}

/// Returns the repository's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").into()
}

/// Returns the folder of the logs of steps that run beside others.
pub(crate) fn logs() -> PathBuf {
    root().join("target/xtask")
}

/// Returns a command that runs in the repository's folder. Builds are not incremental, because
/// most of them are built once, and incremental files take several times the space.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root()).stdin(Stdio::null());
    command.env("CARGO_INCREMENTAL", "0").env_remove("CARGO_TARGET_DIR");
    command
}

/// Returns the line that a person would type.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Where programs write to.
#[derive(Clone)]
pub(crate) enum Screen {
    Terminal,
    /// A file, for steps that run beside others.
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

    /// Prints a command and runs it, with a limit of its own.
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
            // A log that can't be written fails the next command.
            Self::Log(path) => drop(open(path).and_then(|mut log| writeln!(log, "{text}"))),
        }
    }
}

/// Opens a log to write at its end.
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

/// Kills a program, and what it has started and not waited for.
fn end_with_descendants(child: &mut Child) {
    let mut doomed = vec![child.id()];
    let mut next = 0;
    while let Some(&parent) = doomed.get(next) {
        doomed.extend(children(parent));
        next += 1;
    }
    let ids: Vec<String> = doomed.iter().map(u32::to_string).collect();
    let _ = Command::new("kill").arg("-KILL").args(&ids).stderr(Stdio::null()).status();
    // Also where there is no `kill`.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the processes that a process has started, where `/proc` lists them.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

/// Reads `ID (NAME) STATE PARENT …`. The name may contain anything.
fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns whether a program can be run and succeeds.
pub(crate) fn succeeds(words: &[&str]) -> bool {
    let mut command = command(words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns what a program prints, on its standard output and its standard error.
///
/// # Errors
/// If it fails or takes too long; with what it printed.
pub(crate) fn output(words: &[&str]) -> Result<String, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = logs().join(format!("output-{}-{number}", std::process::id()));
    let done = Screen::Log(path.clone()).run_quietly(LIMIT, command(words));
    let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
    let _ = fs::remove_file(&path);
    done.map_err(|error| format!("{error}\n{text}"))?;
    Ok(text)
}

/// Installs a system package, unless the program that it provides works already.
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
