//! `twiceshy`, the command line: guarded stores and filter files.
//!
//! [`cli`] says what can be typed, [`commands`] does it; [`input`] reads lines, [`output`]
//! writes answers, [`progress`] keeps a person at a terminal company, [`interrupt`] undoes what
//! they lose patience with, and [`exit`] tells the shell how it went.

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
