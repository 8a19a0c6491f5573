//! Writes at chosen moments of a rebuild. The rebuild lists members without stopping the writers, so a
//! write may come before, during or after the listing, and the listing may see it or not.

use crate::common::{LAYOUTS, Random, options};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::sleep;
use std::time::Duration;
use twiceshy::{QuotientFilter, TelescopingFilter, concurrent::Shard};
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::{Batch, Bounds, Durability, Scan};
use twiceshy_store::testing::FaultyBackend;
use twiceshy_store::{
    Backend, Keyspace, Layout, MemoryBackend, OpenOptions, Store, forward_backend,
};

pub(crate) type Hook = Box<dyn Fn() + Send + Sync>;

/// A backend that calls a function before each scan, and again after the scan has read its pairs and
/// before it returns them.
#[derive(Default)]
pub(crate) struct Hooked {
    inner: MemoryBackend,
    pub(crate) hook: OnceLock<Hook>,
}

impl Hooked {
    fn call(&self) {
        if let Some(hook) = self.hook.get() {
            hook();
        }
    }
}

impl Backend for Hooked {
    forward_backend!(inner: claim get write sync flush compact bytes_on_disk backup);

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        self.call();
        let pairs: Vec<_> = self.inner.range(space, bounds).collect();
        self.call();
        Box::new(pairs.into_iter())
    }
}

/// The pairs that a store must have, and the random numbers that choose the next writes.
struct Model {
    pairs: BTreeMap<u64, u64>,
    random: Random,
}

const KEYS: u64 = 60;

fn check_rebuilds<F: Shard>(seeds: u64) {
    let _deadline = Deadline::new();
    for (seed, layout) in (0..seeds).flat_map(|seed| LAYOUTS.map(|layout| (seed, layout))) {
        let backend = Arc::new(Hooked::default());
        // There is room for all keys. Otherwise a write in the hook could wait for the rebuild that
        // has called the hook.
        let options = options(layout).capacity(4 * KEYS as usize).shards(2);
        let store: Arc<Store<_, F>> =
            Arc::new(options.open_with(Arc::clone(&backend), None).unwrap());
        let model = Model { pairs: BTreeMap::new(), random: Random(seed) };
        let model = Arc::new(Mutex::new(model));
        let hook: Hook = {
            let (store, model) = (Arc::downgrade(&store), Arc::clone(&model));
            Box::new(move || write(&store, &model))
        };
        assert!(backend.hook.set(hook).is_ok());
        for _ in 0..12 {
            store.rebuild().unwrap();
            let model = model.lock().unwrap();
            for key in 0..KEYS {
                let found = store.get(&key.to_be_bytes()).unwrap();
                let expected = model.pairs.get(&key).map(|value| value.to_be_bytes());
                assert_eq!(found.as_deref(), expected.as_ref().map(|value| &value[..]), "{key}");
            }
            // While the model is locked, the hook writes nothing, so the store can be validated.
            store.validate().unwrap();
            assert_eq!(store.stats().ghosts_left, 0, "every write has succeeded");
            drop(model);
        }
    }
}

/// Writes or deletes up to three keys, unless the model is in use.
fn write<F: Shard>(store: &Weak<Store<Arc<Hooked>, F>>, model: &Mutex<Model>) {
    let (Some(store), Ok(mut model)) = (store.upgrade(), model.try_lock()) else { return };
    for _ in 0..model.random.below(4) {
        let (key, value) = (model.random.below(KEYS), model.random.next());
        if model.random.below(2) == 0 {
            let is_there = model.pairs.remove(&key).is_some();
            assert_eq!(store.delete(&key.to_be_bytes()).unwrap(), is_there);
        } else {
            store.put(&key.to_be_bytes(), &value.to_be_bytes()).unwrap();
            model.pairs.insert(key, value);
        }
    }
}

#[test]
fn rebuilt_shard_holds_keys_written_during_its_listing() {
    check_rebuilds::<QuotientFilter>(40);
    check_rebuilds::<TelescopingFilter>(10);
}

/// Returns the backend of a store with many members and without a saved filter.
fn filled(options: &OpenOptions) -> Arc<FaultyBackend<MemoryBackend>> {
    let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
    let store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
    store.put_many((0..1000_u64).map(|n| (n.to_be_bytes(), b""))).unwrap();
    store.close().unwrap();
    backend
}

/// Returns options with and without a background thread, and says which have one.
fn recovering(layouts: impl IntoIterator<Item = Layout>) -> Vec<(OpenOptions, bool)> {
    let both = |layout| [(options(layout).background_share(1.0), true), (options(layout), false)];
    layouts.into_iter().flat_map(both).collect()
}

/// Waits until all shards are ready, and checks the filter.
fn check_recovery(store: &Store<Arc<FaultyBackend<MemoryBackend>>>, has_thread: bool) {
    while store.stats().shards_ready < store.stats().shards {
        if !has_thread {
            store.tend().unwrap();
        }
        sleep(Duration::from_millis(5));
    }
    store.validate().unwrap();
}

#[test]
fn filter_build_that_fails_at_open_is_tried_again() {
    let _deadline = Deadline::new();
    for (options, has_thread) in recovering(LAYOUTS) {
        let backend = filled(&options);
        backend.fail_scans(true);
        let mut store = options.open_with(Arc::clone(&backend), None).unwrap();
        store.wait_until_ready().unwrap_err();
        backend.heal();
        check_recovery(&store, has_thread);
    }
}

#[test]
fn filter_build_that_panics_at_open_is_finished_later() {
    let _deadline = Deadline::new();
    for (options, has_thread) in recovering(LAYOUTS) {
        let backend = filled(&options);
        let options = options.on_progress(|_| panic!("a bug in the callback"));
        let mut store = options.open_with(backend, None).unwrap();
        catch_unwind(AssertUnwindSafe(|| store.wait_until_ready())).unwrap_err();
        check_recovery(&store, has_thread);
    }
}

/// The thread that adds missing keys to the reverse map may find that a shard has no room for them.
/// It must not wait for the background thread, because it may be that thread.
#[test]
fn recovery_of_an_incomplete_reverse_map_makes_room_for_the_missing_keys() {
    let _deadline = Deadline::new();
    for (options, has_thread) in recovering([Layout::Split]) {
        let backend = filled(&options);
        let members = backend.range(Keyspace::Members, (Unbounded, Unbounded));
        let mut batch = Batch::new();
        for (at, pair) in members.enumerate() {
            if at % 10 > 0 {
                batch.remove(Keyspace::Members, pair.unwrap().0);
            }
        }
        backend.write(&batch, Durability::Buffered).unwrap();
        let options = options.on_progress(|_| panic!("a bug in the callback"));
        let mut store = options.open_with(backend, None).unwrap();
        catch_unwind(AssertUnwindSafe(|| store.wait_until_ready())).unwrap_err();
        check_recovery(&store, has_thread);
        assert!((0..1000_u64).all(|n| store.contains(&n.to_be_bytes()).unwrap()));
    }
}
