//! Runs the threads of a store in many orders, chosen by a seed, and checks every answer.
//!
//! The program must be built with `--cfg shuttle`, as `cargo xtask schedules` does. Then all locks,
//! atomics, threads and random numbers of the store are those of `shuttle`: one thread runs at a time,
//! and a scheduler decides at each step which one. The same seed repeats the same orders. If a check
//! fails, `shuttle` prints the order, which can be given instead of the seed.

#[cfg(shuttle)]
mod scenarios;

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    scenarios::main()
}

#[cfg(not(shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("error: built without `--cfg shuttle`; use `cargo xtask schedules`");
    std::process::ExitCode::from(2)
}
