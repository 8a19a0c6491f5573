//! Runs small benchmarks, and writes the page of their results.

use super::lab;
use std::fs;

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
        "bench store --pairs 2000 --queries 6400 --rounds 1 --seconds 0.2 --json",
        "bench range-store --pairs 1000 --queries 6400 --json",
        "bench reverse-map --log2-slots 10 --json",
        "bench life --members 16384 --flood-members 500 --queries-per-member 10 --json",
        "run climber --json",
    ];
    for (number, command) in commands.iter().enumerate() {
        let file = directory.path().join(format!("{number}.jsonl"));
        fs::write(file, lab(&command.split(' ').collect::<Vec<_>>())).unwrap();
    }
    let out = directory.path().join("results.md");
    lab(&["results", directory.path().to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let page = fs::read_to_string(out).unwrap();

    for command in commands {
        let source = format!("-- {}` (", command.replace(" --json", ""));
        assert!(page.contains(&source), "{source} isn't in\n{page}");
    }
    // Each line has the name of a row, the number of tables that contain the row, and how many of
    // its cells are numbers.
    for (name, tables, numbers) in [
        ("absent keys", 2, 1),
        ("bits per key", 2, 2),
        ("empty ranges", 1, 2),
        ("unlisted keys", 1, 4),
        ("merge two filters", 1, 1),
        ("absent keys, adversary at 10 %", 3, 5),
        ("adversary at 10 %", 3, 3),
        ("adversary at 10 %, split layout", 1, 4),
        ("inserts: adaptive / no filter", 1, 2),
        ("uniform, memory, one core reads: skipped repairs / mistakes", 1, 2),
        ("stalled writes while growing", 1, 2),
        ("expected rate at every size, relative to the requested one", 1, 2),
        ("repair", 1, 5),
        ("2^14 members", 1, 10),
        ("10", 1, 9),
        ("synced fjall, one core reads", 1, 11),
        ("after a crash, fjall", 1, 6),
        ("in memory", 1, 10),
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
