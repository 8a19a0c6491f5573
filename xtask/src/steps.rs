//! Runs the steps of a command. Prints which step runs and how long it took, and a table at the
//! end.

use crate::shell::{self, Done, Screen, logs};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The steps of one command, in the order in which they ended.
pub(crate) struct Steps {
    start: Instant,
    ended: Mutex<Vec<Ended>>,
}

struct Ended {
    name: &'static str,
    time: Duration,
    is_beside: bool,
    is_green: bool,
}

/// A sequence of steps that run one after the other. Two lanes run at the same time.
pub(crate) struct Lane<'a> {
    steps: &'a Steps,
    is_beside: bool,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), ended: Mutex::new(Vec::new()) }
    }

    /// Runs two lanes at the same time. The steps of `main` write to the terminal, and those of
    /// `beside` write to logs. When a lane fails, the other lane is stopped.
    ///
    /// # Errors
    /// The error of the lane that failed first.
    pub(crate) fn run(
        &self,
        main: impl FnOnce(&Lane<'_>) -> Done,
        beside: impl FnOnce(&Lane<'_>) -> Done + Send,
    ) -> Done {
        let first_error = Mutex::new(None);
        let note = |done: Done| {
            if let Err(error) = done {
                shell::stop();
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| note(beside(&Lane { steps: self, is_beside: true })));
            note(self.run_alone(main));
        });
        first_error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Runs steps in a single lane.
    ///
    /// # Errors
    /// The error of the step that failed.
    pub(crate) fn run_alone(&self, main: impl FnOnce(&Lane<'_>) -> Done) -> Done {
        main(&Lane { steps: self, is_beside: false })
    }

    /// Prints how long each step took.
    pub(crate) fn print(&self) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("\n{:<24} {:>8}", "step", "seconds");
        for Ended { name, time, is_beside, is_green } in &*ended {
            let seconds = time.as_secs_f64();
            let beside = if *is_beside { "  beside the others" } else { "" };
            let failed = if *is_green { "" } else { "  FAILED" };
            eprintln!("{name:<24} {seconds:>8.0}{beside}{failed}");
        }
        eprintln!("{:<24} {:>8.0}", "in all", self.start.elapsed().as_secs_f64());
    }
}

impl Lane<'_> {
    /// Waits until a step of the other lane has succeeded.
    ///
    /// # Errors
    /// If a step fails before, or if it takes too long.
    pub(crate) fn wait_for(&self, name: &'static str) -> Done {
        shell::wait_until(name, || {
            let ended = self.steps.ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.iter().any(|step| step.name == name && step.is_green)
        })
    }

    /// Runs a step, and prints when it begins and how long it took.
    ///
    /// # Errors
    /// The error of the step.
    pub(crate) fn step(&self, name: &'static str, work: impl FnOnce(&Screen) -> Done) -> Done {
        let log = logs().join(format!("{}.log", name.replace(' ', "-")));
        let beside =
            if self.is_beside { format!(" (log: {})", log.display()) } else { String::new() };
        eprintln!("\n=== {name}{beside}");
        let screen = if self.is_beside {
            let _ = fs::remove_file(&log);
            Screen::Log(log.clone())
        } else {
            Screen::Terminal
        };
        let start = Instant::now();
        let done = work(&screen);
        let time = start.elapsed();
        eprintln!(
            "\n=== {name}: {:.0} s{}",
            time.as_secs_f64(),
            if done.is_ok() { "" } else { ", FAILED" }
        );
        let ended = Ended { name, time, is_beside: self.is_beside, is_green: done.is_ok() };
        self.steps.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        done.map_err(|error| match screen {
            Screen::Terminal => error,
            Screen::Log(log) => format!("{error}\n{}", end_of(&log)),
        })
    }
}

/// Returns the last lines of a log.
fn end_of(log: &std::path::Path) -> String {
    const LINES: usize = 60;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    format!("{last}\n(the whole log is {})", log.display())
}
