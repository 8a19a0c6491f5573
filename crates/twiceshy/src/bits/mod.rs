//! Bits and machines: the one folder of the crate that may hold `unsafe`.
//!
//! - [`word`]: masks, and selection within a 64-bit word, portable.
//! - [`line`]: moving bits within a cache line.
//! - [`list`]: lists that grow without a branch.
//! - [`machine`]: which instructions this machine has, and how an operation is
//!   compiled once for each kind and dispatched once per call.
//! - [`memory`]: zeroed memory that may be refused, and memory of others.
//! - [`map`]: files as memory: mapped, or read as a whole.
//! - [`cipher`]: the AES-128 block, by instructions or in software.
//!
//! The portable routines are compiled and tested everywhere; they are the oracle
//! of the accelerated ones.

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
