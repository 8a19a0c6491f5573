//! Compares a store with a `BTreeMap`.

use crate::common::{copy, copy_files};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use twiceshy::{ExtensionFilter, QuotientFilter, Secret, TelescopingFilter, concurrent::Shard};
use twiceshy_deadline::Deadline;
use twiceshy_store::{
    Backend, Bytes, Keyspace, Layout, MemoryBackend, OpenOptions, Stats, Store, StoreError,
};

type Tried<F> = Store<Arc<dyn Backend>, F>;

/// The default filter of a store.
type Quotient = QuotientFilter;

#[derive(Clone, Debug)]
enum Op {
    Put(u16, u8),
    PutMany(Vec<(u16, u8)>),
    Import(Vec<(u16, u8)>),
    Delete(u16),
    Get(u16),
    GetMany(Vec<u16>),
    /// Closes the store, and opens it again.
    Reopen,
    /// Opens a copy of the files that a crash would leave.
    Crash,
    Rebuild,
}

fn ops(keys: u16, many: usize) -> impl Strategy<Value = Vec<Op>> {
    let pair = (0..keys, any::<u8>());
    let op = prop_oneof![
        6 => pair.clone().prop_map(|(key, value)| Op::Put(key, value)),
        1 => proptest::collection::vec(pair.clone(), 0..many).prop_map(Op::PutMany),
        1 => proptest::collection::vec(pair, 0..many).prop_map(Op::Import),
        4 => (0..keys).prop_map(Op::Delete),
        6 => (0..keys).prop_map(Op::Get),
        1 => proptest::collection::vec(0..keys, 0..many).prop_map(Op::GetMany),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
        1 => Just(Op::Rebuild),
    ];
    proptest::collection::vec(op, 1..80)
}

/// Returns a key. Some keys are prefixes of others.
fn key(number: u16) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    if bytes[0] == 0 { bytes[1..].to_vec() } else { bytes.to_vec() }
}

/// The location of a store, and the options to open it.
struct Place {
    engine: &'static str,
    directory: TempDir,
    memory: Arc<MemoryBackend>,
    options: OpenOptions,
    mistakes_kept: usize,
    /// Whether the filter may forget repairs.
    forgets: bool,
    keys: u16,
}

impl Place {
    fn new(engine: &'static str, layout: Layout) -> Self {
        Self {
            engine,
            directory: tempfile::tempdir().unwrap(),
            memory: Arc::default(),
            options: crate::common::options(layout).background_share(0.5),
            mistakes_kept: usize::MAX,
            forgets: false,
            keys: 256,
        }
    }

    fn mistakes_kept(mut self, mistakes_kept: usize) -> Self {
        self.options = self.options.mistakes_kept(mistakes_kept);
        self.mistakes_kept = mistakes_kept;
        self
    }

    fn forgetting(self) -> Self {
        Self { forgets: true, ..self }
    }

    fn open_backend(&self, data: &Path) -> Arc<dyn Backend> {
        match self.engine {
            "memory" => self.memory.clone(),
            #[cfg(feature = "fjall")]
            "fjall" => Arc::new(
                twiceshy_store::FjallBackend::open(data, twiceshy_store::FjallOptions::default())
                    .unwrap(),
            ),
            #[cfg(feature = "redb")]
            "redb" => Arc::new(
                twiceshy_store::RedbBackend::open(data, twiceshy_store::RedbOptions::default())
                    .unwrap(),
            ),
            _ => unreachable!("{}", data.display()),
        }
    }

    fn open<F: Shard>(&self) -> Tried<F> {
        let backend = self.open_backend(&self.directory.path().join("data"));
        self.options.open_with(backend, Some(self.directory.path())).unwrap()
    }

    /// Returns a copy of the data that a crash would leave now.
    fn copy<F: Shard>(&self, store: &Tried<F>) -> Self {
        let directory = copy_files(self.directory.path());
        let memory = Arc::new(copy(&*self.memory));
        if self.engine != "memory" {
            store.backup(directory.path().join("data")).unwrap();
        }
        Self { directory, memory, options: self.options.clone(), ..*self }
    }
}

/// A store, the pairs that it must hold, and the keys whose mistakes must stay repaired. These
/// mistakes were repaired after their key was last put and after the filter was last built.
struct Checked<F: Shard> {
    store: Tried<F>,
    place: Place,
    model: BTreeMap<u16, u8>,
    mistakes: BTreeSet<u16>,
    rebuilds: u64,
}

impl<F: Shard> Checked<F> {
    /// Looks a key up. If the key is absent, the backend may be read once.
    fn get(&mut self, number: u16) {
        let before = self.store.stats();
        let value = self.store.get(&key(number)).unwrap();
        assert_eq!(value.as_deref(), self.model.get(&number).map(std::slice::from_ref), "{number}");
        self.check_visits(number, &before);
    }

    fn check_visits(&mut self, number: u16, before: &Stats) {
        let after = self.store.stats();
        // The limit doesn't count the records that wait in memory. There are at most 1024 of them.
        assert!(after.mistakes <= (self.place.mistakes_kept as u64).saturating_add(1024));
        if self.place.forgets {
            return;
        }
        assert_eq!(after.repairs_failed, 0);
        if after.rebuilds == 0 {
            assert_eq!(after.repeated_false_positives, 0);
        }
        if self.place.mistakes_kept < usize::MAX {
            return;
        }
        if after.rebuilds > self.rebuilds {
            self.rebuilds = after.rebuilds;
            self.mistakes.clear();
        }
        // A mistake that was made before its shard was rebuilt may recur.
        let is_mistake = after.backend_gets > before.backend_gets;
        if !self.model.contains_key(&number) && is_mistake && after.rebuilds == before.rebuilds {
            assert!(self.mistakes.insert(number), "{number} is a mistake that recurs");
        }
        if after.repairs_skipped > before.repairs_skipped {
            self.mistakes.remove(&number);
        }
    }

    fn put(&mut self, number: u16, value: u8) {
        self.store.put(&key(number), &[value]).unwrap();
        self.was_put(&[(number, value)]);
    }

    fn put_many(&mut self, pairs: &[(u16, u8)]) {
        self.store.put_many(pairs.iter().map(|&(number, value)| (key(number), [value]))).unwrap();
        self.was_put(pairs);
    }

    fn import(&mut self, pairs: &[(u16, u8)]) {
        let imported =
            self.store.import(pairs.iter().map(|&(number, value)| (key(number), [value])));
        assert_eq!(imported.unwrap(), pairs.len() as u64);
        self.was_put(pairs);
    }

    fn was_put(&mut self, pairs: &[(u16, u8)]) {
        for &(number, value) in pairs {
            self.model.insert(number, value);
            self.mistakes.remove(&number);
        }
    }

    fn delete(&mut self, number: u16) {
        let before = self.store.stats();
        let was_there = self.model.remove(&number).is_some();
        assert_eq!(self.store.delete(&key(number)).unwrap(), was_there);
        if !was_there {
            self.check_visits(number, &before);
        }
    }

    fn get_many(&mut self, numbers: &[u16]) {
        // Look each key up alone first, so that `check_visits` sees the mistakes.
        for &number in numbers {
            self.get(number);
        }
        let keys: Vec<_> = numbers.iter().copied().map(key).collect();
        let values = self.store.get_many(&keys).unwrap();
        for (number, value) in numbers.iter().zip(values) {
            assert_eq!(value.as_deref(), self.model.get(number).map(std::slice::from_ref));
        }
    }

    fn reopen(self) -> Self {
        let Self { store, mut place, model, mut mistakes, rebuilds } = self;
        let Stats { shards, rebuilds: now, has_background_thread, .. } = store.stats();
        // If a shard was rebuilt, or may be rebuilt while the store closes, mistakes may
        // recur.
        if now > rebuilds || has_background_thread {
            mistakes.clear();
        }
        store.close().unwrap();
        // A background thread would rebuild due shards immediately.
        place.options = place.options.background_share(0.0);
        let store = place.open();
        let stats = store.stats();
        assert_eq!((stats.shards_ready, stats.backend_scans), (shards, 0), "it was saved");
        Self { store, place, model, mistakes, rebuilds: 0 }
    }

    /// A crash may lose the records of the last repairs.
    fn crash(&self) {
        let place = self.place.copy(&self.store);
        let mut store = place.open();
        store.wait_until_ready().unwrap();
        let (model, mistakes) = (self.model.clone(), BTreeSet::new());
        Self { store, place, model, mistakes, rebuilds: 0 }.get_all();
    }

    fn get_all(&mut self) {
        (0..self.place.keys).for_each(|number| self.get(number));
        let expected: BTreeMap<Vec<u8>, u8> =
            self.model.iter().map(|(&number, &value)| (key(number), value)).collect();
        let pair = |pair: twiceshy_store::Result<(Bytes, Bytes)>| {
            pair.map(|(key, value)| (key.to_vec(), value[0])).unwrap()
        };
        let mut pairs: Vec<_> = self.store.iter().map(pair).collect();
        pairs.sort_unstable();
        assert!(pairs.into_iter().eq(expected.clone()));
        // A key that was deleted stays in the filter if there is no room for the trace of a repair.
        let Stats { members, ghosts_left, .. } = self.store.stats();
        let ghosts = members - self.model.len() as u64;
        assert!(ghosts <= ghosts_left, "{ghosts} ghosts, {ghosts_left} expected");
        match self.store.range((Included(&[3]), Excluded(&[200]))) {
            Ok(pairs) => {
                let within = expected.range(vec![3]..vec![200]);
                assert!(pairs.map(pair).eq(within.map(|(key, &value)| (key.clone(), value))));
                let all = self.store.range((Unbounded, Unbounded)).unwrap();
                assert!(all.rev().map(pair).eq(expected.clone().into_iter().rev()));
                let beginning = expected.into_iter().filter(|(key, _)| key.starts_with(&[1]));
                assert!(self.store.prefix(&[1]).unwrap().map(pair).eq(beginning));
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Unordered));
                assert!(matches!(self.store.prefix(&[1]), Err(StoreError::Unordered)));
            }
        }
    }
}

fn agrees_with_a_map<F: Shard>(place: Place, ops: Vec<Op>) {
    let mut store: Tried<F> = place.open();
    store.wait_until_ready().unwrap();
    let (model, mistakes) = (BTreeMap::new(), BTreeSet::new());
    let mut checked = Checked { store, place, model, mistakes, rebuilds: 0 };
    for op in ops {
        match op {
            Op::Put(number, value) => checked.put(number, value),
            Op::PutMany(pairs) => checked.put_many(&pairs),
            Op::Import(pairs) => checked.import(&pairs),
            Op::Delete(number) => checked.delete(number),
            Op::Get(number) => checked.get(number),
            Op::GetMany(numbers) => checked.get_many(&numbers),
            Op::Reopen => checked = checked.reopen(),
            Op::Crash => checked.crash(),
            Op::Rebuild => checked.store.rebuild().unwrap(),
        }
    }
    checked.get_all();
    checked.get_all();
}

fn layout(is_split: bool) -> Layout {
    crate::common::LAYOUTS[usize::from(is_split)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn store_in_memory_matches_map(ops in ops(256, 40), split: bool) {
        agrees_with_a_map::<Quotient>(Place::new("memory", layout(split)), ops);
    }

    #[test]
    fn store_that_keeps_few_mistakes_matches_map(ops in ops(256, 40), split: bool, kept in 1_usize..40) {
        agrees_with_a_map::<Quotient>(Place::new("memory", layout(split)).mistakes_kept(kept), ops);
    }

    #[test]
    fn telescoping_filter_loses_no_key(ops in ops(256, 40), split: bool, kept in 1_usize..400) {
        let place = Place::new("memory", layout(split)).mistakes_kept(kept);
        agrees_with_a_map::<TelescopingFilter>(place.forgetting(), ops);
    }

    #[test]
    fn extension_filter_loses_no_key(ops in ops(256, 40), split: bool, kept in 1_usize..400) {
        let place = Place::new("memory", layout(split)).mistakes_kept(kept);
        agrees_with_a_map::<ExtensionFilter>(place.forgetting(), ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn growing_store_matches_map(ops in ops(3000, 600), split: bool) {
        let place = Place { keys: 3000, ..Place::new("memory", layout(split)) };
        agrees_with_a_map::<Quotient>(place, ops);
    }

    #[test]
    fn growing_store_with_other_filters_matches_map(ops in ops(3000, 600), split: bool) {
        let new = || Place { keys: 3000, ..Place::new("memory", layout(split)) }.forgetting();
        agrees_with_a_map::<TelescopingFilter>(new(), ops.clone());
        agrees_with_a_map::<ExtensionFilter>(new(), ops);
    }

    #[cfg(feature = "fjall")]
    #[test]
    fn store_on_fjall_matches_map(ops in ops(256, 40), split: bool) {
        agrees_with_a_map::<Quotient>(Place::new("fjall", layout(split)), ops);
    }

    #[cfg(feature = "redb")]
    #[test]
    fn store_on_redb_matches_map(ops in ops(256, 40), split: bool) {
        agrees_with_a_map::<Quotient>(Place::new("redb", layout(split)), ops);
    }
}

/// One call fills many shards, so that they have to grow.
#[test]
fn tiny_filter_grows_during_one_large_batch() {
    for layout in crate::common::LAYOUTS {
        let options = crate::common::options(layout).shards(64);
        let backend = Arc::new(MemoryBackend::new());
        let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        store.put_many((0..20_000_u32).map(|n| (n.to_be_bytes(), b"1"))).unwrap();
        assert!((0..20_000_u32).all(|n| store.contains(&n.to_be_bytes()).unwrap()));
        (20_000..30_000_u32).for_each(|n| assert!(!store.contains(&n.to_be_bytes()).unwrap()));
        let mistakes = store.stats().mistakes;
        assert!(mistakes > 20 && store.stats().members == 20_000);
        drop(store);
        // From now on, the store keeps fewer mistakes.
        let mut store: Store<_> =
            options.clone().mistakes_kept(20).open_with(Arc::clone(&backend), None).unwrap();
        store.wait_until_ready().unwrap();
        assert_eq!((store.stats().mistakes, store.stats().mistakes_forgotten), (20, mistakes - 20));
        drop(store);
        let store: Store<_> = options.open_with(backend, None).unwrap();
        assert_eq!(store.stats().mistakes, 20);
    }
}

/// The filter's blocks are full of repairs, so an insert needs a listing of the members in its
/// block. Only one mistake is kept.
#[test]
fn telescoping_insert_scans_the_backend() {
    let options = OpenOptions::new().secret(Secret::from_bytes([7; 16])).mistakes_kept(1);
    let options = options.capacity(800).false_positive_rate(0.01).shards(1);
    let store: Store<_, TelescopingFilter> = options.open_with(MemoryBackend::new(), None).unwrap();
    let put = |n: u32| store.put(&n.to_be_bytes(), b"1").unwrap();
    let is_there = |n: u32| store.contains(&n.to_be_bytes()).unwrap();
    (0..600).for_each(put);
    assert!(!(10_000..70_000).any(is_there));
    let full = store.stats();
    (600..780).for_each(put);
    let put_all = store.stats();
    assert!(put_all.backend_scans > full.backend_scans, "{full:?}, {put_all:?}");
    assert!((0..780).all(is_there));
    (0..300_u32).for_each(|n| assert!(store.delete(&n.to_be_bytes()).unwrap()));
    let deleted = store.stats();
    assert_eq!((deleted.ghosts_left, deleted.members), (0, 480));
    assert!((300..780).all(is_there) && !(0..300).any(is_there));
}

/// One block of one shard holds all hashes.
#[test]
fn filter_of_one_block_loses_no_member() {
    fn check<F: Shard>() {
        let _deadline = Deadline::new();
        let options = OpenOptions::new().secret(Secret::from_bytes([7; 16])).capacity(16).shards(1);
        let store: Store<_, F> =
            options.false_positive_rate(0.5).open_with(MemoryBackend::new(), None).unwrap();
        std::thread::scope(|scope| {
            for first in [0u32, 100] {
                let store = &store;
                scope.spawn(move || {
                    for n in (first..first + 8).cycle().take(800) {
                        store.put(&n.to_be_bytes(), b"1").unwrap();
                        assert!(store.contains(&n.to_be_bytes()).unwrap());
                        assert!(store.delete(&n.to_be_bytes()).unwrap());
                    }
                });
                scope.spawn(move || {
                    for n in (1000 + first..1100 + first).cycle().take(2000) {
                        assert!(!store.contains(&n.to_be_bytes()).unwrap());
                    }
                });
            }
        });
    }
    check::<TelescopingFilter>();
    check::<ExtensionFilter>();
    check::<QuotientFilter>();
}

/// A mistake that becomes a member is removed from the backend when its shard is rebuilt.
#[test]
fn mistake_that_became_a_member_is_removed_by_a_rebuild() {
    for layout in crate::common::LAYOUTS {
        let backend = Arc::new(MemoryBackend::new());
        let options = crate::common::options(layout).capacity(200);
        let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        let kept = || backend.range(Keyspace::Mistakes, (Unbounded, Unbounded)).count() as u64;
        let put = |n: u16| store.put(&n.to_be_bytes(), b"").unwrap();
        (0..100).for_each(put);
        (100..1000_u16).for_each(|n| assert!(!store.contains(&n.to_be_bytes()).unwrap()));
        let mistakes = store.stats().mistakes;
        assert!(mistakes > 0 && kept() == 0, "no lookup writes");
        store.sync().unwrap();
        assert_eq!((store.stats().mistakes, kept()), (mistakes, mistakes));
        (100..200).for_each(put);
        store.put_many((200..1000_u16).map(|n| (n.to_be_bytes(), b""))).unwrap();
        store.rebuild().unwrap();
        assert_eq!((store.stats().mistakes, kept()), (0, 0));
        assert_eq!(store.stats().mistakes_forgotten, 0);
        // A key that was deleted may become a mistake again, which counts as new and not as repeated.
        (0..1000_u16).step_by(2).for_each(|n| assert!(store.delete(&n.to_be_bytes()).unwrap()));
        (0..1000_u16).step_by(2).for_each(|n| assert!(!store.contains(&n.to_be_bytes()).unwrap()));
        store.sync().unwrap();
        let stats = store.stats();
        assert_eq!((stats.mistakes, stats.repeated_false_positives), (kept(), 0));
    }
}

/// A rebuilt filter is saved although nothing was written.
#[test]
fn rebuilt_filter_is_saved() {
    let directory = tempfile::tempdir().unwrap();
    let backend = Arc::new(MemoryBackend::new());
    let open = || -> Store<_> {
        let options = crate::common::options(Layout::Merged);
        options.open_with(Arc::clone(&backend), Some(directory.path())).unwrap()
    };
    let store = open();
    (0..500_u32).for_each(|n| store.put(&n.to_be_bytes(), b"").unwrap());
    store.close().unwrap();
    let names = || {
        let files = std::fs::read_dir(directory.path()).unwrap();
        files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>()
    };
    let saved = names();
    let store = open();
    assert_eq!(store.stats().shards_ready, 4);
    store.close().unwrap();
    assert_eq!(names(), saved, "nothing has changed");
    let store = open();
    store.rebuild().unwrap();
    store.close().unwrap();
    assert_ne!(names(), saved);
    let store = open();
    assert_eq!((store.stats().shards_ready, store.stats().members), (4, 500));
}

#[test]
fn store_remembers_the_sizing_of_its_filter() {
    let backend = Arc::new(MemoryBackend::new());
    let bits = |options: &OpenOptions| {
        let mut store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        store.wait_until_ready().unwrap();
        (store.stats().shards, store.stats().filter_bytes)
    };
    let coarse = bits(&OpenOptions::new().capacity(10_000).false_positive_rate(0.1).shards(2));
    assert_eq!(bits(&OpenOptions::new()), coarse);
    let fine = bits(&OpenOptions::new().false_positive_rate(0.000_1));
    assert!(fine.0 == 2 && fine.1 > coarse.1);
    assert_eq!(bits(&OpenOptions::new()), fine);
}

#[cfg(feature = "fjall")]
#[test]
fn filter_that_cannot_be_built_leaves_nothing_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    for rate in [0.0, 1.0, f64::NAN, -1.0] {
        let opened = OpenOptions::new().false_positive_rate(rate).open(&path);
        assert!(matches!(opened, Err(StoreError::Build(_))), "{rate}");
        assert!(!path.exists());
    }
    let store = OpenOptions::new().layout(Layout::Split).open(&path).unwrap();
    assert_eq!(store.layout(), Layout::Split);
    assert!(store.bytes_on_disk().unwrap() > 0);
}

/// Opening and closing a store without using it saves a filter, too.
#[cfg(feature = "fjall")]
#[test]
fn store_that_is_closed_immediately_saves_its_filter() {
    let directory = tempfile::tempdir().unwrap();
    for n in 0..5_u8 {
        let store = OpenOptions::new().open(directory.path()).unwrap();
        let stats = store.stats();
        assert_eq!((stats.shards_ready, stats.members), (stats.shards, n.into()));
        assert_eq!(store.get(b"mallory").unwrap(), None);
        assert_eq!(store.stats().unfiltered, 0);
        store.put(&[n], b"").unwrap();
        store.close().unwrap();
    }
}

#[test]
fn batch_with_a_too_long_key_or_value_writes_nothing() {
    for layout in crate::common::LAYOUTS {
        let store: Store<_> =
            crate::common::options(layout).open_with(MemoryBackend::new(), None).unwrap();
        let (long, longest) = (vec![1; 65_531], vec![1; 65_530]);
        assert!(matches!(store.put(&long, b""), Err(StoreError::KeyTooLong { bytes: 65_531 })));
        assert!(store.put(&long, b"").unwrap_err().to_string().contains("65530"));
        // This value takes no memory, because its zeroed pages are never touched.
        let value = vec![0; twiceshy_store::backend::MAX_VALUE_BYTES + 1];
        assert!(store.put_many([(&b"a"[..], &b"1"[..]), (b"b", &value)]).is_err());
        assert_eq!((store.get(&long).unwrap(), store.delete(&long).unwrap()), (None, false));
        assert_eq!((store.stats().members, store.stats().ghosts_left), (0, 0));
        store.put(&longest, b"").unwrap();
        assert!(store.contains(&longest).unwrap() && store.delete(&longest).unwrap());
    }
}

#[test]
fn key_that_occurs_many_times_in_a_batch_is_looked_up_once() {
    let options = OpenOptions::new().capacity(2000).false_positive_rate(0.1);
    let store: Store<_, Quotient> = options.open_with(MemoryBackend::new(), None).unwrap();
    store.put_many((0..2000u32).map(|n| (n.to_be_bytes(), b"1"))).unwrap();
    let before = store.stats().backend_gets;
    for n in 2000..2500u32 {
        store.get_many(&[n.to_be_bytes(); 20]).unwrap();
    }
    let stats = store.stats();
    // About 26 mistakes are expected. The secret is random, so their number varies.
    assert!(stats.false_positives > 0, "{stats:?}");
    assert_eq!(stats.backend_gets - before, stats.false_positives);
    assert_eq!(stats.repeated_false_positives, 0);
}

/// The test copies the files, because that is what a kill would leave.
#[cfg(feature = "redb")]
#[test]
fn eventual_store_on_redb_loses_only_its_last_writes() {
    use twiceshy_store::{Durability, RedbBackend, RedbOptions};
    let open = |path: &Path| -> Store<RedbBackend> {
        let backend = RedbBackend::open(path.join("data"), RedbOptions::default()).unwrap();
        let options = crate::common::options(Layout::Split).durability(Durability::Eventual);
        let mut store = options.open_with(backend, Some(path)).unwrap();
        store.wait_until_ready().unwrap();
        store
    };
    let check = |store: &Store<RedbBackend>, durable: u16, acknowledged: u16| {
        let left = store.stats().members as u16;
        assert!((durable..=acknowledged).contains(&left), "{durable}, {left}, {acknowledged}");
        for n in 0..acknowledged {
            let value = store.get(&key(n)).unwrap();
            assert_eq!(value.as_deref(), (n < left).then_some(&n.to_be_bytes()[..]), "{n}");
        }
        store.validate().unwrap();
    };
    let directory = tempfile::tempdir().unwrap();
    // Each round starts with a saved filter, and ends with a clean close.
    for round in 0..3 {
        let store = open(directory.path());
        let first = round * 200;
        check(&store, first, first);
        for n in first..first + 200 {
            store.put(&key(n), &n.to_be_bytes()).unwrap();
            // An absent key may be a mistake. Its record is written eventually, too.
            assert_eq!(store.get(&key(1000 + n)).unwrap(), None);
            let synced = first + 100;
            if n == synced {
                store.sync().unwrap();
            }
            if n % 50 == 0 {
                let copy = tempfile::tempdir().unwrap();
                crate::common::copy_tree(directory.path(), copy.path());
                let durable = if n < synced { first } else { synced + 1 };
                check(&open(copy.path()), durable, n + 1);
            }
        }
        store.close().unwrap();
    }
    check(&open(directory.path()), 600, 600);
}
