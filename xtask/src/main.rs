//! The project's own commands. `cargo xtask test` must succeed before a change lands.

mod browser;
mod counts;
mod fuzz;
mod programs;
mod schedules;
mod shell;
mod steps;
mod suite;
mod test;
mod torture;

use shell::Screen;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <command>

Commands:
  test                      Runs all checks: format, packages, lints, tests, docs, the oldest
                            compiler, pages in a browser, instruction counts, faults in the
                            stores, orders of threads, and every fuzz target briefly.
                            Installs what is missing.
                            Takes about 18 minutes from a clean clone on two cores
  quick                     Runs the checks for every edit: format, lints and unit tests. Takes
                            less than two minutes once everything is built
  counts                    Counts the instructions of each operation, and compares them with
                            the recorded ones
  browser [PAGE.html]...    Opens pages in Chromium, narrow and wide, light and dark, and checks
                            that everything can be read. Saves pictures in target/browser
                            [default: the report's sample page and the page of a small demo]
  torture [SECONDS] [SEED]  Injects faults into the stores' backends and system calls, and
                            compares the stores with a model. Prints its seed and coverage
                            [default: 60 seconds, a new seed]
  torture case NAME         Runs one case again, by the name that `torture` printed
  schedules [COUNT] [SEED]  Runs the threads of a store in many orders, and checks every answer. The
                            same seed repeats the same orders [default: 2000 orders per
                            scenario, seed 1]
  schedules replay NAME ORDER
                            Runs a scenario again, in the order that a failed check printed
  fuzz [TARGET] [SECONDS]   Fuzzes one target, or each of them [default: 60 seconds per target]
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let screen = &Screen::Terminal;
    let done = match arguments[..] {
        ["test"] => test::run(),
        ["quick"] => test::quick(),
        ["counts"] => counts::run(screen),
        ["browser", ref pages @ ..] => browser::run(pages, screen),
        ["torture", ref arguments @ ..] => torture::run(arguments, screen),
        ["schedules", ref arguments @ ..] => schedules::run(arguments, screen),
        ["fuzz"] => fuzz::run(&fuzz::TARGETS, 60, screen),
        ["fuzz", target] => fuzz::run(&[target], 60, screen),
        ["fuzz", target, seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(&[target], seconds, screen),
            Err(_) => Err(format!("SECONDS must be a number, not {seconds:?}")),
        },
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => Err(format!("a command is missing\n\n{HELP}")),
        [unknown, ..] => Err(format!("no command `{unknown}` with these arguments\n\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
