//! Tests that a repair takes no memory, writes nothing on the read path, and never waits; and that
//! no repaired mistake recurs within one build of a shard, or after a clean restart.

use crate::common::{LAYOUTS, Random, copy, copy_files, options};
use crate::rebuilds::Hooked;
use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use twiceshy::{QuotientFilter, TelescopingFilter, concurrent::Shard};
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::{Bounds, Result, Scan};
use twiceshy_store::testing::{Fault, FaultyBackend};
use twiceshy_store::{
    Backend, Batch, Durability, Keyspace, Layout, MemoryBackend, OpenOptions, Store,
    forward_backend,
};

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns options of a filter that makes many mistakes, and that has room for their repairs.
fn roomy(layout: Layout) -> OpenOptions {
    options(layout).capacity(4000).shards(2)
}

fn open<B: Backend, F: Shard>(options: &OpenOptions, backend: B) -> Store<B, F> {
    let mut store = options.open_with(backend, None).unwrap();
    store.wait_until_ready().unwrap();
    store
}

/// Returns the number of lookups that have read the backend and found nothing.
fn visits<B: Backend, F: Shard>(store: &Store<B, F>) -> u64 {
    let stats = store.stats();
    stats.lookups - stats.answered_from_memory - stats.true_positives
}

/// Looks up absent keys. Returns those that were mistakes.
fn mistakes<B: Backend, F: Shard>(
    store: &Store<B, F>,
    keys: impl IntoIterator<Item = u64>,
) -> Vec<u64> {
    let is_mistake = |&n: &u64| {
        let before = visits(store);
        assert!(!store.contains(&key(n)).unwrap());
        visits(store) > before
    };
    keys.into_iter().filter(is_mistake).collect()
}

fn records(backend: &impl Backend) -> usize {
    recorded(backend).len()
}

fn recorded(backend: &impl Backend) -> BTreeSet<Vec<u8>> {
    let records = backend.range(Keyspace::Mistakes, (Unbounded, Unbounded));
    records.map(|record| record.unwrap().0.to_vec()).collect()
}

/// A backend that counts writes, and calls a function before each write.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) inner: MemoryBackend,
    pub(crate) writes: AtomicU64,
    pub(crate) before_write: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Backend for Watched {
    forward_backend!(inner: claim get flush compact bytes_on_disk backup);

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        self.inner.range(space, bounds)
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.writes.fetch_add(1, SeqCst);
        if let Some(before_write) = self.before_write.get() {
            before_write();
        }
        self.inner.write(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.writes.fetch_add(1, SeqCst);
        self.inner.sync()
    }
}

/// The queue of records fills up, and later repairs are skipped. Even then, no lookup writes.
#[test]
fn lookups_write_nothing_to_the_backend() {
    for layout in LAYOUTS {
        let backend = Arc::new(Watched::default());
        // There is no background thread, because it would write the records.
        let options = options(layout).capacity(20_000).background_share(0.0);
        let store: Store<_> = open(&options, Arc::clone(&backend));
        store.put_many((0..10_000).map(|n| (key(n), b""))).unwrap();
        let before = backend.writes.load(SeqCst);
        let found = mistakes(&store, 20_000..140_000);
        let stats = store.stats();
        assert!(found.len() > 1024 && stats.repairs_skipped > 0, "{stats:?}");
        assert_eq!((stats.repairs, stats.mistakes), (1024, 1024));
        assert_eq!(stats.false_positives, 1024 + stats.repairs_skipped);
        assert_eq!(backend.writes.load(SeqCst), before);
        assert_eq!(records(&*backend), 0);
        // The next write also writes the queued records, which makes room for more.
        store.put(&key(0), b"").unwrap();
        assert_eq!((records(&*backend), backend.writes.load(SeqCst)), (1024, before + 2));
        let skipped = stats.repairs_skipped;
        assert!(!mistakes(&store, found).is_empty());
        // One repair may end several mistakes.
        let stats = store.stats();
        assert!(stats.repairs > 1024 && stats.repairs_skipped > skipped, "{stats:?}");
    }
}

/// Removed members leave tombstones, so when they are put again, their fingerprints are as long as
/// before.
#[test]
fn no_mistake_comes_back_when_members_are_deleted_and_put_again() {
    fn check<F: Shard>(is_exact: bool) {
        for layout in LAYOUTS {
            let store: Store<_, F> = open(&roomy(layout), MemoryBackend::new());
            store.put_many((0..800).map(|n| (key(n), b""))).unwrap();
            let found = mistakes(&store, 1000..6000);
            assert!(found.len() > 20, "{}", found.len());
            for n in 0..800 {
                assert!(store.delete(&key(n)).unwrap());
                store.put(&key(n), b"").unwrap();
            }
            (0..800).for_each(|n| assert!(store.delete(&key(n)).unwrap()));
            store.put_many((0..800).rev().map(|n| (key(n), b""))).unwrap();
            let again = mistakes(&store, found);
            let stats = store.stats();
            assert!(!is_exact || again.is_empty(), "{again:?}");
            assert_eq!((stats.rebuilds, stats.ghosts_left, stats.members), (0, 0, 800));
        }
    }
    check::<QuotientFilter>(true);
    check::<TelescopingFilter>(false);
}

/// A failed put leaves a ghost. The repair of a mistake replaces the ghost by a tombstone. So the
/// second put sees that something was repaired there.
#[test]
fn no_mistake_comes_back_when_a_ghost_is_put_again() {
    for layout in LAYOUTS {
        let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let store: Store<_> = open(&roomy(layout), Arc::clone(&backend));
        for n in 0..800 {
            // Fail each operation of the put in turn, until the write itself fails and leaves a
            // ghost. The write is the last operation.
            for at in (0..).take_while(|_| store.stats().ghosts_left <= n) {
                backend.fail_at(at, Fault::Before);
                assert!(store.put(&key(n), b"").is_err());
                backend.heal();
            }
        }
        let found = mistakes(&store, 1000..6000);
        let stats = store.stats();
        assert!(found.len() > 20 && stats.ghosts_cleared >= found.len() as u64, "{stats:?}");
        (0..800).for_each(|n| store.put(&key(n), b"").unwrap());
        assert_eq!(mistakes(&store, found), []);
        assert_eq!((store.stats().rebuilds, store.stats().repairs_failed), (0, 0));
    }
}

/// New members collide with repaired mistakes, of which some are in the queue and others in the backend.
#[test]
fn no_mistake_comes_back_when_new_members_are_put() {
    for layout in LAYOUTS {
        let store: Store<_> = open(&roomy(layout), MemoryBackend::new());
        store.put_many((0..400).map(|n| (key(n), b""))).unwrap();
        let mut random = Random(7);
        let (mut known, mut next) = (Vec::new(), 400);
        for round in 0..20 {
            known.extend(mistakes(&store, (0..500).map(|n| (1 << 40) + round * 500 + n)));
            if round % 3 == 0 {
                store.sync().unwrap();
            }
            for _ in 0..40 {
                store.put(&key(next), b"").unwrap();
                let old = random.below(next);
                if store.delete(&key(old)).unwrap() && random.below(2) == 0 {
                    store.put(&key(old), b"").unwrap();
                }
                next += 1;
            }
            assert_eq!(mistakes(&store, known.iter().copied()), [], "round {round}");
        }
        let stats = store.stats();
        assert!(known.len() > 50 && stats.repairs as usize > known.len(), "{stats:?}");
        assert_eq!((stats.rebuilds, stats.repeated_false_positives), (0, 0));
        // The background thread tries again and again, and skips nothing.
        thread::sleep(Duration::from_millis(20));
        let stats = store.stats();
        assert_eq!((stats.repairs_failed, stats.repairs_skipped), (0, 0));
        store.validate().unwrap();
    }
}

#[test]
fn no_mistake_comes_back_after_a_clean_restart() {
    for layout in LAYOUTS {
        let (backend, files) = (Arc::new(MemoryBackend::new()), tempfile::tempdir().unwrap());
        let open = || -> Store<_> {
            roomy(layout).open_with(Arc::clone(&backend), Some(files.path())).unwrap()
        };
        let store = open();
        store.put_many((0..800).map(|n| (key(n), b""))).unwrap();
        store.close().unwrap();
        // This time, nothing is written, but the filter changes.
        let store = open();
        let found = mistakes(&store, 1000..6000);
        assert!(found.len() > 20 && records(&*backend) == 0);
        store.close().unwrap();
        assert_eq!(records(&*backend), found.len());
        let store = open();
        assert_eq!(store.stats().mistakes, found.len() as u64);
        assert_eq!(mistakes(&store, found.iter().copied()), []);
        // The restored filter still has the traces of its repairs.
        (0..800).for_each(|n| assert!(store.delete(&key(n)).unwrap()));
        store.put_many((0..800).map(|n| (key(n), b""))).unwrap();
        store.put_many((800..1000).map(|n| (key(n), b""))).unwrap();
        assert_eq!(mistakes(&store, found), []);
        assert_eq!(store.stats().rebuilds, 0);
    }
}

/// Mistakes only make the saved filter outdated. It stays valid after a kill.
#[test]
fn saved_filter_stays_valid_after_mistakes_and_a_kill() {
    for layout in LAYOUTS {
        let (backend, files) = (Arc::new(MemoryBackend::new()), tempfile::tempdir().unwrap());
        let options = roomy(layout);
        let store: Store<_> = options.open_with(Arc::clone(&backend), Some(files.path())).unwrap();
        store.put_many((0..800).map(|n| (key(n), b""))).unwrap();
        store.close().unwrap();
        let store: Store<_> = options.open_with(Arc::clone(&backend), Some(files.path())).unwrap();
        let found = mistakes(&store, 1000..6000);
        for is_flushed in [false, true] {
            if is_flushed {
                store.sync().unwrap();
            }
            let killed = copy_files(files.path());
            let store: Store<_> = options.open_with(copy(&*backend), Some(killed.path())).unwrap();
            let stats = store.stats();
            assert_eq!((stats.shards_ready, stats.rebuilds), (stats.shards, 0), "it was saved");
            assert_eq!(stats.mistakes, if is_flushed { found.len() as u64 } else { 0 });
            assert!((0..800).all(|n| store.contains(&key(n)).unwrap()));
            // The repairs are lost, and the mistakes are repaired again. Then the repairs stay.
            assert_eq!(mistakes(&store, found.iter().copied()), found);
            assert_eq!(mistakes(&store, found.iter().copied()), []);
            store.validate().unwrap();
        }
        // A write of a member invalidates the saved filter.
        store.put(&key(0), b"").unwrap();
        let killed = copy_files(files.path());
        let mut store: Store<_> = options.open_with(copy(&*backend), Some(killed.path())).unwrap();
        store.wait_until_ready().unwrap();
        assert_eq!(store.stats().rebuilds, 2);
        assert_eq!(mistakes(&store, found), [], "a rebuild repairs recorded mistakes");
    }
}

/// The outdated filter is saved again when the store is closed. If that fails half-way, one of the two
/// filters is valid.
#[test]
fn saved_filter_is_valid_after_a_failed_close() {
    for (fault, n) in [Fault::Before, Fault::After, Fault::Late, Fault::Panic]
        .into_iter()
        .flat_map(|fault| (0..400).map(move |n| (fault, n)))
    {
        let backend = Arc::new(FaultyBackend::new(MemoryBackend::new()));
        let files = tempfile::tempdir().unwrap();
        let open = || -> Store<_> {
            let options = options(Layout::Merged).capacity(200);
            options.open_with(Arc::clone(&backend), Some(files.path())).unwrap()
        };
        let store = open();
        store.put_many((0..100).map(|n| (key(n), b""))).unwrap();
        store.close().unwrap();
        let store = open();
        assert!(!mistakes(&store, 1000..2000).is_empty());
        let before = backend.operations();
        backend.fail_at(n, fault);
        let close = std::panic::AssertUnwindSafe(|| store.close());
        let _ = std::panic::catch_unwind(close);
        let has_failed = backend.operations() > before + n;
        backend.heal();
        backend.reopen().unwrap();
        let store = open();
        assert_eq!(store.stats().rebuilds, 0, "{fault:?} at {n}");
        assert_eq!(store.stats().shards_ready, 4, "{fault:?} at {n}");
        assert!((0..100).all(|n| store.contains(&key(n)).unwrap()));
        store.validate().unwrap();
        if !has_failed {
            break;
        }
    }
}

/// The records on disk are bounded by the option, and by the members of a shard that is rebuilt.
#[test]
fn records_are_bounded_under_endless_distinct_queries() {
    for layout in LAYOUTS {
        let backend = Arc::new(MemoryBackend::new());
        let options = roomy(layout).shards(4).mistakes_kept(2000);
        let store: Store<_> = open(&options, Arc::clone(&backend));
        store.put_many((0..300).map(|n| (key(n), b""))).unwrap();
        for round in 0..30 {
            let first = (1 << 40) + round * 10_000;
            mistakes(&store, first..first + 10_000);
            store.sync().unwrap();
            assert_eq!(records(&*backend) as u64, store.stats().mistakes);
            assert!(records(&*backend) <= 2000, "{}", records(&*backend));
            if round % 5 == 4 {
                store.rebuild().unwrap();
                // These shards have few members, so each keeps at most 64 records.
                assert!(records(&*backend) <= 400, "{}", records(&*backend));
            }
        }
        let stats = store.stats();
        assert!(stats.mistakes_forgotten > 300, "{stats:?}");
        assert_eq!(stats.repairs_failed, 0);
    }
}

/// By default, nothing but rebuilds thins out the records. A telescoping filter never runs out of slots
/// for repairs, so its shards are rebuilt because of their records.
#[test]
fn records_are_bounded_by_default() {
    fn check<F: Shard>() {
        let _deadline = Deadline::new();
        let backend = Arc::new(MemoryBackend::new());
        let options = OpenOptions::new().capacity(500).false_positive_rate(0.2).shards(1);
        let store: Store<_, F> = open(&options.background_share(0.0), Arc::clone(&backend));
        store.put_many((0..400).map(|n| (key(n), b""))).unwrap();
        for round in 0..100 {
            let queries = 1000 * (round + 1)..1000 * (round + 2);
            queries.for_each(|n| assert!(!store.contains(&key(n)).unwrap()));
            store.tend().unwrap();
            // A shard keeps at most 100 old records, and is rebuilt when it had more than 200 before
            // the last change.
            assert!(records(&*backend) <= 201, "{} records", records(&*backend));
        }
        let stats = store.stats();
        assert!(stats.repairs > 3000 && stats.rotations > 10, "{stats:?}");
    }
    check::<QuotientFilter>();
    check::<TelescopingFilter>();
}

/// A shard may have more records than it keeps, while all of them still wait to be written. One
/// rebuild thins them out.
#[test]
fn too_many_queued_records_lead_to_one_rebuild() {
    let _deadline = Deadline::new();
    let options = OpenOptions::new().capacity(4000).false_positive_rate(0.2).shards(1);
    let backend = Arc::new(MemoryBackend::new());
    let store: Store<_> = open(&options.background_share(0.0), Arc::clone(&backend));
    store.put_many((0..200).map(|n| (key(n), b""))).unwrap();
    let mut queries = 1000..u64::MAX;
    // The number of records is compared with its bound once per a few repairs.
    while store.stats().records_waiting <= 2 * 64 + 8 {
        store.contains(&key(queries.next().unwrap())).unwrap();
    }
    assert_eq!(store.tend().unwrap(), 1);
    assert_eq!(store.tend().unwrap(), 0);
    assert!(records(&*backend) <= 64, "{}", records(&*backend));
}

/// While a shard is rebuilt, mistakes are repaired, and their records are written. The new filter repairs
/// these mistakes, too, so their records must stay.
#[test]
fn mistakes_repaired_during_a_rebuild_do_not_come_back() {
    let _deadline = Deadline::new();
    let backend = Arc::new(Hooked::default());
    let options = OpenOptions::new().capacity(4000).false_positive_rate(0.2).shards(1);
    let store: Store<_> = open(&options.background_share(0.0), Arc::clone(&backend));
    let store = Arc::new(store);
    store.put_many((0..2000).map(|n| (key(n), b""))).unwrap();
    assert!(mistakes(&store, 10_000..22_000).len() > 500, "more than a rebuild keeps");
    store.sync().unwrap();
    let found = Arc::new(Mutex::new(None));
    let hook = {
        let (store, found) = (Arc::downgrade(&store), Arc::clone(&found));
        let backend = Arc::downgrade(&backend);
        move || {
            // The lookups below scan, too, and call this hook again. Ignore these calls.
            let (Some(store), Ok(mut found)) = (store.upgrade(), found.try_lock()) else { return };
            let Some(backend) = backend.upgrade() else { return };
            if found.is_none() {
                let before = recorded(&*backend);
                let found_now = mistakes(&store, 30_000..33_000);
                store.sync().unwrap();
                let new: Vec<_> = recorded(&*backend).difference(&before).cloned().collect();
                *found = Some((found_now, new));
            }
        }
    };
    assert!(backend.hook.set(Box::new(hook)).is_ok());
    store.rebuild().unwrap();
    let (found, new_records) = found.lock().unwrap().take().unwrap();
    assert!(found.len() > 100 && new_records.len() > 100, "{}", new_records.len());
    assert_eq!(mistakes(&store, found), []);
    let kept = recorded(&*backend);
    assert!(new_records.iter().all(|record| kept.contains(record)), "a record is lost");
    assert_eq!(store.stats().rebuilds, 1);
}

#[test]
fn mistakes_kept_limits_the_number_of_records() {
    for kept in [1, 3, 9] {
        let backend = Arc::new(MemoryBackend::new());
        let options = roomy(Layout::Merged).mistakes_kept(kept);
        let store: Store<_> = open(&options, Arc::clone(&backend));
        store.put_many((0..800).map(|n| (key(n), b""))).unwrap();
        for round in 1..6 {
            let first = round * 10_000;
            assert!(!mistakes(&store, first..first + 1000).is_empty());
            store.sync().unwrap();
            assert!(records(&*backend) <= kept);
            assert_eq!(records(&*backend) as u64, store.stats().mistakes);
        }
        let stats = store.stats();
        assert_eq!(
            (stats.mistakes, stats.mistakes + stats.mistakes_forgotten),
            (kept as u64, stats.repairs)
        );
    }
}

/// A writer that is stuck in the backend holds many stripes. A lookup that finds a mistake there
/// doesn't wait. A later write makes the repair.
#[test]
fn lookup_does_not_wait_for_a_writer() {
    let _deadline = Deadline::new();
    let backend = Arc::new(Watched::default());
    let options = OpenOptions::new().capacity(2000).false_positive_rate(0.5).shards(1);
    let store: Store<_> = open(&options, Arc::clone(&backend));
    store.put_many((0..500).map(|n| (key(n), b""))).unwrap();
    let (stuck, is_stuck) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    let hook = move || {
        let _ = stuck.send(());
        let _ = may_go.lock().unwrap().recv();
    };
    assert!(backend.before_write.set(Box::new(hook)).is_ok());
    let found = thread::scope(|scope| {
        scope.spawn(|| store.put_many((500..700).map(|n| (key(n), b""))).unwrap());
        is_stuck.recv().unwrap();
        // This would hang if lookups waited for the writer.
        let found = mistakes(&store, 1000..1100);
        let stats = store.stats();
        assert!(found.len() > 5 && stats.repairs < found.len() as u64, "{stats:?}");
        assert_eq!((stats.repairs_failed, stats.repairs_skipped), (0, 0));
        // A mistake that waits for its repair isn't queued twice.
        assert_eq!(
            mistakes(&store, found.iter().copied()).len(),
            found.len() - stats.repairs as usize
        );
        go.send(()).unwrap();
        found
    });
    drop(go);
    // Each later write makes a few of the repairs, and so does the background thread.
    while !mistakes(&store, found.iter().copied()).is_empty() {
        store.put(&key(0), b"").unwrap();
    }
}

/// The number of remainder bits that stores have at this rate.
fn remainder_bits(rate: f64) -> i32 {
    let builder = QuotientFilter::builder().false_positive_rate(rate).slots(1024);
    builder.plan().unwrap().remainder_bits.cast_signed()
}

/// Returns the largest number of mistakes that chance allows, if `expected` are expected.
fn at_most(expected: f64) -> usize {
    (expected + 5.0 * expected.sqrt()) as usize
}

/// A rebuilt shard repairs recorded mistakes from the start. It has a trace only of those that its
/// new remainders would have made, so a new member may collide with one of the others, and bring it
/// back.
#[test]
fn recorded_mistakes_come_back_only_if_new_members_collide_with_them() {
    const RATE: f64 = 0.02;
    const MEMBERS: u64 = 40_000;
    let _deadline = Deadline::new();
    for layout in LAYOUTS {
        let options = options(layout).false_positive_rate(RATE).shards(4);
        let store: Store<_> = open(&options, MemoryBackend::new());
        store.put_many((0..MEMBERS).map(|n| (key(n), b""))).unwrap();
        // A rebuilt shard keeps one record per 4 members, which is enough for all of these
        // mistakes.
        let mut found = Vec::new();
        for first in (1 << 40..).step_by(10_000) {
            found.extend(mistakes(&store, first..first + 10_000));
            // Writes the records, and rebuilds shards without room.
            store.tend().unwrap();
            if found.len() > 6000 {
                break;
            }
        }
        // Some repairs were skipped, because a shard had no room. Make room, and repeat them.
        while !mistakes(&store, found.iter().copied()).is_empty() {
            store.tend().unwrap();
        }
        store.sync().unwrap();
        let before = store.stats();
        assert_eq!((before.mistakes_forgotten, before.repairs_failed), (0, 0), "{before:?}");
        let new = MEMBERS * 3 / 10;
        (MEMBERS..MEMBERS + new).for_each(|n| store.put(&key(n), b"").unwrap());
        store.tend().unwrap();
        let stats = store.stats();
        assert!(stats.rebuilds >= before.rebuilds + 4, "it has grown: {stats:?}");
        let again = mistakes(&store, found.iter().copied()).len();
        // A new member brings a mistake back if both its quotient and its remainder are the same by
        // chance.
        let share = new as f64 / MEMBERS as f64 * 0.5_f64.powi(remainder_bits(RATE));
        let most = at_most(found.len() as f64 * share);
        assert!(again <= most, "{again} of {} came back, at most {most}", found.len());
    }
}

/// A crash loses records that weren't written. Then the remainders of the rebuilt shards decide which of the
/// mistakes come back.
#[test]
fn unrecorded_mistakes_seldom_come_back_after_a_crash() {
    const RATE: f64 = 0.02;
    const CRASHES: usize = 20;
    for layout in LAYOUTS {
        let options = options(layout).capacity(4000).false_positive_rate(RATE);
        let backend = Arc::new(MemoryBackend::new());
        let store: Store<_> = open(&options, Arc::clone(&backend));
        store.put_many((0..4000).map(|n| (key(n), b""))).unwrap();
        let recorded = mistakes(&store, 10_000..20_000);
        store.sync().unwrap();
        store.tend().unwrap();
        assert!(recorded.len() > 100 && records(&*backend) >= recorded.len() * 9 / 10);
        let written = records(&*backend);
        // Find these mistakes with a filter that is built at opening, like the filters below.
        let store: Store<_> = open(&options, copy(&*backend));
        let unrecorded = mistakes(&store, 20_000..60_000);
        let stats = store.stats();
        assert!(unrecorded.len() > 300, "{stats:?}");
        assert_eq!(stats.rebuilds, 4, "none was rebuilt since");
        let (mut again, mut expected) = (0, 0.0);
        for _ in 0..CRASHES {
            let store: Store<_> = open(&options, copy(&*backend));
            assert_eq!(store.stats().mistakes, written as u64);
            let chance = (1.0 + store.stats().load) * 0.5_f64.powi(remainder_bits(RATE));
            expected += chance * unrecorded.len() as f64;
            again += mistakes(&store, unrecorded.iter().copied()).len();
        }
        let most = at_most(expected);
        assert!(again <= most, "{again} came back in {CRASHES} crashes, at most {most}");
    }
}
