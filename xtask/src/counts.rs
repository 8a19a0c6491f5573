//! `cargo xtask counts`: instructions of each operation, compared with recorded ones.
//!
//! A guard against slow code that noise doesn't touch. It is no measure of speed: cache
//! misses and wrong guesses aren't counted.

use crate::shell::{self, Done, command, install, output};

/// Instructions of one operation, as recorded; 2^15 slots, 9-bit remainders, 90 % load.
const RECORDED: [(&str, f64); 8] = [
    ("negative", 105.3),
    ("positive", 129.4),
    ("negative-many", 104.7),
    ("positive-many", 159.4),
    ("insert", 272.1),
    ("insert-many", 252.8),
    ("bulk", 174.2),
    ("adapt", 4529.8),
];

/// How much more is still well; compilers differ.
const MARGIN: f64 = 1.08;

pub(crate) fn run() -> Done {
    install("valgrind", &["valgrind", "--version"])?;
    shell::run(command(&["cargo", "build", "--release", "--package", "twiceshy-lab"]))?;
    println!("\n{:<14} {:>10} {:>10} {:>7}", "operation", "counted", "recorded", "change");
    let mut worse = Vec::new();
    for (op, recorded) in RECORDED {
        let Some(counted) = count(op)? else {
            println!("this machine has no BMI2, for which the counts were recorded");
            return Ok(());
        };
        let change = (counted / recorded - 1.0) * 100.0;
        println!("{op:<14} {counted:>10.1} {recorded:>10.1} {change:>6.1}%");
        if counted > recorded * MARGIN {
            worse.push(op);
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
fn count(op: &str) -> Result<Option<f64>, String> {
    let program = format!("target/release/twiceshy-lab{}", std::env::consts::EXE_SUFFIX);
    let text = output(&[
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*count::measured*",
        &program,
        "count",
        op,
    ])?;
    let unclear = || format!("can't read the counts of {op}:\n{text}");
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
