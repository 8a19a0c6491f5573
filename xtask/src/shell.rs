//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What went wrong, for a person.
pub(crate) type Done = Result<(), String>;

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the project").into()
}

/// A command in the project's folder, from words.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root());
    command
}

/// Runs a command, telling what it is; an error if it fails.
pub(crate) fn run(mut command: Command) -> Done {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    eprintln!("\n$ {line}");
    match command.status() {
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

/// What a command prints.
pub(crate) fn output(words: &[&str]) -> Result<String, String> {
    let output = command(words).output();
    let output = output.map_err(|error| format!("`{}` did not start: {error}", words.join(" ")))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
