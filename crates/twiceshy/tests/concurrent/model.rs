//! Operations on a concurrent filter, on a plain one and on a map of members.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;
use twiceshy::{
    AdaptError, AdaptiveQuotientFilter, Answer, ConcurrentAdaptiveQuotientFilter, Entry, Hash,
    InsertError, Member, RemoveError, ValueError,
};

pub(crate) type Members = BTreeMap<Hash, u64>;

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Insert(Hash),
    InsertTimes(Hash, u64),
    InsertMany(Vec<Hash>),
    /// One of the members, by its rank.
    Remove(usize),
    Bury(usize),
    RemoveListed(usize),
    RemoveShortened(usize),
    BuryListed(usize),
    SetValue(Hash, u64),
    /// If it is a mistake.
    Adapt(Hash),
    /// With a list of one too many.
    AdaptWrongly(Hash, Hash),
}

/// Hashes near the borders of eight shards, many with common prefixes.
fn hash() -> impl Strategy<Value = Hash> {
    let shifts = prop::sample::select(vec![0u32, 60, 100, 105, 110, 113, 116, 118, 120]);
    (0u128..8, 0u128..16, shifts, any::<bool>()).prop_map(|(border, number, shift, before)| {
        let (border, offset) = (border << 125, number << shift);
        Hash::from_u128(if before { border.wrapping_sub(offset) } else { border | offset })
    })
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => hash().prop_map(Operation::Insert),
        1 => (hash(), 0u64..100).prop_map(|(hash, times)| Operation::InsertTimes(hash, times)),
        1 => prop::collection::vec(hash(), 0..5).prop_map(Operation::InsertMany),
        1 => any::<usize>().prop_map(Operation::Remove),
        1 => any::<usize>().prop_map(Operation::Bury),
        1 => any::<usize>().prop_map(Operation::RemoveListed),
        1 => any::<usize>().prop_map(Operation::RemoveShortened),
        1 => any::<usize>().prop_map(Operation::BuryListed),
        1 => (hash(), 0u64..5).prop_map(|(hash, value)| Operation::SetValue(hash, value)),
        6 => hash().prop_map(Operation::Adapt),
        1 => (hash(), hash()).prop_map(|(query, extra)| Operation::AdaptWrongly(query, extra)),
    ]
}

/// A simple source of hashes that look random.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn hash(&mut self) -> Hash {
        Hash::from_u128(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}

pub(crate) fn entries_of(filter: &ConcurrentAdaptiveQuotientFilter) -> Vec<Entry> {
    let mut entries = Vec::new();
    filter.for_each(|entry| entries.push(entry));
    entries
}

/// Every member is behind one entry, which counts exactly those in its interval; entries
/// come in hash order.
pub(crate) fn check_entries(filter: &ConcurrentAdaptiveQuotientFilter, members: &Members) {
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

pub(crate) fn list(members: &Members, suspects: core::ops::RangeInclusive<Hash>) -> Vec<Member> {
    members.range(suspects).map(|(&hash, &count)| Member { hash, count }).collect()
}

pub(crate) fn forget(members: &mut Members, hash: Hash) {
    let count = members.get_mut(&hash).expect("a member");
    *count -= 1;
    if *count == 0 {
        members.remove(&hash);
    }
}

struct Driver<'a> {
    filter: &'a ConcurrentAdaptiveQuotientFilter,
    plain: Option<AdaptiveQuotientFilter>,
    members: Members,
    /// Mistakes that were repaired, and that no member has collided with since.
    repaired: Vec<Hash>,
}

/// Does the operations, and compares everything after each of them, until there is no room
/// in one of the shards.
pub(crate) fn drive(
    filter: &ConcurrentAdaptiveQuotientFilter,
    plain: Option<AdaptiveQuotientFilter>,
    operations: &[Operation],
) {
    let mut driver = Driver { filter, plain, members: Members::new(), repaired: Vec::new() };
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

/// What went well, or else for want of room.
fn unless_full<T, E: Debug>(result: Result<T, E>, full: impl Fn(&E) -> bool) -> Result<T, NoRoom> {
    result.map_err(|error| if full(&error) { NoRoom } else { panic!("{error:?}") })
}

impl Driver<'_> {
    fn apply(&mut self, operation: &Operation) -> Result<(), NoRoom> {
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
                unless_full(self.filter.insert_many(hashes), |error| full(&error.cause))?;
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

    fn set_value(&mut self, hash: Hash, value: u64) -> Result<(), NoRoom> {
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

    fn member(&self, rank: usize) -> Option<Hash> {
        let rank = rank.checked_rem(self.members.len())?;
        self.members.keys().nth(rank).copied()
    }

    fn remove(&mut self, rank: usize, leave: Leave) -> Result<(), NoRoom> {
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

    fn remove_listed(&mut self, rank: usize, leave: Leave) -> Result<(), NoRoom> {
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

    fn adapt(&mut self, query: Hash) -> Result<(), NoRoom> {
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
            assert_eq!(all.adaptations, of_plain.adaptations);
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
