//! `cargo xtask counts`: instructions of each operation, compared with recorded ones.
//!
//! A guard against slow code that noise doesn't touch. It is no measure of speed: cache
//! misses and wrong guesses aren't counted.

use crate::shell::{self, Done, command, install, output};

/// Instructions of one operation of a filter, as recorded; 2^15 slots, 90 % load, 9-bit remainders
/// in the adaptive quotient filter, and 8-bit ones in the others.
const RECORDED: [(&str, &str, f64); 26] = [
    ("aqf", "negative", 105.3),
    ("aqf", "positive", 129.4),
    ("aqf", "negative-many", 104.7),
    ("aqf", "positive-many", 159.4),
    ("aqf", "insert", 272.1),
    ("aqf", "insert-many", 252.8),
    ("aqf", "bulk", 174.2),
    ("aqf", "adapt", 4956.9),
    ("taf", "negative", 93.2),
    ("taf", "positive", 103.8),
    ("taf", "insert", 235.3),
    ("taf-adapted", "negative", 164.1),
    ("taf-adapted", "positive", 986.1),
    ("taf", "adapt", 13627.7),
    ("taf-adapted", "adapt", 44981.7),
    ("taf-adapted", "check", 1058.7),
    ("taf-adapted", "insert", 9817.7),
    ("exaf", "negative", 89.1),
    ("exaf", "positive", 104.1),
    ("exaf", "insert", 235.3),
    ("exaf-adapted", "negative", 92.8),
    ("exaf-adapted", "positive", 811.6),
    ("exaf", "adapt", 13007.1),
    ("exaf-adapted", "adapt", 21481.9),
    ("exaf-adapted", "check", 802.5),
    ("exaf-adapted", "insert", 6330.7),
];

/// How much more is still well; compilers differ.
const MARGIN: f64 = 1.08;

pub(crate) fn run() -> Done {
    install("valgrind", &["valgrind", "--version"])?;
    shell::run(command(&["cargo", "build", "--release", "--package", "twiceshy-lab"]))?;
    println!("\n{:<28} {:>10} {:>10} {:>7}", "operation", "counted", "recorded", "change");
    let mut worse = Vec::new();
    for (filter, op, recorded) in RECORDED {
        let Some(counted) = count(filter, op)? else {
            println!("this machine has no BMI2, for which the counts were recorded");
            return Ok(());
        };
        let change = (counted / recorded - 1.0) * 100.0;
        let name = format!("{filter} {op}");
        println!("{name:<28} {counted:>10.1} {recorded:>10.1} {change:>6.1}%");
        if counted > recorded * MARGIN {
            worse.push(name);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} take more instructions than recorded; if that is worth it, record it in {}",
        worse.join(", "),
        file!()
    ))
}

/// Instructions of one operation, or `None` if the machine lacks those that count.
fn count(filter: &str, op: &str) -> Result<Option<f64>, String> {
    let program = format!("target/release/twiceshy-lab{}", std::env::consts::EXE_SUFFIX);
    let text = output(&[
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*count::measured*",
        &program,
        "count",
        op,
        filter,
    ])?;
    let unclear = || format!("can't read the counts of {filter} {op}:\n{text}");
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
