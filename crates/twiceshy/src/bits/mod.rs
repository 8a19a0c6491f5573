//! Bits and machines: the one folder of the crate that may hold `unsafe`.
//!
//! - [`word`]: masks, selection and moves of bits, without special instructions.
//! - [`machine`]: detects the instructions of this machine. An operation is compiled once per
//!   instruction level and dispatched once per call.
//! - [`memory`]: zeroed memory whose allocation may fail, and borrowed memory.
//! - [`map`]: files mapped into memory.
//!
//! The portable routines are compiled and tested everywhere. The accelerated routines are tested
//! against them.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod machine;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod word;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::AesRounds;
