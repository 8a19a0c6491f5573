//! The project's commands: `cargo xtask test` is the one that must be green.

mod browser;
mod counts;
mod fuzz;
mod shell;
mod test;
mod torture;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <command>

Commands:
  test                          everything that must be green: format, lints, tests,
                                docs, oldest compiler, pages in a browser, instruction
                                counts, benchmarks, faults in the stores and fuzz targets
                                (briefly); installs what is missing
  counts                        counts the instructions of each operation, and compares
                                them with the recorded ones
  browser [PAGE.html]...        shows pages in Chromium, wide and narrow, light and dark, and
                                checks that all can be read; the report's sample page and
                                a small demo's if none is named; pictures are in
                                target/browser
  torture [SECONDS] [SEED]      attacks the stores with faults of the backend and of system
                                calls, and compares what is left with a model; prints its
                                seed and its coverage [default: 60 seconds, a new seed]
  torture case NAME             runs one case of it again, as it was printed
  fuzz [TARGET] [SECONDS]       fuzzes one target, or all of them, for that long each
                                (60 seconds if nothing is said)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["test"] => test::run(),
        ["counts"] => counts::run(),
        ["browser", ref pages @ ..] => browser::run(pages),
        ["torture", ref arguments @ ..] => torture::run(arguments),
        ["fuzz"] => fuzz::run(&fuzz::TARGETS, 60),
        ["fuzz", target] => fuzz::run(&[target], 60),
        ["fuzz", target, seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(&[target], seconds),
            Err(_) => Err(format!("{seconds:?} is no number of seconds")),
        },
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("no such command\n\n{HELP}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
