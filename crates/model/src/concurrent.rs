//! Concurrent filters beside a plain one and a map of members, in one thread.

use arbitrary::{Result, Unstructured};
use core::fmt::Debug;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use twiceshy::{
    AdaptError, AdaptiveQuotientFilter, Answer, BuildError, Concurrent, Entry, Hash, InsertError,
    Member, RemoveError, ValueError,
};

use crate::quotient::Model;

/// Members, and how often each was inserted.
pub type Members = BTreeMap<Hash, u64>;

/// What can be done with a filter.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Inserts a member.
    Insert(Hash),
    /// Inserts a member so many times.
    InsertTimes(Hash, u64),
    /// Inserts many members.
    InsertMany(Vec<Hash>),
    /// Removes one of the members, by its rank.
    Remove(usize),
    /// The same, but leaves a tombstone.
    Bury(usize),
    /// Removes it by a claim and a list.
    RemoveListed(usize),
    /// The same, with the mistakes listed.
    RemoveShortened(usize),
    /// The same as `RemoveListed`, but leaves a tombstone.
    BuryListed(usize),
    /// Sets a value, which may be too large.
    SetValue(Hash, u64),
    /// Repairs a mistake, if it is one.
    Adapt(Hash),
    /// The same, with a list of one too many.
    AdaptWrongly(Hash, Hash),
    /// Builds the shard of this number anew, or all; planned for its members, or in as many
    /// slots as before.
    Rebuild(usize, bool),
}

/// The places of a hash's bits that tell it from others near it.
pub const SHIFTS: [u32; 9] = [0, 60, 100, 105, 110, 113, 116, 118, 120];

/// A hash near the border of one of eight shards, at `number << shift` from it.
pub fn near_border(border: u128, number: u128, shift: u32, before: bool) -> Hash {
    let (border, offset) = (border << 125, number << shift);
    Hash::from_u128(if before { border.wrapping_sub(offset) } else { border | offset })
}

impl Operation {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match bytes.int_in_range(0..=19)? {
            0..=3 => Self::Insert(any_hash(bytes)?),
            4 => Self::InsertTimes(any_hash(bytes)?, bytes.int_in_range(0..=99)?),
            5 => {
                let count = bytes.int_in_range(0..=4)?;
                Self::InsertMany((0..count).map(|_| any_hash(bytes)).collect::<Result<_>>()?)
            }
            6 => Self::Remove(any_rank(bytes)?),
            7 => Self::Bury(any_rank(bytes)?),
            8 => Self::RemoveListed(any_rank(bytes)?),
            9 => Self::RemoveShortened(any_rank(bytes)?),
            10 => Self::BuryListed(any_rank(bytes)?),
            11 => Self::SetValue(any_hash(bytes)?, bytes.int_in_range(0..=4)?),
            12 => Self::AdaptWrongly(any_hash(bytes)?, any_hash(bytes)?),
            13 => Self::Rebuild(any_rank(bytes)?, bytes.arbitrary()?),
            _ => Self::Adapt(any_hash(bytes)?),
        })
    }
}

fn any_hash(bytes: &mut Unstructured<'_>) -> Result<Hash> {
    let (border, number) = (bytes.int_in_range(0..=7)?, bytes.int_in_range(0..=15)?);
    Ok(near_border(border, number, *bytes.choose(&SHIFTS)?, bytes.arbitrary()?))
}

fn any_rank(bytes: &mut Unstructured<'_>) -> Result<usize> {
    Ok(bytes.arbitrary::<u8>()?.into())
}

/// So few that what fits the shards fits a plain filter of all their slots, too.
const MOST_OPERATIONS: usize = 150;

/// Drives a filter of any number of shards by the operations that `bytes` spell.
///
/// # Panics
/// If the filter, the plain one and the map disagree.
pub fn drive_bytes(bytes: &[u8]) {
    let _ = drive_script(&mut Unstructured::new(bytes));
}

fn drive_script(bytes: &mut Unstructured<'_>) -> Result<()> {
    let shards = *bytes.choose(&[1, 2, 8])?;
    let grows = bytes.arbitrary()?;
    let slots: u64 = bytes.int_in_range(if grows { 30..=80 } else { 300..=600 })?;
    let shape = AdaptiveQuotientFilter::builder()
        .remainder_bits(bytes.int_in_range(6..=14)?)
        .slots(slots * shards as u64)
        .value_bits(2);
    let shape = if grows { shape.grow_at(0.9) } else { shape };
    let filter = shape.clone().shards(shards).build_concurrent().expect("a small filter");
    // Shards that grow do so each by itself.
    let comparable = !grows || shards == 1;
    let plain = comparable.then(|| shape.build().expect("a small filter"));
    let mut operations = Vec::new();
    while operations.len() < MOST_OPERATIONS && !bytes.is_empty() {
        operations.push(Operation::any(bytes)?);
    }
    drive(&filter, plain, &operations);
    Ok(())
}

/// All entries, in hash order.
pub fn entries_of(filter: &Concurrent<AdaptiveQuotientFilter>) -> Vec<Entry> {
    let mut entries = Vec::new();
    filter.for_each(|entry| entries.push(entry));
    entries
}

/// Every member is behind one entry, which counts exactly those in its interval; entries
/// come in hash order.
///
/// # Panics
/// If not.
pub fn check_entries(filter: &Concurrent<AdaptiveQuotientFilter>, members: &Members) {
    let mut end = None;
    for entry in entries_of(filter) {
        let hashes = entry.fingerprint.hashes();
        assert!(end < Some(*hashes.start()), "{entry:?} is out of order");
        end = Some(*hashes.end());
        let count: u64 = members.range(hashes).map(|(_, count)| count).sum();
        assert_eq!(entry.count, count, "{entry:?}");
    }
    assert_eq!(filter.len() as u64, members.values().sum::<u64>());
    assert_eq!(filter.is_empty(), members.is_empty());
    for (&member, &count) in members {
        assert!(filter.contains(member), "{member:?} is lost");
        assert!(filter.count(member) >= count);
    }
}

/// The members in an interval.
pub fn list(members: &Members, suspects: RangeInclusive<Hash>) -> Vec<Member> {
    members.range(suspects).map(|(&hash, &count)| Member { hash, count }).collect()
}

/// Removes a member, once.
///
/// # Panics
/// If it is none.
pub fn forget(members: &mut Members, hash: Hash) {
    let count = members.get_mut(&hash).expect("a member");
    *count -= 1;
    if *count == 0 {
        members.remove(&hash);
    }
}

struct Driver<'a> {
    filter: &'a Concurrent<AdaptiveQuotientFilter>,
    plain: Option<AdaptiveQuotientFilter>,
    members: Members,
    /// Mistakes that were repaired, and that no member has collided with since.
    repaired: Vec<Hash>,
    /// Repairs of plain filters before this one.
    adaptations: u64,
}

/// Does the operations, and compares everything after each of them, until there is no room
/// in one of the shards.
///
/// # Panics
/// If they differ.
pub fn drive(
    filter: &Concurrent<AdaptiveQuotientFilter>,
    plain: Option<AdaptiveQuotientFilter>,
    operations: &[Operation],
) {
    let (members, repaired) = (Members::new(), Vec::new());
    let mut driver = Driver { filter, plain, members, repaired, adaptations: 0 };
    for operation in operations {
        if let Err(NoRoom) = driver.apply(operation) {
            break;
        }
        driver.compare();
    }
    filter.validate().expect("valid");
}

#[derive(Debug)]
struct NoRoom;

type Fits<T> = core::result::Result<T, NoRoom>;

/// What went well, or else for want of room.
fn unless_full<T, E: Debug>(
    result: core::result::Result<T, E>,
    full: impl Fn(&E) -> bool,
) -> Fits<T> {
    result.map_err(|error| if full(&error) { NoRoom } else { panic!("{error:?}") })
}

impl Driver<'_> {
    fn apply(&mut self, operation: &Operation) -> Fits<()> {
        let full = |error: &InsertError| matches!(error, InsertError::Full { .. });
        match *operation {
            Operation::Insert(hash) => {
                unless_full(self.filter.insert(hash), full)?;
                if let Some(plain) = &mut self.plain {
                    plain.insert(hash).expect("room");
                }
                self.inserted(&[hash], 1);
            }
            Operation::InsertTimes(hash, times) => {
                unless_full(self.filter.insert_times(hash, times), full)?;
                if let Some(plain) = &mut self.plain {
                    plain.insert_times(hash, times).expect("room");
                }
                self.inserted(&[hash], times);
            }
            Operation::InsertMany(ref hashes) => {
                unless_full(self.filter.insert_each(hashes), |error| full(&error.cause))?;
                if let Some(plain) = &mut self.plain {
                    plain.insert_many(hashes).expect("room");
                }
                self.inserted(hashes, 1);
            }
            Operation::Remove(rank) => self.remove(rank, Leave::Nothing)?,
            Operation::Bury(rank) => self.remove(rank, Leave::Tombstone)?,
            Operation::RemoveListed(rank) => self.remove_listed(rank, Leave::Nothing)?,
            Operation::RemoveShortened(rank) => self.remove_listed(rank, Leave::Short)?,
            Operation::BuryListed(rank) => self.remove_listed(rank, Leave::Tombstone)?,
            Operation::SetValue(hash, value) => self.set_value(hash, value)?,
            Operation::Adapt(query) => self.adapt(query)?,
            Operation::AdaptWrongly(query, extra) => self.adapt_wrongly(query, extra),
            Operation::Rebuild(shard, planned) => self.rebuild(shard, planned)?,
        }
        Ok(())
    }

    fn inserted(&mut self, hashes: &[Hash], times: u64) {
        for &hash in hashes.iter().filter(|_| times > 0) {
            *self.members.entry(hash).or_default() += times;
        }
        let filter = self.filter;
        self.repaired.retain(|&mistake| match filter.check(mistake) {
            Answer::Absent => true,
            Answer::Maybe(claim) => {
                let collides = hashes.iter().any(|hash| claim.suspects().contains(hash));
                assert!(collides, "{mistake:?} is back without a cause");
                false
            }
        });
    }

    fn set_value(&mut self, hash: Hash, value: u64) -> Fits<()> {
        let set = self.filter.set_value(hash, value);
        if matches!(set, Err(ValueError::Full { .. })) {
            return Err(NoRoom);
        }
        assert_eq!(set.is_ok(), self.filter.contains(hash) && value < 4);
        if let Some(plain) = &mut self.plain {
            assert_eq!(set, plain.set_value(hash, value));
        }
        Ok(())
    }

    fn adapt_wrongly(&mut self, query: Hash, extra: Hash) {
        let Answer::Maybe(claim) = self.filter.check(query) else { return };
        let mut listed = list(&self.members, claim.suspects());
        listed.push(extra.into());
        let error = self.filter.adapt(&claim, &listed).expect_err("there is one too many");
        assert_eq!(self.filter.adapt_dropping_ghosts(&claim, &listed), Err(error.clone()));
        if let Some(plain) = &mut self.plain {
            let Answer::Maybe(claim) = plain.check(query) else { panic!("not plain") };
            assert_eq!(plain.adapt(&claim, &listed), Err(error));
        }
    }

    /// Rebuilds one shard, or all of them if there is a plain filter, which can be compared with
    /// nothing less.
    fn rebuild(&mut self, shard: usize, planned: bool) -> Fits<()> {
        self.repaired.sort_unstable();
        let shard = shard % self.filter.shards();
        let before = self.filter.parameters();
        // One shard may grow, and then the plain filter does, which no one that is built again can.
        let plain = self.plain.take().filter(|_| before.len() > 1 && !planned);
        if plain.is_none() {
            return self.rebuild_one(shard, planned);
        }
        (0..before.len()).try_for_each(|shard| self.rebuild_one(shard, planned))?;
        if self.filter.parameters() == before {
            self.plain = plain.map(|plain| {
                self.adaptations += plain.statistics().adaptations;
                let members = self.members.iter().map(|(&hash, &count)| Member { hash, count });
                let mistakes = self.repaired.iter().copied();
                let parameters = plain.parameters();
                AdaptiveQuotientFilter::from_sorted(parameters, members, mistakes).expect("room")
            });
        }
        Ok(())
    }

    fn rebuild_one(&mut self, shard: usize, planned: bool) -> Fits<()> {
        let filter = self.filter;
        let hashes = filter.shard_hashes(shard);
        let members = list(&self.members, hashes.clone());
        let mistakes: Vec<Hash> =
            self.repaired.iter().copied().filter(|mistake| hashes.contains(mistake)).collect();
        let claim = members.first().map(|member| filter.check(member.hash));
        let capacity = planned.then_some(members.len());
        let rebuilt = filter.rebuild_shard(shard, capacity, &members, &mistakes);
        unless_full(rebuilt, |error| matches!(error, BuildError::Full { .. }))?;
        if let Some(Answer::Maybe(claim)) = claim {
            assert_eq!(filter.adapt(&claim, &members), Err(AdaptError::Stale));
        }
        // As hashes of the shard, they are those of a plain filter, and of the model of one.
        let bits = filter.shards().ilog2();
        let inner = |hash: Hash| Hash::from_u128(hash.as_u128() << bits);
        // Of the hashes in an interval, only those that end in zeros are some in the whole.
        let outer = |inner: RangeInclusive<Hash>| {
            let [first, last] = [inner.start(), inner.end()].map(|hash| hash.as_u128());
            let [first, last] = [first.div_ceil(1 << bits), last >> bits];
            let within = |hash| Hash::from_u128(hashes.start().as_u128() | hash);
            within(first)..=within(last)
        };
        let of_shard = |member: &Member| Member { hash: inner(member.hash), ..*member };
        let members: Vec<Member> = members.iter().map(of_shard).collect();
        let mistakes: Vec<Hash> = mistakes.into_iter().map(inner).collect();
        let parameters = filter.parameters()[shard];
        assert_eq!(parameters.remainder_bits, parameters.slot_bits);
        let built = AdaptiveQuotientFilter::from_sorted(parameters, &members, mistakes.clone());
        let built = built.expect("room");
        Model::built(parameters.into(), &members, &mistakes).check(&built);
        let expected =
            built.iter().map(|entry| (outer(entry.fingerprint.hashes()), entry.count, entry.value));
        let found = entries_of(filter)
            .into_iter()
            .map(|entry| (entry.fingerprint.hashes(), entry.count, entry.value));
        let found = found.filter(|(covered, ..)| hashes.contains(covered.start()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        Ok(())
    }

    fn member(&self, rank: usize) -> Option<Hash> {
        let rank = rank.checked_rem(self.members.len())?;
        self.members.keys().nth(rank).copied()
    }

    fn remove(&mut self, rank: usize, leave: Leave) -> Fits<()> {
        let Some(hash) = self.member(rank) else { return Ok(()) };
        let bury = matches!(leave, Leave::Tombstone);
        let filter = self.filter;
        let removed = if bury { filter.bury(hash) } else { filter.remove(hash) };
        unless_full(removed, |error| matches!(error, RemoveError::Full { .. }))?;
        if let Some(plain) = &mut self.plain {
            let removed = if bury { plain.bury(hash) } else { plain.remove(hash) };
            removed.expect("a member");
        }
        forget(&mut self.members, hash);
        Ok(())
    }

    fn remove_listed(&mut self, rank: usize, leave: Leave) -> Fits<()> {
        let Some(hash) = self.member(rank) else { return Ok(()) };
        loop {
            let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("{hash:?} is lost") };
            let listed = list(&self.members, claim.suspects());
            let mistakes = matches!(leave, Leave::Short).then_some(&self.repaired[..]);
            let removed = match leave {
                Leave::Tombstone => self.filter.bury_listed(&claim, &listed),
                _ => self.filter.remove_listed(&claim, &listed, mistakes),
            };
            if matches!(removed, Err(RemoveError::Full { .. })) {
                return Err(NoRoom);
            }
            if let Some(plain) = &mut self.plain {
                let Answer::Maybe(claim) = plain.check(hash) else { panic!("{hash:?} is lost") };
                let of_plain = match leave {
                    Leave::Tombstone => plain.bury_listed(&claim, &listed),
                    _ => plain.remove_listed(&claim, &listed, mistakes),
                };
                assert_eq!(removed, of_plain);
            }
            match removed {
                Ok(()) => break,
                // The shard has grown for it.
                Err(RemoveError::Stale) => {}
                Err(error) => panic!("{error}"),
            }
        }
        forget(&mut self.members, hash);
        Ok(())
    }

    fn adapt(&mut self, query: Hash) -> Fits<()> {
        if self.members.contains_key(&query) {
            return Ok(());
        }
        while let Answer::Maybe(claim) = self.filter.check(query) {
            let listed = list(&self.members, claim.suspects());
            let adapted = self.filter.adapt(&claim, &listed);
            if matches!(adapted, Err(AdaptError::Full { .. })) {
                return Err(NoRoom);
            }
            if let Some(plain) = &mut self.plain {
                let Answer::Maybe(of_plain) = plain.check(query) else { panic!("not plain") };
                assert_eq!(claim.suspects(), of_plain.suspects());
                assert_eq!(adapted, plain.adapt(&of_plain, &listed));
            }
            match adapted {
                Ok(_) => {
                    // Repaired once more, it is no error.
                    let again = self.filter.adapt(&claim, &listed);
                    assert_eq!(again.map(|again| again.lengthened), Ok(0));
                    assert!(!self.filter.contains(query));
                }
                // The shard has grown for it.
                Err(AdaptError::Stale) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.repaired.push(query);
        Ok(())
    }

    fn compare(&self) {
        self.filter.validate().expect("valid");
        check_entries(self.filter, &self.members);
        for &mistake in &self.repaired {
            assert!(!self.filter.contains(mistake), "{mistake:?} is back");
            assert_eq!(self.filter.count(mistake), 0);
        }
        if let Some(plain) = &self.plain {
            assert_eq!(entries_of(self.filter), plain.iter().collect::<Vec<_>>());
            for &member in self.members.keys() {
                assert_eq!(self.filter.value(member), plain.value(member));
            }
            let (all, of_plain) = (self.filter.statistics(), plain.statistics());
            assert_eq!(all.adaptations, self.adaptations + of_plain.adaptations);
            assert_eq!(all.fingerprints, of_plain.fingerprints);
            assert_eq!(all.extension_slots, of_plain.extension_slots);
        }
    }
}

/// What is left of a member, and of what was repaired because of it.
#[derive(Clone, Copy)]
enum Leave {
    Nothing,
    Short,
    Tombstone,
}
