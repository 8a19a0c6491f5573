//! A model of range filters: a map of members. Scripts drive a filter and its model.

use crate::quotient::scaled;
use arbitrary::{Result, Unstructured};
use core::fmt::Debug;
use core::iter::repeat_n;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    AdaptiveRangeFilter, Answer, Frozen, Hash, RangeFilter, Secret, SecretMode,
    error::{AdaptError, GrowError, InsertError, RemoveError},
    quotient::Fingerprint,
    range::DoublingError,
    range::{self, RangeKey},
};

/// Keys that scripts can generate.
pub trait Number: RangeKey + Ord + Debug {
    /// Returns the key whose number has the low bits of `number`.
    fn of(number: u128) -> Self;
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl Number for $number {
            fn of(number: u128) -> Self {
                number as Self
            }
        }
    )*};
}

numbers! { u16 u64 u128 }

/// Keys and how many times each was inserted.
#[derive(Clone, Debug)]
pub struct Members<K>(BTreeMap<K, usize>);

impl<K> Default for Members<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Number> Members<K> {
    /// Inserts one copy of a key.
    pub fn insert(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Removes one copy of a key. Returns whether there was one.
    pub fn remove(&mut self, key: K) -> bool {
        let Some(count) = self.0.get_mut(&key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&key);
        }
        true
    }

    /// Returns whether any key is in a range.
    pub fn any_in(&self, range: &RangeInclusive<K>) -> bool {
        self.0.range(range.clone()).next().is_some()
    }

    /// Returns the keys that match, each as many times as it was inserted.
    fn matching(&self, matches: impl Fn(K) -> bool) -> Vec<K> {
        let matching = self.0.iter().filter(|&(&key, _)| matches(key));
        matching.flat_map(|(&key, &count)| repeat_n(key, count)).collect()
    }

    /// Returns the keys that may have caused a claim, each as many times as it was inserted.
    pub fn suspects(&self, filter: &AdaptiveRangeFilter<K>, claim: &range::Claim) -> Vec<K> {
        self.matching(|key| claim.is_suspect(filter.hash_of(key)))
    }

    /// Returns the keys whose hashes are in an interval, in hash order.
    fn listed(&self, filter: &AdaptiveRangeFilter<K>, hashes: &RangeInclusive<Hash>) -> Vec<K> {
        let mut listed = self.matching(|key| hashes.contains(&filter.hash_of(key)));
        listed.sort_by_key(|&key| filter.hash_of(key));
        listed
    }

    fn len(&self) -> usize {
        self.0.values().sum()
    }
}

/// The shape of the filter that a script drives, and of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of home slots.
    pub slots: u64,
    /// Number of bits per remainder.
    pub remainder_bits: u32,
    /// Number of keys in the longest range.
    pub longest_range: u64,
    /// Whether the filter grows.
    pub expandable: bool,
    /// The first key.
    pub first: u128,
    /// Number of keys.
    pub keys: u64,
    /// Distance between keys.
    pub step: u128,
}

impl Shape {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        let longest_range: u64 = 1 << bytes.int_in_range(0..=20)?;
        let keys = bytes.int_in_range(1..=400)?;
        let most_remainder_bits = if bytes.ratio(1, 4)? { 30 } else { 5 };
        let step =
            *bytes.choose(&[1, 3, longest_range / 4 + 1, longest_range, 5 * longest_range])?;
        let before_last = u128::from(keys - 1) * u128::from(step);
        Ok(Self {
            slots: match bytes.int_in_range(0..=2)? {
                0 => bytes.int_in_range(1..=10)?,
                1 => bytes.int_in_range(1..=80)?,
                _ => bytes.int_in_range(1..=300)?,
            },
            remainder_bits: bytes.int_in_range(1..=most_remainder_bits)?,
            longest_range,
            expandable: bytes.arbitrary()?,
            // The keys start at 0, end at the maximum, wrap around, or are anywhere.
            first: match bytes.int_in_range(0..=3)? {
                0 => 0,
                1 => u128::MAX - before_last,
                2 => u128::MAX - before_last / 2,
                _ => bytes.arbitrary()?,
            },
            keys,
            step: step.into(),
        })
    }

    fn secret() -> Secret {
        Secret::from_bytes([9; 16])
    }

    fn filter<K: Number>(&self) -> AdaptiveRangeFilter<K> {
        let builder = AdaptiveRangeFilter::builder()
            .slots(self.slots)
            .remainder_bits(self.remainder_bits)
            .longest_range(self.longest_range)
            .secret(Self::secret());
        let builder = if self.expandable { builder.expandable() } else { builder };
        builder.build().expect("a possible shape")
    }
}

/// Drives a filter of any shape and key width by the operations encoded in `bytes`.
///
/// # Panics
/// If filter and model disagree.
pub fn drive(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let Ok(shape) = Shape::any(&mut bytes) else { return };
    match bytes.int_in_range(0..=3) {
        Ok(0) => drive_shape::<u16>(shape, &mut bytes),
        Ok(1) => drive_shape::<u128>(shape, &mut bytes),
        _ => drive_shape::<u64>(shape, &mut bytes),
    }
}

fn drive_shape<K: Number>(shape: Shape, bytes: &mut Unstructured<'_>) {
    let mut stage = Stage::<K> {
        shape,
        filter: shape.filter(),
        members: Members::default(),
        ghosts: Members::default(),
        repaired: Vec::new(),
    };
    while !bytes.is_empty() && stage.step(bytes).is_ok() {
        stage.check();
    }
}

/// A filter and its expected content.
struct Stage<K> {
    shape: Shape,
    filter: AdaptiveRangeFilter<K>,
    members: Members<K>,
    /// Inserted keys that are not listed.
    ghosts: Members<K>,
    /// Repaired ranges. They stay repaired until a colliding key is inserted.
    repaired: Vec<RangeInclusive<K>>,
}

impl<K: Number> Stage<K> {
    fn check(&self) {
        self.filter.validate().expect("a valid filter");
        assert_eq!(self.filter.len(), self.members.len() + self.ghosts.len());
        for members in [&self.members, &self.ghosts] {
            assert!(members.0.keys().all(|&key| self.filter.contains(key)), "a false negative");
        }
        for range in &self.repaired {
            assert!(!self.filter.contains_range(range.clone()), "the mistake {range:?} is back");
        }
    }

    fn key(&self, bytes: &mut Unstructured<'_>) -> Result<K> {
        let index = bytes.int_in_range(0..=self.shape.keys - 1)?;
        let more = self.shape.step.wrapping_mul(index.into());
        Ok(K::of(self.shape.first.wrapping_add(more)))
    }

    /// Picks a short or long range that begins at or near a key.
    fn range(&self, bytes: &mut Unstructured<'_>) -> Result<RangeInclusive<K>> {
        let longest = u128::from(self.shape.longest_range);
        let last_of_all = u128::MAX >> (u128::BITS - K::BITS);
        let near = bytes.int_in_range(0..=2)?;
        let first = self.key(bytes)?.number().saturating_add(near).min(last_of_all);
        let length = match bytes.int_in_range(0..=7)? {
            0 => 1,
            1..=4 => bytes.int_in_range(1..=longest)?,
            5 => longest,
            6 => bytes.int_in_range(1..=30 * longest)?,
            _ => bytes.arbitrary::<u128>()? >> bytes.int_in_range(0..=127u32)?,
        };
        let last = first.saturating_add(length.max(1) - 1).min(last_of_all);
        Ok(K::of(first)..=K::of(last))
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        match bytes.int_in_range(0..=31)? {
            0..=9 => {
                let is_ghost = bytes.ratio(1, 12)?;
                self.insert(self.key(bytes)?, is_ghost);
            }
            10..=13 => {
                let key = self.key(bytes)?;
                if bytes.ratio(1, 3)? {
                    self.remove_listed(key);
                } else {
                    self.remove(key);
                }
            }
            14..=15 => {
                let range = self.range(bytes)?;
                self.ask(&range);
            }
            16..=25 => {
                let range = self.range(bytes)?;
                self.repair(range, bytes.ratio(1, 3)?);
            }
            26 => self.double(),
            27 => self.double_listing(),
            28 => {
                let count = bytes.int_in_range(0..=100)?;
                let keys = (0..count).map(|_| self.key(bytes)).collect::<Result<Vec<_>>>()?;
                self.insert_many(&keys);
            }
            29 => self.restore(bytes.arbitrary()?),
            30 => {
                let ranges = (0..20).map(|_| self.range(bytes)).collect::<Result<Vec<_>>>()?;
                self.ask_frozen(&ranges);
            }
            _ => {
                let count = bytes.int_in_range(0..=70)?;
                let ranges = (0..count).map(|_| self.range(bytes)).collect::<Result<Vec<_>>>()?;
                self.ask_many(&ranges);
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: K, is_ghost: bool) {
        match self.filter.insert(key) {
            Ok(()) if is_ghost => self.ghosts.insert(key),
            Ok(()) => self.members.insert(key),
            Err(InsertError::Full { load }) => self.must_be_load(load),
            Err(error) => panic!("{error}"),
        }
        self.forget_collisions(&[key]);
    }

    /// Inserts all keys or none. Refused keys change nothing.
    fn insert_many(&mut self, keys: &[K]) {
        if self.is_large() {
            return;
        }
        let before: Vec<_> = self.filter.iter().collect();
        match self.filter.insert_many(keys) {
            Ok(()) => {
                for &key in keys {
                    self.members.insert(key);
                }
                self.forget_collisions(keys);
            }
            Err(InsertError::Full { .. }) => assert!(self.filter.iter().eq(before)),
            Err(error) => panic!("{error}"),
        }
    }

    /// Forgets repaired ranges that recur as mistakes because a new key collides with them.
    fn forget_collisions(&mut self, keys: &[K]) {
        let filter = &self.filter;
        self.repaired.retain(|range| match filter.check_range(range.clone()) {
            Answer::Absent => true,
            Answer::Maybe(claim) => !keys.iter().any(|&key| claim.is_suspect(filter.hash_of(key))),
        });
    }

    fn remove(&mut self, key: K) {
        if self.members.remove(key) {
            self.filter.remove_trusting(key).expect("a member");
        } else if !self.filter.contains(key) {
            assert_eq!(self.filter.remove_trusting(key), Err(RemoveError::Absent));
        }
    }

    /// Removes a key with a list. The repairs must be kept.
    fn remove_listed(&mut self, key: K) {
        let Answer::Maybe(claim) = self.filter.check(key) else { return };
        let listed = self.members.suspects(&self.filter, &claim);
        let lists_mistakes = self.members.len().is_multiple_of(2);
        let listing = || {
            let listing = range::Listing::new(&listed);
            if lists_mistakes { listing.with_mistakes(&self.repaired) } else { listing }
        };
        let ghosts = self.ghosts.suspects(&self.filter, &claim);
        let near = self.shared_bits(&claim, key, &ghosts);
        let ghosts = ghosts.len() as u64;
        match self.filter.remove(&claim, listing()) {
            Ok(()) => {
                assert!(self.members.remove(key), "{key:?} is not a member");
                self.must_be_far(&near);
                let again = self.filter.remove(&claim, listing());
                assert_eq!(again, Err(RemoveError::Stale));
            }
            Err(RemoveError::Absent) => assert!(!listed.contains(&key)),
            // The filter can't tell a ghost from a member with the same fingerprint, so it may find
            // fewer ghosts than there are.
            Err(RemoveError::Unlisted { members }) => assert!(members <= ghosts),
            Err(RemoveError::Full { load }) => self.must_be_load(load),
            Err(error) => panic!("{error}"),
        }
    }

    /// Queries a range. The answer "no" must be right, and all kinds of queries must agree.
    fn ask(&self, range: &RangeInclusive<K>) -> bool {
        let maybe = self.filter.contains_range(range.clone());
        let is_there = self.members.any_in(range) || self.ghosts.any_in(range);
        assert!(maybe || !is_there, "a false negative in {range:?}");
        assert_eq!(maybe, self.filter.check_range(range.clone()).is_maybe());
        maybe
    }

    fn ask_many(&self, ranges: &[RangeInclusive<K>]) {
        let ranges = [ranges, &self.repaired[..]].concat();
        let mut maybe = vec![true; 3];
        self.filter.contains_ranges(&ranges, &mut maybe);
        assert!(maybe.into_iter().eq(ranges.iter().map(|range| self.ask(range))));
    }

    /// Compares the hashes of `keys` with the hash of `key`. Returns how many bits after the
    /// quotient each has in common with it.
    fn shared_bits(&self, claim: &range::Claim, key: K, keys: &[K]) -> Vec<u32> {
        let suspects = claim.suspects().next().expect("a key has one quotient");
        let last = suspects.end().as_u128() - suspects.start().as_u128();
        let slots = (128f64.exp2() / (last as f64 + 1.0)).round() as u64;
        let fraction = |key| scaled(self.filter.hash_of(key), slots).bits;
        keys.iter().map(|&other| (fraction(key) ^ fraction(other)).leading_zeros()).collect()
    }

    /// Asserts that ghosts are not in the boxes of a key, given the numbers of bits that they share
    /// with the key. In a filter that grows, they may be there, because its fingerprints may be
    /// shorter.
    fn must_be_far(&self, shared: &[u32]) {
        let remainder_bits = self.shape.remainder_bits;
        assert!(self.shape.expandable || shared.iter().all(|&bits| bits < remainder_bits));
    }

    fn repair(&mut self, mut range: RangeInclusive<K>, drops_ghosts: bool) {
        let is_one = |range: &RangeInclusive<K>| {
            self.filter.hash_of(*range.start()) == self.filter.hash_of(*range.end())
        };
        if drops_ghosts && !is_one(&range) {
            // The model can tell which ghosts are dropped only if the range is in one partition.
            range = *range.start()..=*range.start();
        }
        let near_one = is_one(&range);
        let Answer::Maybe(claim) = self.filter.check_range(range.clone()) else { return };
        let listed = self.members.suspects(&self.filter, &claim);
        let ghosts = self.ghosts.suspects(&self.filter, &claim);
        let shared =
            if near_one { self.shared_bits(&claim, *range.start(), &ghosts) } else { Vec::new() };
        let listing = range::Listing::new(&listed);
        let listing = if drops_ghosts { listing.dropping_ghosts() } else { listing };
        match self.filter.adapt(&claim, listing) {
            Ok(adaptation) => {
                assert!(!self.members.any_in(&range), "a member is lost");
                assert!(drops_ghosts || adaptation.ghosts == 0);
                assert!(!self.filter.contains_range(range.clone()), "not repaired");
                let mut nearest: Vec<(u32, K)> = shared.into_iter().zip(ghosts).collect();
                nearest.sort_unstable_by_key(|&(bits, _)| core::cmp::Reverse(bits));
                let far = nearest.split_off(adaptation.ghosts as usize);
                if let (Some(last), Some(first)) = (nearest.last(), far.first()) {
                    assert!(last.0 > first.0, "dropped a ghost, but not one that is as near");
                }
                self.must_be_far(&far.iter().map(|&(bits, _)| bits).collect::<Vec<_>>());
                assert!(nearest.into_iter().all(|(_, ghost)| self.ghosts.remove(ghost)));
                self.repaired.push(range);
            }
            Err(AdaptError::IsMember) => assert!(self.members.any_in(&range)),
            Err(AdaptError::Unlisted { members }) => {
                assert!(!drops_ghosts && members > 0 && members <= ghosts.len() as u64);
            }
            Err(AdaptError::TooLong) => assert!(claim.suspects().next().is_none()),
            Err(AdaptError::Full { load }) => self.must_be_load(load),
            Err(error) => panic!("{error}"),
        }
    }

    fn must_be_load(&self, load: f64) {
        assert!((load - self.filter.stats().load).abs() < f64::EPSILON);
    }

    /// Returns whether the filter is so large that scripts should not let it grow.
    fn is_large(&self) -> bool {
        self.filter.stats().memory > 1 << 15
    }

    fn double(&mut self) {
        if self.is_large() {
            return;
        }
        match self.filter.doubled() {
            Ok(doubled) => self.filter = doubled,
            Err(GrowError::Fixed) => assert!(!self.shape.expandable),
            Err(GrowError::NoRemainder) => {
                let mut boxes = self.filter.iter();
                assert!(boxes.any(|entry| self.may_have_left(0, entry.fingerprint)));
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns whether an expandable filter may have `bits` bits of a box's remainder left.
    /// Extensions are whole slots, unless all bits are used.
    fn may_have_left(&self, bits: u32, fingerprint: Fingerprint) -> bool {
        let width = self.shape.remainder_bits + 1 + self.filter.details().longest_range.ilog2();
        fingerprint.bits() == 128 || fingerprint.bits() % width == bits
    }

    fn double_listing(&mut self) {
        if self.is_large() {
            return;
        }
        let list = |hashes| Ok::<_, ()>(self.members.listed(&self.filter, &hashes));
        match self.filter.doubled_listing(list) {
            Ok(doubled) => self.filter = doubled,
            Err(DoublingError::Grow(GrowError::Fixed)) => assert!(!self.shape.expandable),
            Err(DoublingError::Members(AdaptError::Unlisted { members })) => {
                assert!(members > 0 && members <= self.ghosts.len() as u64);
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn saved(&self) -> Vec<u8> {
        let mut snapshot = Vec::new();
        self.filter.write_to(&mut snapshot, SecretMode::Omit).expect("writing to memory");
        snapshot
    }

    /// Restores the filter from a snapshot, optionally through a plain filter, and checks that it
    /// is the same.
    fn restore(&mut self, by_plain: bool) {
        let mut snapshot = self.saved();
        let repairs = self.filter.stats().repairs;
        if by_plain {
            let plain = RangeFilter::<K>::read_from(&snapshot[..], Some(Shape::secret()));
            let plain = plain.expect("what was saved");
            snapshot.clear();
            plain.write_to(&mut snapshot, SecretMode::Omit).expect("writing to memory");
        }
        let restored = AdaptiveRangeFilter::read_from(&snapshot[..], Some(Shape::secret()));
        let restored = restored.expect("what was saved");
        assert!(restored.iter().eq(self.filter.iter()));
        assert_eq!(restored.stats().repairs, if by_plain { 0 } else { repairs });
        self.filter = restored;
    }

    fn ask_frozen(&self, ranges: &[RangeInclusive<K>]) {
        let frozen = Frozen::<RangeFilter<K>>::from_bytes(self.saved(), Some(Shape::secret()));
        let frozen = frozen.expect("what was saved");
        frozen.validate().expect("what was saved");
        assert_eq!(frozen.len(), self.filter.len());
        assert!(self.members.0.keys().all(|&key| frozen.contains(key)));
        let ranges = [ranges, &self.repaired[..]].concat();
        let mut maybe = Vec::new();
        frozen.contains_ranges(&ranges, &mut maybe);
        for (range, maybe) in ranges.iter().zip(maybe) {
            assert_eq!(maybe, self.ask(range));
            assert_eq!(maybe, frozen.contains_range(range.clone()));
        }
        let copy = frozen.to_filter().expect("what was saved");
        assert!(copy.iter().eq(self.filter.iter()));
    }
}
