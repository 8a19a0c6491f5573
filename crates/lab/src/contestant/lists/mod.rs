//! Filters for a yes list and a no list.

mod cascade;
mod clubcard;

use cascade::Cascade;
use clubcard::Card;
use twiceshy::{Hash, YesNoFilter, YesNoList};

/// A filter that gives the right answers for all keys on two lists.
pub(crate) trait ListFilter {
    fn contains(&self, hash: Hash) -> bool;

    /// Counts the hashes for which the answer is yes.
    fn count(&self, hashes: &[Hash]) -> usize {
        hashes.iter().filter(|&&hash| self.contains(hash)).count()
    }

    /// Returns the size in bits of everything needed to answer.
    fn bits(&self) -> u64;
}

/// The filters to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Our immutable filter, for distribution.
    Fixed,
    /// Our mutable filter, an adaptive quotient filter. The lists themselves are stored elsewhere.
    Changing,
    /// The first design of `CRLite`: a cascade of Bloom filters.
    Cascade,
    /// `CRLite`'s later design: two ribbon filters.
    Clubcard,
}

impl ListKind {
    pub(crate) const ALL: [Self; 4] = [Self::Fixed, Self::Changing, Self::Cascade, Self::Clubcard];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fixed => "Twiceshy",
            Self::Changing => "Twiceshy, changing",
            Self::Cascade => "Bloom cascade",
            Self::Clubcard => "Clubcard",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Changing => "changing",
            Self::Cascade => "cascade",
            Self::Clubcard => "clubcard",
        }
    }

    /// Returns whether keys can be added and removed.
    pub(crate) fn changes(self) -> bool {
        self == Self::Changing
    }

    pub(crate) fn build(self, yes: &[Hash], no: &[Hash], rate: f64) -> Box<dyn ListFilter> {
        match self {
            Self::Fixed => {
                let builder = YesNoFilter::builder().false_positive_rate(rate);
                Box::new(builder.build(yes, no).expect("two lists"))
            }
            Self::Changing => {
                let builder = YesNoList::builder().false_positive_rate(rate);
                let list = builder.build_from(yes.to_vec(), no.to_vec());
                Box::new(list.expect("two lists"))
            }
            Self::Cascade => Box::new(Cascade::new(yes, no, rate)),
            Self::Clubcard => Box::new(Card::new(yes, no, rate)),
        }
    }
}

impl ListFilter for YesNoFilter {
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn count(&self, hashes: &[Hash]) -> usize {
        let mut answers = Vec::new();
        self.contains_many(hashes, &mut answers);
        answers.iter().filter(|&&yes| yes).count()
    }

    fn bits(&self) -> u64 {
        8 * self.stats().memory
    }
}

impl ListFilter for YesNoList {
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn count(&self, hashes: &[Hash]) -> usize {
        let mut answers = Vec::new();
        self.contains_many(hashes, &mut answers);
        answers.iter().filter(|&&yes| yes).count()
    }

    fn bits(&self) -> u64 {
        8 * self.filter().stats().memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy::{Secret, hash::KeyedHasher};

    #[test]
    fn listed_keys_get_right_answers_and_other_keys_meet_the_rate() {
        let hasher = KeyedHasher::new(&Secret::from_bytes([5; 16]));
        let hashes = |range: std::ops::Range<u64>| -> Vec<Hash> {
            range.map(|number| hasher.hash(&number)).collect()
        };
        let others = hashes(1_000_000..1_400_000);
        for (yes, no) in [(1000, 10), (3000, 3000), (300, 30_000)] {
            let (yes, no) = (hashes(0..yes), hashes(yes..yes + no));
            for kind in ListKind::ALL {
                let filter = kind.build(&yes, &no, 1.0 / 64.0);
                assert_eq!(filter.count(&yes), yes.len(), "{kind:?}");
                assert_eq!(filter.count(&no), 0, "{kind:?}");
                let wrong = filter.count(&others) as f64 / others.len() as f64;
                // Clubcard promises nothing for unlisted keys. If there are few no-list keys, its second
                // ribbon passes everything.
                let most = if kind == ListKind::Clubcard { 2.2 } else { 1.1 };
                assert!(wrong < most / 64.0, "{kind:?}: {wrong}");
                assert!(filter.bits() as f64 > 6.0 * yes.len() as f64, "{kind:?}");
            }
        }
    }
}
