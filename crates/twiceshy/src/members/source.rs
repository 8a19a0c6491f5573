//! The source of the lists of members that repairs need.

use crate::Hash;
use core::ops::RangeInclusive;

/// A store that can list the members whose hashes lie in an interval, such as a `BTreeMap`, an LSM
/// tree, or an SQL table with an indexed hash column.
pub trait MemberSource {
    /// What a list names a member by. A [`Listing`](crate::Listing) can be made of
    /// [`Member`](crate::Member)s and of hashes.
    type Member;
    /// The error that listing members can return.
    type Error;

    /// Returns all members in the interval, in any order, each as often as it was inserted into
    /// the filter.
    ///
    /// # Errors
    /// If the members can't be listed. An incomplete list must be an error.
    fn members(&self, suspects: RangeInclusive<Hash>) -> Result<Vec<Self::Member>, Self::Error>;
}
