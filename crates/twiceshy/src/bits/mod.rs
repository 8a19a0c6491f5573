//! Bits, instruction sets and memory. Only this folder of the crate may contain `unsafe` code.
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
