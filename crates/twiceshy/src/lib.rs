//! Adaptive filters. They work like Bloom filters, but repair a false positive when they are told
//! about it.
//!
//! A filter holds a set of keys in a few bits each, and answers "absent" or "maybe". "Absent" is
//! always right. "Maybe" is wrong for a small share of absent keys, the *false-positive rate*. In
//! an ordinary filter these mistakes repeat: the same key gets the same wrong answer. The adaptive
//! filters of this crate repair a mistake, so that the rate holds for skewed and hostile queries
//! too.
//!
//! # How a repair works
//! A filter forgets most of each key, so it cannot repair a mistake alone. Something else, for
//! example a database with an index of hashes, must list the members that caused the mistake. So
//! each repair has four steps:
//! 1. `check` a key. The answer "maybe" carries a [`Claim`].
//! 2. Look the key up where the members are. If it is there, the answer was right.
//! 3. Otherwise list the members in the claim's range of hashes.
//! 4. `adapt`: the filter learns what distinguishes those members from the key, and answers
//!    "absent" to the key.
//!
//! `check_or_repair` does all four steps with two closures:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use twiceshy::{MemberSource, QuotientFilter, members::MemoryMap};
//!
//! let mut filter = QuotientFilter::builder().capacity(1_000_000).build_keyed::<str>()?;
//! let mut users = MemoryMap::new(); // stands for your database
//! for name in ["alice", "bob"] {
//!     filter.insert(name)?;
//!     users.insert(filter.hash(name), name);
//! }
//!
//! let (name, hash) = ("mallory", filter.hash("mallory"));
//! let checked = filter.check_or_repair(
//!     name,
//!     || Ok(users.contains(hash, name)),
//!     |range| users.members(range),
//! )?;
//! assert!(!checked.is_present());
//! assert!(!filter.contains("mallory")); // repaired, if it was a mistake
//! assert!(filter.contains("alice"));
//! # Ok(())
//! # }
//! ```
//!
//! A repair stays until a new member collides with the same key, which has a probability below the
//! false-positive rate. The stores of `twiceshy-store` do these steps themselves. They also keep a
//! bounded number of mistakes, so that they can repair such collisions, and keep repairs when they
//! rebuild a filter.
//!
//! # Filters
//! | family | filter | what it is for |
//! | --- | --- | --- |
//! | [`quotient`] | [`QuotientFilter`] | the default: repairs, removal, counts, merging, growth |
//! | [`telescoping`] | [`TelescopingFilter`], [`ExtensionFilter`] | a fixed number of bits; old repairs may be forgotten |
//! | | [`PlainQuotientFilter`] | no repairs, for members that nobody can list |
//! | [`bloom`] | [`AdaptiveBloomFilter`] | a Bloom filter with repairs, in little more space |
//! | [`range`] | [`RangeFilter`], [`AdaptiveRangeFilter`] | "is there a key from a to b?", without and with repairs |
//! | [`list`] | [`YesNoFilter`], [`YesNoList`] | exact answers for a yes list and a no list; the first filter is fixed, the second can change |
//!
//! All filters share one surface:
//! - A `builder()` sizes each of them: a false-positive rate, and a capacity or a number of bytes.
//!   If a filter has slots, its remainder bits and slots can be given instead.
//! - [`Keyed`] binds a filter to a key type and a secret. Without it, filters know only
//!   [hashes](struct@Hash). Range filters need no `Keyed`: they take integers.
//! - [`snapshot`] saves and opens filters, and [`Frozen`] reads some of them in place.
//!
//! [`Concurrent`] shares quotient, telescoping, extension and plain filters between threads.
//!
//! # Guarantees
//! - **No false negatives**, as long as the listed members are the true ones.
//! - **An operation that returns an error has changed no answer.** At most, a filter that grows has
//!   already grown.
//! - **Files are not trusted.** A filter that can be changed is validated when it is read. At
//!   worst, a frozen filter gives wrong answers.
//!
//! # Features
//! - `matching`: lists of hosts and URLs ([`list`]).
//! - `serde`: filters of hashes are serialised as their snapshots.

mod batch;
mod bits;
pub mod bloom;
pub mod builder;
pub mod claim;
pub mod concurrent;
pub mod error;
pub mod hash;
mod invalid;
mod keyed;
pub mod list;
pub mod members;
pub mod quotient;
pub mod range;
pub mod snapshot;
mod sorting;
mod sync;
mod table;
pub mod telescoping;
mod traits;

pub use bloom::AdaptiveBloomFilter;
pub use claim::{Answer, Claim};
pub use concurrent::Concurrent;
pub(crate) use hash::fingerprint;
pub use hash::{Hash, Key, Secret};
pub use keyed::Keyed;
#[cfg(feature = "matching")]
pub use list::{Matching, MatchingFilter};
pub use list::{YesNoFilter, YesNoList};
pub use members::{Listing, Member, MemberSource};
pub use quotient::QuotientFilter;
pub use range::{AdaptiveRangeFilter, RangeFilter};
pub use snapshot::{Frozen, KeyedSnapshot, SecretMode, Snapshot};
pub use telescoping::{ExtensionFilter, PlainQuotientFilter, TelescopingFilter};
pub use traits::{Adaptive, Checked, Dynamic, Filter, Stats};
