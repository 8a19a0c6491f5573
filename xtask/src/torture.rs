//! `cargo xtask torture`: injects faults into every operation of the stores.

use crate::programs::TORTURE;
use crate::shell::{Done, LIMIT, Screen};
use std::time::Duration;

/// Builds the program that injects faults, and runs it.
pub(crate) fn run(arguments: &[&str], screen: &Screen) -> Done {
    TORTURE.build(screen)?;
    run_built(arguments, screen)
}

/// Runs the program that injects faults, as `cargo test` has built it.
pub(crate) fn run_built(arguments: &[&str], screen: &Screen) -> Done {
    let mut torture = TORTURE.command();
    torture.args(arguments);
    let seconds = arguments.first().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    screen.run_at_most(LIMIT + Duration::from_secs(seconds), torture)
}
