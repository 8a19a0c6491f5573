//! Bounds the waits of tests.
//!
//! A test that waits for threads, channels or other processes can hang: a thread that panics may
//! never send what another one waits for, and a scope waits for all of its threads. A [`Deadline`]
//! ends the whole test program then, and names the test.

#![forbid(unsafe_code)]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How much longer than planned a test may take, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(10);

/// Ends the process with an error unless it is dropped in time.
///
/// ```
/// let _deadline = twiceshy_deadline::Deadline::new();
/// std::thread::scope(|scope| drop(scope.spawn(|| 1 + 1)));
/// ```
#[derive(Debug)]
pub struct Deadline {
    /// Dropped to end the watch.
    _over: Sender<()>,
}

impl Deadline {
    /// Begins to watch the current test, which its thread is named after.
    #[expect(clippy::new_without_default, reason = "it begins when it is made")]
    pub fn new() -> Self {
        Self::beyond(Duration::ZERO)
    }

    /// Begins to watch the current test, which is meant to take that long.
    pub fn beyond(planned: Duration) -> Self {
        Self::after(planned + PATIENCE)
    }

    fn after(patience: Duration) -> Self {
        let (over, is_over) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if is_over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test} has been running for {patience:?}; it hangs");
                std::process::exit(1);
            }
        });
        Self { _over: over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    /// Which of the two the child process does.
    const CHILD: &str = "TWICESHY_DEADLINE_CHILD";

    /// Runs this test in a process of its own.
    fn child(does: &str) -> (Option<i32>, String) {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "tests::a_test_that_hangs_ends", "--nocapture"]);
        let output = child.env(CHILD, does).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn a_test_that_hangs_ends() {
        match env::var(CHILD).as_deref() {
            Ok("hang") => {
                let _deadline = Deadline::after(Duration::from_millis(1));
                // Much longer than the deadline, but not forever.
                thread::sleep(Duration::from_mins(1));
            }
            Ok(_) => {
                drop(Deadline::after(Duration::from_mins(1)));
            }
            Err(_) => {
                let (code, told) = child("hang");
                assert_eq!(code, Some(1));
                assert!(told.contains("tests::a_test_that_hangs_ends has been running"), "{told}");
                assert_eq!(child("end").0, Some(0));
            }
        }
    }
}
