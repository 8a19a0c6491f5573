//! Runs a script over a backend that fails at each operation in turn. Acknowledged changes must be there,
//! each other change must be complete or absent, and no listed key may be answered wrongly.

use super::options;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tempfile::TempDir;
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{Backend, Keyspace, List, ListStore, MemoryBackend, Result, StoreError};

type Faulty = Arc<FaultyBackend<MemoryBackend>>;

const KEYS: u8 = 60;

enum Step {
    Add(List, u8),
    AddMany(List, std::ops::Range<u8>),
    Remove(List, u8),
    Rebuild,
    Reopen,
}

/// Adds colliding keys to both lists, moves keys from one list to the other, and grows the filter.
fn script() -> Vec<Step> {
    use List::{No, Yes};
    use Step::*;
    let mut script = vec![AddMany(Yes, 0..9), AddMany(No, 20..34), Add(Yes, 9), Add(No, 34)];
    script.extend((3..6).map(|key| Remove(Yes, key)));
    script.extend((20..23).map(|key| Remove(No, key)));
    script.extend([Add(No, 3), Add(Yes, 20), Add(Yes, 34), Add(No, 0), Reopen]);
    script.extend([AddMany(Yes, 40..48), Remove(Yes, 3), Remove(No, 3), Add(Yes, 3), Rebuild]);
    script.extend([AddMany(No, 48..56), Remove(Yes, 20), Add(No, 20), Reopen, Remove(No, 20)]);
    script.extend([Add(Yes, 57), Add(No, 58), AddMany(Yes, 4..6), Remove(No, 58), Add(No, 58)]);
    script.extend([Remove(Yes, 57), Add(Yes, 57), AddMany(No, 24..30), AddMany(Yes, 0..2)]);
    script
}

struct Known {
    backend: Faulty,
    /// The directory where the filter is saved.
    files: TempDir,
    store: Option<ListStore<Faulty>>,
    /// The lists that a key may be on. A key that isn't in this map is on no list.
    possible: BTreeMap<u8, BTreeSet<Option<u8>>>,
    /// Number of repairs before the lists were closed.
    repairs: u64,
}

/// Returns the number of a list, because a set can't hold lists.
fn number(list: List) -> u8 {
    u8::from(list == List::Yes)
}

impl Known {
    /// Opens the lists if they aren't open.
    fn store(&mut self) -> Result<&ListStore<Faulty>> {
        if self.store.is_none() {
            let files = Some(self.files.path());
            self.store = Some(options().open_lists_with(Arc::clone(&self.backend), files)?);
        }
        Ok(self.store.as_ref().unwrap())
    }

    fn possible(&mut self, key: u8) -> &mut BTreeSet<Option<u8>> {
        self.possible.entry(key).or_insert_with(|| BTreeSet::from([None]))
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Add(list, key) => self.add(list, key..key + 1),
            Step::AddMany(list, ref keys) => self.add(list, keys.clone()),
            Step::Remove(list, key) => {
                let store = self.store()?;
                let removed = match list {
                    List::Yes => store.remove_yes(&[key]),
                    List::No => store.remove_no(&[key]),
                };
                let possible = self.possible(key);
                let here = Some(number(list));
                match removed {
                    Ok(true) => {
                        assert!(possible.contains(&here), "{key} was never added");
                        *possible = BTreeSet::from([None]);
                    }
                    Ok(false) => {
                        possible.remove(&here);
                        assert!(!possible.is_empty(), "{key} is gone");
                    }
                    // The removal may have happened despite the error.
                    Err(_) if possible.contains(&here) => drop(possible.insert(None)),
                    Err(_) => {}
                }
                removed.map(drop)
            }
            Step::Rebuild => self.store()?.rebuild(),
            Step::Reopen => {
                self.reopen();
                self.store().map(drop)
            }
        }
    }

    fn add(&mut self, list: List, keys: std::ops::Range<u8>) -> Result<()> {
        let added = self.store()?.add_many(list, keys.clone().map(|key| [key]));
        let here = Some(number(list));
        match &added {
            Ok(_) => keys.for_each(|key| *self.possible(key) = BTreeSet::from([here])),
            Err(StoreError::OnOtherList { list: other, key }) => {
                // Nothing has changed. After a failed write, only reopening shows which list the key is on.
                let possible = self.possible(key[0]);
                assert!(possible.contains(&Some(number(*other))), "{key:?} is not on {other}");
            }
            // Keys known to be on the other list stay on it.
            Err(_) => keys.for_each(|key| {
                let there = Some(number(list.other()));
                if *self.possible(key) != BTreeSet::from([there]) {
                    self.possible(key).insert(here);
                }
            }),
        }
        // Even after a failure, keys that are known to be listed are answered correctly.
        for (&key, possible) in &self.possible {
            let Some(store) = &self.store else { break };
            match possible.iter().collect::<Vec<_>>()[..] {
                [Some(1)] => assert!(store.contains(&[key]), "{key} is on the yes list"),
                [Some(_)] => assert!(!store.contains(&[key]), "{key} is on the no list"),
                _ => {}
            }
        }
        added.map(drop)
    }

    /// Closes the lists, and makes delayed writes visible.
    fn reopen(&mut self) {
        self.repairs += self.store.take().map_or(0, |store| store.stats().repairs);
        self.backend.reopen().unwrap();
    }

    /// Checks the lists after failures have stopped.
    fn check(&mut self) {
        for key in 0..KEYS {
            let store = self.store().unwrap();
            let list = store.list_of(&[key]).unwrap().map(number);
            if list.is_some() {
                assert_eq!(store.contains(&[key]), list == Some(1));
            }
            let possible = self.possible(key);
            assert!(possible.contains(&list), "{key} is on {list:?}, not one of {possible:?}");
        }
        self.store().unwrap().validate().unwrap();
    }
}

fn run(plan: impl FnOnce(&FaultyBackend<MemoryBackend>)) -> Known {
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    plan(&backend);
    let files = tempfile::tempdir().unwrap();
    let mut known = Known { backend, files, store: None, possible: BTreeMap::new(), repairs: 0 };
    for step in script() {
        // Ignore the error, because the next step may succeed.
        let _ = known.step(&step);
    }
    known
}

#[test]
fn listed_keys_are_answered_correctly_after_a_failure_at_any_operation() {
    let mut known = run(|_| {});
    let stats = known.store().unwrap().stats();
    assert_eq!(stats.ghosts_left, 0);
    assert!(stats.members > 15 && stats.mistakes > 15 && known.repairs > 0, "{stats:?}");
    let operations = known.backend.operations();
    known.check();
    for fault in [Fault::Before, Fault::After, Fault::Late] {
        for n in 0..operations {
            fail(fault, |backend| backend.fail_at(n, fault));
            if n % 8 == 0 {
                fail(fault, |backend| backend.fail_from(n, fault));
            }
        }
    }
}

fn fail(fault: Fault, plan: impl FnOnce(&FaultyBackend<MemoryBackend>)) {
    let mut known = run(plan);
    known.backend.heal();
    if fault != Fault::Late {
        known.check();
    }
    known.reopen();
    known.check();
    known.reopen();
    known.check();
}

/// An add that fails before its write leaves a fingerprint without a key in the filter. When lists are
/// opened, the length of the filter gives the number of keys.
#[test]
fn key_whose_add_failed_is_not_counted_after_reopening() {
    let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let files = tempfile::tempdir().unwrap();
    let open = || options().open_lists_with(Arc::clone(&backend), Some(files.path())).unwrap();
    let lists = open();
    assert!(lists.add_yes(b"first").unwrap());
    lists.close().unwrap();

    let lists = open();
    // Let each operation of the addition fail in turn, after it is done. The last one removes the
    // backend's entry for the saved filter. Because it fails, the key is not written.
    let mut n = 0;
    while backend.inner().get(Keyspace::Meta, b"clean").unwrap().is_some() {
        backend.fail_at(n, Fault::After);
        let _ = lists.add_yes(b"second");
        n += 1;
    }
    backend.heal();
    assert!(lists.add_yes(b"third").unwrap());
    lists.close().unwrap();

    let lists = open();
    assert_eq!(lists.entries(List::Yes).count(), 2);
    assert_eq!(lists.len(List::Yes), 2);
}

/// If an add panics, the new key's fingerprint must not stay in the filter without its repairs.
#[test]
fn no_list_keys_are_answered_no_after_an_add_panicked() {
    let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let options = options().capacity(64).false_positive_rate(0.45).shards(1);
    let lists = options.open_lists_with(Arc::clone(&backend), None).unwrap();
    lists.add_many(List::Yes, (0..60u16).map(u16::to_be_bytes)).unwrap();
    let no = || (100..400).map(u16::to_be_bytes);
    lists.add_many(List::No, no()).unwrap();
    let mut panics = 0;
    for key in (500..530).map(u16::to_be_bytes) {
        for n in 0..6 {
            backend.fail_at(n, Fault::Panic);
            let added = catch_unwind(AssertUnwindSafe(|| lists.add_yes(&key)));
            backend.heal();
            panics += usize::from(added.is_err());
            assert!(no().all(|key| !lists.contains(&key)), "{key:?}, operation {n}");
        }
    }
    assert!(panics > 30, "{panics}");
}
