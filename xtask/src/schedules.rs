//! `cargo xtask schedules`: runs the threads of a store in many orders.

use crate::shell::{Done, Screen, command};

/// Builds the program in a folder of its own, because the flag changes every crate, and runs it.
pub(crate) fn run(arguments: &[&str], screen: &Screen) -> Done {
    let mut run = command(&["cargo", "run", "--profile", "quick", "--package"]);
    run.args(["twiceshy-schedules", "--target-dir", "target/schedules", "--"]);
    run.args(arguments).env("RUSTFLAGS", "--cfg shuttle");
    screen.run(run)
}
