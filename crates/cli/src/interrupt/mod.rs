//! Undoes unfinished work before Ctrl-C, SIGTERM or SIGHUP ends the program.
//!
//! A thread must hold a lock to begin, finish or report work, or to handle a signal, so no signal
//! is handled while a thread does any of this. The thread that handles a signal never releases the
//! lock, so that no work begins, finishes or is reported afterwards.

mod signals;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

/// The exit code after any of these signals. Shells report this code after Ctrl-C.
const INTERRUPTED: i32 = 130;

type Undoing = Box<dyn Fn() + Send>;

/// The functions that undo unfinished work, in the order in which the work began.
static BEGUN: Mutex<BTreeMap<u64, Undoing>> = Mutex::new(BTreeMap::new());

/// Handles signals from now on. Must be called before other threads are started.
pub(crate) fn handle() {
    signals::on_signal(|| {
        let held = hold();
        held.0.values().rev().for_each(|undo| undo());
        process::exit(INTERRUPTED);
    });
}

/// Holds the lock. No signal is handled until this is dropped.
pub(crate) struct Held(MutexGuard<'static, BTreeMap<u64, Undoing>>);

/// Takes the lock, and waits for it if another thread holds it. Never returns once a signal is
/// being handled.
pub(crate) fn hold() -> Held {
    Held(BEGUN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Held {
    /// Registers a function that undoes the work that begins now.
    pub(crate) fn undo(&mut self, undo: impl Fn() + Send + 'static) -> Undo {
        let number = self.0.last_key_value().map_or(0, |(last, _)| last + 1);
        self.0.insert(number, Box::new(undo));
        Undo(number)
    }
}

/// Undoes unfinished work when this is dropped, or when a signal arrives.
pub(crate) struct Undo(u64);

impl Drop for Undo {
    fn drop(&mut self) {
        let mut held = hold();
        if let Some(undo) = held.0.remove(&self.0) {
            undo();
        }
    }
}

/// Removes a directory, even if an engine's threads are still writing there. Ignores errors,
/// because a directory that stays does no harm.
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
