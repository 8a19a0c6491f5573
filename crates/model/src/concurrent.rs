//! Drives a concurrent filter, a plain filter and a map of members side by side, in one thread.

use arbitrary::{Result, Unstructured};
use core::fmt::Debug;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use twiceshy::{
    Answer, Concurrent, Hash, Listing, Member, QuotientFilter,
    concurrent::{RebuildError, ShardPlan},
    error::{AdaptError, BuildError, InsertError, RemoveError},
    quotient::{Entry, Remainders, ValueError},
};

use crate::quotient::{Form, Model};
use crate::script::{any_remainders, listing};

/// Members, and how often each was inserted.
pub type Members = BTreeMap<Hash, u64>;

/// An operation on a filter.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Inserts a member.
    Insert(Hash),
    /// Inserts a member several times.
    InsertTimes(Hash, u64),
    /// Inserts many members.
    InsertMany(Vec<Hash>),
    /// Removes the member with this rank.
    Remove(usize),
    /// Removes the member with this rank, and leaves a tombstone.
    Bury(usize),
    /// Removes the member with this rank, with a claim and a list.
    RemoveListed(usize),
    /// Removes the member with this rank, with a claim, a list and the mistakes.
    RemoveShortened(usize),
    /// Removes the member with this rank, with a claim and a list, and leaves a tombstone.
    BuryListed(usize),
    /// Sets a value, which may be too large.
    SetValue(Hash, u64),
    /// Looks up a hash, and repairs the answer if it is a mistake.
    Adapt(Hash),
    /// Tries to repair with one member too many in the list.
    AdaptWrongly(Hash, Hash),
    /// Rebuilds the shard with this number, or all shards if they are compared with a plain filter.
    /// If the flag is set, plans the number of slots for the members. Otherwise the number stays
    /// the same.
    Rebuild(usize, bool),
    /// Rebuilds the shard with this number, with these remainders and ten slots more. Slots are
    /// one bit wider if the flag is set, and one bit narrower otherwise.
    Rotate(usize, bool, Remainders),
}

/// Positions of the bits in which hashes near to each other differ.
pub const SHIFTS: [u32; 9] = [0, 60, 100, 105, 110, 113, 116, 118, 120];

/// Returns a hash near the border of one of eight shards, at a distance of `number << shift`.
pub fn near_border(border: u128, number: u128, shift: u32, before: bool) -> Hash {
    let (border, offset) = (border << 125, number << shift);
    Hash::from_u128(if before { border.wrapping_sub(offset) } else { border | offset })
}

impl Operation {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match bytes.int_in_range(0..=20)? {
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
            14 => Self::Rotate(any_rank(bytes)?, bytes.arbitrary()?, any_remainders(bytes)?),
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

/// Maximum number of operations. With so few, members that fit in the shards also fit in a plain
/// filter with the same number of slots.
const MOST_OPERATIONS: usize = 150;

/// Drives a filter with any number of shards by the operations encoded in `bytes`.
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
    let shape = QuotientFilter::builder()
        .remainder_bits(bytes.int_in_range(6..=14)?)
        .slots(slots * shards as u64)
        .value_bits(2);
    let shape = if grows { shape.grow_at(0.9) } else { shape };
    let filter = shape.clone().shards(shards).build_concurrent().expect("a small filter");
    // Shards grow independently, so if there are several, they can't be compared with a plain
    // filter.
    let comparable = !grows || shards == 1;
    let plain = comparable.then(|| shape.build().expect("a small filter"));
    let mut operations = Vec::new();
    while operations.len() < MOST_OPERATIONS && !bytes.is_empty() {
        operations.push(Operation::any(bytes)?);
    }
    drive(&filter, plain, &operations);
    Ok(())
}

/// Returns all entries, in hash order.
pub fn entries_of(filter: &Concurrent<QuotientFilter>) -> Vec<Entry> {
    let mut entries = Vec::new();
    filter.for_each(|_, entry| entries.push(entry));
    entries
}

/// Checks that every member has one entry, that an entry counts exactly the members that it covers,
/// and that entries are in the order of their quotients.
///
/// # Panics
/// If they differ.
pub fn check_entries(filter: &Concurrent<QuotientFilter>, members: &Members) {
    let mut left = members.iter().peekable();
    let entries = entries_of(filter);
    // In hash order, the members of a quotient are adjacent. The members of one entry are adjacent
    // only if remainders are plain.
    for of_quotient in entries.chunk_by(|a, b| a.fingerprint.quotient() == b.fingerprint.quotient())
    {
        let covering = |hash| of_quotient.iter().position(|entry| entry.fingerprint.covers(hash));
        let mut counts = vec![0; of_quotient.len()];
        while let Some((&hash, times)) = left.next_if(|&(&hash, _)| covering(hash).is_some()) {
            counts[covering(hash).expect("just found")] += times;
        }
        assert!(of_quotient.iter().map(|entry| entry.count).eq(counts), "{of_quotient:?}");
    }
    assert_eq!(left.next(), None, "a member without an entry, or entries out of order");
    assert_eq!(filter.len() as u64, members.values().sum::<u64>());
    assert_eq!(filter.is_empty(), members.is_empty());
    for (&member, &count) in members {
        assert!(filter.contains(member), "{member:?} is lost");
        assert!(filter.count(member) >= count);
    }
}

/// Returns the content of an entry without its quotient.
fn content(entry: &Entry) -> (u128, u32, u64, u64) {
    let Entry { fingerprint, count, value, .. } = *entry;
    (fingerprint.prefix(), fingerprint.bits(), count, value)
}

/// Returns the members in an interval.
pub fn list(members: &Members, suspects: RangeInclusive<Hash>) -> Vec<Member> {
    members.range(suspects).map(|(&hash, &count)| Member { hash, count }).collect()
}

/// Removes one copy of a member.
///
/// # Panics
/// If it isn't a member.
pub fn forget(members: &mut Members, hash: Hash) {
    let count = members.get_mut(&hash).expect("a member");
    *count -= 1;
    if *count == 0 {
        members.remove(&hash);
    }
}

struct Driver<'a> {
    filter: &'a Concurrent<QuotientFilter>,
    plain: Option<QuotientFilter>,
    members: Members,
    /// Repaired mistakes that no later member collides with.
    repaired: Vec<Hash>,
    /// Number of repairs that earlier plain filters made.
    adaptations: u64,
}

/// Applies the operations to `filter`, to `plain` and to a model, and compares all of them after
/// each operation. Stops when a shard is full.
///
/// # Panics
/// If they disagree.
pub fn drive(
    filter: &Concurrent<QuotientFilter>,
    plain: Option<QuotientFilter>,
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

/// Turns an error that means "full" into [`NoRoom`], and panics on any other error.
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
                let before = entries_of(self.filter);
                let inserted = self.filter.insert_many(hashes);
                if inserted.is_err() {
                    assert_eq!(entries_of(self.filter), before, "a refusal changed it");
                }
                unless_full(inserted, full)?;
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
            Operation::Rotate(shard, wider, made) => self.rotate(shard, wider, made)?,
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
        let parameters = self.filter.shard_parameters(self.filter.shard_of(query));
        let slots = parameters.slots * self.filter.shards() as u64;
        let form = Form { slots, ..parameters.into() };
        let near = |hash| form.whole(hash).prefix(parameters.remainder_bits as usize);
        let is_suspect = claim.suspects().contains(&extra);
        if is_suspect && near(extra) != near(query) {
            // The filter would ignore this member, because its remainder differs from the query's.
            return;
        }
        listed.push(extra.into());
        let error = self.filter.adapt(&claim, &listed).expect_err("there is one too many");
        assert_eq!(
            self.filter.adapt(&claim, Listing::new(&listed).dropping_ghosts()),
            Err(error.clone())
        );
        if let Some(plain) = &mut self.plain {
            let Answer::Maybe(claim) = plain.check(query) else { panic!("absent") };
            assert_eq!(plain.adapt(&claim, &listed), Err(error));
        }
    }

    /// Rebuilds one shard, or all shards if they are compared with a plain filter.
    fn rebuild(&mut self, shard: usize, planned: bool) -> Fits<()> {
        self.repaired.sort_unstable();
        let shard = shard % self.filter.shards();
        let before = self.filter.parameters();
        // With only one shard, the plain filter grows as the shard does. A filter that was rebuilt
        // can't reproduce that, so stop comparing.
        let plain = self.plain.take().filter(|_| before.len() > 1 && !planned);
        let plan = |count| if planned { ShardPlan::capacity(count) } else { ShardPlan::default() };
        if plain.is_none() {
            return self.rebuild_one(shard, plan);
        }
        (0..before.len()).try_for_each(|shard| self.rebuild_one(shard, plan))?;
        if self.filter.parameters() == before {
            self.plain = plain.map(|plain| {
                self.adaptations += plain.stats().repairs;
                let members = self.members.iter().map(|(&hash, &count)| Member { hash, count });
                let mistakes = self.repaired.iter().copied();
                let parameters = plain.parameters();
                QuotientFilter::from_sorted(parameters, members, mistakes).expect("room")
            });
        }
        Ok(())
    }

    /// Rebuilds a shard with these remainders, 10 more slots, and slots one bit wider or narrower.
    fn rotate(&mut self, shard: usize, wider: bool, remainders: Remainders) -> Fits<()> {
        self.repaired.sort_unstable();
        self.plain = None;
        let shard = shard % self.filter.shards();
        let before = self.filter.shard_parameters(shard);
        let bits = if wider { before.slot_bits + 1 } else { before.slot_bits - 1 }.clamp(2, 56);
        let slots = before.slots + 10;
        let plan = ShardPlan::slots(slots).remainder_bits(bits).remainders(remainders);
        self.rebuild_one(shard, |_| plan)?;
        let after = self.filter.shard_parameters(shard);
        assert_eq!((after.slots, after.slot_bits, after.remainders), (slots, bits, remainders));
        Ok(())
    }

    /// Rebuilds a shard as `plan` says, given the number of its members, and compares it with a
    /// filter of its own and with the model.
    fn rebuild_one(&mut self, shard: usize, plan: impl Fn(usize) -> ShardPlan) -> Fits<()> {
        let filter = self.filter;
        let hashes = filter.shard_hashes(shard);
        let members = list(&self.members, hashes.clone());
        let mistakes: Vec<Hash> =
            self.repaired.iter().copied().filter(|mistake| hashes.contains(mistake)).collect();
        let claim = members.first().map(|member| filter.check(member.hash));
        let rebuilt = filter.rebuild_shard(shard, plan(members.len()), &members, &mistakes);
        unless_full(rebuilt, |error| {
            matches!(error, RebuildError::Build(BuildError::Full { .. }))
        })?;
        if let Some(Answer::Maybe(claim)) = claim {
            assert_eq!(filter.adapt(&claim, &members), Err(AdaptError::Stale));
        }
        // Without the bits of the shard's number, the hashes are those of a plain filter.
        let bits = filter.shards().ilog2();
        let inner = |hash: Hash| Hash::from_u128(hash.as_u128() << bits);
        let of_shard = |member: &Member| Member { hash: inner(member.hash), ..*member };
        let members: Vec<Member> = members.iter().map(of_shard).collect();
        let mistakes: Vec<Hash> = mistakes.into_iter().map(inner).collect();
        let parameters = filter.parameters()[shard];
        assert_eq!(parameters.remainder_bits, parameters.slot_bits);
        let built = QuotientFilter::from_sorted(parameters, &members, mistakes.clone());
        let built = built.expect("room");
        Model::built(parameters.into(), &members, &mistakes).check(&built);
        let mut found = Vec::new();
        let quotients = shard as u64 * parameters.slots;
        filter.for_each(|number, entry| {
            if number == shard {
                found.push((entry.fingerprint.quotient() - quotients, content(&entry)));
            }
        });
        let expected = built.iter().map(|entry| (entry.fingerprint.quotient(), content(&entry)));
        assert_eq!(found, expected.collect::<Vec<_>>());
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
        let removed = if bury {
            filter.remove_trusting_keeping_repairs(hash)
        } else {
            filter.remove_trusting(hash)
        };
        unless_full(removed, |error| matches!(error, RemoveError::Full { .. }))?;
        if let Some(plain) = &mut self.plain {
            let removed = if bury {
                plain.remove_trusting_keeping_repairs(hash)
            } else {
                plain.remove_trusting(hash)
            };
            removed.expect("a member");
        }
        forget(&mut self.members, hash);
        Ok(())
    }

    fn remove_listed(&mut self, rank: usize, leave: Leave) -> Fits<()> {
        let Some(hash) = self.member(rank) else { return Ok(()) };
        let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("{hash:?} is lost") };
        let listed = list(&self.members, claim.suspects());
        let mistakes = matches!(leave, Leave::Short).then_some(&self.repaired[..]);
        let removed = match leave {
            Leave::Tombstone => self.filter.remove_keeping_repairs(&claim, &listed),
            _ => self.filter.remove(&claim, listing(&listed, mistakes)),
        };
        unless_full(removed, |error| matches!(error, RemoveError::Full { .. }))?;
        if let Some(plain) = &mut self.plain {
            let Answer::Maybe(claim) = plain.check(hash) else { panic!("{hash:?} is lost") };
            let removed = match leave {
                Leave::Tombstone => plain.remove_keeping_repairs(&claim, &listed),
                _ => plain.remove(&claim, listing(&listed, mistakes)),
            };
            removed.expect("a member");
        }
        forget(&mut self.members, hash);
        Ok(())
    }

    fn adapt(&mut self, query: Hash) -> Fits<()> {
        if self.members.contains_key(&query) {
            return Ok(());
        }
        if let Answer::Maybe(claim) = self.filter.check(query) {
            let listed = list(&self.members, claim.suspects());
            let adapted = self.filter.adapt(&claim, &listed);
            if matches!(adapted, Err(AdaptError::Full { .. })) {
                return Err(NoRoom);
            }
            if let Some(plain) = &mut self.plain {
                let Answer::Maybe(of_plain) = plain.check(query) else { panic!("absent") };
                assert_eq!(claim.suspects(), of_plain.suspects());
                assert_eq!(adapted, plain.adapt(&of_plain, &listed));
            }
            adapted.expect("all suspects are listed");
            assert!(!self.filter.contains(query));
            // Repairing again is not an error. The shard may have grown to make room.
            let claim = self.filter.claim_near(query);
            let listed = list(&self.members, claim.suspects());
            assert_eq!(self.filter.adapt(&claim, &listed).map(|again| again.lengthened), Ok(0));
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
            let (all, of_plain) = (self.filter.stats(), plain.stats());
            assert_eq!(all.repairs, self.adaptations + of_plain.repairs);
        }
    }
}

/// What a removal does with the member's fingerprint, and with repairs near it.
#[derive(Clone, Copy)]
enum Leave {
    Nothing,
    Short,
    Tombstone,
}
