//! The command line `twiceshy`: filter files, lists and stores.
//!
//! [`cli`] defines the arguments and their help, and [`commands`] runs the commands. [`input`]
//! reads lines, [`output`] writes answers, [`progress`] shows progress bars, [`interrupt`] removes
//! unfinished work after Ctrl-C, and [`exit`] returns the exit code.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod exit;
mod input;
mod interrupt;
mod output;
mod progress;
mod session;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::fail_on_abort();
    exit::fail_on_panic(run)
}

fn run() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::misunderstood(&error),
    };
    interrupt::handle();
    let mut session = session::Session::new(&cli);
    let answer = cli.command.run(&mut session);
    exit::code(answer.and_then(|answer| Ok(session.finish().map(|()| answer)?)))
}
