//! `cargo xtask test` and `cargo xtask quick`.

use crate::programs::DANCE;
use crate::shell::{Done, Screen, command, output, succeeds};
use crate::steps::{Lane, Steps};
use crate::{browser, counts, fuzz, schedules, suite, torture};
use std::process::Command;

/// The number of seconds for each fuzz target. It is enough to see that the target works.
const FUZZ_SECONDS: u32 = 10;

/// The number of seconds of fault injection. It is enough for every store and almost every kind of
/// fault.
const TORTURE_SECONDS: &str = "25";
const TORTURE_SEED: &str = "28";

/// The number of orders in which the threads of each scenario run.
const ORDERS: &str = "1000";
const ORDERS_SEED: &str = "30";

/// The crates that users depend on.
const PUBLISHED: [&str; 5] =
    ["twiceshy", "twiceshy-report", "twiceshy-workloads", "twiceshy-store", "twiceshy-cli"];

const BUILD: &str = "build of the tests";

/// Runs all checks that must succeed.
///
/// Two lanes of steps run at the same time, so that both cores are used to the end. The builds of
/// the second lane have folders of their own, so neither lane waits for the other's builds. When
/// the tests are built, the main lane runs them, and the second lane does the rest: these steps
/// use what the main lane has built.
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
    lane.step(BUILD, suite::build)?;
    lane.step("tests", suite::run_built)
}

fn lane_beside(lane: &Lane<'_>) -> Done {
    lane.step("instruction counts", counts::run)?;
    lane.step("build of fuzz targets", fuzz::build)?;
    lane.step("fuzz targets", |screen| fuzz::run_built(&fuzz::TARGETS, FUZZ_SECONDS, screen))?;
    lane.step("orders of threads", |screen| schedules::run(&[ORDERS, ORDERS_SEED], screen))?;
    lane.wait_for(BUILD)?;
    lane.step("tests in documentation", suite::run_examples)?;
    lane.step("faults", |screen| torture::run_built(&[TORTURE_SECONDS, TORTURE_SEED], screen))?;
    lane.step("docs", document)?;
    lane.step("browser", browser::run_built)?;
    lane.step("example", |screen| screen.run(DANCE.command()))?;
    lane.step("oldest compiler", check_oldest_compiler)
}

/// Runs only the checks that find most mistakes, for use after each edit.
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

/// Makes a build incremental, so that it starts from the results of the previous build.
fn incremental(mut command: Command) -> Command {
    command.env_remove("CARGO_INCREMENTAL");
    command
}

fn format(screen: &Screen) -> Done {
    screen.run(command(&["cargo", "fmt", "--all", "--check"]))?;
    screen.run(command(&["cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
}

/// Packs the crates that users depend on. Does not build the packed crates.
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

/// Checks the workspace with the oldest compiler that the manifest promises to support. Does
/// nothing if the other steps have just used that compiler.
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
