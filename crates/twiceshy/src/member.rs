//! Members, as they are listed.

use crate::Hash;

/// A member as a reverse map lists it: its hash, and how often it was inserted.
///
/// Members that share a fingerprint can't be told apart by it, so a filter knows only how
/// many they are in all: whose they are is for the list to say.
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
    /// How often it was inserted, and not removed again.
    pub count: u64,
}

/// A member that was inserted once.
impl From<Hash> for Member {
    fn from(hash: Hash) -> Self {
        Self { hash, count: 1 }
    }
}

impl From<&Member> for Member {
    fn from(member: &Member) -> Self {
        *member
    }
}

/// Members in hash order, each once, with all its counts.
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
