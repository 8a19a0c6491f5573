//! Checks that no listed key is answered wrongly after any sequence of changes and restarts, on any backend.

use super::options;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use twiceshy_store::backend::Observed;
use twiceshy_store::{Backend, List, ListStore, MemoryBackend, OpenOptions, StoreError};

#[derive(Clone, Debug)]
enum Op {
    Add(List, u8),
    AddMany(List, Vec<u8>),
    Remove(List, u8),
    Rebuild,
    Reopen,
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let list = prop::sample::select(vec![List::Yes, List::No]);
    let op = (0u8..32, list, any::<u8>(), prop::collection::vec(any::<u8>(), 0..12)).prop_map(
        |(kind, list, key, keys)| match kind {
            0..14 => Op::Add(list, key),
            14..20 => Op::AddMany(list, keys),
            20..30 => Op::Remove(list, key),
            30 => Op::Rebuild,
            _ => Op::Reopen,
        },
    );
    prop::collection::vec(op, 0..most)
}

struct Pair<B: Backend> {
    options: OpenOptions,
    backend: Arc<Observed<B>>,
    /// Number of reads of the backend.
    reads: Arc<AtomicU64>,
    directory: tempfile::TempDir,
    store: Option<ListStore<Arc<Observed<B>>>>,
    model: BTreeMap<u8, List>,
}

impl<B: Backend> Pair<B> {
    fn new(backend: B) -> Self {
        let reads = Arc::new(AtomicU64::new(0));
        let (of_gets, of_ranges) = (Arc::clone(&reads), Arc::clone(&reads));
        let observed = Observed::new(backend, move |_, _| {
            of_gets.fetch_add(1, Ordering::Relaxed);
        })
        .on_range(move |_, _| {
            of_ranges.fetch_add(1, Ordering::Relaxed);
        });
        let directory = tempfile::tempdir().unwrap();
        let backend = Arc::new(observed);
        let mut pair = Self {
            options: options(),
            backend,
            reads,
            directory,
            store: None,
            model: BTreeMap::new(),
        };
        pair.reopen();
        pair
    }

    fn reopen(&mut self) {
        self.store = None;
        let backend = Arc::clone(&self.backend);
        self.store =
            Some(self.options.open_lists_with(backend, Some(self.directory.path())).unwrap());
    }

    fn store(&self) -> &ListStore<Arc<Observed<B>>> {
        self.store.as_ref().unwrap()
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Add(list, key) => {
                let store = self.store();
                let added = match list {
                    List::Yes => store.add_yes(&[*key]),
                    List::No => store.add_no(&[*key]),
                };
                self.added(*list, &[*key], added.map(u64::from));
            }
            Op::AddMany(list, keys) => {
                let added = self.store().add_many(*list, keys.iter().map(|key| [*key]));
                self.added(*list, keys, added);
            }
            Op::Remove(list, key) => {
                let store = self.store();
                let removed = match list {
                    List::Yes => store.remove_yes(&[*key]),
                    List::No => store.remove_no(&[*key]),
                };
                let is_there = self.model.get(key) == Some(list);
                assert_eq!(removed.unwrap(), is_there);
                if is_there {
                    self.model.remove(key);
                }
            }
            Op::Rebuild => self.store().rebuild().unwrap(),
            Op::Reopen => self.reopen(),
        }
        self.check();
    }

    fn added(&mut self, list: List, keys: &[u8], added: Result<u64, StoreError>) {
        let refused = keys.iter().find(|key| self.model.get(key) == Some(&list.other()));
        match (added, refused) {
            (Err(StoreError::OnOtherList { list: found, key }), Some(_)) => {
                assert!(found == list.other() && self.model.get(&key[0]) == Some(&found));
            }
            (added, None) => {
                let before = self.model.len();
                self.model.extend(keys.iter().map(|&key| (key, list)));
                assert_eq!(added.unwrap(), (self.model.len() - before) as u64);
            }
            (added, refused) => panic!("{added:?}, though {refused:?} is on the other list"),
        }
    }

    fn check(&self) {
        let store = self.store();
        store.validate().unwrap();
        let reads = self.reads.load(Ordering::Relaxed);
        let keys: Vec<[u8; 1]> = (0..=255).map(|key| [key]).collect();
        let mut answers = Vec::new();
        store.contains_many(&keys, &mut answers);
        for (key, answer) in keys.iter().zip(answers) {
            assert_eq!(store.contains(key), answer);
            match self.model.get(&key[0]) {
                Some(List::Yes) => assert!(answer, "{key:?} is on the yes list"),
                Some(List::No) => assert!(!answer, "{key:?} is on the no list"),
                None => {}
            }
        }
        assert_eq!(self.reads.load(Ordering::Relaxed), reads, "the backend was asked");
        let stats = store.stats();
        for (list, len) in [(List::Yes, stats.members), (List::No, stats.mistakes)] {
            let mut expected: Vec<u8> =
                self.model.iter().filter(|&(_, &on)| on == list).map(|(&key, _)| key).collect();
            let entries: Vec<_> = store.entries(list).map(|entry| entry.unwrap()).collect();
            assert!(entries.is_sorted_by_key(|&(hash, _)| hash));
            let mut keys: Vec<u8> = entries.iter().map(|(_, key)| key[0]).collect();
            keys.sort_unstable();
            expected.sort_unstable();
            assert_eq!(keys, expected);
            assert_eq!((len, store.len(list)), (keys.len() as u64, keys.len() as u64));
        }
        assert!(stats.expected_rate <= 0.7, "{stats:?}");
        assert_eq!(stats.ghosts_left, 0);
    }

    fn run(mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
        self.step(&Op::Reopen);
        for key in 0..=255 {
            assert_eq!(self.store().list_of(&[key]).unwrap(), self.model.get(&key).copied());
        }
        let export = self.store().export().unwrap();
        let hashes = |list| self.store().entries(list).map(|entry| entry.unwrap().0);
        assert!(export.yes.iter().eq(hashes(List::Yes)) && export.no.iter().eq(hashes(List::No)));
        assert_eq!(export.secret.expose(), self.store().secret().expose());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn lists_in_memory_match_model(ops in ops(150)) {
        Pair::new(MemoryBackend::new()).run(&ops);
    }
}

#[cfg(feature = "fjall")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3) })]

    #[test]
    fn lists_on_fjall_match_model(ops in ops(60)) {
        let directory = tempfile::tempdir().unwrap();
        let options = twiceshy_store::FjallOptions::default();
        Pair::new(twiceshy_store::FjallBackend::open(directory.path(), options).unwrap()).run(&ops);
    }
}

#[cfg(feature = "redb")]
proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3) })]

    #[test]
    fn lists_on_redb_match_model(ops in ops(60)) {
        let directory = tempfile::tempdir().unwrap();
        let options = twiceshy_store::RedbOptions::default();
        let backend = twiceshy_store::RedbBackend::open(directory.path().join("lists"), options);
        Pair::new(backend.unwrap()).run(&ops);
    }
}

/// The rate of "yes" for unlisted keys stays within the limit, up to five standard deviations, for any number
/// of keys, added one by one or in one call.
#[test]
fn rate_holds_for_any_number_of_listed_keys() {
    let rate = 0.01;
    for is_batched in [false, true] {
        let options = options().false_positive_rate(rate).capacity(100);
        let store = options.open_lists_with(MemoryBackend::new(), None).unwrap();
        let yes: Vec<[u8; 8]> = (0..6_000u64).map(u64::to_be_bytes).collect();
        let no: Vec<[u8; 8]> = (0..6_000u64).map(|key| (key | 1 << 32).to_be_bytes()).collect();
        if is_batched {
            assert_eq!(store.add_many(List::No, &no).unwrap(), 6_000);
            assert_eq!(store.add_many(List::Yes, &yes).unwrap(), 6_000);
        } else {
            for (yes, no) in yes.iter().zip(&no) {
                assert!(store.add_yes(yes).unwrap() && store.add_no(no).unwrap());
            }
        }
        store.validate().unwrap();
        let stats = store.stats();
        assert!(stats.expected_rate <= rate && stats.repairs > 20, "{stats:?}");
        let unlisted: Vec<[u8; 8]> =
            (0..100_000u64).map(|key| (key | 1 << 40).to_be_bytes()).collect();
        let mut answers = Vec::new();
        store.contains_many(&unlisted, &mut answers);
        let wrong = answers.iter().filter(|&&answer| answer).count() as f64;
        let mean = rate * 100_000.0;
        assert!(wrong < mean + 5.0 * mean.sqrt(), "{wrong} of 100,000");
    }
}

/// Removing keys of the no list shortens the fingerprints that their repairs had lengthened.
#[test]
fn removing_no_list_keys_frees_filter_space() {
    let store = options().capacity(1000).open_lists_with(MemoryBackend::new(), None).unwrap();
    let key = |n: u64| n.to_be_bytes();
    store.add_many(List::Yes, (0..500).map(key)).unwrap();
    let before = store.stats();
    store.add_many(List::No, (1000..1500).map(key)).unwrap();
    let full = store.stats();
    assert!(full.load > before.load && full.list_bytes > before.list_bytes);
    for n in 1000..1500 {
        assert!(store.remove_no(&key(n)).unwrap());
    }
    let after = store.stats();
    assert_eq!((after.load, after.list_bytes), (before.load, before.list_bytes));
    store.validate().unwrap();
}
