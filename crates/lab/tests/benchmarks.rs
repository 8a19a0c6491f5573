//! Runs each benchmark on a small input, so that benchmarks keep working.

use std::process::Command;
use twiceshy_deadline::Deadline;

/// Runs a benchmark, and checks that it prints results.
fn run(benchmark: &str, options: &str) {
    let _deadline = Deadline::new();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_twiceshy-lab"));
    lab.args(["bench", benchmark, "--json"]).args(options.split(' '));
    let output = lab.output().expect("the lab starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{benchmark} failed: {errors}");
    assert!(output.stdout.contains(&b'{'), "{benchmark} printed no results: {errors}");
}

#[test]
fn point_benchmark_prints_results() {
    run("point", "--log2-slots 12 --rounds 1 --queries 10000");
}

#[test]
fn range_benchmark_prints_results() {
    run("range", "--log2-slots 12 --rounds 1 --queries 10000");
}

#[test]
fn list_benchmark_prints_results() {
    run("list", "--yes 2000 --no 20000 --rounds 1");
}

#[test]
fn operations_benchmark_prints_results() {
    run("aqf-ops", "--log2-slots 12 --rounds 1");
}

#[test]
fn store_benchmark_prints_results() {
    run("store", "--pairs 5000 --queries 2000");
}
