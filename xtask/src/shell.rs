//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What went wrong, for a person.
pub(crate) type Done = Result<(), String>;

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the project").into()
}

/// A command in the project's folder, from words. What it builds isn't built upon, so it
/// needn't leave on the disk what incremental builds go on from.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root()).env("CARGO_INCREMENTAL", "0");
    command
}

/// Runs a command, and prints it and how long it took.
///
/// # Errors
/// If it fails.
pub(crate) fn run(mut command: Command) -> Done {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    eprintln!("\n$ {line}");
    let start = Instant::now();
    let status = command.status();
    eprintln!("({:.0} s) {line}", start.elapsed().as_secs_f64());
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("`{line}` did not start: {error}")),
    }
}

/// Whether a command runs and succeeds; its output is not shown.
pub(crate) fn succeeds(words: &[&str]) -> bool {
    let mut command = command(words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a command prints, errors behind; an error if it doesn't succeed.
pub(crate) fn output(words: &[&str]) -> Result<String, String> {
    let line = words.join(" ");
    let output = command(words).output();
    let output = output.map_err(|error| format!("`{line}` did not start: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("`{line}` failed:\n{text}")) }
}

/// Installs a package of the system, if what it is needed for doesn't run.
pub(crate) fn install(package: &str, works: &[&str]) -> Done {
    if succeeds(works) {
        return Ok(());
    }
    run(command(&["apt-get", "update"]))?;
    run(command(&["apt-get", "install", "--yes", package]))
}
