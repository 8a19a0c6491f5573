//! Tests of the whole lab. They run the lab in a child process. The child runs this same test
//! program, so that the lab need not be compiled a second time without its tests.

mod benchmarks;
mod results;

use super::{Arguments, run};
use clap::{CommandFactory, Parser};
use std::env;
use std::process::{Command, exit};

/// The name of the variable with the child's arguments, one per line.
const ARGUMENTS: &str = "TWICESHY_LAB_ARGUMENTS";

/// Returns the arguments of the lab, after the name of the program.
pub(crate) fn arguments() -> Vec<String> {
    let words = env::var(ARGUMENTS).unwrap_or_default();
    ["twiceshy-lab"].into_iter().chain(words.lines()).map(str::to_owned).collect()
}

/// Runs the lab, and returns the lines of JSON that it prints.
fn lab(words: &[&str]) -> String {
    let mut child = Command::new(env::current_exe().expect("a test program"));
    // With two threads, the harness prints nothing between the beginning and the end of the test.
    child.args(["--exact", "tests::child_runs_the_lab", "--nocapture", "--test-threads=2"]);
    let output = child.env(ARGUMENTS, words.join("\n")).output().expect("the lab starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} failed: {errors}");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(!printed.contains("test result"), "the child ran no lab: {printed}");
    printed.split_inclusive('\n').filter(|line| line.starts_with('{')).collect()
}

#[test]
fn child_runs_the_lab() {
    if env::var_os(ARGUMENTS).is_some() {
        let done = run(Arguments::parse_from(arguments()));
        exit(i32::from(done.is_err()));
    }
}

#[test]
fn command_line_definition_is_valid() {
    Arguments::command().debug_assert();
}
