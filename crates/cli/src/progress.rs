//! Progress bars for tasks that take longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time that a task must have run before its bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two updates of the bar.
const TICK: Duration = Duration::from_millis(100);

/// The size of a task.
#[derive(Clone, Copy)]
pub(crate) enum Total {
    Bytes(u64),
    UnknownBytes,
    Items(u64),
    Unknown,
}

impl Total {
    fn template(self) -> &'static str {
        match self {
            Self::Bytes(_) => "{msg} [{bar:30}] {bytes}/{total_bytes}, {eta} to go",
            Self::UnknownBytes => "{msg} {spinner} {bytes}",
            Self::Items(_) => "{msg} [{bar:30}] {human_pos}/{human_len}",
            Self::Unknown => "{msg} {spinner}",
        }
    }

    fn count(self) -> Option<u64> {
        match self {
            Self::Bytes(count) | Self::Items(count) => Some(count),
            Self::UnknownBytes | Self::Unknown => None,
        }
    }
}

/// A progress bar on standard error. It appears after a second, and is removed on drop.
pub(crate) struct Progress {
    bar: ProgressBar,
    showing: Option<Showing>,
}

/// The thread that draws the bar.
struct Showing {
    /// A channel to the thread. The thread ends when this is dropped.
    over: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    pub(crate) fn new(task: &'static str, total: Total, is_shown: bool) -> Self {
        let bar = ProgressBar::with_draw_target(total.count(), ProgressDrawTarget::hidden());
        if !is_shown {
            return Self { bar, showing: None };
        }
        turn_to(&bar, task, total);
        let (over, is_over) = channel();
        let shown = bar.clone();
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            let mut wait = PATIENCE;
            while is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                if wait == PATIENCE {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    wait = TICK;
                }
                shown.tick();
            }
        });
        // If the thread cannot start, the work goes on without a bar.
        Self { bar, showing: thread.ok().map(|thread| Showing { over, thread }) }
    }

    /// Returns a handle that any thread can use.
    pub(crate) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }
}

/// Makes a bar show a different task.
pub(crate) fn turn_to(bar: &ProgressBar, task: &'static str, total: Total) {
    let style = ProgressStyle::with_template(total.template());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(task);
    if let Some(count) = total.count() {
        bar.set_length(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Showing { over, thread }) = self.showing.take() {
            drop(over);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
