//! Tests that the rate, the memory, and the number of mistakes that an attacker can cause stay
//! within bounds however long a store is used.

use crate::common::Random;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;
use twiceshy::{Hash, MemberSource, Secret, hash::KeyedHasher};
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::Observed;
use twiceshy_store::testing::FaultyBackend;
use twiceshy_store::{
    Backend, Guard, Guarded, List, ListStore, MemoryBackend, OpenOptions, Stats, Store,
};

const RATE: f64 = 0.002;

/// The maximum memory of a store's queue of records, in bytes: 1024 hashes, in a tree.
const QUEUE: u64 = 1024 * 24;

fn secret() -> Secret {
    Secret::from_bytes([9; 16])
}

fn options() -> OpenOptions {
    OpenOptions::new().false_positive_rate(RATE).secret(secret())
}

type Key = [u8; 9];

fn member(number: u64) -> Key {
    key(0, number)
}

/// Returns the key of a query. It is not a member.
fn query(number: u64) -> Key {
    key(1, number)
}

fn key(kind: u8, number: u64) -> Key {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A store or a guard, used as a set of keys.
trait Subject {
    fn insert(&self, key: &Key);
    fn remove(&self, key: &Key);
    fn has(&self, key: &Key) -> bool;
    fn stats(&self) -> Stats;
    /// Does the work that is left to callers.
    fn tend(&self);
    /// Returns the statistics when nothing waits any more: no shard is due, and no record is queued.
    fn at_rest(&self) -> Stats;
    fn validate(&self);
}

impl<B: Backend> Subject for Store<B> {
    fn insert(&self, key: &Key) {
        self.put(key, b"").unwrap();
    }

    fn remove(&self, key: &Key) {
        assert!(self.delete(key).unwrap());
    }

    fn has(&self, key: &Key) -> bool {
        self.contains(key).unwrap()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn tend(&self) {
        if !self.stats().has_background_thread {
            self.tend().unwrap();
        }
    }

    fn at_rest(&self) -> Stats {
        self.sync().unwrap();
        Subject::tend(self);
        loop {
            let stats = self.stats();
            if stats.shards_due == 0 && stats.rebuild_bytes == 0 {
                return stats;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn validate(&self) {
        self.validate().unwrap();
    }
}

/// A database with an index of hashes, and nothing else.
struct Index {
    keys: RwLock<BTreeMap<Hash, Key>>,
    hasher: KeyedHasher,
}

impl MemberSource for Index {
    type Member = Vec<u8>;
    type Error = Infallible;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Vec<u8>>, Infallible> {
        Ok(self.keys.read().unwrap().range(hashes).map(|(_, key)| key.to_vec()).collect())
    }
}

impl Guarded for Index {
    type Key = [u8];
    type Value = ();

    fn look_up(&self, key: &[u8]) -> Result<Option<()>, Infallible> {
        let hash = self.hasher.hash(key);
        Ok(self.keys.read().unwrap().contains_key(&hash).then_some(()))
    }
}

fn guard(options: &OpenOptions) -> Guard<Index> {
    let hasher = KeyedHasher::new(&secret());
    options.open_guard(Index { keys: RwLock::default(), hasher }).unwrap()
}

impl Subject for Guard<Index> {
    fn insert(&self, key: &Key) {
        let hash = self.hash(key);
        let write = |index: &Index| Ok(index.keys.write().unwrap().insert(hash, *key));
        assert_eq!(self.insert(&key[..], write).unwrap(), None);
    }

    fn remove(&self, key: &Key) {
        let hash = self.hash(key);
        let write = |index: &Index| {
            index.keys.write().unwrap().remove(&hash);
            Ok(())
        };
        assert!(self.remove(&key[..], write).unwrap());
    }

    fn has(&self, key: &Key) -> bool {
        self.get(&key[..]).unwrap().is_some()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn tend(&self) {
        self.tend().unwrap();
    }

    fn at_rest(&self) -> Stats {
        Subject::tend(self);
        self.stats()
    }

    fn validate(&self) {
        self.validate().unwrap();
    }
}

/// Returns the largest number of mistakes that chance allows, if `expected` are expected.
fn at_most(expected: f64) -> u64 {
    (expected + 5.0 * expected.sqrt()) as u64
}

/// The number of absent keys that are looked up at each size.
const QUERIES: u64 = 200_000;

/// Looks up absent keys for the first time. Returns how many of them were mistakes.
fn ask(subject: &impl Subject, first: u64) -> u64 {
    let before = subject.stats();
    for number in first..first + QUERIES {
        assert!(!subject.has(&query(number)));
        if number % 4096 == 0 {
            subject.tend();
        }
    }
    let after = subject.stats();
    assert_eq!(after.unfiltered, before.unfiltered);
    after.false_positives - before.false_positives
}

/// Checks the memory and the rate at every size from 1,000 members to `largest` and back: sizes are
/// an eighth of a doubling apart. At every tenth size, absent keys are looked up.
fn check_life(subject: &impl Subject, largest: u64) {
    let steps = 8.0 * (largest as f64 / 1000.0).log2();
    let size = |step: u32| largest.min((1000.0 * (f64::from(step) / 8.0).exp2()) as u64);
    let up: Vec<u64> = (0..=steps.ceil() as u32).map(size).collect();
    let down = up.iter().rev().skip(1);
    let (mut members, mut rounds, mut mistakes) = (0, 0, 0);
    for (at, &size) in up.iter().chain(down).enumerate() {
        (members..size).for_each(|number| subject.insert(&member(number)));
        (size..members).for_each(|number| subject.remove(&member(number)));
        members = size;
        // The rate doesn't depend on pending work.
        for stats in [subject.stats(), subject.at_rest()] {
            let rate = stats.expected_rate;
            assert!(rate <= 1.1 * RATE, "{members} members: {rate}");
        }
        let stats = subject.stats();
        assert_eq!(stats.members, members);
        // Leave out the mistakes that a guard keeps.
        let memory = stats.memory() - stats.list_bytes;
        let most = members * 16 / 8 + (64 << 10);
        assert!(memory <= most, "{memory} bytes for {members} members, at most {most}: {stats:?}");
        if at % 10 == 0 || members == largest {
            let found = ask(subject, rounds * QUERIES);
            let most = at_most(1.1 * RATE * QUERIES as f64);
            assert!(found <= most, "{found} mistakes with {members} members, at most {most}");
            (rounds, mistakes) = (rounds + 1, mistakes + found);
            assert!((0..members).step_by(7).all(|number| subject.has(&member(number))));
            subject.validate();
        }
    }
    // Over all sizes together, chance averages out, so the measured rate is closer to the expected
    // one.
    let most = at_most(1.1 * RATE * (rounds * QUERIES) as f64);
    assert!(mistakes <= most, "{mistakes} mistakes in {rounds} rounds, at most {most}");
    let stats = subject.stats();
    assert_eq!((members, stats.rebuilds_failed, stats.unfiltered), (1000, 0, 0));
}

#[test]
fn rate_is_constant_and_memory_proportional_to_members() {
    let _deadline = Deadline::new();
    let store: Store<_> = options().open_with(MemoryBackend::new(), None).unwrap();
    check_life(&store, 1_000_000);
}

#[test]
fn guard_rate_is_constant_and_memory_proportional_to_members() {
    let _deadline = Deadline::new();
    check_life(&guard(&options()), 100_000);
}

#[test]
fn list_filter_memory_stays_proportional_to_keys() {
    let _deadline = Deadline::new();
    let store: ListStore<_> = options().open_lists_with(MemoryBackend::new(), None).unwrap();
    store.add_many(List::No, (0..500).map(query)).unwrap();
    let mut keys = 0;
    for size in [1_000, 10_000, 100_000, 70_000, 30_000, 8_000, 1_000] {
        if size > keys {
            store.add_many(List::Yes, (keys..size).map(member)).unwrap();
        }
        (size..keys).for_each(|number| assert!(store.remove_yes(&member(number)).unwrap()));
        keys = size;
        store.tend().unwrap();
        let stats = store.stats();
        let (memory, most) = (stats.memory() - stats.list_bytes, keys * 16 / 8 + (64 << 10));
        assert!(memory <= most, "{memory} bytes for {keys} keys, at most {most}: {stats:?}");
        assert!(stats.expected_rate <= 1.1 * RATE, "{keys} keys: {stats:?}");
        assert!((0..keys).all(|number| store.contains(&member(number))));
        assert!((0..500).all(|number| !store.contains(&query(number))));
        store.validate().unwrap();
    }
}

/// Returns options of a filter whose room for repairs is used up again and again. There is no
/// background thread.
fn small(members: u64) -> OpenOptions {
    options().capacity(members as usize).background_share(0.0)
}

/// Looks up new absent keys again and again. The filter must never take more than `most` times the
/// memory that it took at the start.
fn check_flood(subject: &impl Subject, most: f64) {
    let (members, queries) = (1024, 1024 * 3000);
    (0..members).for_each(|number| subject.insert(&member(number)));
    let first = subject.at_rest();
    let most_bytes = (first.filter_bytes as f64 * most) as u64;
    for number in 0..queries {
        assert!(!subject.has(&query(number)));
        if number % 256 == 0 {
            let before = subject.stats();
            subject.tend();
            for now in [before, subject.stats()] {
                assert!(now.filter_bytes <= most_bytes, "{now:?}, at first {first:?}");
                assert!(now.upkeep_bytes <= first.upkeep_bytes + QUEUE, "{now:?}");
                assert_eq!(now.rebuild_bytes, 0);
            }
        }
    }
    let stats = subject.stats();
    let expected = RATE * queries as f64;
    let most = (1.05 * expected + 4.0 * expected.sqrt()) as u64;
    let mistakes = stats.false_positives - first.false_positives;
    assert!(mistakes <= most, "{mistakes} mistakes, at most {most}");
    assert!(stats.rotations > 20, "{stats:?}");
    assert_eq!((stats.unfiltered, stats.rebuilds_failed), (0, 0));
    subject.validate();
    assert!((0..members).all(|number| subject.has(&member(number))));
}

#[test]
fn memory_is_bounded_under_endless_distinct_queries() {
    let _deadline = Deadline::new();
    // A shard that is full of members, or that repairs many kept mistakes from the start, grows once.
    for (capacity, kept, most) in [(1200, 256, 1.0), (1024, 1 << 20, 1.25)] {
        let options = small(capacity).shards(4).mistakes_kept(kept);
        let store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
        check_flood(&store, most);
        assert_eq!(store.stats().list_bytes, 0);
    }
}

#[test]
fn guard_memory_is_bounded_under_endless_distinct_queries() {
    const KEPT: usize = 256;
    let _deadline = Deadline::new();
    let guard = guard(&small(1200).shards(4).mistakes_kept(KEPT));
    check_flood(&guard, 1.0);
    // The guard keeps at most `KEPT` mistakes in memory. Each of its 512 stripes has a list,
    // which takes at most 128 bytes.
    let stats = guard.stats();
    assert!(stats.mistakes <= KEPT as u64 && stats.list_bytes <= 512 * 128, "{stats:?}");
}

/// After each rotation, the adversary replays all mistakes that it knows, the newest first.
/// Otherwise it asks for new keys. There is one shard, so each rotation may bring all mistakes
/// back, and the store keeps no records that would prevent that.
#[test]
fn few_replayed_mistakes_come_back_after_a_rotation() {
    const MEMBERS: u64 = 512;
    const PER_MEMBER: u64 = 10_000;
    const PERIOD: u64 = 64;
    let _deadline = Deadline::new();
    let visits = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&visits);
    let options = small(MEMBERS).shards(1).mistakes_kept(1);
    let backend = Observed::new(MemoryBackend::new(), move |_, _| {
        counter.fetch_add(1, Relaxed);
    });
    let store: Store<_> = options.open_with(backend, None).unwrap();
    (0..MEMBERS).for_each(|number| store.put(&member(number), b"").unwrap());
    let before = store.stats().false_positives;
    let (mut known, mut replay) = (Vec::new(), Vec::new());
    let (mut next, mut replayed, mut mistakes) = (0, 0, 0);
    let (mut rotations, mut expected) = (0, 0.0);
    for asked in 1..=MEMBERS * PER_MEMBER {
        let old = replay.pop();
        let number = old.unwrap_or(next);
        let seen = visits.load(Relaxed);
        assert!(!store.contains(&query(number)).unwrap());
        let is_mistake = visits.load(Relaxed) > seen;
        mistakes += u64::from(is_mistake);
        if old.is_some() {
            replayed += 1;
        } else {
            next += 1;
            if is_mistake {
                known.push(number);
            }
        }
        if asked % PERIOD == 0 {
            // During these queries, the load was at most as high as now.
            let load = store.stats().load;
            expected += (1.0 + 1.0 / load) * RATE * PERIOD as f64;
            store.tend().unwrap();
            let now = store.stats().rotations;
            if now > rotations {
                rotations = now;
                replay.clone_from(&known);
            }
            let most = at_most(expected);
            assert!(mistakes <= most, "{mistakes} mistakes in {asked} queries, at most {most}");
        }
    }
    let stats = store.stats();
    assert_eq!((stats.false_positives - before, stats.unfiltered), (mistakes, 0));
    assert!(rotations > 100 && replayed > MEMBERS * PER_MEMBER / 10, "{replayed}, {stats:?}");
}

/// While the backend can't list members, a shard without room answers "maybe", and takes writes.
#[test]
fn store_takes_writes_while_its_filter_cannot_be_rebuilt() {
    let _deadline = Deadline::new();
    for share in [0.0, 1.0] {
        let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let options = options().capacity(16).shards(2).background_share(share);
        let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        backend.fail_scans(true);
        for number in 0..500 {
            store.put(&member(number), b"1").unwrap();
            assert!(store.contains(&member(number)).unwrap());
        }
        let stats = store.stats();
        assert!(stats.rebuilds_failed > 0 && stats.shards_ready < stats.shards, "{stats:?}");
        assert!(!store.contains(&query(0)).unwrap());
        backend.fail_scans(false);
        while store.stats().shards_ready < stats.shards {
            store.tend().unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        store.validate().unwrap();
        assert!((0..500).all(|number| store.contains(&member(number)).unwrap()));
        let unfiltered = store.stats().unfiltered;
        assert!((0..500).all(|number| !store.contains(&query(number)).unwrap()));
        assert_eq!(store.stats().unfiltered, unfiltered);
    }
}

/// Many threads write to a store that grows and shrinks all the time.
#[test]
fn threads_find_their_keys_while_shards_grow_and_shrink() {
    let _deadline = Deadline::new();
    let options = options().capacity(64).shards(4).background_share(0.5);
    let store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(thread);
                for _ in 0..20 {
                    let size = random.below(3_000);
                    let key = |number: u64| member(thread << 32 | number);
                    for number in 0..size {
                        store.put(&key(number), b"1").unwrap();
                    }
                    assert!((0..size).all(|number| store.contains(&key(number)).unwrap()));
                    assert!((size..size + 100).all(|n| !store.contains(&key(n)).unwrap()));
                    for number in 0..size {
                        assert!(store.delete(&key(number)).unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(store.stats().members, 0);
    store.validate().unwrap();
}

#[test]
fn rate_rises_so_that_memory_stays_within_its_limit() {
    const LIMIT: u64 = 512 << 10;
    let _deadline = Deadline::new();
    let options = options().memory(LIMIT);
    let store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
    let mut rates = Vec::new();
    for size in [100_000, 200_000, 400_000, 1_500_000] {
        for number in store.stats().members..size {
            store.put(&member(number), b"").unwrap();
            if number % 1000 == 0 {
                let stats = store.stats();
                assert!(stats.memory() <= LIMIT, "{stats:?}");
            }
        }
        let stats = store.stats();
        rates.push(stats.expected_rate);
        assert!((0..size).step_by(97).all(|number| store.contains(&member(number)).unwrap()));
        assert!((0..1000).all(|number| !store.contains(&query(number)).unwrap()));
    }
    assert!(rates[0] < 1.1 * RATE && rates.is_sorted(), "{rates:?}");
    // Half a byte per member is too little for any filter.
    assert!(rates[1] > RATE && rates[3] > 0.5, "{rates:?}");
    store.validate().unwrap_err();
}

#[test]
fn tend_terminates_at_every_size_if_memory_is_limited() {
    let _deadline = Deadline::new();
    let options = options().memory(256 << 10).background_share(0.0);
    let store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
    for number in 0..200_000 {
        store.put(&member(number), b"").unwrap();
        if number % 500 == 0 {
            store.tend().unwrap();
        }
    }
    assert!((0..200_000).step_by(97).all(|number| store.contains(&member(number)).unwrap()));
    for number in 10_000..200_000 {
        assert!(store.delete(&member(number)).unwrap());
    }
    store.tend().unwrap();
    let stats = store.stats();
    assert!(stats.shards_ready == stats.shards && stats.expected_rate <= 1.1 * RATE, "{stats:?}");
    store.validate().unwrap();
}

#[test]
fn importing_the_same_pairs_again_takes_no_more_memory() {
    let _deadline = Deadline::new();
    let options = options().background_share(0.0);
    let store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
    let import = || {
        store.import((0..100_000).map(|number| (member(number), b""))).unwrap();
        store.tend().unwrap();
        store.stats().filter_bytes
    };
    let first = import();
    let second = import();
    assert!(second <= first + first / 5, "{second} bytes instead of {first}");
}
