//! The origin of a result: the command, the machine and the commit.

use serde::{Deserialize, Serialize};
use std::process::Command;

/// Describes how and where a result was measured. The lab prints it as the first line of its JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The arguments of the lab. `DIR` replaces each directory.
    pub(crate) command: String,
    /// Names and values of facts that the result depends on, such as the processor and the commit.
    pub(crate) facts: Vec<(String, String)>,
}

/// The options whose values are paths on this machine.
const PATHS: [&str; 2] = ["--data", "--directory"];

impl Origin {
    /// Returns the origin of results that this process measures.
    pub(crate) fn here() -> Self {
        Self { command: command(crate::arguments().into_iter().skip(1)), facts: facts() }
    }
}

/// Joins arguments, and writes `DIR` for paths.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for argument in arguments {
        let is_path = words.last().is_some_and(|last| PATHS.contains(&last.as_str()));
        let option = argument.split_once('=').map(|(option, _)| option);
        words.push(match option.filter(|option| PATHS.contains(option)) {
            Some(option) => format!("{option}=DIR"),
            None if is_path => "DIR".into(),
            None => argument,
        });
    }
    words.join(" ")
}

/// Returns the processor, core count, compiler, commit and date, which are recorded with each
/// result.
pub(crate) fn facts() -> Vec<(String, String)> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(": ").map(|(_, name)| name.to_owned())
    });
    let cores = std::thread::available_parallelism().map(|cores| cores.to_string()).ok();
    let facts = [
        ("processor", cpu),
        ("cores", cores),
        ("compiler", Some(env!("TWICESHY_COMPILER").to_owned())),
        ("commit", Some(env!("TWICESHY_COMMIT").to_owned())),
        ("date", today()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn today() -> Option<String> {
    let output = Command::new("date").args(["--utc", "+%Y-%m-%d"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_commands_contain_no_paths() {
        let words = "run traces --data secret/place --seed 1 --directory=other/place";
        let told = command(words.split(' ').map(str::to_owned));
        assert_eq!(told, "run traces --data DIR --seed 1 --directory=DIR");
    }

    #[test]
    fn recorded_facts_name_compiler_and_commit() {
        let facts = facts();
        for name in ["compiler", "commit"] {
            assert!(facts.iter().any(|(known, value)| known == name && !value.is_empty()));
        }
    }
}
