//! Runs a script over a backend that fails at each operation in turn. Acknowledged writes must be there, each
//! other write must be complete or absent, and no range that has a key may be answered "empty".

use super::watched::always;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use tempfile::TempDir;
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{Backend, Keyspace, MemoryBackend, RangeStore, Result};

type Faulty = Arc<FaultyBackend<MemoryBackend>>;

/// The script uses the keys below this number.
const KEYS: u64 = 60;

enum Step {
    Put(u64, u8),
    PutMany(&'static [u64], u8),
    Delete(u64),
    /// Asks for all ranges of a number of keys.
    Ask(u64),
    Rebuild,
    Reopen,
}

/// Inserts members, makes mistakes between them, inserts members that collide with these mistakes, grows
/// the filter, and turns mistakes into members and back.
fn script() -> Vec<Step> {
    use Step::*;
    let mut script: Vec<Step> = (0..6).map(|n| Put(n * 9, 1)).collect();
    script.extend([Put(9, 2), Ask(3), Delete(18), Put(18, 3), Put(20, 4), Ask(1), Reopen]);
    script.extend([Delete(20), Delete(55), Ask(5), Put(27, 5), Delete(0), Put(0, 6), Rebuild]);
    script.extend((0..8).map(|n| Put(n * 7 + 1, 7)));
    script.extend([Ask(4), PutMany(&[3, 4, 31, 58, 4], 8), Reopen, Delete(36), Ask(2)]);
    script
}

struct Known {
    backend: Faulty,
    /// The directory where the filter is saved.
    files: TempDir,
    /// How operations fail.
    fault: Fault,
    /// Whether failed writes may take effect after reopening.
    is_late: bool,
    store: Option<RangeStore<u64, Faulty>>,
    /// The values that a key may have. A key that isn't in this map is absent.
    possible: BTreeMap<u64, BTreeSet<Option<u8>>>,
}

impl Known {
    /// Opens the store if it isn't open.
    fn store(&mut self) -> Result<&RangeStore<u64, Faulty>> {
        if self.store.is_none() {
            // Some ranges span several partitions, and some partitions hold several ranges.
            let options = always().longest_range(2);
            let files = Some(self.files.path());
            self.store = Some(options.open_ranges_with(Arc::clone(&self.backend), files)?);
        }
        Ok(self.store.as_ref().unwrap())
    }

    fn possible(&mut self, key: u64) -> &mut BTreeSet<Option<u8>> {
        self.possible.entry(key).or_insert_with(|| BTreeSet::from([None]))
    }

    fn wrote(&mut self, key: u64, value: Option<u8>, is_acknowledged: bool) {
        let possible = self.possible(key);
        if is_acknowledged {
            possible.clear();
        }
        possible.insert(value);
    }

    fn ask(&mut self, length: u64) -> Result<()> {
        let is_late = self.is_late;
        for first in 0..=KEYS - length {
            let keys = first..first + length;
            let pairs: Vec<_> = self.store()?.range(keys.clone())?.collect::<Result<_>>()?;
            let found: BTreeMap<u64, u8> =
                pairs.into_iter().map(|(key, value)| (key, value[0])).collect();
            for key in keys.clone() {
                let value = found.get(&key).copied();
                let possible = self.possible(key);
                assert!(possible.contains(&value), "{key} is {value:?}, not of {possible:?}");
                if !is_late {
                    *possible = BTreeSet::from([value]);
                }
            }
            assert_eq!(self.store()?.range_is_empty(keys)?, found.is_empty());
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Put(key, value) => {
                let done = self.store()?.put(key, &[value]);
                self.wrote(key, Some(value), done.is_ok());
                done
            }
            Step::PutMany(keys, value) => {
                let done = self.store()?.put_many(keys.iter().map(|&key| (key, [value])));
                let is_acknowledged = done.is_ok();
                for &key in keys {
                    self.wrote(key, Some(value), is_acknowledged);
                }
                // The batch is written completely or not at all.
                let store = self.store()?;
                let values: Result<Vec<_>> = keys.iter().map(|&key| store.get(key)).collect();
                if let Ok(values) = values {
                    let written = values.iter().flatten().filter(|found| found[0] == value);
                    let written = written.count();
                    assert!(written == 0 || written == values.len());
                }
                done
            }
            Step::Delete(key) => {
                let done = self.store()?.delete(key);
                self.wrote(key, None, done.is_ok());
                done.map(drop)
            }
            Step::Ask(length) => self.ask(length),
            Step::Rebuild => self.store()?.rebuild(),
            Step::Reopen => {
                self.reopen();
                self.store().map(drop)
            }
        }
    }

    /// Closes the store, and makes delayed writes visible.
    fn reopen(&mut self) {
        self.store = None;
        self.backend.reopen().unwrap();
    }

    /// Checks the store after failures have stopped. Each mistake recurs at most once.
    fn check(&mut self) {
        loop {
            let skipped = self.store().unwrap().stats().repairs_skipped;
            self.ask(1).unwrap();
            self.ask(3).unwrap();
            let store = self.store().unwrap();
            if store.stats().repairs_skipped == skipped {
                break;
            }
            // Writes make room for repairs only some time after a rebuild has failed.
            store.rebuild().unwrap();
        }
        let store = self.store().unwrap();
        store.validate().unwrap();
        let before = store.stats();
        self.ask(1).unwrap();
        self.ask(3).unwrap();
        let after = self.store().unwrap().stats();
        assert_eq!(after.false_positives, before.false_positives, "a mistake recurs");
        // The two maps are equal, and no mistaken range contains a member.
        let keys = |space| {
            let pairs = self.backend.range(space, (Unbounded, Unbounded));
            pairs.map(|pair| pair.unwrap()).collect::<Vec<_>>()
        };
        let number = |bytes: &[u8]| u64::from_be_bytes(*bytes.last_chunk().unwrap());
        let there: BTreeSet<u64> =
            keys(Keyspace::Keys).iter().map(|(key, _)| number(key)).collect();
        let listed: BTreeSet<u64> =
            keys(Keyspace::Members).iter().map(|(member, _)| number(member)).collect();
        assert_eq!(there, listed);
        for (first, last) in keys(Keyspace::Mistakes) {
            // A delayed write may have put a key that was a mistake before.
            assert!(
                self.fault == Fault::Late
                    || there.range(number(&first)..=number(&last)).next().is_none()
            );
        }
    }
}

fn run(fault: Fault, plan: impl FnOnce(&FaultyBackend<MemoryBackend>)) -> Known {
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    plan(&backend);
    let files = tempfile::tempdir().unwrap();
    let is_late = fault == Fault::Late;
    let (store, possible) = (None, BTreeMap::new());
    let mut known = Known { backend, files, fault, is_late, store, possible };
    for step in script() {
        // Ignore the error, because the next step may succeed.
        let _ = known.step(&step);
    }
    known
}

#[test]
fn failure_at_any_operation_loses_nothing() {
    let mut known = run(Fault::Before, |_| {});
    let stats = known.store().unwrap().stats();
    assert_eq!((stats.repairs_failed, stats.ghosts_left), (0, 0));
    assert!(stats.mistakes > 5, "the filter is too good for this test");
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
    let mut known = run(fault, plan);
    known.backend.heal();
    if !known.is_late {
        known.check();
    }
    known.reopen();
    known.is_late = false;
    known.check();
    known.reopen();
    known.check();
}

/// After a failed put, it is unknown whether the key is present, so the mistaken range is cut at
/// the key, until the next lookup finds that the key is absent.
#[test]
fn failed_put_leaves_the_mistaken_range_repaired() {
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let store: RangeStore<u64, _> = always().open_ranges_with(Arc::clone(&backend), None).unwrap();
    (0..50).for_each(|n| store.put(n * 1001, b"1").unwrap());
    let first = (0..500).map(|n| n * 100 + 4).find(|&first| {
        let before = store.stats().mistakes;
        store.range_is_empty(first..first + 3).unwrap() && store.stats().mistakes > before
    });
    let first = first.expect("the filter is too good for this test");
    let mistakes = store.stats().mistakes;
    // If there are reads before the write, they fail first.
    for n in 0.. {
        backend.fail_at(n, Fault::Before);
        let put = store.put(first + 1, b"2");
        backend.heal();
        if put.is_ok() {
            break;
        }
        assert!(store.range_is_empty(first..first + 3).unwrap());
        assert_eq!(store.stats().mistakes, mistakes);
    }
    assert_eq!(store.stats().mistakes, mistakes + 1, "one span before the key, and one after it");
    assert!(!store.range_is_empty(first..first + 3).unwrap());
}
