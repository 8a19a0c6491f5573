//! An embedded key-value store whose filter learns from its mistakes: an absent key that the filter
//! takes for a member costs a disk read once, and none after that, as long as the mistake is one of
//! those that are [kept](Options::mistakes_kept).
//!
//! [`GuardedStore`] is a key-value store with an adaptive filter in front; a [`Backend`] is the
//! ordered map that it stores its data in, on a disk or in memory. [`RangeStore`] is the same for
//! keys that are numbers, and for ranges of them. [`Guard`] is the filter alone, in front of a
//! database that you already have. [`ListStore`] keeps a yes list and a no list, and answers for
//! both from memory.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! use twiceshy_store::Options;
//! let store = Options::new().open(&path)?;
//! store.put(b"alice", b"1")?;
//! assert_eq!(store.get(b"alice")?.as_deref(), Some(&b"1"[..]));
//! assert_eq!(store.get(b"mallory")?, None); // reads the disk at most once while the mistake is kept
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! use std::net::Ipv4Addr;
//! use twiceshy_store::RangeOptions;
//! let hosts = RangeOptions::new().longest_range(256).open::<Ipv4Addr>(&path)?;
//! hosts.put(Ipv4Addr::new(192, 0, 2, 7), b"printer")?;
//! let network = Ipv4Addr::new(198, 51, 100, 0)..=Ipv4Addr::new(198, 51, 100, 255);
//! assert!(hosts.range_is_empty(network)?); // reads the disk at most once while the mistake is kept
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod backend;
mod census;
mod chunk;
mod counters;
mod doubts;
mod error;
mod filter;
mod front;
mod guard;
mod home;
mod layout;
mod lists;
#[cfg(feature = "metrics")]
mod metrics;
mod ranges;
mod saved;
mod store;
mod stripes;
#[doc(hidden)]
pub mod testing;

pub use backend::{Backend, BackendError, Batch, Bytes, Durability, Keyspace, MemoryBackend};
#[cfg(feature = "fjall")]
pub use backend::{FjallBackend, FjallOptions};
#[cfg(feature = "redb")]
pub use backend::{RedbBackend, RedbOptions};
pub use error::{Result, StoreError};
pub use guard::{Guard, GuardBuilder, GuardError, Guarded, WriteError, hash_column};
pub use layout::Layout;
pub use lists::{Entries, List, ListExport, ListOptions, ListStatistics, ListStore};
pub use ranges::{RangeOptions, RangePairs, RangeStore, StoredKey};
pub use store::{GuardedStore, Options, Pairs, Progress, Statistics};
