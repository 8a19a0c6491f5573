//! Stops tests that hang.
//!
//! A test that waits for threads, channels or other processes can hang: a panicking thread may
//! never send what another thread waits for. A [`Deadline`] then ends the whole test program and
//! names the test.

#![forbid(unsafe_code)]

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The extra time that a test may take beyond its planned time, because the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(10);

/// A guard that ends the process with an error unless it is dropped in time.
///
/// ```
/// let _deadline = twiceshy_deadline::Deadline::new();
/// std::thread::scope(|scope| drop(scope.spawn(|| 1 + 1)));
/// ```
#[derive(Debug)]
pub struct Deadline {
    /// Dropping this sender stops the watching thread.
    _stop: Sender<()>,
}

impl Deadline {
    /// Starts to watch the current test, whose name is that of the current thread.
    #[expect(clippy::new_without_default, reason = "creating one starts a thread")]
    pub fn new() -> Self {
        Self::beyond(Duration::ZERO)
    }

    /// Starts to watch the current test, which should take about `planned`.
    pub fn beyond(planned: Duration) -> Self {
        Self::after(planned + PATIENCE)
    }

    fn after(patience: Duration) -> Self {
        let (stop, stopped) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if stopped.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{test} has been running for {patience:?} and probably hangs");
                std::process::exit(1);
            }
        });
        Self { _stop: stop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    /// The environment variable that tells the child process what to do.
    const CHILD: &str = "TWICESHY_DEADLINE_CHILD";

    /// Runs this test in a child process. Returns the child's exit code and standard error.
    fn child(action: &str) -> (Option<i32>, String) {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "tests::hanging_test_is_stopped", "--nocapture"]);
        let output = child.env(CHILD, action).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn hanging_test_is_stopped() {
        match env::var(CHILD).as_deref() {
            Ok("hang") => {
                let _deadline = Deadline::after(Duration::from_millis(1));
                // Sleep much longer than the deadline, but not forever.
                thread::sleep(Duration::from_mins(1));
            }
            Ok(_) => {
                drop(Deadline::after(Duration::from_mins(1)));
            }
            Err(_) => {
                let (code, stderr) = child("hang");
                assert_eq!(code, Some(1));
                assert!(
                    stderr.contains("tests::hanging_test_is_stopped has been running"),
                    "{stderr}"
                );
                assert_eq!(child("end").0, Some(0));
            }
        }
    }
}
