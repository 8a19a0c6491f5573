//! All integration tests in one program, because building one takes much less time than building
//! eighteen. Only `allocations` is separate, because it needs its own allocator.

mod bloom;
mod builder;
mod complete;
mod concurrent;
mod edges;
mod list;
#[cfg(feature = "matching")]
mod matching;
mod model;
mod oracle;
mod plan;
mod promises;
mod range;
mod refused;
mod remainders;
mod snapshot;
mod surface;
mod telescoping;
mod traps;
mod yes_no;
