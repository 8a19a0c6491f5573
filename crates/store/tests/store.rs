//! The guarded store against a `BTreeMap`.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;
use std::sync::Arc;
use twiceshy_store::backend::Unbounded;
use twiceshy_store::{
    Backend, Batch, Bytes, Durability, GuardedStore, Keyspace, Layout, MemoryBackend, Options,
    Statistics,
};

type Store = GuardedStore<Arc<MemoryBackend>>;

/// So bad a filter that most absent keys are mistakes at first.
fn options(layout: Layout) -> Options {
    Options::new().capacity(16).false_positive_rate(0.2).shards(4).layout(layout)
}

fn open(backend: &Arc<MemoryBackend>, layout: Layout, directory: Option<&Path>) -> Store {
    let mut store = options(layout).open_with(Arc::clone(backend), directory).unwrap();
    store.wait_until_ready().unwrap();
    store
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    PutMany(Vec<(u8, u8)>),
    Delete(u8),
    Get(u8),
    GetMany(Vec<u8>),
    /// Closed, and opened again.
    Reopen,
    /// Opened again from what a crash would have left.
    Crash,
    Scrub,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => any::<(u8, u8)>().prop_map(|(key, value)| Op::Put(key, value)),
        1 => proptest::collection::vec(any::<(u8, u8)>(), 0..40).prop_map(Op::PutMany),
        4 => any::<u8>().prop_map(Op::Delete),
        6 => any::<u8>().prop_map(Op::Get),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Op::GetMany),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
        1 => Just(Op::Scrub),
    ];
    proptest::collection::vec(op, 1..80)
}

fn key(key: u8) -> [u8; 1] {
    [key]
}

/// A store, what it must hold, and which keys were mistakes since they were last put.
struct Checked {
    store: Store,
    model: BTreeMap<u8, u8>,
    mistakes: BTreeSet<u8>,
}

impl Checked {
    /// Asks for a key. If it isn't there, the backend may have been asked, once.
    fn get(&mut self, number: u8) {
        let before = self.store.stats();
        let value = self.store.get(&key(number)).unwrap();
        assert_eq!(value.as_deref(), self.model.get(&number).map(slice::from_ref), "{number}");
        self.check_visits(number, before);
    }

    fn check_visits(&mut self, number: u8, before: Statistics) {
        let after = self.store.stats();
        assert_eq!((after.repeated_false_positives, after.repairs_failed), (0, 0));
        if !self.model.contains_key(&number) && after.backend_gets > before.backend_gets {
            assert!(self.mistakes.insert(number), "{number} is a mistake again");
        }
    }

    fn put(&mut self, pairs: &[(u8, u8)]) {
        if let &[(number, value)] = pairs {
            self.store.put(&key(number), &[value]).unwrap();
        } else {
            let pairs = pairs.iter().map(|&(number, value)| (key(number), [value]));
            self.store.put_many(pairs).unwrap();
        }
        for &(number, value) in pairs {
            self.model.insert(number, value);
            self.mistakes.remove(&number);
        }
    }

    fn delete(&mut self, number: u8) {
        let before = self.store.stats();
        let was_there = self.model.remove(&number).is_some();
        assert_eq!(self.store.delete(&key(number)).unwrap(), was_there);
        if !was_there {
            self.check_visits(number, before);
        }
    }

    fn get_all(&mut self) {
        (0..=u8::MAX).for_each(|number| self.get(number));
        let pair = |pair: twiceshy_store::Result<(Bytes, Bytes)>| {
            pair.map(|(key, value)| (key[0], value[0])).unwrap()
        };
        let mut pairs: Vec<(u8, u8)> = self.store.iter().map(pair).collect();
        pairs.sort_unstable();
        assert!(pairs.into_iter().eq(self.model.clone()));
        assert_eq!(self.store.stats().members, self.model.len() as u64);
    }
}

/// What a backend holds.
fn copy(backend: &MemoryBackend) -> MemoryBackend {
    let mut batch = Batch::new();
    for space in Keyspace::ALL {
        for pair in backend.range(space, (Unbounded, Unbounded)) {
            let (key, value) = pair.unwrap();
            batch.insert(space, key, value);
        }
    }
    let copy = MemoryBackend::new();
    copy.write(&batch, Durability::Synced).unwrap();
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn agrees_with_a_map(ops in ops(), split: bool) {
        let layout = if split { Layout::Split } else { Layout::Merged };
        let backend = Arc::new(MemoryBackend::new());
        let directory = tempfile::tempdir().unwrap();
        let store = open(&backend, layout, Some(directory.path()));
        let mut checked = Checked { store, model: BTreeMap::new(), mistakes: BTreeSet::new() };
        for op in ops {
            match op {
                Op::Put(number, value) => checked.put(&[(number, value)]),
                Op::PutMany(pairs) => checked.put(&pairs),
                Op::Delete(number) => checked.delete(number),
                Op::Get(number) => checked.get(number),
                Op::GetMany(numbers) => {
                    let keys: Vec<_> = numbers.iter().copied().map(key).collect();
                    // None of them is looked for twice.
                    for &number in &numbers {
                        checked.get(number);
                    }
                    let values = checked.store.get_many(&keys).unwrap();
                    for (number, value) in numbers.iter().zip(values) {
                        let expected = checked.model.get(number).map(slice::from_ref);
                        prop_assert_eq!(value.as_deref(), expected);
                    }
                }
                Op::Reopen => {
                    let Checked { store, model, mistakes } = checked;
                    store.close().unwrap();
                    let backend = Arc::clone(&backend);
                    let store = options(layout).open_with(backend, Some(directory.path())).unwrap();
                    prop_assert_eq!(store.stats().shards_ready, 4, "it was saved");
                    checked = Checked { store, model, mistakes };
                }
                Op::Crash => {
                    let files = tempfile::tempdir().unwrap();
                    for file in std::fs::read_dir(directory.path()).unwrap() {
                        let file = file.unwrap().path();
                        std::fs::copy(&file, files.path().join(file.file_name().unwrap())).unwrap();
                    }
                    let left = Arc::new(copy(&backend));
                    let (model, mistakes) = (checked.model.clone(), checked.mistakes.clone());
                    let store = open(&left, layout, Some(files.path()));
                    Checked { store, model, mistakes }.get_all();
                }
                Op::Scrub => checked.store.scrub().unwrap(),
            }
        }
        checked.get_all();
        checked.get_all();
    }
}
