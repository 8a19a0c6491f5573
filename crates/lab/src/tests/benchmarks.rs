//! Runs each benchmark on a small input, so that benchmarks keep working.

use super::lab;
use twiceshy_deadline::Deadline;

/// Runs a benchmark, and checks that it prints results.
fn run(benchmark: &str, options: &str) {
    let _deadline = Deadline::new();
    let words: Vec<&str> =
        ["bench", benchmark, "--json"].into_iter().chain(options.split(' ')).collect();
    assert!(!lab(&words).is_empty(), "{benchmark} printed no results");
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
    run("store", "--pairs 5000 --queries 2000 --seconds 0");
}

#[test]
fn life_benchmark_prints_results() {
    run("life", "--members 2000 --start 500 --flood-members 500 --queries-per-member 100");
}
