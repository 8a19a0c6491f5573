//! Members of filters, and the lists of members that repairs need.

mod listing;
mod ordered;
mod source;

pub(crate) use listing::merged;
pub use listing::{Listing, Member};
pub use ordered::OrderedHashes;
pub use source::{MemberSource, MemoryMap};
