//! Tests that a lookup writes nothing, rebuilds nothing and never waits, and that no record of a
//! mistake contradicts a member in the backend.

use super::watched::{always, is_repaired};
use crate::common::{Random, copy, copy_files};
use crate::repairs::Watched;
use std::ops::Bound::Unbounded;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use twiceshy_deadline::Deadline;
use twiceshy_store::{Backend, Keyspace, MemoryBackend, OpenOptions, RangeStore};

/// Returns options of a filter that makes many mistakes, and that has room for their repairs.
fn roomy() -> OpenOptions {
    always().capacity(1500).false_positive_rate(0.3)
}

fn open<B: Backend>(options: &OpenOptions, backend: B, files: Option<&Path>) -> RangeStore<u64, B> {
    options.open_ranges_with(backend, files).unwrap()
}

/// Puts members. They are 10 apart.
fn put_members<B: Backend>(store: &RangeStore<u64, B>, members: Range<u64>) {
    store.put_many(members.map(|n| (n * 10, b"1"))).unwrap();
}

/// Returns a range between the members `n` and `n + 1`.
fn between(n: u64) -> Range<u64> {
    n * 10 + 2..n * 10 + 5
}

/// Asks for ranges without members. Returns those that were mistakes.
fn mistakes<B: Backend>(
    store: &RangeStore<u64, B>,
    numbers: impl IntoIterator<Item = u64>,
) -> Vec<u64> {
    let is_mistake = |&n: &u64| {
        let before = store.stats().false_positives;
        assert!(store.range_is_empty(between(n)).unwrap());
        store.stats().false_positives > before
    };
    numbers.into_iter().filter(is_mistake).collect()
}

fn records(backend: &impl Backend) -> u64 {
    backend.range(Keyspace::Mistakes, (Unbounded, Unbounded)).count() as u64
}

#[test]
fn lookups_write_nothing_to_the_backend() {
    let backend = Arc::new(Watched::default());
    let store = open(&roomy(), Arc::clone(&backend), None);
    put_members(&store, 0..500);
    let before = backend.writes.load(SeqCst);
    let found = mistakes(&store, 1000..3000);
    assert!(found.len() > 50, "{}", found.len());
    assert!(found.iter().all(|&n| store.get(n * 10 + 2).unwrap().is_none()));
    assert_eq!((backend.writes.load(SeqCst), records(&*backend)), (before, 0));
    // The records are written without a sync, and only once.
    let mistakes = store.stats().mistakes;
    store.sync().unwrap();
    assert_eq!((backend.writes.load(SeqCst), records(&*backend)), (before + 2, mistakes));
    store.sync().unwrap();
    assert_eq!(backend.writes.load(SeqCst), before + 3);
}

/// A put writes the records near its key in the same batch. If many records are outdated, it also
/// writes the others, a part at a time.
#[test]
fn puts_bring_outdated_records_up_to_date() {
    let backend = Arc::new(Watched::default());
    let store = open(&roomy().capacity(8000), Arc::clone(&backend), None);
    put_members(&store, 0..5000);
    let found = mistakes(&store, 10_000..10_100);
    let before = backend.writes.load(SeqCst);
    store.put(found[0] * 10 + 3, b"2").unwrap();
    assert_eq!(backend.writes.load(SeqCst), before + 1);
    let number = |bytes: &[u8]| u64::from_be_bytes(*bytes.last_chunk().unwrap());
    let written: Vec<_> = backend
        .range(Keyspace::Mistakes, (Unbounded, Unbounded))
        .map(|record| record.unwrap())
        .map(|(first, last)| number(&first)..=number(&last))
        .collect();
    assert!(!written.is_empty() && written.iter().all(|span| !span.contains(&(found[0] * 10 + 3))));
    mistakes(&store, 10_100..30_000);
    let stats = store.stats();
    assert!(stats.mistakes > 1200, "{stats:?}");
    while records(&*backend) + 512 < stats.mistakes {
        let before = records(&*backend);
        store.put(0, b"2").unwrap();
        assert!(records(&*backend) >= before + 512 && records(&*backend) <= before + 1024);
    }
}

/// The filter is full of repairs. The next write makes room.
#[test]
fn lookups_never_rebuild_the_filter() {
    for makes_room in [
        (|store| assert!(!store.delete(u64::MAX).unwrap())) as fn(&RangeStore<u64, _>),
        |store| store.put(0, b"2").unwrap(),
        |store| store.rebuild().unwrap(),
    ] {
        let backend = Arc::new(Watched::default());
        let store = open(&roomy().capacity(100), Arc::clone(&backend), None);
        put_members(&store, 0..80);
        let (writes, before) = (backend.writes.load(SeqCst), store.stats());
        mistakes(&store, 1000..5000);
        let full = store.stats();
        assert!(full.repairs > 10 && full.repairs_skipped > 10, "{full:?}");
        assert_eq!((full.rebuilds, full.filter_bytes), (before.rebuilds, before.filter_bytes));
        assert_eq!((full.repairs_failed, full.shards_due), (0, 1));
        assert_eq!(backend.writes.load(SeqCst), writes);
        store.validate().unwrap();
        makes_room(&store);
        let roomy = store.stats();
        assert!(roomy.rebuilds > full.rebuilds && roomy.shards_due == 0, "{roomy:?}");
        assert!(roomy.load <= 0.8, "{roomy:?}");
        let is_repaired = |&n: &u64| is_repaired(&store, between(n));
        let repaired: Vec<u64> = (5000..8000).filter(is_repaired).collect();
        assert!(repaired.len() > 5, "{}", repaired.len());
        assert_eq!(mistakes(&store, repaired), []);
        store.validate().unwrap();
    }
}

/// Forgotten mistakes take no room once the filter is rebuilt.
#[test]
fn filter_does_not_grow_under_endless_distinct_queries() {
    let store = open(&roomy().capacity(300).mistakes_kept(30), MemoryBackend::new(), None);
    put_members(&store, 0..150);
    let bytes = store.stats().filter_bytes;
    for round in 0..40 {
        mistakes(&store, (1 << 20) + round * 5000..(1 << 20) + (round + 1) * 5000);
        store.put(0, b"2").unwrap();
    }
    let stats = store.stats();
    assert!(stats.rebuilds > 5 && stats.mistakes_forgotten > 1000, "{stats:?}");
    assert_eq!(stats.filter_bytes, bytes);
    assert!((0..150).all(|n| store.contains(n * 10).unwrap()));
}

/// Mistakes only make the saved filter outdated. It stays valid after a kill.
#[test]
fn saved_filter_stays_valid_after_mistakes_and_a_kill() {
    let (backend, files) = (Arc::new(MemoryBackend::new()), tempfile::tempdir().unwrap());
    let reopen = || open(&roomy(), Arc::clone(&backend), Some(files.path()));
    let store = reopen();
    put_members(&store, 0..500);
    store.close().unwrap();
    let store = reopen();
    let found = mistakes(&store, 1000..3000);
    assert!(found.len() > 50, "{}", found.len());
    let kept = store.stats().mistakes;
    for is_flushed in [false, true] {
        if is_flushed {
            store.sync().unwrap();
        }
        let killed = copy_files(files.path());
        let store = open(&roomy(), copy(&*backend), Some(killed.path()));
        assert_eq!(store.stats().rebuilds, 0, "the filter was saved");
        assert_eq!(store.stats().mistakes, if is_flushed { kept } else { 0 });
        assert!((0..500).all(|n| store.contains(n * 10).unwrap()));
        // The repairs are lost, and the mistakes are repaired again. Then the repairs stay.
        assert_eq!(mistakes(&store, found.iter().copied()), found);
        assert_eq!(mistakes(&store, found.iter().copied()), []);
        assert_eq!(store.stats().mistakes, kept);
        store.validate().unwrap();
    }
    // Closing saves the filter again.
    store.close().unwrap();
    let store = reopen();
    assert_eq!(mistakes(&store, found.iter().copied()), []);
    assert_eq!(store.stats().rebuilds, 0);
    // A write of a member invalidates the saved filter.
    store.put(0, b"2").unwrap();
    let killed = copy_files(files.path());
    let store = open(&roomy(), copy(&*backend), Some(killed.path()));
    assert_eq!(store.stats().rebuilds, 1);
    assert_eq!(mistakes(&store, found), [], "a rebuild repairs recorded mistakes");
}

/// A writer that is stuck in the backend holds many stripes. A lookup that finds a mistake there
/// doesn't wait.
#[test]
fn lookup_does_not_wait_for_a_writer() {
    let _deadline = Deadline::new();
    let backend = Arc::new(Watched::default());
    let store = open(&roomy(), Arc::clone(&backend), None);
    put_members(&store, 0..500);
    let (stuck, is_stuck) = channel();
    let (go, may_go) = channel::<()>();
    let may_go = Mutex::new(may_go);
    let hook = move || {
        let _ = stuck.send(());
        let _ = may_go.lock().unwrap().recv();
    };
    assert!(backend.before_write.set(Box::new(hook)).is_ok());
    let found = thread::scope(|scope| {
        scope.spawn(|| put_members(&store, 500..900));
        is_stuck.recv().unwrap();
        // This would hang if lookups waited for the writer.
        let found = mistakes(&store, 1000..1500);
        let stats = store.stats();
        assert!(stats.repairs_skipped > 5 && stats.repairs_failed == 0, "{stats:?}");
        go.send(()).unwrap();
        found
    });
    drop(go);
    mistakes(&store, found.iter().copied());
    assert_eq!(mistakes(&store, found), []);
}

/// A crash loses the last writes, so at each write, the records in the backend must not contradict
/// the keys in the backend.
#[test]
fn no_record_contradicts_a_member_after_a_crash_at_any_write() {
    const KEYS: u64 = 2000;
    for kept in [6, 1000] {
        let backend = Arc::new(Watched::default());
        let check = |backend: &MemoryBackend| {
            let number = |bytes: &[u8]| u64::from_be_bytes(*bytes.last_chunk().unwrap());
            let pairs = |space| backend.range(space, (Unbounded, Unbounded)).map(Result::unwrap);
            let keys: std::collections::BTreeSet<u64> =
                pairs(Keyspace::Keys).map(|(key, _)| number(&key)).collect();
            for (first, last) in pairs(Keyspace::Mistakes) {
                let span = number(&first)..=number(&last);
                assert_eq!(keys.range(span.clone()).next(), None, "{span:?}");
            }
        };
        let hooked = Arc::downgrade(&backend);
        let hook = move || {
            // After a failed check, closing the store writes again. A second panic would abort the
            // test.
            if !thread::panicking() {
                check(&hooked.upgrade().unwrap().inner);
            }
        };
        assert!(backend.before_write.set(Box::new(hook)).is_ok());
        let options = always().longest_range(8).capacity(50).mistakes_kept(kept);
        let store = open(&options, Arc::clone(&backend), None);
        let mut random = Random(5);
        for _ in 0..6000 {
            let key = random.below(KEYS);
            match random.below(40) {
                0..2 => store.put(key, b"1").unwrap(),
                2 => store.put_many((0..3).map(|n| ((key + n * 7) % KEYS, b"1"))).unwrap(),
                3..14 => drop(store.delete(key).unwrap()),
                14 => store.sync().unwrap(),
                15 => store.rebuild().unwrap(),
                _ => drop(store.range_is_empty(key..key + 1 + random.below(12)).unwrap()),
            }
        }
        let stats = store.stats();
        assert!(stats.repairs > 50, "{stats:?}");
        assert!(kept > 6 || stats.mistakes_forgotten > 100, "{stats:?}");
        store.sync().unwrap();
        check(&backend.inner);
        assert_eq!(records(&backend.inner), stats.mistakes);
    }
}

#[test]
fn statistics_report_the_rate_and_all_memory() {
    let store = open(&roomy(), MemoryBackend::new(), None);
    let empty = store.stats();
    assert_eq!((empty.expected_rate, empty.list_bytes, empty.rebuilds), (0.0, 0, 0));
    assert!(empty.upkeep_bytes > 512 * 50, "the stripes");
    put_members(&store, 0..700);
    let half = store.stats().expected_rate;
    put_members(&store, 700..1400);
    let stats = store.stats();
    assert!(stats.expected_rate > 1.5 * half && stats.expected_rate <= 0.3, "{stats:?}");
    mistakes(&store, 1_000_000..1_000_500);
    let kept = store.stats();
    let per_mistake = kept.list_bytes / kept.mistakes;
    assert!(kept.mistakes > 10 && (100..130).contains(&per_mistake), "{kept:?}");
    store.sync().unwrap();
    let written = store.stats();
    assert_eq!(written.list_bytes / written.mistakes, 72);
    assert!(written.memory() > written.filter_bytes + written.list_bytes);
    store.rebuild().unwrap();
    assert_eq!((store.stats().rebuilds, store.stats().rebuild_bytes), (1, 0));
}
