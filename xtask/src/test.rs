//! `cargo xtask test`.

use crate::shell::{self, Done, command, output, succeeds};
use crate::{browser, counts, fuzz, torture};

/// Seconds for each fuzz target: enough to see that it runs.
const FUZZ_SECONDS: u32 = 10;

/// How long the stores are attacked: enough for every store and almost every kind of fault.
const TORTURE_SECONDS: &str = "25";
const TORTURE_SEED: &str = "28";

fn run_all(steps: &[&[&str]]) -> Done {
    steps.iter().try_for_each(|words| shell::run(command(words)))
}

/// Runs a benchmark of the lab, on as little as may be, to see that it does.
fn run_benchmark(name: &str, options: &str) -> Done {
    let mut lab = command(&["cargo", "run", "--release", "--package", "twiceshy-lab"]);
    lab.args(["--", "bench", name, "--json"]).args(options.split(' '));
    shell::run(lab)
}

pub(crate) fn run() -> Done {
    install_components()?;
    run_all(&[
        &["cargo", "fmt", "--all", "--check"],
        &["cargo", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
        &[
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        &["cargo", "check", "--package", "twiceshy"],
        &["cargo", "test", "--workspace", "--all-features"],
        &["cargo", "test", "--workspace", "--all-features", "--bench", "*"],
        &["cargo", "run", "--release", "--example", "dance"],
    ])?;
    run_benchmark("point", "--log2-slots 12 --rounds 1 --queries 10000")?;
    run_benchmark("range", "--log2-slots 12 --rounds 1 --queries 10000")?;
    run_benchmark("list", "--yes 2000 --no 20000 --rounds 1")?;
    run_benchmark("aqf-ops", "--log2-slots 12 --rounds 1")?;
    run_benchmark("store", "--pairs 5000 --queries 2000")?;
    torture::run_built(&[TORTURE_SECONDS, TORTURE_SEED])?;
    let mut docs = command(&["cargo", "doc", "--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(docs)?;
    check_oldest_compiler()?;
    browser::run(&[])?;
    counts::run()?;
    fuzz::run(&fuzz::TARGETS, FUZZ_SECONDS)
}

fn install_components() -> Done {
    for (component, words) in
        [("rustfmt", ["cargo", "fmt", "--version"]), ("clippy", ["cargo", "clippy", "--version"])]
    {
        if !succeeds(&words) {
            shell::run(command(&["rustup", "component", "add", component]))?;
        }
    }
    Ok(())
}

/// Compiles with the oldest compiler that the manifest promises; if that is the one at
/// work, all that went before was the check.
fn check_oldest_compiler() -> Done {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    let version = output(&["rustc", "--version"])?;
    let current = version.split_whitespace().nth(1).unwrap_or_default();
    if current.starts_with(&format!("{promised}.")) {
        eprintln!("\nrustc {current} is the oldest that is promised ({promised})");
        return Ok(());
    }
    if !succeeds(&["rustup", "run", promised, "rustc", "--version"]) {
        shell::run(command(&["rustup", "toolchain", "install", promised, "--profile", "minimal"]))?;
    }
    run_all(&[&["rustup", "run", promised, "cargo", "check", "--workspace", "--all-targets"]])
}
