//! Waits for the signals that end a program.

/// Calls `undo` in a new thread at the first SIGINT, SIGTERM or SIGHUP. If the process was started
/// with a signal ignored, that signal stays ignored. `nohup` starts processes in this way, and so
/// do shells for background jobs.
///
/// If no thread can be started, the signals end the program immediately, as they do by default.
#[cfg(unix)]
pub(super) fn on_signal(undo: impl FnOnce() + Send + 'static) {
    use nix::sys::signal::{SigSet, Signal};
    use std::thread::Builder;

    let ignored = ignored();
    let is_handled = |signal: &Signal| ignored >> (*signal as u32 - 1) & 1 == 0;
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let signals: SigSet = signals.into_iter().filter(is_handled).collect();
    // All later threads inherit this mask, so only the thread that waits for the signals receives
    // them.
    if signals == SigSet::empty() || signals.thread_block().is_err() {
        return;
    }
    let waiting = Builder::new().name("signals".into()).spawn(move || {
        if signals.wait().is_ok() {
            undo();
        }
    });
    if waiting.is_err() {
        let _ = signals.thread_unblock();
    }
}

/// Returns the signals that were ignored when this process started, as a set of bits. On Linux, a
/// signal that is both blocked and ignored stays pending, so a thread that waits for the signal
/// would receive it.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    let mask = fields.find_map(|(name, value)| (name == "SigIgn").then_some(value));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Calls `undo` in a new thread when the user presses Ctrl-C or closes the console.
#[cfg(not(unix))]
pub(super) fn on_signal(undo: impl FnOnce() + Send + 'static) {
    let mut undo = Some(undo);
    // If this fails, an interrupt ends the program immediately.
    let _ = ctrlc::set_handler(move || {
        if let Some(undo) = undo.take() {
            undo();
        }
    });
}
