//! Runs a script over a backend that fails at each operation in turn. Acknowledged writes must be there, and
//! each other write must be complete or absent.

use crate::common::{LAYOUTS, copy, copy_files, options};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Unbounded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use twiceshy::Secret;
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{Backend, Keyspace, Layout, MemoryBackend, OpenOptions, Result, Store};

type Faulty = Arc<FaultyBackend<MemoryBackend>>;

/// The script uses the keys below this number.
const KEYS: u8 = 60;

enum Step {
    Put(u8, u8),
    PutMany(std::ops::Range<u8>, u8),
    Delete(u8),
    GetAll,
    Rebuild,
    Reopen,
}

/// Inserts members, makes mistakes with all other keys, inserts members that collide with these mistakes,
/// and turns mistakes into members and back.
fn script() -> Vec<Step> {
    use Step::*;
    let mut script = vec![PutMany(0..12, 1), Put(12, 2), Put(3, 3), GetAll];
    script.extend((4..8).map(Delete));
    script.extend([PutMany(4..7, 4), PutMany(30..36, 5), GetAll, Reopen, Put(40, 6), Delete(40)]);
    script.extend([Delete(59), GetAll, Put(8, 7), Reopen]);
    script.extend([Delete(31), PutMany(30..33, 8), Rebuild, PutMany(50..58, 9), GetAll]);
    script
}

/// Returns options with a fixed secret, so that each run has the same operations.
fn always(layout: Layout) -> OpenOptions {
    options(layout).secret(Secret::from_bytes([7; 16]))
}

/// A store and the facts that are known about it.
struct Known<B: Backend> {
    store: Store<B>,
    facts: Facts,
}

#[derive(Clone, Default)]
struct Facts {
    /// The values that a key may have. A key that isn't in this map is absent.
    possible: BTreeMap<u8, BTreeSet<Option<u8>>>,
    /// Mistakes that were repaired in the current build of the filter.
    repaired: BTreeSet<u8>,
    /// The number of rebuilds when the mistakes in `repaired` were repaired.
    rebuilds: u64,
    /// Whether failed writes may take effect after reopening.
    is_late: bool,
}

impl Facts {
    fn possible(&mut self, key: u8) -> &mut BTreeSet<Option<u8>> {
        self.possible.entry(key).or_insert_with(|| BTreeSet::from([None]))
    }

    fn wrote(&mut self, key: u8, value: Option<u8>, is_acknowledged: bool) {
        let possible = self.possible(key);
        if is_acknowledged {
            possible.clear();
        }
        possible.insert(value);
        if value.is_some() {
            self.repaired.remove(&key);
        }
    }
}

impl<B: Backend> Known<B> {
    fn get(&mut self, key: u8) -> Result<()> {
        let before = self.store.stats();
        let value = self.store.get(&[key])?.map(|value| value[0]);
        let after = self.store.stats();
        let is_late = self.facts.is_late;
        let possible = self.facts.possible(key);
        assert!(possible.contains(&value), "{key} is {value:?}, not one of {possible:?}");
        if !is_late {
            *possible = BTreeSet::from([value]);
        }
        if after.rebuilds != self.facts.rebuilds {
            self.facts.rebuilds = after.rebuilds;
            self.facts.repaired.clear();
        }
        let has_failed = after.repairs_failed > 0;
        let is_ready = after.shards_ready == after.shards;
        if value.is_none() && is_ready && !has_failed && after.backend_gets > before.backend_gets {
            assert!(!self.facts.repaired.contains(&key), "{key} is a mistake that recurs");
        }
        if after.repairs > before.repairs {
            self.facts.repaired.insert(key);
        }
        Ok(())
    }

    fn put_many(&mut self, keys: std::ops::Range<u8>, value: u8) -> Result<()> {
        let done = self.store.put_many(keys.clone().map(|key| ([key], [value])));
        let is_acknowledged = done.is_ok();
        keys.clone().for_each(|key| self.facts.wrote(key, Some(value), is_acknowledged));
        // The batch is written completely or not at all.
        let values: Result<Vec<_>> = keys.map(|key| self.store.get(&[key])).collect();
        if let Ok(values) = values {
            let written = values.iter().flatten().filter(|found| found[0] == value).count();
            assert!(written == 0 || written == values.len());
        }
        done
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Put(key, value) => {
                let done = self.store.put(&[key], &[value]);
                self.facts.wrote(key, Some(value), done.is_ok());
                done
            }
            Step::PutMany(ref keys, value) => self.put_many(keys.clone(), value),
            Step::Delete(key) => {
                let done = self.store.delete(&[key]);
                self.facts.wrote(key, None, done.is_ok());
                done.map(|_| ())
            }
            Step::GetAll => {
                let done: Vec<_> = (0..KEYS).map(|key| self.get(key)).collect();
                done.into_iter().collect()
            }
            Step::Rebuild => self.store.rebuild(),
            Step::Reopen => Ok(()),
        }
    }
}

/// Checks a store that has just been opened over a backend that doesn't fail. If the filter was saved, its
/// repairs still hold.
fn check(backend: impl Backend, layout: Layout, files: &Path, facts: &Facts) {
    let mut store: Store<_> = always(layout).open_with(backend, Some(files)).unwrap();
    store.wait_until_ready().unwrap();
    for &key in &facts.repaired {
        if facts.possible[&key] == BTreeSet::from([None]) {
            assert_eq!(store.get(&[key]).unwrap(), None);
            assert_eq!(store.stats().backend_gets, 0, "{key} is a mistake that recurs");
        }
    }
    let facts = Facts { repaired: BTreeSet::new(), rebuilds: 0, ..facts.clone() };
    let mut known = Known { store, facts };
    (0..KEYS).for_each(|key| known.get(key).unwrap());
    // The lookups found every key. After a rebuild, which clears ghosts, the filter holds nothing
    // else.
    known.store.rebuild().unwrap();
    let pairs: Vec<_> = known.store.iter().map(Result::unwrap).collect();
    assert!(pairs.iter().all(|(key, _)| known.facts.possible[&key[0]] != BTreeSet::from([None])));
    assert_eq!(known.store.stats().members, pairs.len() as u64);
    // The store is still usable.
    for key in 0..KEYS {
        known.store.put(&[key], &[99]).unwrap();
    }
    for key in 0..KEYS {
        assert_eq!(known.store.get(&[key]).unwrap().as_deref(), Some(&[99][..]));
        assert!(known.store.delete(&[key]).unwrap());
    }
    assert_eq!(known.store.stats().members, 0);
}

/// Opens a store. If that fails and only one operation is set to fail, opens it again.
fn open(backend: &Faulty, layout: Layout, files: &Path) -> Result<Store<Faulty>> {
    let open = || always(layout).open_with(Arc::clone(backend), Some(files));
    let mut store: Store<_> = open().or_else(|_| open())?;
    // If the filter can't be built, the store works without it.
    let _ = store.wait_until_ready();
    Ok(store)
}

/// Runs the script over a backend that may fail. Returns the number of operations.
fn run(layout: Layout, fault: Fault, plan: impl Fn(&Faulty), is_single: bool) -> u64 {
    let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let files = tempfile::tempdir().unwrap();
    plan(&backend);
    let mut facts = Facts { is_late: fault == Fault::Late, ..Facts::default() };
    let mut opened = open(&backend, layout, files.path());
    let mut failed = 0;
    for step in script() {
        let Ok(store) = opened else { break };
        let mut known = Known { store, facts };
        if known.step(&step).is_err() {
            failed += 1;
        }
        facts = known.facts;
        opened = Ok(known.store);
        if matches!(step, Step::Reopen)
            && let Ok(store) = opened
        {
            let is_closed = store.close().is_ok();
            backend.reopen().unwrap();
            opened = open(&backend, layout, files.path());
            facts.rebuilds = 0;
            let is_saved = opened.as_ref().is_ok_and(|store| store.stats().rebuilds == 0);
            if !is_closed || !is_saved {
                facts.repaired.clear();
            }
        }
    }
    assert!(!is_single || (failed <= 1 && opened.is_ok()), "the store is usable after an error");
    let operations = backend.operations();
    // Check after a crash at this point, and after closing.
    backend.heal();
    backend.reopen().unwrap();
    facts.is_late = false;
    // A crash may lose the records of the last repairs, and with them the repairs.
    let crashed = Facts { repaired: BTreeSet::new(), ..facts.clone() };
    check(copy(backend.inner()), layout, copy_files(files.path()).path(), &crashed);
    if !is_single {
        backend.fail_from(0, Fault::Before);
    }
    let is_exact = opened.as_ref().is_ok_and(|store| store.stats().ghosts_left == 0);
    drop(opened);
    if !is_single || !is_exact || failed > 0 {
        facts.repaired.clear();
    }
    backend.heal();
    check(backend, layout, files.path(), &facts);
    operations
}

#[test]
fn failure_at_any_operation_loses_nothing() {
    for layout in LAYOUTS {
        let operations = run(layout, Fault::Before, |_| (), true);
        assert!(operations > 100, "{operations}");
        for fault in [Fault::Before, Fault::After, Fault::Late] {
            for n in 0..operations {
                let context = (layout, fault, n);
                let result = catch_unwind(|| {
                    run(layout, fault, |backend| backend.fail_at(n, fault), true);
                });
                assert!(result.is_ok(), "one failure: {context:?}");
            }
        }
    }
}

#[test]
fn permanent_failures_lose_no_acknowledged_write() {
    for layout in LAYOUTS {
        let operations = run(layout, Fault::Before, |_| (), true);
        for fault in [Fault::Before, Fault::After, Fault::Late] {
            for n in (0..operations).step_by(3) {
                let context = (layout, fault, n);
                let result = catch_unwind(|| {
                    run(layout, fault, |backend| backend.fail_from(n, fault), false);
                });
                assert!(result.is_ok(), "failures: {context:?}");
            }
        }
    }
}

/// A saved filter that couldn't be read must not be used by a later open.
#[test]
fn saved_filter_that_could_not_be_read_is_never_used_later() {
    let backend = Arc::new(MemoryBackend::new());
    let files = tempfile::tempdir().unwrap();
    let open = |files: Option<&Path>| {
        let mut store: Store<_> =
            always(Layout::Merged).open_with(Arc::clone(&backend), files).unwrap();
        store.wait_until_ready().unwrap();
        store
    };
    open(Some(files.path())).close().unwrap();
    let store = open(None);
    (0..KEYS).for_each(|key| store.put(&[key], &[key]).unwrap());
    drop(store);
    let store = open(Some(files.path()));
    for key in 0..KEYS {
        assert_eq!(store.get(&[key]).unwrap().as_deref(), Some(&[key][..]));
    }
}

/// The backend still has the record of a mistake that became a member.
#[test]
fn puts_succeed_after_a_kept_mistake_became_a_member() {
    for layout in LAYOUTS {
        let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let files = tempfile::tempdir().unwrap();
        let store = open(&backend, layout, files.path()).unwrap();
        (0..20).for_each(|key| store.put(&[key], &[1]).unwrap());
        let is_mistake = |key: &u8| {
            let before = store.stats().mistakes;
            assert_eq!(store.get(&[*key]).unwrap(), None);
            store.stats().mistakes > before
        };
        let mistakes: Vec<u8> = (20..140).filter(is_mistake).take(8).collect();
        assert!(!mistakes.is_empty());
        for &key in &mistakes {
            // Let each operation of the put fail in turn, after it is done. The last one is the
            // write, after which the key is found.
            let mut n = 0;
            while store.get(&[key]).unwrap().is_none() {
                backend.fail_at(n, Fault::After);
                let _ = store.put(&[key], &[2]);
                backend.heal();
                n += 1;
            }
        }
        for key in 140..=u8::MAX {
            store.put(&[key], &[3]).unwrap();
        }
        for &key in &mistakes {
            assert_eq!(store.get(&[key]).unwrap().as_deref(), Some(&[2][..]));
        }
        assert!((140..=u8::MAX).all(|key| store.contains(&[key]).unwrap()));
    }
}

/// If the records of mistakes can't be written, they wait.
#[test]
fn records_that_could_not_be_written_are_written_later() {
    for layout in LAYOUTS {
        let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let options = always(layout).capacity(64);
        let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
        (0..20).for_each(|key| store.put(&[key], &[1]).unwrap());
        (20..=u8::MAX).for_each(|key| assert_eq!(store.get(&[key]).unwrap(), None));
        let kept = || backend.inner().range(Keyspace::Mistakes, (Unbounded, Unbounded)).count();
        let mistakes = store.stats().mistakes;
        assert!(mistakes > 0 && kept() == 0);
        backend.fail_from(0, Fault::Before);
        assert!(store.sync().is_err());
        backend.heal();
        assert_eq!((store.stats().mistakes, kept()), (mistakes, 0));
        store.sync().unwrap();
        assert_eq!((store.stats().mistakes, kept() as u64), (mistakes, mistakes));
        assert!(store.put(&[0], &[2]).is_ok(), "no write is in doubt");
    }
}

/// An open that panics leaves no thread behind that still uses the backend.
#[test]
fn store_can_be_opened_again_after_the_backend_panicked() {
    for layout in LAYOUTS {
        let backend: Faulty = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let options = always(layout).background_share(0.0);
        let open = || -> Result<Store<_>> { options.open_with(Arc::clone(&backend), None) };
        let store = open().unwrap();
        store.put_many((0..2000_u32).map(|key| (key.to_be_bytes(), b""))).unwrap();
        store.close().unwrap();
        let mut panics = 0;
        for n in 0..100 {
            backend.fail_at(n, Fault::Panic);
            panics += usize::from(catch_unwind(AssertUnwindSafe(|| open().map(drop))).is_err());
            backend.heal();
            let mut store = open().unwrap();
            store.wait_until_ready().unwrap();
            assert!(store.contains(&7_u32.to_be_bytes()).unwrap());
        }
        assert!(panics > 3, "{layout:?}: {panics}");
    }
}

#[test]
fn different_secret_is_refused() {
    let backend = Arc::new(MemoryBackend::new());
    let open = |options: OpenOptions| -> Result<Store<_>> {
        options.open_with(Arc::clone(&backend), None)
    };
    let secret = |byte| OpenOptions::new().secret(Secret::from_bytes([byte; 16]));
    open(secret(1)).unwrap();
    open(secret(1)).unwrap();
    open(OpenOptions::new()).unwrap();
    assert!(matches!(open(secret(2)), Err(twiceshy_store::StoreError::Secret)));
}
