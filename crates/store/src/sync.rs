//! Locks, atomics and threads. With `--cfg shuttle`, they are those of `shuttle`, which runs the threads of
//! a test in many orders and can repeat each of them.

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread::{self, ScopedJoinHandle},
    thread_local,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread::{self, ScopedJoinHandle},
    thread_local,
};

/// Starts a named thread that ends before its scope does.
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(shuttle)]
    let _ = name;
    #[cfg(shuttle)]
    return Ok(scope.spawn(work));
    #[cfg(not(shuttle))]
    thread::Builder::new().name(name.into()).spawn_scoped(scope, work)
}

/// Returns whether a thread has panicked while it held a lock.
pub(crate) fn is_poisoned<T>(lock: &Mutex<T>) -> bool {
    #[cfg(shuttle)]
    return matches!(lock.try_lock(), Err(std::sync::TryLockError::Poisoned(_)));
    #[cfg(not(shuttle))]
    lock.is_poisoned()
}

/// Makes the current thread sleep.
pub(crate) fn sleep(time: std::time::Duration) {
    // Under shuttle, let other threads run, whatever their priorities are.
    #[cfg(shuttle)]
    let _ = (time, thread::yield_now());
    #[cfg(not(shuttle))]
    thread::sleep(time);
}
