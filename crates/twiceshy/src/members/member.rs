//! Members of a filter, as listings name them.

use crate::Hash;

/// A member in a listing: its hash, and how often it was inserted.
///
/// A filter cannot distinguish members that share a fingerprint. It knows only their total count,
/// so the listing must say how often each member was inserted.
///
/// ```
/// use twiceshy::{Hash, Member};
/// let once = Member::from(Hash::from_u128(7));
/// assert_eq!(once, Member { hash: Hash::from_u128(7), count: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The hash of the key.
    pub hash: Hash,
    /// The number of times it was inserted, minus the number of times it was removed.
    pub count: u64,
}

/// Returns a member that was inserted once.
impl From<Hash> for Member {
    fn from(hash: Hash) -> Self {
        Self { hash, count: 1 }
    }
}

impl From<&Hash> for Member {
    fn from(hash: &Hash) -> Self {
        Self::from(*hash)
    }
}

impl From<&Member> for Member {
    fn from(member: &Member) -> Self {
        *member
    }
}

/// Sorts members by hash and merges duplicates by adding their counts.
pub(crate) fn merged(mut members: Vec<Member>) -> Vec<Member> {
    members.retain(|member| member.count > 0);
    members.sort_unstable();
    members.dedup_by(|same, member| {
        let is_same = same.hash == member.hash;
        if is_same {
            member.count = member.count.saturating_add(same.count);
        }
        is_same
    });
    members
}
