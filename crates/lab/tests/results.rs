//! Runs small benchmarks, and writes the page of their results.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the lab, and returns what it prints.
fn lab(words: &str, more: &[&Path]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy-lab"));
    let output = command.args(words.split(' ')).args(more).output().expect("a lab that starts");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the rows of all tables whose first cell is `name`.
fn rows<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("| {name} |");
    page.lines().filter(|line| line.starts_with(&start)).collect()
}

#[test]
fn results_of_every_benchmark_have_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let commands = [
        "bench point --log2-slots 12 --queries 1000 --rounds 1 --filters aqf,qfilter --json",
        "bench range --log2-slots 12 --queries 1000 --rounds 1 --filters memento,grafite --json",
        "bench list --yes 1000 --no 1000 --rounds 1 --json",
        "bench aqf-ops --log2-slots 12 --rounds 1 --json",
        "bench store --pairs 2000 --queries 6400 --rounds 1 --json",
        "bench range-store --pairs 1000 --queries 6400 --json",
        "bench reverse-map --log2-slots 10 --json",
        "run climber --json",
    ];
    for (number, command) in commands.iter().enumerate() {
        let file = directory.path().join(format!("{number}.jsonl"));
        fs::write(file, lab(command, &[])).unwrap();
    }
    let out = directory.path().join("results.md");
    lab("results", &[directory.path(), Path::new("--out"), &out]);
    let page = fs::read_to_string(out).unwrap();

    for command in commands {
        let source = format!("-- {}` (", command.replace(" --json", ""));
        assert!(page.contains(&source), "{source} isn't in\n{page}");
    }
    // Each table, by a row that it must have, and how many of its cells have a number.
    for (name, tables, numbers) in [
        ("absent keys", 2, 1),
        ("bits per key", 2, 2),
        ("empty ranges", 1, 2),
        ("unlisted keys", 1, 4),
        ("merge two filters", 1, 1),
        ("absent keys, adversary at 10 %", 1, 5),
        ("adversary at 10 %", 2, 3),
        ("repair", 1, 5),
        ("`climber`", 1, 1),
    ] {
        let found = rows(&page, name);
        assert_eq!(found.len(), tables, "{name} in\n{page}");
        for row in found {
            let cells = row.split(" | ").skip(1);
            let filled = cells.filter(|cell| cell.contains(|letter: char| letter.is_ascii_digit()));
            assert!(filled.count() >= numbers, "{row}");
        }
    }
}
