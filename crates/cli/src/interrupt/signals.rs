//! Waiting for the signals that end a program.

/// Calls `undo` in a thread of its own at the first SIGINT, SIGTERM or SIGHUP. Each of them that
/// is ignored, as `nohup` and shells do for commands in the background, stays ignored.
///
/// If no thread can be started, the signals end the program at once, as they do by default.
#[cfg(unix)]
pub(super) fn on_signal(undo: impl FnOnce() + Send + 'static) {
    use nix::sys::signal::{SigSet, Signal};
    use std::thread::Builder;

    let ignored = ignored();
    let is_handled = |signal: &Signal| ignored >> (*signal as u32 - 1) & 1 == 0;
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let signals: SigSet = signals.into_iter().filter(is_handled).collect();
    // All later threads inherit this, so that the signals stay for the one that waits for them.
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

/// The signals that this process was started to ignore, as a set of bits. Linux keeps a signal
/// that is blocked even if it is ignored, so waiting for it would notice it.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    let mask = fields.find_map(|(name, value)| (name == "SigIgn").then_some(value));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Calls `undo` in a thread of its own when the user presses Ctrl-C or closes the console.
#[cfg(not(unix))]
pub(super) fn on_signal(undo: impl FnOnce() + Send + 'static) {
    let mut undo = Some(undo);
    // Where that fails, an interrupt ends the program at once.
    let _ = ctrlc::set_handler(move || {
        if let Some(undo) = undo.take() {
            undo();
        }
    });
}
