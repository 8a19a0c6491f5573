#![doc = include_str!("../README.md")]

mod bits;
mod bloom;
mod claim;
mod coded;
mod concurrent;
mod error;
mod fingerprint;
mod hash;
mod keyed;
mod list;
mod member;
mod ordered;
mod quotient;
mod range;
mod reverse_map;
pub mod snapshot;
mod sorting;
mod table;
mod traits;

pub use bits::map::MappedFile;
pub use bloom::{AdaptiveBloomFilter, BloomBuilder, BloomLevel, BloomPlan, BloomStatistics};
pub use claim::{Adaptation, Answer, Claim};
pub use coded::{
    CodedBuilder, CodedEntry, CodedFilter, CodedParameters, CodedScheme, CodedStatistics,
    ExtensionFilter, Extensions, Selectors, TelescopingFilter,
};
#[doc(hidden)]
pub use coded::{Plain, PlainFilter};
pub use concurrent::{Concurrent, Shard, ShardSize, ShardState};
pub use error::{
    AdaptError, BuildError, EntropyError, GrowError, InsertError, InsertManyError, Invalid,
    ListError, MergeError, RejuvenateError, RemoveError, ValueError,
};
pub use fingerprint::Fingerprint;
pub use hash::{Hash, HashScheme, Key, KeyedHasher, Secret};
pub use keyed::Keyed;
pub use list::{
    Delta, DeltaError, YesNoFilter, YesNoFilterBuilder, YesNoList, YesNoListBuilder, YesNoPlan,
    YesNoStatistics,
};
#[cfg(feature = "matching")]
pub use list::{Matching, MatchingFilter, MatchingFilterBuilder, UnknownMatching};
pub use member::Member;
pub use ordered::OrderedHashes;
pub use quotient::{AdaptiveQuotientFilter, Builder, Entry, Parameters, Plan, Statistics};
pub use range::{
    AdaptiveRangeFilter, Partitions, RangeAnswer, RangeBuilder, RangeClaim, RangeEntry,
    RangeFilter, RangeKey, RangePlan,
};
pub use reverse_map::MemoryMap;
pub use snapshot::{Frozen, KeyedSnapshot, SecretMode, Snapshot, SnapshotError};
pub use traits::{AdaptiveFilter, Dynamic, Filter, Removable, ReverseMap};
