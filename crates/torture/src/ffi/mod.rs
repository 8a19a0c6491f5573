//! Makes chosen system calls fail.
//!
//! This program defines the functions of the C library by which Rust's standard library reads,
//! writes and names files. The linker prefers these definitions to those of the library, so the
//! program needs neither preloading nor tracing. Each function makes the same system call, unless a
//! fault prevents it. Only files below one directory are affected, not pipes or other files.

#![allow(unsafe_code)]

mod shims;

use crate::plan::{Counts, Fault};
use std::ffi::{CStr, c_char, c_int, c_long};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// The directory below which calls are counted and can fail.
static DIRECTORY: OnceLock<Vec<u8>> = OnceLock::new();
/// Whether each file descriptor belongs to a file below the directory.
static IS_OURS: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];
static IS_PAUSED: AtomicBool = AtomicBool::new(false);
static IS_DARK: AtomicBool = AtomicBool::new(false);
/// The number of calls per [`Class`].
static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// The active fault, as its index in [`Fault::CALLS`] plus one; 0 for none.
static ARMED: AtomicUsize = AtomicUsize::new(0);
/// The number of calls until the active fault hits.
static LEFT: AtomicI64 = AtomicI64::new(0);
static LASTS: AtomicBool = AtomicBool::new(false);

/// The effect of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The call reads.
    Read,
    /// The call changes something, and may need disk space.
    Fill,
    /// The call changes something, and needs no disk space.
    Change,
}

/// What to do instead of a call.
enum Verdict {
    Pass,
    Fail(c_int),
    /// Make the call (only half of it, if it is a write), and then kill the process.
    Torn,
}

/// Counts calls for files below a directory from now on.
pub(crate) fn watch(directory: &[u8]) {
    DIRECTORY.set(directory.to_vec()).expect("one directory");
}

pub(crate) fn pause(is_paused: bool) {
    IS_PAUSED.store(is_paused, SeqCst);
}

/// Sets whether every call that changes something fails.
pub(crate) fn black_out(is_dark: bool) {
    IS_DARK.store(is_dark, SeqCst);
}

/// Injects a fault into the n-th call from now on that the fault can hit. If `lasts`, all later
/// ones fail, too.
pub(crate) fn arm(fault: Fault, n: u64, lasts: bool) {
    let place = Fault::CALLS.iter().position(|other| *other == fault);
    LEFT.store(n.cast_signed(), SeqCst);
    LASTS.store(lasts, SeqCst);
    ARMED.store(place.expect("a fault of system calls") + 1, SeqCst);
}

/// Returns the number of calls since `take_counts` was last called.
pub(crate) fn take_counts() -> Counts {
    let counts = [Class::Read, Class::Fill, Class::Change]
        .map(|class| (class, COUNTS[class as usize].swap(0, SeqCst)));
    Counts::new(|fault| {
        let hit = counts.iter().filter(|(class, _)| can_hit(fault, *class));
        hit.map(|(_, count)| count).sum()
    })
}

/// Returns whether a fault can hit a call of this class.
fn can_hit(fault: Fault, class: Class) -> bool {
    match fault {
        Fault::Eio => true,
        Fault::Full => class == Class::Fill,
        Fault::Kill | Fault::Torn => class != Class::Read,
        _ => false,
    }
}

/// Counts a call for one of the watched files, and returns what to do.
fn judge(call: &str, class: Class, is_ours: bool) -> Verdict {
    if !is_ours || IS_PAUSED.load(SeqCst) {
        return Verdict::Pass;
    }
    if class != Class::Read && IS_DARK.load(SeqCst) {
        return Verdict::Fail(libc::EIO);
    }
    COUNTS[class as usize].fetch_add(1, SeqCst);
    let armed = ARMED.load(SeqCst);
    let Some(&fault) = armed.checked_sub(1).and_then(|place| Fault::CALLS.get(place)) else {
        return Verdict::Pass;
    };
    if !can_hit(fault, class) {
        return Verdict::Pass;
    }
    let left = LEFT.fetch_sub(1, SeqCst);
    if left > 0 || (left < 0 && !LASTS.load(SeqCst)) {
        return Verdict::Pass;
    }
    say(call);
    match fault {
        Fault::Eio => Verdict::Fail(libc::EIO),
        Fault::Full => Verdict::Fail(libc::ENOSPC),
        Fault::Torn => Verdict::Torn,
        _ => die(),
    }
}

/// Reports to the parent which call is hit.
fn say(call: &str) {
    let line = format!("H {call}\n");
    // SAFETY: the pointer and the length are those of a live string.
    unsafe { libc::syscall(libc::SYS_write, 1, line.as_ptr(), line.len()) };
}

fn die() -> ! {
    loop {
        // SAFETY: this call only ends the process, as intended.
        unsafe { libc::raise(libc::SIGKILL) };
    }
}

fn is_ours(fd: c_int) -> bool {
    usize::try_from(fd).ok().and_then(|fd| IS_OURS.get(fd)).is_some_and(|ours| ours.load(SeqCst))
}

/// Records whether a file descriptor belongs to a watched file.
fn opened(fd: c_long, is_ours: bool) {
    if let Some(slot) = usize::try_from(fd).ok().and_then(|fd| IS_OURS.get(fd)) {
        slot.store(is_ours, SeqCst);
    }
}

/// Returns whether a path, or a name in a directory, is below the watched directory.
///
/// # Safety
/// `path` must be null, or point to a string that ends with a null byte.
unsafe fn is_below(directory: c_int, path: *const c_char) -> bool {
    let Some(watched) = DIRECTORY.get() else { return false };
    if path.is_null() {
        return false;
    }
    // SAFETY: the path isn't null, so the caller guarantees that it points to a terminated string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    path.starts_with(watched) || (!path.starts_with(b"/") && is_ours(directory))
}

/// Sets `errno`, and returns the result of a failed call.
fn fail(error: c_int) -> c_int {
    // SAFETY: this function has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for this thread.
    unsafe { *place = error };
    -1
}
