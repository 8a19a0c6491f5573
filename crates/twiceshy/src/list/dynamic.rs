//! In-memory yes/no lists that can change at any time.

use super::ListError;
use super::fixed::first_common;
use super::plan::ListSize;
use crate::builder::{Builder, FromMembers, PLANNED_LOAD};
use crate::error::{BuildError, Invalid, PlanError};
use crate::quotient::MOST_EXTENDED;
use crate::traits::filter_traits;
use crate::{
    Answer, Hash, Key, Keyed, Listing, QuotientFilter, Stats, members::OrderedHashes,
    quotient::Parameters,
};

/// Number of slots to try when a list with uneven hashes is restored. Its filter had room for them,
/// but it may have been larger than a new one.
const RESTORED_SLOTS: u64 = 1 << 24;

/// A yes list and a no list that can change at any time and are exact at all times.
///
/// It works on hashes; [`Keyed`] binds it to a key type and a secret. It treats keys with the same
/// 128-bit hash as the same key.
///
/// # Guarantees
/// - It answers "yes" to every key on the yes list, "no" to every key on the no list, and "yes" to
///   any other key with at most the requested probability, however many keys are listed.
/// - A key is on at most one list. Adding it to the other list returns an error.
/// - The lists grow and shrink by themselves. Adding a key with a random hash fails only if memory
///   runs out, and changes nothing in that case. Removing a key never fails.
/// - Hashes that aren't random may be refused with [`ListError::Uneven`], for example 30 adjacent
///   pairs of a yes-list key and a no-list key that differ only in the last bit. The hashes of a
///   [`Keyed`] list are random.
///
/// # How it works
/// The yes-list keys are the members of a [`QuotientFilter`], and the no-list keys are mistakes
/// that stay repaired. Both lists are stored beside the filter in hash order, so all keys that
/// could be confused with a fingerprint form one interval of each list. Adding a no-list key
/// repairs it if the filter would answer "maybe". A new yes-list key gets an extension that
/// distinguishes it from the no-list keys in its interval. Removing a key shortens the fingerprints
/// that were longer because of it. After every change, the filter equals the one that would be
/// built from both lists.
///
/// Lookups read only the filter, whose size is in the [plan](super::PlanDetails). The lists take
/// about 18 bytes per key. In the design of Wen et al., *Adaptive Quotient Filters* (SIGMOD 2024),
/// §4.3, the table holds the keys of both lists, with a tag in each slot.
///
/// # Examples
/// ```
/// use twiceshy::YesNoList;
/// let mut list = YesNoList::builder().false_positive_rate(0.01).build_keyed::<str>()?;
/// list.add_yes("evil.example")?;
/// list.add_no("fine.example")?;
/// assert!(list.contains("evil.example") && !list.contains("fine.example"));
///
/// // Move a key from the no list to the yes list.
/// assert!(list.add_yes("fine.example").is_err());
/// assert!(list.remove_no("fine.example"));
/// assert!(list.add_yes("fine.example")?);
/// assert!(list.contains("fine.example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct YesNoList {
    filter: QuotientFilter,
    yes: OrderedHashes,
    no: OrderedHashes,
    /// The minimum size that the filter is planned for.
    size: ListSize,
    /// Maximum number of yes-list keys. With more, the probability of "yes" for unlisted keys would
    /// be too high.
    most: usize,
    /// Number of slots in use when the filter was built.
    fitted: u64,
    repairs: u64,
}

impl YesNoList {
    /// Returns a builder that sets the false-positive rate and, optionally, the size of the lists.
    /// Without a size they start small and grow. [`build_from`](Builder::build_from) and
    /// [`build_keyed_from`](Builder::build_keyed_from) take the yes list and the no list.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    /// Returns two empty lists of the planned size.
    pub(super) fn empty(size: ListSize) -> Result<Self, BuildError> {
        let parameters = size.parameters()?;
        let filter = QuotientFilter::from_sorted(parameters, [] as [Hash; 0], [])?;
        let most = size.most_yes_keys(parameters);
        let (yes, no) = (OrderedHashes::new(), OrderedHashes::new());
        Ok(Self { filter, yes, no, size, most, fitted: 0, repairs: 0 })
    }

    /// Returns a list with these keys, [planned](Self::planned) for these numbers of keys and this
    /// rate.
    pub(crate) fn from_lists(
        yes: OrderedHashes,
        no: OrderedHashes,
        planned: [usize; 2],
        rate: f64,
        repairs: u64,
    ) -> Result<Self, ListError> {
        let [capacity, no_capacity] = planned;
        let builder = Self::builder().capacity(capacity).no_capacity(no_capacity);
        let empty = builder.false_positive_rate(rate).build()?;
        let mut list = Self { yes, no, repairs, ..empty };
        list.build_filter(RESTORED_SLOTS)?;
        Ok(list)
    }

    /// Builds the filter for the first time. Even if the hashes are uneven, tries up to `slots`
    /// slots.
    fn build_filter(&mut self, slots: u64) -> Result<(), ListError> {
        self.replace(self.size.at_least(self.yes.len(), self.no.len()).parameters()?, slots)
    }

    /// Returns the numbers of yes-list keys and of no-list keys that the filter is planned for.
    pub(crate) fn planned(&self) -> [usize; 2] {
        [self.size.yes, self.size.no]
    }

    /// Returns the rate that was requested.
    pub(crate) fn planned_rate(&self) -> f64 {
        self.size.rate
    }

    /// Returns whether a key with this hash may be on the yes list. The answer is correct for every
    /// listed key; for other keys, only the answer `false` is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.filter.contains(hash)
    }

    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.filter.contains_many(hashes, answers);
    }

    /// Adds a key to the yes list. Returns whether it is new there.
    ///
    /// # Errors
    /// [`ListError::OnNoList`] if the key is on the no list; [`ListError::Build`] if there is not
    /// enough memory; [`ListError::Uneven`] if the hashes aren't random. The lists are unchanged in these cases.
    pub fn add_yes(&mut self, hash: Hash) -> Result<bool, ListError> {
        if self.no.contains(hash) {
            return Err(ListError::OnNoList { hash });
        }
        let (is_new, repairs) = (self.yes.insert(hash), self.repairs);
        if is_new && let Err(error) = self.insert_yes(hash) {
            self.yes.remove(hash);
            self.repairs = repairs;
            return Err(error);
        }
        Ok(is_new)
    }

    /// Inserts a new yes-list key into the filter.
    fn insert_yes(&mut self, hash: Hash) -> Result<(), ListError> {
        if self.yes.len() > self.most || self.filter.load() >= PLANNED_LOAD {
            return self.rebuild(0);
        }
        if self.filter.insert(hash).is_err() {
            return self.grow();
        }
        // `&mut self` prevents lookups from seeing the filter before it is repaired.
        let near: Vec<Hash> = self.no.range(self.filter.suspects(hash)).collect();
        let repaired = near.into_iter().try_for_each(|no| self.repair(no));
        repaired.inspect_err(|_| self.take_out(hash))
    }

    /// Adds a key to the no list. Returns whether it is new there.
    ///
    /// # Errors
    /// [`ListError::OnYesList`] if the key is on the yes list; [`ListError::Build`] if there is not
    /// enough memory; [`ListError::Uneven`] if the hashes aren't random. The lists are unchanged in these cases.
    pub fn add_no(&mut self, hash: Hash) -> Result<bool, ListError> {
        if self.yes.contains(hash) {
            return Err(ListError::OnYesList { hash });
        }
        let (is_new, repairs) = (self.no.insert(hash), self.repairs);
        if is_new && let Err(error) = self.repair(hash) {
            self.no.remove(hash);
            self.repairs = repairs;
            return Err(error);
        }
        Ok(is_new)
    }

    /// Makes the filter answer "no" to a key of the no list.
    fn repair(&mut self, no: Hash) -> Result<(), ListError> {
        let Answer::Maybe(claim) = self.filter.check(no) else { return Ok(()) };
        self.repairs += 1;
        let members: Listing<'_> = self.yes.range(claim.suspects()).collect();
        if self.filter.adapt(&claim, members).is_ok() { Ok(()) } else { self.grow() }
    }

    /// Removes a key from the yes list. Returns whether it was there.
    pub fn remove_yes(&mut self, hash: Hash) -> bool {
        let was_there = self.yes.remove(hash);
        if was_there {
            self.take_out(hash);
            self.shrink();
        }
        was_there
    }

    /// Removes a yes-list key from the filter. The other fingerprints keep their lengths, because
    /// the no-list keys still need them.
    fn take_out(&mut self, hash: Hash) {
        self.filter.remove_trusting(hash).expect("a key on the yes list is a member");
    }

    /// Removes a key from the no list. Returns whether it was there.
    pub fn remove_no(&mut self, hash: Hash) -> bool {
        let was_there = self.no.remove(hash);
        if was_there && self.filter.is_lengthened(hash) {
            // Make fingerprints as short as the other no-list keys allow.
            let claim = self.filter.claim_near(hash);
            let near = |list: &OrderedHashes| list.range(claim.suspects()).collect::<Vec<Hash>>();
            let listing = Listing::new(near(&self.yes)).with_mistakes(near(&self.no));
            match self.filter.shorten(&claim, listing) {
                Ok(()) => self.shrink(),
                Err(error) => unreachable!("the lists are complete: {error}"),
            }
        }
        was_there
    }

    /// Rebuilds the filter if it uses less than half as many slots as when it was built.
    fn shrink(&mut self) {
        if self.filter.used() * 2 < self.fitted {
            // If there is not enough memory, the larger filter still works.
            let _ = self.rebuild(0);
        }
    }

    /// Rebuilds the filter from the lists, with room for more keys and at least `least_slots` slots.
    fn rebuild(&mut self, least_slots: u64) -> Result<(), ListError> {
        let more = |len: usize| len + len / 4 + 16;
        let size = self.size.at_least(more(self.yes.len()), more(self.no.len()));
        let parameters = size.parameters()?;
        let slots = parameters.slots.max(least_slots);
        self.replace(Parameters { slots, ..parameters }, 0)
    }

    /// Rebuilds the filter with more slots, if it is full although it has no more keys than
    /// planned.
    fn grow(&mut self) -> Result<(), ListError> {
        self.rebuild(self.filter.parameters().slots * 5 / 4)
    }

    /// Builds the filter from the lists, with at least the slots in `parameters`. Even if the
    /// hashes are uneven, tries up to `slots` slots.
    fn replace(&mut self, mut parameters: Parameters, slots: u64) -> Result<(), ListError> {
        // Random variation requires a few more slots; uneven hashes require many more.
        let mut more = parameters.slots / 64 + 16;
        let most_slots = slots.max(MOST_EXTENDED * (2 * self.yes.len() as u64 + 65));
        loop {
            match QuotientFilter::from_sorted(parameters, self.yes.iter(), self.no.iter()) {
                Ok(filter) if filter.load() <= PLANNED_LOAD => {
                    self.filter = filter;
                    self.most = self.size.most_yes_keys(parameters);
                    self.fitted = self.filter.used();
                    return Ok(());
                }
                Ok(_) | Err(BuildError::Full { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if parameters.slots >= most_slots {
                // These hashes are so uneven that more slots don't help.
                return Err(ListError::Uneven);
            }
            parameters.slots += more;
            more *= 2;
        }
    }

    /// Returns the hashes of the yes list.
    pub const fn yes(&self) -> &OrderedHashes {
        &self.yes
    }

    /// Returns the hashes of the no list.
    pub const fn no(&self) -> &OrderedHashes {
        &self.no
    }

    /// Returns the filter that answers lookups. Its members are the keys of the yes list.
    pub const fn filter(&self) -> &QuotientFilter {
        &self.filter
    }

    /// Returns the number of keys on the yes list.
    pub const fn len(&self) -> usize {
        self.yes.len()
    }

    /// Returns whether the yes list is empty.
    pub const fn is_empty(&self) -> bool {
        self.yes.is_empty()
    }

    /// Returns the number of keys, memory use, load and expected false-positive rate.
    ///
    /// Members are the keys on the yes list. Repairs count the times that a fingerprint had to be
    /// lengthened for a no-list key, when that key or a yes-list key was added.
    pub fn stats(&self) -> Stats {
        let filter = self.filter.stats();
        let parts = size_of_val(&self.filter) + size_of_val(&self.yes) + size_of_val(&self.no);
        let own = (size_of::<Self>() - parts) as u64;
        let lists = self.yes.memory_usage() + self.no.memory_usage();
        Stats { memory: own + filter.memory + lists, repairs: self.repairs, ..filter }
    }

    /// Checks every invariant: all answers for listed keys are correct, no key is on both lists,
    /// and the filter equals the one that would be built from the lists. Takes time in proportion
    /// to the lists and the filter. For tests, and for diagnosing suspected corruption.
    ///
    /// # Errors
    /// Returns an error that names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        self.filter.validate()?;
        for (name, list, answer) in [("yes", &self.yes, true), ("no", &self.no, false)] {
            list.validate()?;
            if let Some(hash) = list.iter().find(|&hash| self.contains(hash) != answer) {
                return invalid(format!("{hash:?} is on the {name} list, but the answer is wrong"));
            }
        }
        // This fails if a hash is on both lists.
        let (yes, no) = (self.yes.iter(), self.no.iter());
        let exact = QuotientFilter::from_sorted(self.filter.parameters(), yes, no)
            .map_err(|error| Invalid(format!("the lists don't fit in the filter: {error}")))?;
        if !exact.iter().eq(self.filter.iter()) {
            return invalid("the filter doesn't match the lists".into());
        }
        if self.yes.len() > self.most {
            return invalid(format!("{} yes-list keys are too many for the rate", self.yes.len()));
        }
        Ok(())
    }
}

filter_traits!([] YesNoList, YesNoList: Filter);

/// The members are the keys of the yes list, and the mistakes are the keys of the no list. A hash
/// that occurs twice in a list is listed once.
impl FromMembers for YesNoList {
    type Error = ListError;

    fn from_members(
        builder: &Builder<Self>,
        members: Vec<Hash>,
        mistakes: Vec<Hash>,
    ) -> Result<Self, ListError> {
        let mut list = builder.build()?;
        let [yes, no] = [&members, &mistakes].map(|hashes| {
            let mut sorted = hashes.clone();
            sorted.sort_unstable();
            sorted
        });
        if let Some(hash) = first_common(&yes, &no) {
            let [yes, no] = [members, mistakes]
                .map(|list| list.iter().position(|&other| other == hash).unwrap_or_default());
            return Err(ListError::OnBothLists { hash, yes, no });
        }
        [list.yes, list.no] = [yes, no].map(|hashes| hashes.into_iter().collect());
        list.build_filter(0)?;
        match builder.memory.filter(|&most| list.filter.stats().memory > most) {
            Some(most) => Err(PlanError::Budget(most).into()),
            None => Ok(list),
        }
    }

    /// Hashes may be listed twice.
    fn from_keys(
        builder: &Builder<Self>,
        keys: Vec<Hash>,
        mistakes: Vec<Hash>,
    ) -> Result<Self, ListError> {
        Self::from_members(builder, keys, mistakes)
    }
}

impl<K: Key + ?Sized> Keyed<K, YesNoList> {
    /// Adds a key to the yes list. Returns whether it is new there.
    ///
    /// # Errors
    /// The same as for [`YesNoList::add_yes`].
    pub fn add_yes(&mut self, key: &K) -> Result<bool, ListError> {
        let hash = self.hash(key);
        self.filter_mut().add_yes(hash)
    }

    /// Adds a key to the no list. Returns whether it is new there.
    ///
    /// # Errors
    /// The same as for [`YesNoList::add_no`].
    pub fn add_no(&mut self, key: &K) -> Result<bool, ListError> {
        let hash = self.hash(key);
        self.filter_mut().add_no(hash)
    }

    /// Removes a key from the yes list. Returns whether it was there.
    pub fn remove_yes(&mut self, key: &K) -> bool {
        let hash = self.hash(key);
        self.filter_mut().remove_yes(hash)
    }

    /// Removes a key from the no list. Returns whether it was there.
    pub fn remove_no(&mut self, key: &K) -> bool {
        let hash = self.hash(key);
        self.filter_mut().remove_no(hash)
    }
}
