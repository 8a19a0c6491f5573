//! `cargo xtask torture`: faults at every operation of the stores.

use crate::shell::{self, Done, command};

/// Runs the harness, optimised and with all assertions, as tests are.
pub(crate) fn run(arguments: &[&str]) -> Done {
    let mut torture = command(&["cargo", "run", "--profile", "test", "--all-features"]);
    torture.args(["--bin", "twiceshy-torture", "--"]).args(arguments);
    shell::run(torture)
}
