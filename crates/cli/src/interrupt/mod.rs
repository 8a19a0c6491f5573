//! Ctrl-C, SIGTERM and SIGHUP: what was begun is undone before the program ends.
//!
//! One lock orders it all. The thread that handles a signal takes it and never releases it, so that
//! nothing is begun, finished or reported any more; no signal is handled while another thread holds
//! it.

mod signals;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

/// The exit code after each of the signals: what shells report after Ctrl-C.
const INTERRUPTED: i32 = 130;

type Undoing = Box<dyn Fn() + Send>;

/// What was begun, in that order, and how it is undone.
static BEGUN: Mutex<BTreeMap<u64, Undoing>> = Mutex::new(BTreeMap::new());

/// Handles signals from now on. Must be called before other threads are started.
pub(crate) fn handle() {
    signals::on_signal(|| {
        let held = hold();
        held.0.values().rev().for_each(|undo| undo());
        process::exit(INTERRUPTED);
    });
}

/// Delays signals while it lives.
pub(crate) struct Held(MutexGuard<'static, BTreeMap<u64, Undoing>>);

/// Waits until no other thread holds the lock. Never returns once a signal is being handled.
pub(crate) fn hold() -> Held {
    Held(BEGUN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Held {
    /// Registers how to undo what was begun.
    pub(crate) fn undo(&mut self, undo: impl Fn() + Send + 'static) -> Undo {
        let number = self.0.last_key_value().map_or(0, |(last, _)| last + 1);
        self.0.insert(number, Box::new(undo));
        Undo(number)
    }
}

/// Undoes what was begun when it is dropped, or when a signal arrives.
pub(crate) struct Undo(u64);

impl Drop for Undo {
    fn drop(&mut self) {
        let mut held = hold();
        if let Some(undo) = held.0.remove(&self.0) {
            undo();
        }
    }
}

/// Removes a directory, even if an engine's threads are still writing there. A directory that
/// can't be removed does no harm.
pub(crate) fn remove(directory: &Path) {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let _ = fs::remove_dir_all(directory);
        if !directory.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
