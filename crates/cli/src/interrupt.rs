//! Ctrl-C, SIGTERM and SIGHUP: what was begun is undone before the program ends.
//!
//! One lock orders it all. Who is interrupted takes it and never lets it go, so that nothing is
//! begun, finished or told of any more; who holds it isn't interrupted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, process, thread};

/// What shells say of a program that was interrupted: 128, and the number of the signal. Which
/// one it was isn't known, so it is the same for all.
const INTERRUPTED: i32 = 130;

type Undoing = Box<dyn Fn() + Send>;

/// What was begun, in that order, and how it is undone.
static BEGUN: Mutex<BTreeMap<u64, Undoing>> = Mutex::new(BTreeMap::new());

/// Minds interrupts from now on, unless whoever runs this has one of them ignored, as `nohup` has.
pub(crate) fn mind() {
    // Where that can't be, an interrupt is what it always was.
    let _ = ctrlc::try_set_handler(|| {
        let held = hold();
        held.0.values().rev().for_each(|undo| undo());
        process::exit(INTERRUPTED);
    });
}

/// As long as it lives, there is no interrupt: it comes afterwards.
pub(crate) struct Held(MutexGuard<'static, BTreeMap<u64, Undoing>>);

/// Waits for whoever holds it: for ever, if that is an interrupt.
pub(crate) fn hold() -> Held {
    Held(BEGUN.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Held {
    /// Says how to undo what was begun.
    pub(crate) fn undo(&mut self, undo: impl Fn() + Send + 'static) -> Undo {
        let number = self.0.last_key_value().map_or(0, |(last, _)| last + 1);
        self.0.insert(number, Box::new(undo));
        Undo(number)
    }
}

/// Undoes what was begun when it is dropped, or at an interrupt.
pub(crate) struct Undo(u64);

impl Drop for Undo {
    fn drop(&mut self) {
        let mut held = hold();
        if let Some(undo) = held.0.remove(&self.0) {
            undo();
        }
    }
}

/// Removes a directory, though an engine's threads may still be writing there. What can't be
/// removed does no harm.
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
