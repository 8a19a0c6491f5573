//! Members of filters, and the lists of members that repairs need.

mod listing;
mod member;
mod memory;
mod ordered;
mod source;

pub use listing::Listing;
pub use member::Member;
pub(crate) use member::merged;
pub use memory::MemoryMap;
pub use ordered::OrderedHashes;
pub use source::MemberSource;
