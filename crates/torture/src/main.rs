//! Injects faults into the stores, and compares the results with an exact model.
//!
//! `cargo xtask torture [SECONDS] [SEED]` runs it; so does `cargo xtask test`, briefly.
//!
//! # What is tested
//! Every public operation of `Store` (both layouts, and with a telescoping filter), `RangeStore`,
//! `ListStore` and `Guard`. A seed determines a [script] that calls each of them at least once. A
//! first run counts the backend operations or system calls of each step. Then the script runs again
//! up to some step, which gets one fault. A few operations with the same keys follow, and then a
//! crash, a drop or a close ends the session.
//!
//! - *Backend faults* ([`backend_faults`]) occur in this process, over a [map in memory](faulty), with and
//!   without a directory for saved filters. The n-th backend operation fails in one of three ways: it is not
//!   done, it is done, or it is done but visible only after reopening. It fails once, or all later operations
//!   fail, too. Or it panics, before or after it is done. For a `Guard`, a failed write may also arrive
//!   later. The guard is asked about every key before and after that, and while the keys are being settled.
//! - *System-call faults* ([`call_faults`]) occur in child processes, on fjall and redb. The n-th call that
//!   reads, writes, syncs or names a file fails with `EIO` or `ENOSPC`, or the process is killed before the
//!   call, after it, or halfway through a write ([`ffi`]).
//!
//! # What is checked
//! The harness compares the store with the [model] after each operation, after reopening without
//! faults, and after closing and reopening once more:
//! - acknowledged writes are present, and acknowledged deletes are gone;
//! - a failed write is completely present or absent;
//! - no lookup misses a key: get, `get_many`, contains, ranges, scans, copies, saved filters;
//! - a guard knows the keys in doubt;
//! - lists are exact, and removals report whether the key was present;
//! - `validate` and `verify` succeed;
//! - after a single backend fault, the store can be used, and the next opening succeeds;
//! - nothing panics except the backend, and nothing hangs.
//!
//! A run also fails if shards never grew, never shrank or never rotated: then it hasn't tested that.
//!
//! # How to reproduce
//! The seed of a run determines its cases; the time determines how many of them run. Each case has a
//! name that describes it completely; `cargo xtask torture case NAME` runs it alone. Threads of an
//! engine, and of a store that builds its filter in the background, may be scheduled differently:
//! repeat such a case.

mod backend_faults;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod call_faults;
mod coverage;
mod faulty;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod ffi;
mod model;
mod plan;
mod random;
mod run;
mod script;
mod session;
mod stores;

use std::process::ExitCode;

const HELP: &str = "\
Usage: twiceshy-torture [SECONDS] [SEED]
       twiceshy-torture case NAME        Runs one case
       twiceshy-torture lie NUMBER NAME  Runs one case. Skips the write with this number, but
                                         acknowledges it, so the case must fail
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => run::run(60, run::fresh_seed()),
        ["case", name] => name.parse().and_then(|plan| run::alone(&plan, None)),
        ["lie", number, name] => match number.parse() {
            Ok(number) => name.parse().and_then(|plan| run::alone(&plan, Some(number))),
            Err(_) => Err(HELP.into()),
        },
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        ["child", name, scratch, ref lie @ ..] => name.parse().map(|plan| {
            let lie = lie.first().and_then(|lie| lie.parse().ok());
            call_faults::child(&plan, scratch.as_ref(), lie);
        }),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [seconds, ref seed @ ..] if seed.len() < 2 => {
            let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
            let seed = seed.first().map_or_else(|| Ok(run::fresh_seed()), |seed| number(seed));
            number(seconds).and_then(|seconds| run::run(seconds, seed?))
        }
        _ => Err(HELP.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("torture: {message}");
            ExitCode::FAILURE
        }
    }
}
