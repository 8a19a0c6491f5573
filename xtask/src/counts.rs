//! `cargo xtask counts`: counts the instructions of each operation, and compares the counts with
//! recorded ones.
//!
//! The counts reveal slow code even on a busy machine. They are not a measure of speed, because
//! they include neither cache misses nor mispredicted branches.

use crate::shell::{Done, Screen, command, install, output};

/// The recorded number of instructions for each filter and operation. The filters have 2^15 slots
/// at 90 % load. The adaptive quotient filter has 9-bit remainders, and the others have 8-bit
/// remainders.
const RECORDED: [(&str, &str, f64); 26] = [
    ("aqf", "negative", 108.5),
    ("aqf", "positive", 133.2),
    ("aqf", "negative-many", 107.9),
    ("aqf", "positive-many", 163.4),
    ("aqf", "insert", 263.8),
    ("aqf", "insert-many", 245.1),
    ("aqf", "bulk", 166.6),
    ("aqf", "adapt", 4914.4),
    ("taf", "negative", 95.2),
    ("taf", "positive", 105.8),
    ("taf", "insert", 238.6),
    ("taf-adapted", "negative", 164.7),
    ("taf-adapted", "positive", 1007.9),
    ("taf", "adapt", 11295.6),
    ("taf-adapted", "adapt", 39705.7),
    ("taf-adapted", "check", 1071.3),
    ("taf-adapted", "insert", 9373.4),
    ("exaf", "negative", 91.3),
    ("exaf", "positive", 106.4),
    ("exaf", "insert", 238.6),
    ("exaf-adapted", "negative", 94.8),
    ("exaf-adapted", "positive", 825.0),
    ("exaf", "adapt", 11182.1),
    ("exaf-adapted", "adapt", 17141.3),
    ("exaf-adapted", "check", 826.0),
    ("exaf-adapted", "insert", 6717.5),
];

/// The largest accepted ratio of counted to recorded instructions. The same code, built by the same
/// compiler, always gives the same count; compilers differ a little. These counts are of Rust 1.95.
const MARGIN: f64 = 1.02;

pub(crate) fn run(screen: &Screen) -> Done {
    install("valgrind", &["valgrind", "--version"])?;
    screen.run(command(&["cargo", "build", "--release", "--package", "twiceshy-count"]))?;
    let head =
        format!("\n{:<28} {:>10} {:>10} {:>7}", "operation", "counted", "recorded", "change");
    screen.print(&head);
    let mut worse = Vec::new();
    for (filter, op, recorded) in RECORDED {
        let Some(counted) = count(filter, op)? else {
            screen.print("skipped: the counts were recorded on a machine with BMI2");
            return Ok(());
        };
        let change = (counted / recorded - 1.0) * 100.0;
        let name = format!("{filter} {op}");
        screen.print(&format!("{name:<28} {counted:>10.1} {recorded:>10.1} {change:>6.1}%"));
        if counted > recorded * MARGIN {
            worse.push(name);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} took more instructions than recorded; if there is a good reason, record them in {}",
        worse.join(", "),
        file!()
    ))
}

/// Returns the number of instructions of one operation, or `None` on a machine without BMI2.
fn count(filter: &str, op: &str) -> Result<Option<f64>, String> {
    let program = format!("target/release/twiceshy-count{}", std::env::consts::EXE_SUFFIX);
    let text = output(&[
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*twiceshy_count::measured*",
        &program,
        op,
        filter,
    ])?;
    let unclear = || format!("cannot read the counts of {filter} {op}:\n{text}");
    let printed = text
        .lines()
        .find_map(|line| line.split_once(' ').filter(|(times, _)| !times.starts_with('=')));
    let (times, machine) = printed.ok_or_else(unclear)?;
    if machine != "bmi2" {
        return Ok(None);
    }
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.ok_or_else(unclear)?;
    match (collected.trim().parse::<f64>(), times.parse::<f64>()) {
        (Ok(collected), Ok(times)) if times > 0.0 => Ok(Some(collected / times)),
        _ => Err(unclear()),
    }
}
