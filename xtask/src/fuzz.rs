//! Fuzzing with the stable compiler: libFuzzer needs nothing but coverage counters.

use crate::shell::{self, Done, command, install, output, root};

pub(crate) const TARGETS: [&str; 12] = [
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
    "yes_no",
];

/// Coverage counters and traced comparisons, in the crates under test.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

pub(crate) fn run(targets: &[&str], seconds: u32) -> Done {
    if let Some(unknown) = targets.iter().find(|target| !TARGETS.contains(target)) {
        return Err(format!("no fuzz target {unknown:?}; there are {}", TARGETS.join(", ")));
    }
    // libFuzzer is C++.
    install("g++", &["c++", "--version"])?;
    // With an explicit target, build scripts are not instrumented.
    let host = host()?;
    let mut build = command(&["cargo", "build", "--release", "--target", &host]);
    build.args(["--manifest-path", "fuzz/Cargo.toml"]).env("RUSTFLAGS", COVERAGE);
    shell::run(build)?;
    for target in targets {
        let corpus = root().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)
            .map_err(|error| format!("{}: {error}", corpus.display()))?;
        let program = format!("fuzz/target/{host}/release/{target}");
        let mut fuzz = command(&[&program, &format!("fuzz/corpus/{target}")]);
        fuzz.args([
            &format!("-max_total_time={seconds}"),
            "-max_len=8192",
            "-timeout=60",
            "-print_final_stats=1",
            &format!("-artifact_prefix=fuzz/artifacts-{target}-"),
        ]);
        shell::run(fuzz)?;
    }
    Ok(())
}

fn host() -> Result<String, String> {
    let version = output(&["rustc", "--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc doesn't tell its host".into())
}
