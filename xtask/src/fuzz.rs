//! `cargo xtask fuzz`: fuzzes with the stable compiler, which can produce the coverage counters
//! that libFuzzer needs.

use crate::shell::{Done, LIMIT, Screen, command, install, output, root};
use std::time::Duration;

pub(crate) const TARGETS: [&str; 13] = [
    "operations",
    "constructor",
    "snapshot",
    "concurrent",
    "pcap",
    "range",
    "range_snapshot",
    "bloom",
    "list",
    "coded",
    "coded_snapshot",
    "packed_snapshot",
    "yes_no",
];

/// The compiler options that add coverage counters and traced comparisons to the crates under test.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

/// Builds all targets, and fuzzes some of them.
pub(crate) fn run(targets: &[&str], seconds: u32, screen: &Screen) -> Done {
    if let Some(unknown) = targets.iter().find(|target| !TARGETS.contains(target)) {
        return Err(format!("no fuzz target {unknown:?}; choose one of {}", TARGETS.join(", ")));
    }
    build(screen)?;
    run_built(targets, seconds, screen)
}

pub(crate) fn build(screen: &Screen) -> Done {
    // libFuzzer is written in C++, so building it needs a compiler.
    install("g++", &["c++", "--version"])?;
    // With an explicit target, cargo does not instrument build scripts.
    let mut build = command(&["cargo", "build", "--release", "--target", &host()?]);
    build.args(["--manifest-path", "fuzz/Cargo.toml"]).env("RUSTFLAGS", COVERAGE);
    screen.run(build)
}

/// Fuzzes targets that are already built, one after the other.
pub(crate) fn run_built(targets: &[&str], seconds: u32, screen: &Screen) -> Done {
    let programs = root().join("fuzz/target").join(host()?).join("release");
    for target in targets {
        let corpus = root().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)
            .map_err(|error| format!("{}: {error}", corpus.display()))?;
        let program = programs.join(target);
        let mut fuzz = command(&[&program.to_string_lossy(), &corpus.to_string_lossy()]);
        fuzz.args([
            &format!("-max_total_time={seconds}"),
            "-max_len=8192",
            "-timeout=60",
            "-print_final_stats=1",
            &format!("-artifact_prefix=fuzz/artifacts-{target}-"),
        ]);
        screen.run_at_most(LIMIT + Duration::from_secs(seconds.into()), fuzz)?;
    }
    Ok(())
}

fn host() -> Result<String, String> {
    let version = output(&["rustc", "--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc --version --verbose` printed no host".into())
}
