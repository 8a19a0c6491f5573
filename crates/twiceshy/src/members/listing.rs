//! Lists of the members near a query, which the caller of a repair or removal provides.

use crate::{Hash, Member};
use std::borrow::Cow;

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
}

impl<'a> Listing<'a> {
    /// Returns a listing of these members, without mistakes.
    pub fn new(members: impl Into<Self>) -> Self {
        members.into()
    }

    /// Adds all mistakes in the claim's interval that must stay repaired, in any order. Hashes
    /// outside the interval are ignored.
    ///
    /// If mistakes are listed, a removal makes fingerprints as short as these mistakes allow, and
    /// frees the slots. Otherwise all repairs stay as they are.
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

    /// Returns a copy in which `hash` maps all hashes, with only those mistakes for which `keeps`
    /// is true.
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
        }
    }
}

/// Lists each hash as a member as many times as it occurs.
impl<L: IntoIterator<Item: Into<Member>>> From<L> for Listing<'_> {
    fn from(members: L) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        Self { members, ..Self::default() }
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
            Listing::from(hashes),
            Listing::from(members),
        ] {
            assert_eq!(listing, expected);
        }
    }

    #[test]
    fn mapping_changes_members_and_drops_other_mistakes() {
        let [one, two, three] = [1, 2, 3].map(Hash::from_u128);
        let twice = |hash: Hash| Hash::from_u128(hash.as_u128() * 2);
        let listing = Listing::new(&[one]).with_mistakes(vec![two, three]).dropping_ghosts();
        let mapped = listing.mapped(twice, |mistake| mistake == two);
        let expected = Listing::new(&[two]).with_mistakes(vec![twice(two)]).dropping_ghosts();
        assert_eq!(mapped, expected);
    }
}
