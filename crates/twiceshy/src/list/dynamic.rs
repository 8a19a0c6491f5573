//! Lists that change, in memory.

use super::YesNoPlan;
use crate::error::{AdaptError, BuildError, InsertError, Invalid, ListError};
use crate::quotient::{MOST_EXTENDED, PLANNED_LOAD};
use crate::{
    AdaptiveQuotientFilter, Answer, Filter, Hash, HashScheme, Key, Keyed, OrderedHashes,
    Parameters, Secret,
};
use core::borrow::Borrow;
use core::ops::RangeInclusive;

/// The rate that is taken if none is asked for.
const DEFAULT_RATE: f64 = 0.001;

/// A yes list and a no list that can be changed at any time, and are exact all the time: every key
/// of the yes list is answered "yes", every key of the no list "no", any other "yes" with a
/// small probability.
///
/// It knows only hashes; [`Keyed`] binds it to a key type and a secret. Keys that have the same
/// 128-bit hash are the same key.
///
/// # Guarantees
/// - No listed key is ever answered wrongly.
/// - An unlisted key is answered "yes" with no more than the probability that was asked for, however
///   many keys are listed.
/// - A key is on one list at most. Adding it to the other one is an error that says so.
/// - It grows by itself: adding a key with a random hash fails only if memory runs out, and then changes
///   nothing.
///   Removing never fails. What is removed gives its room back, and the filter gets smaller when
///   it is half empty.
/// - Hashes that aren't random may be refused with [`BuildError::Uneven`]: if there are 30 pairs of a
///   yes key and a no key that differ in the last bit only, all next to each other, for example. The
///   hashes of a [`Keyed`] list are random.
///
/// # How it works
/// The members of an [`AdaptiveQuotientFilter`] are the yes keys; the no keys are mistakes that
/// stay repaired. Both lists are kept beside it in hash order, so that what a fingerprint could be
/// confused with is an interval of either: a no key that would be "maybe" is repaired when it is
/// added, a new yes key takes the extension that tells it from the no keys of its interval, and when
/// one of either goes, what needed it becomes shorter. So the filter is, after every change, exactly
/// the one that the constructor would write from both lists, which is also how it grows.
///
/// # Memory
/// Only the filter is needed to answer: [`YesNoPlan`] says how large it is. The lists, about
/// 18 bytes for each key, are needed to change it.
///
/// # Papers
/// - Wen et al., *Adaptive Quotient Filters* (SIGMOD 2024), §4.3: dynamic lists, with the keys of
///   both in the filter, and a bit of each slot that says whose it is. [`YesNoPlan`] compares.
///
/// # Examples
/// ```
/// use twiceshy::YesNoList;
/// let mut list = YesNoList::builder().false_positive_rate(0.01).build_keyed::<str>()?;
/// list.add_yes("evil.example")?;
/// list.add_no("fine.example")?;
/// assert!(list.contains("evil.example") && !list.contains("fine.example"));
///
/// // It was found out.
/// assert!(list.add_yes("fine.example").is_err());
/// assert!(list.remove_no("fine.example"));
/// assert!(list.add_yes("fine.example")?);
/// assert!(list.contains("fine.example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct YesNoList {
    filter: AdaptiveQuotientFilter,
    yes: OrderedHashes,
    no: OrderedHashes,
    builder: YesNoListBuilder,
    /// With more yes keys than these, unlisted ones would be "yes" too often.
    most: usize,
    /// The slots in use when the filter was built.
    fitted: u64,
    repairs: u64,
    rebuilds: u64,
}

/// Builds a [`YesNoList`]: say how good it should be, and how large, if you know.
///
/// ```
/// use twiceshy::YesNoList;
/// let list = YesNoList::builder()
///     .false_positive_rate(0.001)
///     .yes_capacity(100_000)
///     .no_capacity(1_000_000)
///     .build_keyed::<str>()?;
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct YesNoListBuilder {
    rate: f64,
    yes_capacity: usize,
    no_capacity: usize,
    secret: Option<Secret>,
}

/// What lists hold, and what they take.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct YesNoStatistics {
    /// Keys of the yes list.
    pub yes: usize,
    /// Keys of the no list.
    pub no: usize,
    /// No keys that were repaired when they were added, or when a yes key was.
    pub repairs: u64,
    /// How often the filter was built again, in another size.
    pub rebuilds: u64,
    /// Slots that hold extensions, and counts of yes keys that share a fingerprint.
    pub extension_slots: u64,
    /// Slots in use, as a share of all.
    pub load: f64,
    /// The probability that an unlisted key is answered "yes", at most.
    pub expected_rate: f64,
    /// Bytes of memory of the filter, which is all that is asked.
    pub filter_bytes: u64,
    /// Bytes of memory of both lists.
    pub list_bytes: u64,
}

/// Why the filter has to be built again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// There are more keys than it was planned for, or fewer.
    Size,
    /// There was no room, though it was planned for as many.
    Full,
}

impl YesNoList {
    /// A builder: say how good the lists should be.
    pub fn builder() -> YesNoListBuilder {
        YesNoListBuilder { rate: DEFAULT_RATE, yes_capacity: 0, no_capacity: 0, secret: None }
    }

    /// Whether a key of this hash is on the yes list. Of listed keys that is exactly true, of
    /// others "no" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.filter.contains(hash)
    }

    /// Answers many lookups: `answers` is cleared and then has one per hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger than the
    /// cache.
    pub fn contains_many(&self, hashes: &[Hash], answers: &mut Vec<bool>) {
        self.filter.contains_many(hashes, answers);
    }

    /// Adds a key to the yes list; returns whether it is new there.
    ///
    /// # Errors
    /// [`ListError::OnNoList`] if it is on the no list; [`ListError::Build`] if there is no memory, or
    /// if the hashes aren't random. Nothing has changed then.
    pub fn add_yes(&mut self, hash: Hash) -> Result<bool, ListError> {
        if self.no.contains(hash) {
            return Err(ListError::OnNoList { hash });
        }
        if !self.yes.insert(hash) {
            return Ok(false);
        }
        let added = self.admit(hash);
        if added.is_err() {
            self.yes.remove(hash);
        }
        added.map(|()| true)
    }

    /// Puts a new yes key into the filter.
    fn admit(&mut self, hash: Hash) -> Result<(), ListError> {
        if self.yes.len() > self.most || self.filter.load() >= PLANNED_LOAD {
            return self.rebuild(Cause::Size);
        }
        match self.filter.insert(hash) {
            Ok(()) => {}
            Err(InsertError::Full { .. }) => return self.rebuild(Cause::Full),
            Err(error) => unreachable!("each hash is inserted once: {error}"),
        }
        // Nobody can ask in between.
        let near: Vec<Hash> = self.no.range(self.filter.suspects(hash)).collect();
        let repaired = near.into_iter().try_for_each(|no| self.repair(no));
        if repaired.is_err() {
            let removed = self.filter.remove(hash);
            removed.expect("it was inserted just now");
        }
        repaired
    }

    /// Adds a key to the no list; returns whether it is new there.
    ///
    /// # Errors
    /// [`ListError::OnYesList`] if it is on the yes list; [`ListError::Build`] if there is no memory,
    /// or if the hashes aren't random. Nothing has changed then.
    pub fn add_no(&mut self, hash: Hash) -> Result<bool, ListError> {
        if self.yes.contains(hash) {
            return Err(ListError::OnYesList { hash });
        }
        if !self.no.insert(hash) {
            return Ok(false);
        }
        let added = self.repair(hash);
        if added.is_err() {
            self.no.remove(hash);
        }
        added.map(|()| true)
    }

    /// Makes the filter say "no" to a no key.
    fn repair(&mut self, no: Hash) -> Result<(), ListError> {
        let Answer::Maybe(claim) = self.filter.check(no) else { return Ok(()) };
        self.repairs += 1;
        let members: Vec<Hash> = self.yes.range(claim.suspects()).collect();
        match self.filter.adapt(&claim, &members) {
            Ok(_) => Ok(()),
            Err(AdaptError::Full { .. }) => self.rebuild(Cause::Full),
            Err(error) => unreachable!("the yes list lists all members: {error}"),
        }
    }

    /// Removes a key from the yes list; whether it was there.
    pub fn remove_yes(&mut self, hash: Hash) -> bool {
        if !self.yes.remove(hash) {
            return false;
        }
        self.take_out(hash);
        true
    }

    /// Takes a yes key out of the filter. The others' fingerprints are as long as the no keys need
    /// them to be, and stay so.
    fn take_out(&mut self, hash: Hash) {
        self.filter.remove(hash).expect("what is on the yes list is a member");
        self.shrink();
    }

    /// Removes a key from the no list; whether it was there.
    pub fn remove_no(&mut self, hash: Hash) -> bool {
        if !self.no.remove(hash) {
            return false;
        }
        if self.filter.is_lengthened(hash) {
            self.shorten(hash);
        }
        true
    }

    /// Makes fingerprints as short as the no keys allow, near one that is gone.
    fn shorten(&mut self, hash: Hash) {
        let suspects = self.filter.suspects(hash);
        let members: Vec<Hash> = self.yes.range(suspects.clone()).collect();
        let mistakes: Vec<Hash> = self.no.range(suspects).collect();
        let claim = self.filter.check(members[0]);
        let Answer::Maybe(claim) = claim else { unreachable!("it is a member") };
        let shortened = self.filter.shorten_listed(&claim, &members, &mistakes);
        shortened.expect("the lists are true, and shorter ones take no more room");
        self.shrink();
    }

    /// Builds the filter again if half of it isn't needed any more.
    fn shrink(&mut self) {
        if self.used() * 2 < self.fitted {
            // If there is no memory for it, the large one is as good.
            let _ = self.rebuild(Cause::Size);
        }
    }

    /// Slots in use.
    fn used(&self) -> u64 {
        let statistics = self.filter.statistics();
        statistics.fingerprints + statistics.extension_slots
    }

    /// Builds the filter again from the lists, with room for some more.
    fn rebuild(&mut self, cause: Cause) -> Result<(), ListError> {
        let more = |len: usize| len + len / 4 + 16;
        let plan = self.builder.plan(more(self.yes.len()), more(self.no.len()))?;
        let mut parameters = plan.parameters();
        if cause == Cause::Full {
            let before = self.filter.parameters().slots;
            parameters.slots = parameters.slots.max(before + before / 4);
        }
        self.replace(parameters)?;
        self.rebuilds += 1;
        Ok(())
    }

    /// Builds the filter from the lists, in so many slots, or more if these are too few.
    fn replace(&mut self, mut parameters: Parameters) -> Result<(), BuildError> {
        // Chance asks for a few more, hashes that lie unevenly for many.
        let mut more = parameters.slots / 64 + 16;
        loop {
            let (yes, no) = (self.yes.iter(), self.no.iter());
            let slots = parameters.slots;
            match AdaptiveQuotientFilter::from_sorted(parameters, yes, no) {
                Ok(filter) if filter.load() <= PLANNED_LOAD => {
                    self.filter = filter;
                    let all = slots as f64 * f64::from(parameters.remainder_bits).exp2();
                    self.most = (all * -(-self.builder.rate).ln_1p()).round() as usize;
                    self.fitted = self.used();
                    return Ok(());
                }
                // Hashes that no size spreads.
                Ok(_) | Err(BuildError::Full { .. })
                    if slots / MOST_EXTENDED > 2 * self.yes.len() as u64 + 64 =>
                {
                    return Err(BuildError::Uneven);
                }
                Ok(_) | Err(BuildError::Full { .. }) => {
                    parameters.slots += more;
                    more *= 2;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How many keys are on the yes list.
    pub const fn yes_len(&self) -> usize {
        self.yes.len()
    }

    /// How many keys are on the no list.
    pub const fn no_len(&self) -> usize {
        self.no.len()
    }

    /// Whether a key is on the yes list, certainly.
    pub fn is_yes(&self, hash: Hash) -> bool {
        self.yes.contains(hash)
    }

    /// Whether a key is on the no list, certainly.
    pub fn is_no(&self, hash: Hash) -> bool {
        self.no.contains(hash)
    }

    /// The hashes of the yes list, in order.
    pub fn yes(&self) -> impl DoubleEndedIterator<Item = Hash> + Clone {
        self.yes.iter()
    }

    /// The hashes of the no list, in order.
    pub fn no(&self) -> impl DoubleEndedIterator<Item = Hash> + Clone {
        self.no.iter()
    }

    /// The hashes of the yes list in an interval, in order.
    pub fn yes_in(&self, hashes: RangeInclusive<Hash>) -> impl Iterator<Item = Hash> + Clone {
        self.yes.range(hashes)
    }

    /// The hashes of the no list in an interval, in order.
    pub fn no_in(&self, hashes: RangeInclusive<Hash>) -> impl Iterator<Item = Hash> + Clone {
        self.no.range(hashes)
    }

    /// The filter that answers.
    pub const fn filter(&self) -> &AdaptiveQuotientFilter {
        &self.filter
    }

    /// Bytes of memory that filter and lists take.
    pub fn memory_usage(&self) -> u64 {
        let filter = size_of_val(&self.filter) + size_of_val(&self.yes) + size_of_val(&self.no);
        let statistics = self.statistics();
        let parts = statistics.filter_bytes + statistics.list_bytes;
        (size_of::<Self>() - filter) as u64 + parts
    }

    /// What the lists hold, and what they take.
    pub fn statistics(&self) -> YesNoStatistics {
        let filter = self.filter.statistics();
        YesNoStatistics {
            yes: self.yes.len(),
            no: self.no.len(),
            repairs: self.repairs,
            rebuilds: self.rebuilds,
            extension_slots: filter.extension_slots,
            load: filter.load,
            expected_rate: filter.expected_rate,
            filter_bytes: filter.bytes,
            list_bytes: self.yes.memory_usage() + self.no.memory_usage(),
        }
    }

    /// Checks every invariant: that no listed key is answered wrongly, that none is on both lists,
    /// and that the filter is exactly what the constructor would write; for tests and after
    /// suspicion. Takes time in proportion to the lists and the filter.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        self.filter.validate()?;
        self.yes.validate()?;
        self.no.validate()?;
        if let Some(hash) = self.no.iter().find(|&hash| self.yes.contains(hash)) {
            return invalid(format!("{hash:?} is on both lists"));
        }
        if let Some(hash) = self.yes.iter().find(|&hash| !self.contains(hash)) {
            return invalid(format!("{hash:?} is on the yes list, and answered \"no\""));
        }
        if let Some(hash) = self.no.iter().find(|&hash| self.contains(hash)) {
            return invalid(format!("{hash:?} is on the no list, and answered \"yes\""));
        }
        let parameters = self.filter.parameters();
        let (yes, no) = (self.yes.iter(), self.no.iter());
        let exact = AdaptiveQuotientFilter::from_sorted(parameters, yes, no)
            .map_err(|error| Invalid(format!("the lists don't fit: {error}")))?;
        if !exact.iter().eq(self.filter.iter()) {
            return invalid("the filter is not that of the lists".into());
        }
        if self.yes.len() > self.most {
            return invalid(format!("{} yes keys are too many for the rate", self.yes.len()));
        }
        Ok(())
    }
}

impl Filter for YesNoList {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    /// Keys of the yes list.
    fn len(&self) -> usize {
        self.yes_len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        self.filter.hash_scheme()
    }
}

impl YesNoListBuilder {
    /// The probability with which an unlisted key may be answered "yes"; 0.1 % if nothing is said.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// How many yes keys there should be room for; it is always made for more, when they come.
    #[must_use]
    pub fn yes_capacity(mut self, keys: usize) -> Self {
        self.yes_capacity = keys;
        self
    }

    /// How many no keys there should be room for; it is always made for more, when they come.
    #[must_use]
    pub fn no_capacity(mut self, keys: usize) -> Self {
        self.no_capacity = keys;
        self
    }

    /// The secret for the keys' hashes, if they are to be the same as elsewhere; a fresh one if
    /// nothing is said. For [`build_keyed`](Self::build_keyed) and
    /// [`build_keyed_from`](Self::build_keyed_from) only.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    fn plan(&self, yes: usize, no: usize) -> Result<YesNoPlan, BuildError> {
        YesNoPlan::new(yes.max(self.yes_capacity), no.max(self.no_capacity), self.rate)
    }

    /// Two empty lists.
    ///
    /// # Errors
    /// If the rate is impossible, or if there is no memory.
    pub fn build(&self) -> Result<YesNoList, BuildError> {
        let parameters = self.plan(16, 16)?.parameters();
        let mut list = YesNoList {
            filter: AdaptiveQuotientFilter::from_sorted(parameters, [] as [Hash; 0], [])?,
            yes: OrderedHashes::new(),
            no: OrderedHashes::new(),
            builder: self.clone(),
            most: 0,
            fitted: 0,
            repairs: 0,
            rebuilds: 0,
        };
        list.replace(parameters)?;
        Ok(list)
    }

    /// Lists of these hashes, in any order; those that come twice are listed once. The filter is
    /// written in one pass.
    ///
    /// # Errors
    /// As [`build`](Self::build), [`ListError::OnYesList`] if a hash is on both lists, or
    /// [`BuildError::Uneven`] if the hashes aren't random.
    pub fn build_from(
        &self,
        yes: impl IntoIterator<Item = Hash>,
        no: impl IntoIterator<Item = Hash>,
    ) -> Result<YesNoList, ListError> {
        let mut list = self.build()?;
        list.yes = ordered(yes);
        list.no = ordered(no);
        if let Some(hash) = list.no.iter().find(|&hash| list.yes.contains(hash)) {
            return Err(ListError::OnYesList { hash });
        }
        list.replace(self.plan(list.yes.len(), list.no.len())?.parameters())?;
        Ok(list)
    }

    /// Two empty lists of keys of type `K`.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if there is no entropy for a fresh secret.
    pub fn build_keyed<K: ?Sized>(&self) -> Result<Keyed<K, YesNoList>, BuildError> {
        Ok(Keyed::new(self.build()?, self.secret_or_fresh()?))
    }

    fn secret_or_fresh(&self) -> Result<Secret, BuildError> {
        Ok(self.secret.clone().map_or_else(Secret::generate, Ok)?)
    }

    /// Lists of these keys.
    ///
    /// ```
    /// use twiceshy::YesNoList;
    /// let (blocked, popular) = (["evil.example", "worse.example"], ["fine.example"]);
    /// let list = YesNoList::builder().build_keyed_from::<str>(blocked, popular)?;
    /// assert!(list.contains("worse.example") && !list.contains("fine.example"));
    /// # Ok::<(), twiceshy::ListError>(())
    /// ```
    ///
    /// # Errors
    /// As [`build_from`](Self::build_from), or if there is no entropy for a fresh secret.
    pub fn build_keyed_from<K: Key + ?Sized>(
        &self,
        yes: impl IntoIterator<Item: Borrow<K>>,
        no: impl IntoIterator<Item: Borrow<K>>,
    ) -> Result<Keyed<K, YesNoList>, ListError> {
        let mut keyed = self.build_keyed::<K>()?;
        let yes: Vec<Hash> = yes.into_iter().map(|key| keyed.hash(key.borrow())).collect();
        let no: Vec<Hash> = no.into_iter().map(|key| keyed.hash(key.borrow())).collect();
        *keyed.filter_mut() = self.build_from(yes, no)?;
        Ok(keyed)
    }
}

fn ordered(hashes: impl IntoIterator<Item = Hash>) -> OrderedHashes {
    let mut hashes: Vec<Hash> = hashes.into_iter().collect();
    hashes.sort_unstable();
    hashes.into_iter().collect()
}

impl<K: Key + ?Sized> Keyed<K, YesNoList> {
    /// Adds a key to the yes list; see [`YesNoList::add_yes`].
    ///
    /// # Errors
    /// As [`YesNoList::add_yes`].
    pub fn add_yes(&mut self, key: &K) -> Result<bool, ListError> {
        let hash = self.hash(key);
        self.filter_mut().add_yes(hash)
    }

    /// Adds a key to the no list; see [`YesNoList::add_no`].
    ///
    /// # Errors
    /// As [`YesNoList::add_no`].
    pub fn add_no(&mut self, key: &K) -> Result<bool, ListError> {
        let hash = self.hash(key);
        self.filter_mut().add_no(hash)
    }

    /// Removes a key from the yes list; whether it was there.
    pub fn remove_yes(&mut self, key: &K) -> bool {
        let hash = self.hash(key);
        self.filter_mut().remove_yes(hash)
    }

    /// Removes a key from the no list; whether it was there.
    pub fn remove_no(&mut self, key: &K) -> bool {
        let hash = self.hash(key);
        self.filter_mut().remove_no(hash)
    }

    /// Answers many lookups; see [`YesNoList::contains_many`].
    ///
    /// ```
    /// # use twiceshy::YesNoList;
    /// let list = YesNoList::builder().build_keyed_from::<u64>([7, 8], [9])?;
    /// let mut answers = Vec::new();
    /// list.contains_many(&[7, 8, 9], &mut answers);
    /// assert_eq!(answers, [true, true, false]);
    /// # Ok::<(), twiceshy::ListError>(())
    /// ```
    pub fn contains_many<Q: Borrow<K>>(&self, keys: &[Q], answers: &mut Vec<bool>) {
        let hash = |key: &Q| self.hash(key.borrow());
        self.filter().filter.contains_each(keys, hash, answers);
    }
}
