//! Concurrent telescoping, extension and plain quotient filters.

use super::random;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use twiceshy::Listing;
use twiceshy::builder::Builder;
use twiceshy::concurrent::{self, PlainShard, ShardPlan};
use twiceshy::{
    Answer, Concurrent, ExtensionFilter, Hash, Member, PlainQuotientFilter, Snapshot,
    TelescopingFilter,
    error::{AdaptError, BuildError, InsertError, PlanError, RemoveError},
    snapshot::SnapshotError,
    telescoping::{self, CodedFilter, Extensions, Selectors},
};
use twiceshy_deadline::Deadline;
use twiceshy_model::snapshot::{seal_shards, shards_in};

/// A filter, and its members in a mutex, as in a store.
struct Guarded<S: telescoping::CodedScheme> {
    filter: Concurrent<CodedFilter<S>>,
    members: Mutex<BTreeSet<Hash>>,
}

fn listed(members: &BTreeSet<Hash>, interval: RangeInclusive<Hash>) -> Vec<Hash> {
    members.range(interval).copied().collect()
}

impl<S: telescoping::CodedScheme> Guarded<S> {
    fn new(slots: u64, shards: usize) -> Self {
        let builder = CodedFilter::<S>::builder().slots(slots).remainder_bits(7).code_bits(8);
        let filter = builder.shards(shards).build_concurrent().unwrap();
        assert_eq!(filter.shards(), shards);
        Self { filter, members: Mutex::default() }
    }

    fn insert(&self, hash: Hash) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        match self.filter.insert(hash) {
            Err(InsertError::NeedsMembers(claim)) => {
                let list = listed(&members, claim.suspects());
                self.filter.insert_listed(&claim, &list).unwrap();
            }
            inserted => inserted.unwrap(),
        }
        members.insert(hash);
    }

    fn remove(&self, hash: Hash) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        match self.filter.remove_trusting(hash) {
            Err(RemoveError::Ambiguous) => {
                let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("lost") };
                let list = listed(&members, claim.suspects());
                self.filter.remove(&claim, &list).unwrap();
            }
            removed => removed.unwrap(),
        }
        members.remove(&hash);
    }

    fn ask(&self, query: Hash) {
        if !self.filter.contains(query) {
            return;
        }
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask_alone(query, &members);
    }

    fn ask_alone(&self, query: Hash, members: &BTreeSet<Hash>) {
        let Answer::Maybe(claim) = self.filter.check(query) else { return };
        assert!(claim.suspects().contains(&query));
        // The suspects of all members in the block, which is the widest range that a claim can
        // have.
        let most = self.filter.suspects(query);
        assert!(most.contains(claim.suspects().start()) && most.contains(claim.suspects().end()));
        let shard = self.filter.shard_hashes(self.filter.shard_of(query));
        assert!(shard.contains(claim.suspects().start()) && shard.contains(claim.suspects().end()));
        match self.filter.adapt(&claim, listed(members, claim.suspects())) {
            Ok(_) => assert!(!self.filter.contains(query)),
            Err(AdaptError::Crowded) if claim.suspects() != most => {
                let Answer::Maybe(next) = self.filter.check(query) else { panic!("repaired") };
                if next.suspects() != claim.suspects() {
                    self.ask_alone(query, members);
                }
            }
            Err(AdaptError::Crowded | AdaptError::Inseparable) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn check(&self) {
        self.filter.validate().unwrap();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(self.filter.len(), members.len());
        let hashes: Vec<Hash> = members.iter().copied().collect();
        assert!(hashes.iter().all(|&hash| self.filter.contains(hash)), "false negatives");
        let mut maybe = Vec::new();
        self.filter.contains_many(&hashes, &mut maybe);
        assert!(maybe.iter().all(|&maybe| maybe), "false negatives");
    }
}

/// Runs threads that insert, remove and look up their own keys.
fn check_threads<S: telescoping::CodedScheme>() {
    let _deadline = Deadline::new();
    let guarded = Guarded::<S>::new(4000, 8);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let guarded = &guarded;
            scope.spawn(move || {
                for number in 0..800 {
                    let key = |number: u64| random(10 + thread)(number);
                    guarded.insert(key(number));
                    assert!(guarded.filter.contains(key(number)));
                    if number % 4 == 3 {
                        guarded.remove(key(number - 2));
                    }
                    for query in 0..10 {
                        guarded.ask(random(20 + thread)(10 * number + query));
                    }
                }
            });
        }
    });
    guarded.check();
    assert_eq!(guarded.filter.len(), 4 * 600);
    assert!(guarded.filter.forgotten() > 0);
}

#[test]
fn threads_lose_no_member() {
    check_threads::<Selectors>();
    check_threads::<Extensions>();
}

fn worn<S: telescoping::CodedScheme>() -> Guarded<S> {
    let guarded = Guarded::<S>::new(560, 4);
    (0..360).for_each(|number| guarded.insert(random(1)(number)));
    (0..4000).for_each(|number| guarded.ask(random(2)(number)));
    guarded.check();
    guarded
}

fn check_snapshot<S: telescoping::CodedScheme>() {
    let Guarded { filter, members } = worn::<S>();
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let back = Concurrent::<CodedFilter<S>>::read_from(&bytes[..]).unwrap();
    let mut again = Vec::new();
    back.write_to(&mut again).unwrap();
    assert_eq!(again, bytes);
    let mistakes = (0..4000).map(random(2));
    for query in mistakes {
        assert_eq!(back.contains(query), filter.contains(query));
    }
    Guarded { filter: back, members }.check();
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(Concurrent::<CodedFilter<S>>::read_from(&changed[..]).is_err(), "byte {at}");
        assert!(Concurrent::<CodedFilter<S>>::read_from(&bytes[..at]).is_err(), "cut at {at}");
    }
    let error = CodedFilter::<S>::read_from(&bytes[..]).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherKind { .. }), "{error}");
}

#[test]
fn saved_shards_are_restored() {
    check_snapshot::<Selectors>();
    check_snapshot::<Extensions>();
}

/// Compares with a file of format version 1. If the file is missing, writes it for review.
fn check_fixture<S: telescoping::CodedScheme>(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let Ok(kept) = std::fs::read(&path) else {
        let guarded = Guarded::<S>::new(100, 4);
        (0..50).for_each(|number| guarded.insert(random(1)(number)));
        (0..300).for_each(|number| guarded.ask(random(2)(number)));
        guarded.filter.save(&path).unwrap();
        panic!("the file was missing, and is written now");
    };
    let filter = Concurrent::<CodedFilter<S>>::open(&path).unwrap();
    assert!((0..50).all(|number| filter.contains(random(1)(number))));
    assert!(!(0..300).any(|number| filter.contains(random(2)(number))));
    let mut again = Vec::new();
    filter.write_to(&mut again).unwrap();
    assert!(again == kept, "it would be written differently today");
}

#[test]
fn version_1_of_shards_is_read_and_written_unchanged() {
    check_fixture::<Selectors>("v1-concurrent-telescoping.twiceshy");
    check_fixture::<Extensions>("v1-concurrent-extensions.twiceshy");
}

#[test]
fn plain_filter_can_be_shared_saved_and_rebuilt() {
    let builder = PlainQuotientFilter::builder().slots(100).remainder_bits(8).shards(4);
    let filter = builder.build_concurrent().unwrap();
    let members: Vec<Hash> = (0..50).map(random(1)).collect();
    std::thread::scope(|scope| {
        for part in members.chunks(10) {
            let filter = &filter;
            scope.spawn(move || part.iter().for_each(|&member| filter.insert(member).unwrap()));
        }
    });
    filter.insert_many(&members[..5]).unwrap();
    members[..5].iter().for_each(|&member| filter.remove_trusting(member).unwrap());
    assert_eq!(filter.len(), 50);
    filter.validate().unwrap();

    // Threads insert in any order. Rebuild the shards in hash order, so that the file is always
    // the same.
    let mut listed = members.clone();
    listed.sort_unstable();
    for shard in 0..filter.shards() {
        let hashes = filter.shard_hashes(shard);
        let of_shard: Vec<Hash> =
            listed.iter().copied().filter(|hash| hashes.contains(hash)).collect();
        filter.rebuild_shard(shard, ShardPlan::default(), &of_shard, &[]).unwrap();
    }
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("tests/fixtures/v1-concurrent-plain.twiceshy");
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(&path, &bytes).unwrap();
        panic!("the file was missing, and is written now");
    };
    assert!(bytes == kept, "it would be written differently today");
    let restored = Concurrent::<PlainQuotientFilter>::open(&path).unwrap();
    assert!(members.iter().all(|&member| restored.contains(member)));
    let other = Concurrent::<ExtensionFilter>::open(&path).unwrap_err();
    assert!(other.to_string().contains("a concurrent plain quotient filter"), "{other}");
}

fn check_rebuilding<S: telescoping::CodedScheme>() {
    let guarded = worn::<S>();
    let filter = &guarded.filter;
    for shard in 0..filter.shards() {
        let hashes = filter.shard_hashes(shard);
        let list = listed(&guarded.members.lock().unwrap(), hashes.clone());
        let mut mistakes: Vec<Hash> =
            (0..400).map(random(2)).filter(|mistake| hashes.contains(mistake)).collect();
        mistakes.sort_unstable();
        let claim = filter.claim_near(list[0]);
        let capacity = 3 * filter.shard_parameters(shard).slots as usize;
        filter.rebuild_shard(shard, ShardPlan::capacity(capacity), &list, &mistakes).unwrap();
        assert!(filter.shard_parameters(shard).slots as usize > capacity);
        // A claim of the old shard is stale, even if all members in its interval are listed.
        let listed = listed(&guarded.members.lock().unwrap(), claim.suspects());
        assert_eq!(filter.insert_listed(&claim, &listed), Err(InsertError::Mismatch));
        let elsewhere =
            filter.rebuild_shard((shard + 1) % filter.shards(), ShardPlan::default(), &list, &[]);
        assert!(matches!(elsewhere, Err(concurrent::RebuildError::Outside { .. })));
    }
    guarded.check();
}

#[test]
fn shards_are_rebuilt_from_members() {
    check_rebuilding::<Selectors>();
    check_rebuilding::<Extensions>();
}

#[test]
fn listing_with_member_of_other_shard_is_refused() {
    let guarded = worn::<Selectors>();
    let members = guarded.members.lock().unwrap();
    let (first, last) = (*members.first().unwrap(), *members.last().unwrap());
    let Answer::Maybe(claim) = guarded.filter.check(first) else { panic!("a member") };
    let list = [&listed(&members, claim.suspects())[..], &[last]].concat();
    let outside = AdaptError::Outside { member: last };
    assert_eq!(guarded.filter.adapt(&claim, &list), Err(outside.clone()));
    assert_eq!(guarded.filter.adapt(&claim, Listing::new(&list).dropping_ghosts()), Err(outside));
    let removed = guarded.filter.remove(&claim, &list);
    assert_eq!(removed, Err(RemoveError::Outside { member: last }));
    // Claims of filters with a different number of shards are refused, too.
    for shards in [1, 2, 64] {
        let other = Guarded::<Selectors>::new(100_000, shards).filter.claim_near(last);
        let nobody: [Hash; 0] = [];
        let inserted = guarded.filter.insert_listed(&other, &nobody);
        assert_eq!(inserted, Err(InsertError::Mismatch));
        assert_eq!(guarded.filter.remove(&other, &nobody), Err(RemoveError::Stale));
    }
    let builder = || CodedFilter::<Selectors>::builder().slots(100);
    assert!(matches!(
        builder().shards(0).build_concurrent(),
        Err(BuildError::Plan(PlanError::Shards(0)))
    ));
    assert!(matches!(
        builder().shards(4097).build_concurrent(),
        Err(BuildError::Plan(PlanError::Shards(4097)))
    ));
}

/// A claim of one filter never changes another filter.
#[test]
fn claims_of_other_filters_are_refused() {
    let filter = |slots, shards| {
        let builder = CodedFilter::<Selectors>::builder().slots(slots).remainder_bits(7);
        builder.shards(shards).build_concurrent().unwrap()
    };
    let filters: Vec<_> = [(30, 1), (700, 1), (5000, 4), (100_000, 16)]
        .into_iter()
        .map(|(slots, shards)| filter(slots, shards))
        .collect();
    for (at, one) in filters.iter().enumerate() {
        for (_, other) in filters.iter().enumerate().filter(|&(number, _)| number != at) {
            for hash in [0, 1 << 77, u128::MAX / 3, u128::MAX].map(Hash::from_u128) {
                let claim = one.claim_near(hash);
                assert!(other.insert_listed(&claim, &[] as &[Hash]).is_err());
                assert_eq!(other.len(), 0);
            }
        }
    }
}

#[test]
fn counts_of_shards_are_added_without_overflow() {
    const FORGOTTEN_AT: usize = 48;
    let filter =
        CodedFilter::<Extensions>::builder().slots(100).shards(2).build_concurrent().unwrap();
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    for shard in shards_in(&bytes) {
        let at = shard.start + FORGOTTEN_AT;
        bytes[at..at + 8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    }
    seal_shards(&mut bytes);
    let restored = Concurrent::<CodedFilter<Extensions>>::read_from(&bytes[..]).unwrap();
    assert_eq!(restored.forgotten(), u64::MAX);
}

/// The members need a hundred times the planned slots.
#[test]
fn rebuilt_shard_gets_the_slots_that_its_members_need() {
    fn check<F: PlainShard>() {
        let filter = Builder::<F>::default().slots(100).shards(2).build_concurrent().unwrap();
        let members: Vec<Hash> = (0..1000u128).map(|n| Hash::from_u128(n << 116)).collect();
        for plan in [ShardPlan::capacity(10), ShardPlan::default()] {
            filter.rebuild_shard(0, plan, &members, &[]).unwrap();
            assert_eq!(filter.len(), members.len());
            assert!(members.iter().all(|&member| filter.contains(member)));
        }
        let same = [Member { hash: members[0], count: 5_000 }];
        filter.rebuild_shard(0, ShardPlan::capacity(1), &same, &[]).unwrap();
        assert_eq!(filter.len(), 5_000);
    }
    check::<TelescopingFilter>();
    check::<ExtensionFilter>();
    check::<PlainQuotientFilter>();
}
