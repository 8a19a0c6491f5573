//! An embedded key-value store that goes to the disk at most once per mistake.
//!
//! What is here so far is the layer that everything else stands on: a [`Backend`] is an
//! ordered map on a disk, or in memory, with atomic writes over a few keyspaces.

#![forbid(unsafe_code)]

pub mod backend;
#[doc(hidden)]
pub mod testing;

pub use backend::{Backend, BackendError, Batch, Bytes, Durability, Keyspace, MemoryBackend};
#[cfg(feature = "fjall")]
pub use backend::{FjallBackend, FjallOptions};
#[cfg(feature = "redb")]
pub use backend::{RedbBackend, RedbOptions};
