//! Attacks the stores with faults, and compares what is left with an exact model.
//!
//! `cargo xtask torture [SECONDS] [SEED]` runs it; so does `cargo xtask test`, briefly.
//!
//! # What is attacked
//! Every public operation of `GuardedStore` (both layouts, and another filter), `RangeStore`,
//! `ListStore` and `Guard`. A seed determines a [script] that does all of them at least
//! once. A first run counts what each step asks of the system; then the script is run again up to
//! a step, which is hit by one fault, goes on for a few operations with the same keys, and ends in
//! a crash, by dropping the store, or by closing it.
//!
//! - *Backend faults* ([`backend_faults`]): in this process, over a [map in memory](faulty), with
//!   and without a directory for saved filters. The n-th operation of the backend fails and is not
//!   done, fails but is done, or is done and seen only after reopening; once, or from then on. Or it
//!   panics, before or after it is done. For a `Guard`, a write that failed may also arrive later:
//!   before and after that, and while its keys are settled, the guard is asked about every key.
//! - *System-call faults* ([`call_faults`]): in child processes, on fjall and redb. The n-th call
//!   that reads, writes, syncs or names a file fails with `EIO` or `ENOSPC`, or the process is
//!   killed before it, after it, or halfway through a write ([`ffi`]).
//!
//! # What is checked
//! Against the [model], after each operation, after reopening without faults, and after closing and
//! reopening once more:
//! - what was acknowledged is there, and what was acknowledged as deleted is gone;
//! - a write that failed is there whole or not at all;
//! - no question misses a key: get, `get_many`, contains, ranges, scans, copies, saved filters;
//! - a guard knows the keys in doubt;
//! - lists are exact, and removals say whether the key was there;
//! - `validate` and `verify` succeed;
//! - after a single fault of the backend, the store can be used, and opening works the next time;
//! - nothing panics except the backend, and nothing hangs.
//!
//! # How to reproduce
//! The seed of a run determines its cases, though not how many of them fit into its time. Each case
//! has a name, which says everything about it; `cargo xtask torture case NAME` runs it alone.
//! Threads of an engine, and of a store that builds its filter in the background, may take turns
//! differently: repeat such a case.

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
       twiceshy-torture case NAME        runs one case
       twiceshy-torture lie NUMBER NAME  runs one case, and claims that the write of this
                                         number was done, which it wasn't: that must be noticed
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
