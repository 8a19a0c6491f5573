//! Bits and machines: the one folder of the crate that may hold `unsafe`.
//!
//! - [`word`]: masks, and selection within a 64-bit word, without special instructions.
//! - [`line`]: moving bits within a cache line.
//! - [`list`]: lists that grow without a branch.
//! - [`machine`]: detects the instructions of this machine. An operation is compiled once per
//!   instruction level and dispatched once per call.
//! - [`memory`]: zeroed memory whose allocation may fail, and borrowed memory.
//! - [`map`]: files mapped into memory.
//! - [`cipher`]: AES-128 of one block, with AES instructions or in software.
//!
//! The portable routines are compiled and tested everywhere. The accelerated routines are tested
//! against them.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod cipher;
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod machine;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod word;
#[cfg(target_arch = "x86_64")]
mod x86_64;
