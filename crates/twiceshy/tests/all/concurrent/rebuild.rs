//! Rebuilds of single shards.

use super::model::Numbers;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use twiceshy::concurrent::{RebuildError, Replacement, ShardPlan};
use twiceshy::{
    Answer, Concurrent, Hash, Member, QuotientFilter, Snapshot,
    builder::Builder,
    error::{AdaptError, BuildError, PlanError},
};
use twiceshy_deadline::Deadline;
use twiceshy_model::concurrent::{Members, check_entries, entries_of, list};

fn builder() -> Builder<QuotientFilter> {
    QuotientFilter::builder()
}

/// Returns `count` different members, sorted.
fn members(count: usize, seed: u64) -> Members {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| (numbers.hash(), 1)).collect()
}

/// An empty list.
const NONE: [Hash; 0] = [];

/// Plans for a number of members, or for as many slots as before.
fn plan(capacity: Option<usize>) -> ShardPlan {
    capacity.map_or_else(ShardPlan::default, ShardPlan::capacity)
}

#[test]
fn every_hash_is_in_the_interval_of_its_shard() {
    let mut numbers = Numbers(1);
    for shards in [1, 2, 64, 4096] {
        let filter = builder().slots(8192).shards(shards).build_concurrent().unwrap();
        assert_eq!(filter.shards(), shards);
        let mut next = Some(0);
        for shard in 0..shards {
            let hashes = filter.shard_hashes(shard);
            assert_eq!(Some(hashes.start().as_u128()), next, "no hash is left out");
            assert_eq!(filter.shard_of(*hashes.start()), shard);
            assert_eq!(filter.shard_of(*hashes.end()), shard);
            next = hashes.end().as_u128().checked_add(1);
        }
        assert_eq!(next, None);
        for _ in 0..100 {
            let hash = numbers.hash();
            assert!(filter.shard_hashes(filter.shard_of(hash)).contains(&hash));
        }
    }
}

#[test]
#[should_panic(expected = "no shard 4 of 4")]
fn shard_hashes_panics_if_the_shard_does_not_exist() {
    let filter = builder().slots(100).shards(4).build_concurrent().unwrap();
    let _ = filter.shard_hashes(4);
}

#[test]
fn empty_filter_is_filled_shard_by_shard() {
    let all = members(20_000, 2);
    // These keys are so close to members that they would be mistakes without repairs.
    let mistakes = all.keys().step_by(7).map(|hash| Hash::from_u128(hash.as_u128() ^ 1 << 101));
    let mistakes: BTreeSet<Hash> = mistakes.collect();
    for shards in [1, 4, 64] {
        // Plan for all members, for fewer members, and for just the existing slots.
        for shape in [builder().capacity(20_000), builder().capacity(100), builder().slots(300)] {
            for with_hint in [true, false] {
                let shape = shape.clone().remainder_bits(9).shards(shards);
                let filter = shape.build_concurrent().unwrap();
                for shard in 0..shards {
                    let hashes = filter.shard_hashes(shard);
                    let listed = list(&all, hashes.clone());
                    let hint = with_hint.then_some(listed.len() + listed.len() / 5);
                    let mistakes: Vec<Hash> = mistakes.range(hashes).copied().collect();
                    filter.rebuild_shard(shard, plan(hint), &listed, &mistakes).unwrap();
                }
                check_entries(&filter, &all);
                assert!(mistakes.iter().all(|&mistake| !filter.contains(mistake)));
                filter.validate().unwrap();
                assert!(filter.parameters().iter().all(|shard| shard.remainder_bits == 9));
            }
        }
    }
}

/// Growing takes bits from the remainders. Rebuilding from the members restores these bits.
#[test]
fn rebuilt_shard_regains_remainder_bits_and_still_grows() {
    let filter = builder().capacity(500).shards(2).remainder_bits(12).build_concurrent().unwrap();
    let all = members(8_000, 3);
    filter.insert_each(&all.keys().copied().collect::<Vec<_>>()).unwrap();
    let grown = filter.parameters();
    assert!(grown.iter().all(|shard| shard.remainder_bits < 10 && shard.slot_bits == 12));
    let adaptations = {
        let query = Hash::from_u128(all.keys().next().unwrap().as_u128() ^ 1);
        let Answer::Maybe(claim) = filter.check(query) else { panic!("it is near a member") };
        filter.adapt(&claim, list(&all, claim.suspects())).unwrap();
        filter.stats().repairs
    };
    for (shard, hint) in [(0, None), (1, Some(6_000))] {
        let listed = list(&all, filter.shard_hashes(shard));
        filter.rebuild_shard(shard, plan(hint), &listed, &NONE).unwrap();
    }
    let rebuilt = filter.parameters();
    assert!(rebuilt.iter().all(|shard| shard.remainder_bits == 12 && shard.slot_bits == 12));
    assert_eq!(rebuilt[0].slots, grown[0].slots, "as many as before");
    assert!((6_300..8_000).contains(&rebuilt[1].slots), "planned for the hint: {rebuilt:?}");
    assert_eq!(filter.stats().repairs, adaptations);
    check_entries(&filter, &all);
    let mut more = all.clone();
    for (hash, count) in members(30_000, 4) {
        filter.insert(hash).unwrap();
        more.insert(hash, count);
    }
    assert!(filter.parameters().iter().all(|shard| shard.remainder_bits < 12));
    check_entries(&filter, &more);
    // Rebuilding can also make a shard smaller.
    for shard in 0..2 {
        filter.rebuild_shard(shard, ShardPlan::capacity(10), &NONE, &NONE).unwrap();
        assert!(filter.parameters()[shard].slots < 20);
    }
    assert!(filter.is_empty());
    filter.insert(Hash::MAX).unwrap();
    filter.validate().unwrap();
}

/// A rebuild makes the shard larger if the next insert would otherwise double it, because doubling
/// would take a bit of each remainder.
#[test]
fn rebuilt_shard_is_below_the_load_at_which_it_grows() {
    for load in [0.1, 0.5, 0.95, 1.0] {
        let shape = builder().slots(64).remainder_bits(10).shards(4).grow_at(load);
        let filter = shape.build_concurrent().unwrap();
        let all = members(3_000, 5);
        for (shard, hint) in [(0, None), (1, Some(0)), (2, Some(750)), (3, Some(100))] {
            let listed = list(&all, filter.shard_hashes(shard));
            filter.rebuild_shard(shard, plan(hint), &listed, &NONE).unwrap();
        }
        assert!(filter.stats().load <= load, "{} at {load}", filter.stats().load);
        assert!(filter.parameters().iter().all(|shard| shard.remainder_bits == 10));
        // Shards have different sizes, so that they don't all double at the same time.
        let slots: Vec<u64> = filter.parameters().iter().map(|shard| shard.slots).collect();
        assert!(slots[3] > slots[1] + slots[1] / 20, "{slots:?}");
        check_entries(&filter, &all);
    }
}

#[test]
fn failed_rebuild_changes_nothing() {
    let filter = builder().slots(400).remainder_bits(6).shards(4).build_concurrent().unwrap();
    let all = members(200, 6);
    filter.insert_each(&all.keys().copied().collect::<Vec<_>>()).unwrap();
    let before = (entries_of(&filter), filter.parameters());
    let listed = list(&all, filter.shard_hashes(2));
    let [first, last] = [*filter.shard_hashes(2).start(), *filter.shard_hashes(2).end()];
    let [too_low, too_high] = [first.as_u128() - 1, last.as_u128() + 1].map(Hash::from_u128);

    // Add a hash of a different shard at either end or in the middle, in members or mistakes.
    for outside in [too_low, too_high, Hash::MIN, Hash::MAX] {
        let with = |at: usize| {
            let mut members = listed.clone();
            members.insert(at, outside.into());
            members
        };
        for members in [with(0), with(listed.len() / 2), with(listed.len())] {
            let error = filter.rebuild_shard(2, ShardPlan::default(), &members, &NONE).unwrap_err();
            assert!(matches!(error, RebuildError::Outside { hash } if hash == outside), "{error}");
            let error =
                filter.rebuild_shard(2, ShardPlan::capacity(1), &members, &NONE).unwrap_err();
            assert!(matches!(error, RebuildError::Outside { hash } if hash == outside), "{error}");
        }
        let error = filter.rebuild_shard(2, ShardPlan::default(), &listed, &[outside]).unwrap_err();
        assert!(matches!(error, RebuildError::Outside { hash } if hash == outside), "{error}");
    }
    let backwards: Vec<Member> = listed.iter().rev().copied().collect();
    let error = filter.rebuild_shard(2, ShardPlan::default(), &backwards, &NONE).unwrap_err();
    assert!(matches!(error, RebuildError::Build(BuildError::Unsorted("members"))), "{error}");
    let error = filter.rebuild_shard(2, ShardPlan::default(), &listed, &[last, first]).unwrap_err();
    assert!(matches!(error, RebuildError::Build(BuildError::Unsorted("mistakes"))), "{error}");
    let both = listed[3].hash;
    let error = filter.rebuild_shard(2, ShardPlan::default(), &listed, &[both]).unwrap_err();
    assert!(
        matches!(
            error,
            RebuildError::Build(BuildError::MistakeIsMember { hash, .. }) if hash == both
        ),
        "the error names the whole hash: {error}"
    );
    let many = [Member { hash: first, count: 1 << 41 }];
    let error = filter.rebuild_shard(2, ShardPlan::default(), &many, &NONE).unwrap_err();
    assert!(matches!(error, RebuildError::Build(BuildError::Uncountable)), "{error}");
    for absurd in [1 << 50, usize::MAX] {
        let error =
            filter.rebuild_shard(2, ShardPlan::capacity(absurd), &listed, &NONE).unwrap_err();
        assert!(
            matches!(error, RebuildError::Build(BuildError::Plan(PlanError::Slots(_)))),
            "{error}"
        );
    }
    assert_eq!(before, (entries_of(&filter), filter.parameters()));
    check_entries(&filter, &all);
}

/// Hashes that no filter size can spread give an error, not an endless loop.
#[test]
fn unevenly_distributed_hashes_get_more_slots_or_are_refused() {
    let filter = builder().slots(40).remainder_bits(6).shards(2).build_concurrent().unwrap();
    let last = filter.shard_hashes(1).end().as_u128();
    let hash = |number: u128| Hash::from_u128(last - number);
    for shift in [0, 60, 110, 116] {
        let members: Vec<Hash> = (0..400).rev().map(|number| hash(number << shift)).collect();
        match filter.rebuild_shard(1, ShardPlan::default(), &members, &NONE) {
            Ok(()) => assert!(members.iter().all(|&member| filter.contains(member))),
            Err(error) => {
                assert!(matches!(error, RebuildError::Build(BuildError::Full { .. })), "{error}");
            }
        }
        filter.validate().unwrap();
    }
}

/// A member that runs a function when it is read.
#[derive(Clone, Copy)]
struct Late<'a> {
    member: Member,
    meanwhile: &'a dyn Fn(),
}

impl From<Late<'_>> for Member {
    fn from(Late { member, meanwhile }: Late<'_>) -> Self {
        meanwhile();
        member
    }
}

fn late<'a>(members: &[Member], meanwhile: &'a dyn Fn()) -> Vec<Late<'a>> {
    members.iter().map(|&member| Late { member, meanwhile }).collect()
}

#[test]
fn shard_changed_during_rebuild_is_not_replaced() {
    let filter = builder().slots(400).remainder_bits(6).shards(4).build_concurrent().unwrap();
    let mut all = members(200, 9);
    filter.insert_each(&all.keys().copied().collect::<Vec<_>>()).unwrap();
    let first = *filter.shard_hashes(1).start();
    let listed = list(&all, filter.shard_hashes(1));
    let stale = |meanwhile: &dyn Fn()| {
        let is_done = Cell::new(false);
        let meanwhile = || (!is_done.replace(true)).then(meanwhile).unwrap_or_default();
        let members = late(&listed, &meanwhile);
        let error = filter
            .rebuild_shard(1, ShardPlan::capacity(listed.len()), &members, &NONE)
            .unwrap_err();
        assert!(matches!(error, RebuildError::Stale), "{error}");
    };
    stale(&|| filter.insert(first).unwrap());
    stale(&|| filter.remove_trusting(first).unwrap());
    stale(&|| filter.remove_trusting_keeping_repairs(listed[0].hash).unwrap());
    stale(&|| filter.insert_each(&[listed[0].hash]).unwrap());
    let query = Hash::from_u128(listed[0].hash.as_u128() ^ 1);
    stale(&|| {
        let Answer::Maybe(claim) = filter.check(query) else { panic!("it is near a member") };
        filter.adapt(&claim, list(&all, claim.suspects())).unwrap();
    });
    assert!(!filter.contains(query), "a mistake repaired in the meantime stays repaired");
    stale(&|| filter.rebuild_shard(1, ShardPlan::default(), &listed, &NONE).unwrap());
    check_entries(&filter, &all);

    // Changes in other shards don't matter, and neither do lookups.
    let old = filter.check(listed[0].hash);
    let is_done = Cell::new(false);
    let meanwhile = || {
        assert!(filter.contains(listed[0].hash));
        if !is_done.replace(true) {
            filter.insert(Hash::MIN).unwrap();
        }
    };
    let members = late(&listed, &meanwhile);
    filter.rebuild_shard(1, ShardPlan::capacity(listed.len()), &members, &NONE).unwrap();
    all.insert(Hash::MIN, 1);
    check_entries(&filter, &all);
    let Answer::Maybe(claim) = old else { panic!("it is a member") };
    let suspects = list(&all, claim.suspects());
    assert_eq!(filter.adapt(&claim, &suspects), Err(AdaptError::Stale));
}

/// One thread rebuilds shard after shard, others insert between the rebuilds, and others look up
/// members all the time.
#[test]
fn members_are_never_absent_while_shards_are_rebuilt() {
    const READERS: usize = 3;
    let _deadline = Deadline::new();
    let filter = builder().capacity(500).shards(4).build_concurrent().unwrap();
    let first = members(2_000, 10);
    let store = RwLock::new(first.clone());
    for shard in 0..4 {
        let listed = list(&first, filter.shard_hashes(shard));
        filter.rebuild_shard(shard, ShardPlan::default(), &listed, &NONE).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (filter, store, first, done) = (&filter, &store, &first, &done);
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn(move || {
                    let hashes: Vec<Hash> = first.keys().copied().collect();
                    let mut maybe = Vec::new();
                    let mut rounds = 0;
                    while !done.load(Ordering::Relaxed) || rounds < 3 {
                        if reader == 0 {
                            filter.contains_many(&hashes, &mut maybe);
                            assert!(maybe.iter().all(|&maybe| maybe), "a member is absent");
                        } else {
                            let absent = hashes.iter().find(|&&hash| !filter.contains(hash));
                            assert_eq!(absent, None);
                        }
                        rounds += 1;
                    }
                })
            })
            .collect();
        let writer = scope.spawn(move || {
            for (hash, count) in members(3_000, 11) {
                // The lock prevents inserts while a rebuild has listed the members but hasn't
                // finished.
                let mut store = store.write().unwrap();
                filter.insert(hash).unwrap();
                store.insert(hash, count);
                drop(store);
                std::thread::yield_now();
            }
        });
        for round in 0..60 {
            let shard = round % 4;
            let store = store.read().unwrap();
            let hashes = filter.shard_hashes(shard);
            let listed = list(&store, hashes);
            let hint = (round % 3 == 0).then_some(listed.len());
            filter.rebuild_shard(shard, plan(hint), &listed, &NONE).unwrap();
            drop(store);
            std::thread::yield_now();
        }
        writer.join().unwrap();
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    check_entries(&filter, &store.into_inner().unwrap());
    filter.validate().unwrap();
}

/// Returns a filter with four shards, the members of the last shard, and a filter to replace it.
fn replacement() -> (Concurrent<QuotientFilter>, Members, Replacement<QuotientFilter>) {
    let filter = builder().capacity(2_000).shards(4).build_concurrent().unwrap();
    let all = members(1_000, 12);
    filter.insert_each(&all.keys().copied().collect::<Vec<_>>()).unwrap();
    let listed = list(&all, filter.shard_hashes(3));
    let built = filter.build_shard(3, ShardPlan::default(), &listed, &NONE).unwrap();
    let of_shard = all.range(filter.shard_hashes(3)).map(|(&hash, &count)| (hash, count));
    (filter, of_shard.collect(), built)
}

#[test]
fn replacement_takes_batches_and_reports_hashes_of_the_whole_filter() {
    let (filter, mut all, built) = replacement();
    let new = built.filter();
    let hashes = filter.shard_hashes(3);
    assert_eq!((new.shards(), new.shard_hashes(0)), (1, hashes.clone()));
    check_entries(new, &all);
    let more: Vec<Hash> = (0..60).map(|n| Hash::from_u128(u128::MAX - (n << 90))).collect();
    new.insert_many(&more[..30]).unwrap();
    new.insert_each(&more[30..]).unwrap();
    all.extend(more.iter().map(|&hash| (hash, 1)));
    let mut maybe = Vec::new();
    new.contains_many(&more, &mut maybe);
    assert!(maybe.iter().all(|&maybe| maybe));
    check_entries(new, &all);
    new.validate().unwrap();
    filter.replace_shard(built);
    filter.validate().unwrap();
    assert!(all.keys().all(|&hash| filter.contains(hash)));
    filter.contains_many(&more, &mut maybe);
    assert!(maybe.iter().all(|&maybe| maybe));
}

/// A file of a single shard would be read as a whole filter, which misses members.
#[test]
fn replacement_cannot_be_saved() {
    let (_, _, built) = replacement();
    let error = built.filter().write_to(Vec::new()).unwrap_err();
    assert!(error.to_string().contains("save the filter"), "{error}");
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn replacement_refuses_hashes_of_other_shards() {
    let (_, _, built) = replacement();
    let _ = built.filter().insert(Hash::MIN);
}

#[test]
#[should_panic(expected = "different number of shards")]
fn replacement_of_a_filter_with_more_shards_is_refused() {
    let (_, _, built) = replacement();
    builder().capacity(10).shards(8).build_concurrent().unwrap().replace_shard(built);
}
