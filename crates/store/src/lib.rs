//! An embedded key-value store whose filter learns from its mistakes. If the filter takes an absent key for a
//! member, that costs one disk read. Then the mistake is repaired, and it stays repaired as long as it is
//! [kept](OpenOptions::mistakes_kept).
//!
//! | your data | use |
//! | --- | --- |
//! | keys and values | [`Store`] |
//! | numbers, addresses or times, and ranges of them | [`RangeStore`] |
//! | a list of keys to answer "yes", and one to answer "no" | [`ListStore`] |
//! | data in your own database | [`Guard`] |
//!
//! [`OpenOptions`] opens all of them. A [`Backend`] is the ordered map that a store keeps its data in,
//! on disk or in memory.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! use twiceshy_store::Store;
//! let store = Store::open(&path)?;
//! store.put(b"alice", b"1")?;
//! assert_eq!(store.get(b"alice")?.as_deref(), Some(&b"1"[..]));
//! assert_eq!(store.get(b"mallory")?, None); // usually without a disk read
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
//! use twiceshy_store::OpenOptions;
//! let hosts = OpenOptions::new().longest_range(256).open_ranges::<Ipv4Addr>(&path)?;
//! hosts.put(Ipv4Addr::new(192, 0, 2, 7), b"printer")?;
//! let network = Ipv4Addr::new(198, 51, 100, 0)..=Ipv4Addr::new(198, 51, 100, 255);
//! assert!(hosts.range_is_empty(network)?); // usually without a disk read
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod backend;
mod census;
mod chunk;
#[cfg(feature = "fjall")]
mod directory;
mod doubts;
mod error;
mod guard;
mod kind;
mod layout;
mod lists;
mod maintained;
#[cfg(feature = "metrics")]
mod metrics;
mod options;
mod ranges;
mod saved_filter;
mod sizing;
mod stats;
mod storage;
mod store;
mod stripes;
mod sync;
#[doc(hidden)]
pub mod testing;
mod two_maps;

pub use backend::{Backend, BackendError, Batch, Bytes, Durability, Keyspace, MemoryBackend};
#[cfg(feature = "fjall")]
pub use backend::{FjallBackend, FjallOptions};
#[cfg(feature = "redb")]
pub use backend::{RedbBackend, RedbOptions};
pub use error::{Result, StoreError};
pub use guard::{Guard, GuardError, Guarded, WriteError, hash_column};
pub use kind::{Layout, List};
pub use lists::{Entries, ListExport, ListStore};
pub use options::{OpenOptions, Progress};
pub use ranges::{RangePairs, RangeStore, StoredKey};
pub use stats::Stats;
pub use store::{Pairs, Store};

/// The examples of the README and the guides, as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/lists.md")]
    struct Lists;

    #[doc = include_str!("../../../docs/lsm.md")]
    struct StorageEngines;
}
