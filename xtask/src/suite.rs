//! Builds the programs that contain the tests, and runs them two at a time. While the
//! tests of one program wait for the disk, those of the other one use the processor.

use crate::shell::{Done, Screen, command, logs, output_of};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// The number of programs that run at the same time.
const AT_ONCE: usize = 2;

/// The slowest tests, as a package's folder, a program and a part of the tests' names. They start
/// first, in processes of their own, so that none of them runs alone at the end.
const SLOWEST: [(&str, &str, &str); 3] = [
    ("crates/twiceshy", "all", "promises::"),
    ("crates/store", "all", "faults::"),
    ("crates/twiceshy", "all", "snapshot::flipped::"),
];

/// A program that contains tests.
struct Program {
    /// The folder of the package. The tests run there.
    folder: PathBuf,
    target: String,
    path: String,
}

/// A process: some tests of a program.
struct Part<'a> {
    program: &'a Program,
    options: Vec<&'a str>,
}

pub(crate) fn build(screen: &Screen) -> Done {
    let mut build = cargo_test();
    build.arg("--no-run");
    screen.run(build)
}

/// Runs the tests in the documentation.
pub(crate) fn run_examples(screen: &Screen) -> Done {
    let mut tests = cargo_test();
    tests.arg("--doc");
    screen.run(tests)
}

fn cargo_test() -> Command {
    command(&["cargo", "test", "--workspace", "--all-features"])
}

/// Runs all tests that are already built, except those in the documentation. Prints one line for
/// each process that succeeds.
///
/// # Errors
/// The output of the first process that fails. No process starts after that.
pub(crate) fn run_built(screen: &Screen) -> Done {
    let programs = programs(screen)?;
    let parts = parts(&programs);
    screen.print(&format!("{} processes, {AT_ONCE} at a time", parts.len()));
    let queue = Mutex::new(parts.iter());
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(part) = next else { return };
                    if let Err(error) = part.run(screen) {
                        // Empties the queue, so that no other process starts.
                        queue
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .by_ref()
                            .for_each(drop);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Returns all programs that `cargo test` would run.
fn programs(screen: &Screen) -> Result<Vec<Program>, String> {
    let list = logs().join("test-programs.json");
    let failed = |error: io::Error| format!("{}: {error}", list.display());
    fs::create_dir_all(logs()).map_err(failed)?;
    let mut cargo = cargo_test();
    cargo.args(["--no-run", "--quiet", "--message-format=json"]);
    cargo.stdout(File::create(&list).map_err(failed)?);
    screen.run(cargo)?;
    let programs: Vec<Program> =
        fs::read_to_string(&list).map_err(failed)?.lines().filter_map(Program::parse).collect();
    if programs.is_empty() {
        return Err(format!("cargo listed no tests in {}", list.display()));
    }
    Ok(programs)
}

/// Divides the tests into processes, the slowest first.
fn parts(programs: &[Program]) -> Vec<Part<'_>> {
    let slowest = SLOWEST.iter().flat_map(|slow| {
        let found = programs.iter().filter(|program| program.contains(slow));
        found.map(|program| Part { program, options: vec![slow.2] })
    });
    let others = programs.iter().map(|program| {
        let slow = SLOWEST.iter().filter(|slow| program.contains(slow));
        Part { program, options: slow.flat_map(|slow| ["--skip", slow.2]).collect() }
    });
    slowest.chain(others).collect()
}

impl Program {
    /// Reads a message of cargo, which is one line of JSON. Returns `None` if the message is not
    /// about a program with tests.
    fn parse(message: &str) -> Option<Self> {
        let (_, profile) = message.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        let (_, target) = message.split_once("\"target\":{")?;
        let manifest = PathBuf::from(text(message, "manifest_path")?);
        profile.contains("\"test\":true").then_some(())?;
        Some(Self {
            folder: manifest.parent()?.into(),
            target: text(target, "name")?,
            path: text(message, "executable")?,
        })
    }

    fn contains(&self, (folder, target, _): &(&str, &str, &str)) -> bool {
        self.folder.ends_with(folder) && self.target == *target
    }
}

/// Returns the text with a given name in a JSON object, or `None` if it is `null` or absent.
fn text(json: &str, name: &str) -> Option<String> {
    let (_, text) = json.split_once(&format!("\"{name}\":\""))?;
    let (text, _) = text.split_once('"')?;
    Some(text.replace("\\\\", "\\"))
}

impl Part<'_> {
    fn run(&self, screen: &Screen) -> Done {
        let Program { folder, target, path } = self.program;
        let mut tests = command(&[path]);
        tests.args(&self.options).current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        let start = Instant::now();
        let printed = output_of(tests).map_err(|error| only_failures(&error))?;
        let seconds = start.elapsed().as_secs_f64();
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{package} {target} {}", self.options.join(" "));
        let result = printed.lines().rfind(|line| line.starts_with("test result: "));
        let result = result.map_or("ok", |line| line.trim_start_matches("test result: "));
        let result = result.split("; 0 measured").next().unwrap_or(result);
        screen.print(&format!("{name:<60} {seconds:>4.0} s  {result}"));
        Ok(())
    }
}

/// Removes the names of tests that succeeded.
fn only_failures(printed: &str) -> String {
    let is_success = |line: &str| line.starts_with("test ") && line.ends_with(" ... ok");
    printed.lines().filter(|line| !is_success(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///t#a@0.1.0","manifest_path":"/t/crates/store/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"all","src_path":"/t/crates/store/tests/all/main.rs","test":true},"profile":{"opt_level":"3","test":true},"features":[],"filenames":["/t/all-1"],"executable":"/t/all-1","fresh":true}"#;

    #[test]
    fn test_program_is_read_from_a_message() {
        let program = Program::parse(MESSAGE).unwrap();
        assert_eq!(program.folder, Path::new("/t/crates/store"));
        assert_eq!((program.target.as_str(), program.path.as_str()), ("all", "/t/all-1"));
    }

    #[test]
    fn message_about_a_library_is_ignored() {
        let library = MESSAGE.replace(r#""executable":"/t/all-1""#, r#""executable":null"#);
        assert!(Program::parse(&library).is_none());
        let program = MESSAGE.replace(r#""3","test":true"#, r#""3","test":false"#);
        assert!(Program::parse(&program).is_none());
    }

    #[test]
    fn slow_tests_start_first_and_run_only_once() {
        let programs = [Program::parse(MESSAGE).unwrap()];
        let options: Vec<_> = parts(&programs).into_iter().map(|part| part.options).collect();
        assert_eq!(options, [vec!["faults::"], vec!["--skip", "faults::"]]);
    }
}
