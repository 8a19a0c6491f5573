//! Functions with the signatures of the C library.

use super::{Class, Verdict, die, fail, is_below, is_ours, judge, opened};
use libc::{iovec, mode_t, off_t, size_t, ssize_t, syscall};
use std::ffi::{c_char, c_int, c_long, c_void};

/// Makes a system call, unless a fault prevents it.
macro_rules! call {
    ($name:literal, $class:expr, $is_ours:expr, $call:expr) => {
        match judge($name, $class, $is_ours) {
            // SAFETY: the arguments are those that the caller has passed.
            Verdict::Pass => unsafe { $call },
            Verdict::Fail(error) => fail(error).into(),
            Verdict::Torn => {
                // SAFETY: the arguments are those that the caller has passed.
                unsafe { $call };
                die()
            }
        }
    };
}

fn write_by_halves(
    name: &str,
    fd: c_int,
    length: size_t,
    write: impl Fn(size_t) -> c_long,
) -> ssize_t {
    match judge(name, Class::Fill, is_ours(fd)) {
        Verdict::Pass => write(length) as ssize_t,
        Verdict::Fail(error) => fail(error) as ssize_t,
        Verdict::Torn => {
            write(length.div_ceil(2));
            die()
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    let call = call!("read", Class::Read, is_ours(fd), syscall(libc::SYS_read, fd, buffer, length));
    call as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn pread64(fd: c_int, buffer: *mut c_void, length: size_t, at: off_t) -> ssize_t {
    let read = call!(
        "pread",
        Class::Read,
        is_ours(fd),
        syscall(libc::SYS_pread64, fd, buffer, length, at)
    );
    read as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    write_by_halves("write", fd, length, |length| {
        // SAFETY: the caller has passed a buffer of at least this length.
        unsafe { syscall(libc::SYS_write, fd, buffer, length) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, length: size_t, at: off_t) -> ssize_t {
    write_by_halves("pwrite", fd, length, |length| {
        // SAFETY: the caller has passed a buffer of at least this length.
        unsafe { syscall(libc::SYS_pwrite64, fd, buffer, length, at) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    let written =
        call!("writev", Class::Fill, is_ours(fd), syscall(libc::SYS_writev, fd, buffers, count));
    written as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    call!("fsync", Class::Fill, is_ours(fd), syscall(libc::SYS_fsync, fd)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    call!("fdatasync", Class::Fill, is_ours(fd), syscall(libc::SYS_fdatasync, fd)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    let call =
        call!("ftruncate", Class::Fill, is_ours(fd), syscall(libc::SYS_ftruncate, fd, length));
    call as c_int
}

/// The C library reads `mode` only if it creates a file. Otherwise callers may omit it, and its
/// value is unused.
#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    openat64(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller has passed a path.
    let is_ours = unsafe { is_below(directory, path) };
    let class = if flags & libc::O_CREAT == 0 { Class::Read } else { Class::Fill };
    let fd = call!("open", class, is_ours, syscall(libc::SYS_openat, directory, path, flags, mode));
    opened(fd, is_ours);
    fd as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    const HERE: c_int = libc::AT_FDCWD;
    // SAFETY: the caller has passed a path.
    let is_ours = unsafe { is_below(HERE, to) };
    let call = call!(
        "rename",
        Class::Fill,
        is_ours,
        syscall(libc::SYS_renameat2, HERE, from, HERE, to, 0)
    );
    call as c_int
}

#[unsafe(no_mangle)]
extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    const HERE: c_int = libc::AT_FDCWD;
    // SAFETY: the caller has passed a path.
    let is_ours = unsafe { is_below(HERE, path) };
    call!("mkdir", Class::Fill, is_ours, syscall(libc::SYS_mkdirat, HERE, path, mode)) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    unlinkat(libc::AT_FDCWD, path, 0)
}

#[unsafe(no_mangle)]
extern "C" fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller has passed a path.
    let is_ours = unsafe { is_below(directory, path) };
    let call = call!(
        "unlink",
        Class::Change,
        is_ours,
        syscall(libc::SYS_unlinkat, directory, path, flags)
    );
    call as c_int
}
