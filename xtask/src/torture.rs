//! `cargo xtask torture`: faults at every operation of the stores.

use crate::shell::{self, Done, command};
use std::env::consts::EXE_SUFFIX;

/// Builds and runs the harness, optimised and with all assertions, as tests are.
pub(crate) fn run(arguments: &[&str]) -> Done {
    let mut torture = command(&["cargo", "run", "--profile", "test", "--all-features"]);
    torture.args(["--bin", "twiceshy-torture", "--"]).args(arguments);
    shell::run(torture)
}

/// Runs the harness that `cargo test` has just built for its own tests. Building the program alone
/// would compile the engines again, because the tests turn on more of their features.
pub(crate) fn run_built(arguments: &[&str]) -> Done {
    let program = format!("target/debug/twiceshy-torture{EXE_SUFFIX}");
    let mut torture = command(&[&program]);
    torture.args(arguments);
    shell::run(torture)
}
