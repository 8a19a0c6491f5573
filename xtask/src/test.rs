//! `cargo xtask test` and `cargo xtask quick`.

use crate::programs::DANCE;
use crate::shell::{Done, Screen, command, output, succeeds};
use crate::steps::{Lane, Steps};
use crate::{browser, counts, fuzz, torture};
use std::process::Command;

/// Seconds per fuzz target: enough to see that it runs.
const FUZZ_SECONDS: u32 = 10;

/// Seconds of faults: enough for every store and almost every kind of fault.
const TORTURE_SECONDS: &str = "25";
const TORTURE_SEED: &str = "28";

/// The crates that users depend on.
const PUBLISHED: [&str; 5] =
    ["twiceshy", "twiceshy-report", "twiceshy-workloads", "twiceshy-store", "twiceshy-cli"];

/// Runs everything that must be green.
///
/// Two lanes share the cores. The second lane uses one core most of the time, because its builds
/// have one codegen unit. The lanes build into different folders, so neither waits for the other.
pub(crate) fn run() -> Done {
    install_components()?;
    let steps = Steps::new();
    let done = steps.run_alone(|lane| {
        lane.step("format", format)?;
        lane.step("packages", package)
    });
    let done = done.and_then(|()| steps.run(main_lane, lane_beside));
    steps.print();
    done
}

fn main_lane(lane: &Lane<'_>) -> Done {
    lane.step("lints", |screen| screen.run(lints()))?;
    lane.step("no features", |screen| {
        screen.run(command(&["cargo", "check", "--package", "twiceshy"]))
    })?;
    lane.step("build of the tests", |screen| test(&["--no-run"], screen))?;
    lane.step("tests", |screen| test(&[], screen))?;
    lane.step("example", |screen| screen.run(DANCE.command()))?;
    lane.step("faults", |screen| torture::run_built(&[TORTURE_SECONDS, TORTURE_SEED], screen))?;
    lane.step("docs", document)?;
    lane.step("oldest compiler", check_oldest_compiler)?;
    lane.step("browser", browser::run_built)
}

fn lane_beside(lane: &Lane<'_>) -> Done {
    lane.step("instruction counts", counts::run)?;
    lane.step("build of fuzz targets", fuzz::build)?;
    lane.step("fuzz targets", |screen| fuzz::run_built(&fuzz::TARGETS, FUZZ_SECONDS, screen))
}

/// Runs what finds most mistakes, while you work.
pub(crate) fn quick() -> Done {
    install_components()?;
    let steps = Steps::new();
    let done = steps.run_alone(|lane| {
        lane.step("format", format)?;
        lane.step("lints", |screen| screen.run(incremental(lints())))?;
        lane.step("unit tests", |screen| {
            let words = ["cargo", "test", "--profile", "quick", "--workspace", "--all-features"];
            let mut tests = command(&words);
            tests.args(["--lib", "--bins"]);
            screen.run(incremental(tests))
        })
    });
    steps.print();
    done
}

/// Lets a build start from the one before.
fn incremental(mut command: Command) -> Command {
    command.env_remove("CARGO_INCREMENTAL");
    command
}

fn format(screen: &Screen) -> Done {
    screen.run(command(&["cargo", "fmt", "--all", "--check"]))?;
    screen.run(command(&["cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

/// Packs the crates that users depend on, without building them again.
fn package(screen: &Screen) -> Done {
    let mut package = command(&["cargo", "package", "--quiet", "--no-verify", "--allow-dirty"]);
    package.args(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    screen.run(package)
}

fn lints() -> Command {
    let mut lints = command(&["cargo", "clippy", "--workspace", "--all-targets", "--all-features"]);
    lints.args(["--", "-D", "warnings"]);
    lints
}

fn test(options: &[&str], screen: &Screen) -> Done {
    let mut tests = command(&["cargo", "test", "--workspace", "--all-features"]);
    tests.args(options);
    screen.run(tests)
}

fn document(screen: &Screen) -> Done {
    let mut docs = command(&["cargo", "doc", "--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    screen.run(docs)
}

fn install_components() -> Done {
    for (component, words) in
        [("rustfmt", ["cargo", "fmt", "--version"]), ("clippy", ["cargo", "clippy", "--version"])]
    {
        if !succeeds(&words) {
            Screen::Terminal.run(command(&["rustup", "component", "add", component]))?;
        }
    }
    Ok(())
}

/// Checks the workspace with the oldest compiler that the manifest promises, unless the other steps
/// have just used it.
fn check_oldest_compiler(screen: &Screen) -> Done {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    let version = output(&["rustc", "--version"])?;
    let current = version.split_whitespace().nth(1).unwrap_or_default();
    if current.starts_with(&format!("{promised}.")) {
        screen.print(&format!("rustc {current} is the oldest promised compiler ({promised})"));
        return Ok(());
    }
    if !succeeds(&["rustup", "run", promised, "rustc", "--version"]) {
        let words = ["rustup", "toolchain", "install", promised, "--profile", "minimal"];
        screen.run(command(&words))?;
    }
    let words = ["rustup", "run", promised, "cargo", "check", "--workspace", "--all-targets"];
    screen.run(command(&words))
}
