//! Lists of the members near a query, which the caller of a repair or removal provides.

use crate::Hash;
use std::borrow::Cow;

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

/// A list of the members in a claim's interval, made by the owner of the members.
///
/// List *all* members in [`Claim::suspects`](crate::Claim::suspects), in any order, each as often
/// as it was inserted. A filter refuses a listing that does not match its fingerprints, because
/// acting on it could lose a member. Any list of hashes or of [`Member`]s converts to a listing:
///
/// ```
/// use twiceshy::{Answer, Hash, Listing, QuotientFilter};
/// let mut filter = QuotientFilter::builder().remainder_bits(8).slots(1000).build()?;
/// let [member, query, ghost] = [7u128, 8, 9].map(|number| Hash::from_u128(number << 80));
/// filter.insert(member)?;
/// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 40 bits") };
/// filter.adapt(&claim, &[member])?;
/// assert!(!filter.contains(query));
///
/// // A write that failed left a fingerprint that no member explains.
/// filter.insert(ghost)?;
/// let Answer::Maybe(claim) = filter.check(ghost) else { panic!("it was inserted") };
/// assert!(filter.adapt(&claim, &[member]).is_err());
/// filter.adapt(&claim, Listing::new(&[member]).dropping_ghosts())?;
/// assert!(filter.contains(member) && !filter.contains(ghost));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The listed hashes must be the members' true hashes. A filter checks counts and prefixes, but a
/// fingerprint cannot distinguish its member from a different hash with the same prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing<'a> {
    pub(crate) members: Vec<Member>,
    pub(crate) mistakes: Option<Cow<'a, [Hash]>>,
    pub(crate) drops_ghosts: bool,
    pub(crate) leaves_tombstones: bool,
}

impl<'a> Listing<'a> {
    /// Returns a listing of these members, without mistakes.
    pub fn new(members: impl Into<Self>) -> Self {
        members.into()
    }

    /// Sets the mistakes in the claim's interval that must stay repaired. They may be in any order.
    /// Hashes outside the interval are ignored.
    ///
    /// Only removals use them. If mistakes are listed, a [quotient filter](crate::QuotientFilter)
    /// makes fingerprints as short as these mistakes allow, and frees the slots. A
    /// [Bloom filter](crate::AdaptiveBloomFilter) only refuses a mistake that is a member, and a
    /// [telescoping or extension filter](crate::TelescopingFilter) ignores them. If no mistakes are
    /// listed, the repairs of other members stay in every filter.
    #[must_use]
    pub fn with_mistakes(self, mistakes: impl Into<Cow<'a, [Hash]>>) -> Self {
        Self { mistakes: Some(mistakes.into()), ..self }
    }

    /// Allows a repair to drop *ghosts*: fingerprints that no listed member explains, for example
    /// because a write failed after the insert into the filter. By default, a repair is refused if
    /// there are ghosts.
    ///
    /// Call this only if the listing is **complete and current**. Otherwise the filter takes a
    /// member's fingerprint for a ghost, and the member is lost.
    ///
    /// Only repairs drop ghosts. Removals and inserts refuse a listing that leaves ghosts.
    #[must_use]
    pub fn dropping_ghosts(self) -> Self {
        Self { drops_ghosts: true, ..self }
    }

    /// Allows a repair to drop ghosts, like [`dropping_ghosts`](Self::dropping_ghosts). In a
    /// quotient filter, a ghost that has its fingerprint to itself leaves a *tombstone*: its
    /// fingerprint with a count of zero. This way, the filter still shows that something
    /// [was repaired](crate::QuotientFilter::has_repairs_near) there. If there is no room for the
    /// tombstone, the repair fails, and the filter is unchanged. Other filters drop the ghost.
    ///
    /// ```
    /// use twiceshy::{Answer, Hash, Listing, QuotientFilter};
    /// let mut filter = QuotientFilter::builder().remainder_bits(8).slots(1000).build()?;
    /// let [ghost, query] = [7u128, 8].map(|number| Hash::from_u128(number << 80));
    /// filter.insert(ghost)?;
    /// let Answer::Maybe(claim) = filter.check(query) else { panic!("they share 40 bits") };
    /// filter.adapt(&claim, Listing::default().leaving_tombstones())?;
    /// assert!(filter.is_empty() && filter.has_repairs_near(ghost));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn leaving_tombstones(self) -> Self {
        Self { drops_ghosts: true, leaves_tombstones: true, ..self }
    }

    /// Returns a copy in which every hash is converted by `hash`. Drops the mistakes for which
    /// `keeps` returns false.
    pub(crate) fn mapped(
        &self,
        hash: impl Fn(Hash) -> Hash,
        keeps: impl Fn(Hash) -> bool,
    ) -> Listing<'static> {
        let member = |member: &Member| Member { hash: hash(member.hash), ..*member };
        let mistakes = self.mistakes.as_ref().map(|mistakes| {
            let kept = mistakes.iter().copied().filter(|&mistake| keeps(mistake));
            kept.map(&hash).collect()
        });
        Listing {
            members: self.members.iter().map(member).collect(),
            mistakes,
            drops_ghosts: self.drops_ghosts,
            leaves_tombstones: self.leaves_tombstones,
        }
    }
}

/// Collects members or hashes into a listing. A hash that occurs several times is a member as many
/// times.
impl<L: Into<Member>> FromIterator<L> for Listing<'_> {
    fn from_iter<I: IntoIterator<Item = L>>(members: I) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        Self { members, ..Self::default() }
    }
}

impl<'l, L: ?Sized> From<&'l L> for Listing<'_>
where
    &'l L: IntoIterator<Item: Into<Member>>,
{
    fn from(members: &'l L) -> Self {
        members.into_iter().collect()
    }
}

impl<L: Into<Member>> From<Vec<L>> for Listing<'_> {
    fn from(members: Vec<L>) -> Self {
        members.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_hashes_and_members_are_equal() {
        let hashes = [7, 9].map(Hash::from_u128);
        let members = hashes.map(Member::from);
        let expected = Listing::from(&members[..]);
        for listing in [
            Listing::from(&hashes),
            Listing::from(&hashes[..]),
            Listing::from(&hashes.to_vec()),
            Listing::from(hashes.to_vec()),
            Listing::from(&members),
            Listing::from(&members.to_vec()),
            Listing::from(members.to_vec()),
            hashes.into_iter().collect(),
            members.into_iter().collect(),
        ] {
            assert_eq!(listing, expected);
        }
    }

    #[test]
    fn mapped_translates_hashes_and_drops_mistakes_that_are_not_kept() {
        let [one, two, three] = [1, 2, 3].map(Hash::from_u128);
        let twice = |hash: Hash| Hash::from_u128(hash.as_u128() * 2);
        let listing = Listing::new(&[one]).with_mistakes(vec![two, three]).leaving_tombstones();
        let mapped = listing.mapped(twice, |mistake| mistake == two);
        let expected = Listing::new(&[two]).with_mistakes(vec![twice(two)]).leaving_tombstones();
        assert_eq!(mapped, expected);
    }
}
