//! Tests with many threads, and with a filter that is built while it is in use.

use crate::common::{LAYOUTS, Random, options};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use twiceshy::{QuotientFilter, TelescopingFilter, concurrent::Shard};
use twiceshy_deadline::Deadline;
use twiceshy_store::backend::{BackendClaim, Bounds, Result, Scan};
use twiceshy_store::{
    Backend, BackendError, Batch, Bytes, Durability, Keyspace, Layout, MemoryBackend, OpenOptions,
    Stats, Store, StoreError,
};

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Returns how long to run each layout: `TWICESHY_THREAD_SECONDS` seconds, or 1.5 seconds by default.
fn minute() -> Duration {
    let seconds = std::env::var("TWICESHY_THREAD_SECONDS").ok();
    seconds.map_or(Duration::from_millis(1500), |seconds| {
        Duration::from_secs(seconds.parse().expect("a number of seconds"))
    })
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Uses keys that are always present and get ever larger values, keys that one thread writes, keys that all
/// threads write, and new keys. The filter grows, and is rebuilt all the time.
fn run_threads_and_check_values<F: Shard>() -> Vec<Stats> {
    const THREADS: u64 = 8;
    const FEW: u64 = 24;
    let each_layout = LAYOUTS.map(|layout| {
        let _deadline = Deadline::beyond(minute());
        let backend = Arc::new(MemoryBackend::new());
        let store: Store<_, F> = options(layout).open_with(backend, None).unwrap();
        (0..FEW).for_each(|n| store.put(&key(n), &key(0)).unwrap());
        let end = Instant::now() + minute();
        let is_over = || Instant::now() > end;
        let grown = AtomicU64::new(0);
        let last: Vec<Vec<Option<Option<u64>>>> = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over() {
                    store.rebuild().unwrap();
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let work = |me: u64| {
                let (store, grown) = (&store, &grown);
                move || {
                    let mut random = Random(me);
                    let mut last = vec![None; FEW as usize];
                    let mut own = vec![None; FEW as usize];
                    let mut seen = vec![0; FEW as usize];
                    let mut time = 0;
                    while !is_over() {
                        time += 1;
                        let n = random.below(FEW);
                        let value = key(time << 8 | me);
                        // Use a key that is always present. One thread writes it, and all threads read it.
                        let found =
                            store.get(&key(n)).unwrap().expect("this key is always present");
                        assert!(number(&found) >= seen[n as usize], "an update was lost");
                        seen[n as usize] = number(&found);
                        if n % THREADS == me {
                            store.put(&key(n), &key(number(&found) + 1)).unwrap();
                        }
                        // Use a key that only this thread writes.
                        let mine = 1000 * (me + 1) + n;
                        let found = store.get(&key(mine)).unwrap().map(|value| number(&value));
                        assert_eq!(found, own[n as usize]);
                        own[n as usize] = if random.below(2) == 0 {
                            assert_eq!(store.delete(&key(mine)).unwrap(), found.is_some());
                            None
                        } else {
                            store.put(&key(mine), &value).unwrap();
                            Some(number(&value))
                        };
                        // Use a key that all threads write.
                        if random.below(2) == 0 {
                            store.delete(&key(100 + n)).unwrap();
                            last[n as usize] = Some(None);
                        } else {
                            store.put(&key(100 + n), &value).unwrap();
                            last[n as usize] = Some(Some(number(&value)));
                        }
                        // Look up an absent key, and put a new one.
                        assert_eq!(store.get(&key(1 << 40 | random.below(5000))).unwrap(), None);
                        if grown.load(SeqCst) < 20_000 {
                            let new = 1 << 50 | grown.fetch_add(1, SeqCst);
                            store.put(&key(new), &key(new)).unwrap();
                            assert!(store.contains(&key(new)).unwrap());
                        }
                    }
                    last
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(work(me))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for n in 0..FEW as usize {
            let found = store.get(&key(100 + n as u64)).unwrap().map(|value| number(&value));
            let mut possible = last.iter().filter_map(|last| last[n]);
            assert!(
                possible.any(|last| last == found) || found.is_none(),
                "no thread wrote {found:?} last"
            );
        }
        for n in 0..grown.load(SeqCst) {
            assert!(store.contains(&key(1 << 50 | n)).unwrap());
        }
        let pairs: Vec<_> = store.iter().map(|pair| pair.unwrap().0).collect();
        assert!(pairs.iter().all(|key| store.contains(key).unwrap()));
        let stats = store.stats();
        let ghosts = stats.members - pairs.len() as u64;
        assert!(ghosts <= stats.ghosts_left, "{layout:?}: {stats:?}");
        stats
    });
    each_layout.into()
}

#[test]
fn threads_lose_no_write() {
    for stats in run_threads_and_check_values::<QuotientFilter>() {
        // If there is no room for a tombstone, a removed member stays as a ghost until a rebuild.
        // That doesn't count as a failed repair.
        assert_eq!(stats.repairs_failed, 0);
    }
}

#[test]
fn threads_lose_no_write_with_a_telescoping_filter() {
    run_threads_and_check_values::<TelescopingFilter>();
}

/// Writes make repaired mistakes collide again, and repair them immediately. No concurrent lookup may read the
/// backend for them.
#[test]
fn no_mistake_is_repeated_while_members_are_removed_and_inserted() {
    let _deadline = Deadline::new();
    // There is room for all members, repairs and tombstones, so that no shard is rebuilt.
    let options = options(Layout::Merged).capacity(2000);
    let mut store: Store<_> = options.open_with(MemoryBackend::new(), None).unwrap();
    store.wait_until_ready().unwrap();
    let members = 0..200;
    members.clone().for_each(|n| store.put(&key(n), b"").unwrap());
    let visits = || {
        let stats = store.stats();
        stats.lookups - stats.answered_from_memory - stats.true_positives
    };
    let mut is_mistake = |n: &u64| {
        let before = visits();
        assert!(!store.contains(&key(*n)).unwrap());
        visits() > before
    };
    let mistakes: Vec<u64> = (1000..6000).filter(&mut is_mistake).collect();
    let (repairs, before) = (store.stats().repairs, visits());
    assert!(mistakes.len() > 10 && repairs == before);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    assert!(mistakes.iter().all(|&n| !store.contains(&key(n)).unwrap()));
                }
            });
        }
        for _ in 0..40 {
            members.clone().for_each(|n| assert!(store.delete(&key(n)).unwrap()));
            members.clone().for_each(|n| store.put(&key(n), b"").unwrap());
        }
        is_over.store(true, SeqCst);
    });
    assert!(store.stats().repairs > repairs, "no mistake collided again");
    assert_eq!((visits(), store.stats().rebuilds), (before, 0));
}

/// Kinds of backend operations that can be stopped after they are done and before they return.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Done {
    Get,
    Scan,
    Write,
}

type Hook = Box<dyn FnOnce() + Send>;

/// A backend that calls a hook once, before an operation returns.
#[derive(Default)]
struct Hooked {
    inner: MemoryBackend,
    hook: Mutex<Option<(Done, Hook)>>,
}

impl Hooked {
    fn done(&self, done: Done) {
        let mut hook = self.hook.lock().unwrap();
        if hook.as_ref().is_some_and(|(at, _)| *at == done) {
            let (_, act) = hook.take().unwrap();
            drop(hook);
            act();
        }
    }
}

impl Backend for Hooked {
    fn claim(&self) -> Result<BackendClaim> {
        self.inner.claim()
    }

    fn get(&self, space: Keyspace, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.inner.get(space, key);
        self.done(Done::Get);
        value
    }

    fn range(&self, space: Keyspace, bounds: Bounds<'_>) -> Scan<'_> {
        let pairs: Vec<_> = self.inner.range(space, bounds).collect();
        self.done(Done::Scan);
        Box::new(pairs.into_iter())
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        let written = self.inner.write(batch, durability);
        self.done(Done::Write);
        written
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn bytes_on_disk(&self) -> Result<u64> {
        Ok(0)
    }

    fn backup(&self, to: &Path) -> Result<()> {
        self.inner.backup(to)
    }
}

/// Stops one operation in the middle until another operation is done, or has waited for a while.
fn interleave(
    layout: Layout,
    at: Done,
    one: impl Fn(&Store<Arc<Hooked>>) + Sync,
    other: impl Fn(&Store<Arc<Hooked>>) + Sync,
) -> Store<Arc<Hooked>> {
    let _deadline = Deadline::new();
    let backend = Arc::new(Hooked::default());
    let mut store: Store<_> = options(layout).open_with(Arc::clone(&backend), None).unwrap();
    store.wait_until_ready().unwrap();
    (0..40).for_each(|n| store.put(&key(n), b"old").unwrap());
    let (stopped, is_stopped) = channel();
    let (done, is_done) = channel();
    let hook = move || {
        stopped.send(()).unwrap();
        let _ = is_done.recv_timeout(Duration::from_millis(100));
    };
    *backend.hook.lock().unwrap() = Some((at, Box::new(hook)));
    thread::scope(|scope| {
        scope.spawn(|| one(&store));
        // If `one` never reaches the hook, there is nothing to interleave with.
        let _ = is_stopped.recv_timeout(Duration::from_millis(200));
        other(&store);
        let _ = done.send(());
    });
    store
}

#[test]
fn concurrent_put_and_delete_of_one_key_lose_no_member() {
    let put = |store: &Store<_>| store.put(&key(7), b"new").unwrap();
    let delete = |store: &Store<_>| assert!(store.delete(&key(7)).unwrap());
    let check = |store: &Store<Arc<Hooked>>| {
        let pairs: Vec<_> = store.iter().map(Result::<_, _>::unwrap).collect();
        for (key, value) in &pairs {
            assert_eq!(store.get(key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(store.stats().members, pairs.len() as u64);
    };
    for layout in LAYOUTS {
        for at in [Done::Get, Done::Write] {
            let store = interleave(layout, at, delete, put);
            check(&store);
            assert_eq!(store.get(&key(7)).unwrap().as_deref(), Some(&b"new"[..]));
            let store = interleave(layout, at, put, delete);
            check(&store);
            assert_eq!(store.get(&key(7)).unwrap(), None);
        }
    }
}

/// The member that caused a mistake is removed between the lookup and the repair, so there is nothing to
/// repair. When it is put again, the mistake recurs once, and its repair then stays.
#[test]
fn mistake_is_repaired_when_the_member_that_causes_it_returns() {
    let backend = Arc::new(Hooked::default());
    let store: Arc<Store<_>> =
        Arc::new(options(Layout::Merged).open_with(Arc::clone(&backend), None).unwrap());
    store.put(b"member", b"").unwrap();
    let visits = || store.stats().lookups - store.stats().answered_from_memory;
    let is_mistake = |n: &u64| {
        let also = Arc::clone(&store);
        let act: Hook = Box::new(move || assert!(also.delete(b"member").unwrap()));
        *backend.hook.lock().unwrap() = Some((Done::Get, act));
        let before = visits();
        assert!(!store.contains(&key(*n)).unwrap());
        visits() > before
    };
    let mistake = (0..10_000).find(is_mistake).expect("a bad filter");
    *backend.hook.lock().unwrap() = None;
    assert_eq!((store.stats().mistakes, store.stats().repairs), (0, 0));
    store.put(b"member", b"").unwrap();
    let before = visits();
    for _ in 0..3 {
        assert!(!store.contains(&key(mistake)).unwrap());
        assert!(store.delete(b"member").unwrap());
        assert!(!store.contains(&key(mistake)).unwrap());
        store.put(b"member", b"").unwrap();
    }
    assert_eq!((store.stats().mistakes, store.stats().repairs_failed), (1, 0));
    // The three deletes also read the backend.
    assert_eq!(visits(), before + 1 + 3);
}

/// The progress callback may be the last owner of the store.
#[test]
fn thread_that_builds_the_filter_can_drop_the_store() {
    let _deadline = Deadline::new();
    let backend = Arc::new(MemoryBackend::new());
    let open = |options: OpenOptions| -> Store<_> {
        loop {
            // The thread that builds the filter owns the backend until its work ends, so try again.
            match options.open_with(Arc::clone(&backend), None) {
                Err(StoreError::Backend(BackendError::Claimed)) => thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    };
    open(options(Layout::Merged)).put(b"member", b"").unwrap();
    let (give, given) = channel::<Store<_>>();
    let (done, is_done) = channel();
    let given = Mutex::new(given);
    let store = open(options(Layout::Merged).on_progress(move |progress| {
        if progress.ready == 1 {
            drop(given.lock().unwrap().recv().unwrap());
            done.send(()).unwrap();
        }
    }));
    give.send(store).unwrap();
    is_done.recv().unwrap();
    assert!(open(options(Layout::Merged)).contains(b"member").unwrap());
}

#[test]
fn waiting_in_the_progress_callback_is_refused() {
    let _deadline = Deadline::new();
    let backend = Arc::new(MemoryBackend::new());
    let open = |options: OpenOptions| -> Store<_> {
        options.open_with(Arc::clone(&backend), None).unwrap()
    };
    open(options(Layout::Merged)).put(b"member", b"").unwrap();
    let (give, given) = channel::<Store<_>>();
    let (give_back, given_back) = channel();
    let given = Mutex::new(given);
    let store = open(options(Layout::Merged).on_progress(move |progress| {
        if progress.ready == 1 {
            let mut store = given.lock().unwrap().recv().unwrap();
            let waited = store.wait_until_ready();
            give_back.send((store, waited)).unwrap();
        }
    }));
    give.send(store).unwrap();
    let (mut store, waited) = given_back.recv().unwrap();
    assert!(matches!(waited, Err(StoreError::Unready)), "{waited:?}");
    store.wait_until_ready().unwrap();
    assert!(store.contains(b"member").unwrap());
}

#[test]
fn progress_callback_can_close_another_store() {
    let _deadline = Deadline::new();
    let [backend, other] = [(); 2].map(|()| Arc::new(MemoryBackend::new()));
    let open = |backend: &Arc<MemoryBackend>, options: OpenOptions| -> Store<_> {
        options.open_with(Arc::clone(backend), None).unwrap()
    };
    for backend in [&backend, &other] {
        let store = open(backend, options(Layout::Merged));
        store.put_many((0..2000).map(|number| (key(number), b""))).unwrap();
    }
    let (done, is_done) = channel();
    let inside = Arc::clone(&other);
    let store = open(
        &backend,
        options(Layout::Merged).on_progress(move |progress| {
            if progress.ready == 1 {
                let open = || -> Store<_> {
                    options(Layout::Merged).open_with(Arc::clone(&inside), None).unwrap()
                };
                open().close().unwrap();
                // Closing waited for the threads that own the backend.
                done.send(open().contains(&key(7)).unwrap()).unwrap();
            }
        }),
    );
    assert!(is_done.recv().unwrap());
    store.close().unwrap();
}

#[test]
fn members_replaced_during_a_repair_are_answered_correctly() {
    for layout in LAYOUTS {
        // Look up absent keys until one is a mistake. Members are replaced while its suspects are listed.
        let ask = |store: &Store<_>| {
            for n in 1000..1200 {
                assert_eq!(store.get(&key(n)).unwrap(), None);
            }
        };
        let replace = |store: &Store<_>| {
            for n in 0..40 {
                assert!(store.delete(&key(n)).unwrap());
                store.put(&key(100 + n), b"new").unwrap();
            }
        };
        for at in [Done::Get, Done::Scan, Done::Write] {
            let store = interleave(layout, at, ask, replace);
            for n in 100..140 {
                assert_eq!(store.get(&key(n)).unwrap().as_deref(), Some(&b"new"[..]));
            }
            assert!((0..40).all(|n| store.get(&key(n)).unwrap().is_none()));
            let stats = store.stats();
            assert!(stats.repairs > 0);
            assert_eq!((stats.members, stats.repairs_failed), (40, 0));
        }
    }
}

/// Reads and writes while some shards are ready and others are not.
#[test]
fn reads_and_writes_work_while_the_filter_is_built() {
    let _deadline = Deadline::new();
    for layout in LAYOUTS {
        let backend = Arc::new(MemoryBackend::new());
        let mut store: Store<_> = options(layout)
            .shards(32)
            .capacity(1000)
            .open_with(Arc::clone(&backend), None)
            .unwrap();
        store.wait_until_ready().unwrap();
        (0..300).for_each(|n| store.put(&key(n), b"old").unwrap());
        let is_mistake = |store: &Store<_>, n| {
            let before = store.stats();
            assert_eq!(store.get(&key(n)).unwrap(), None);
            store.stats().false_positives > before.false_positives
        };
        // The filter has room for all repairs, so each of these mistakes is repaired.
        let mistakes: Vec<u64> = (350..600).filter(|&n| is_mistake(&store, n)).collect();
        assert!(!mistakes.is_empty());
        drop(store);
        for ready in [1, 8, 27] {
            let (reached, is_reached) = channel();
            let (go, may_go) = channel();
            let may_go = Mutex::new(may_go);
            let options = options(layout).shards(32).capacity(1000).on_progress(move |progress| {
                if progress.ready == ready {
                    reached.send(()).unwrap();
                    may_go.lock().unwrap().recv().unwrap();
                }
            });
            let mut store: Store<_> = options.open_with(Arc::clone(&backend), None).unwrap();
            is_reached.recv().unwrap();
            let is_possible = match layout {
                // Each other thread finishes at most its current shard.
                Layout::Merged => ready..ready + 4,
                // No shard is trusted before the listing of members is known to be complete.
                Layout::Split => 0..1,
            };
            assert!(is_possible.contains(&store.stats().shards_ready));
            (0..300).for_each(|n| assert!(store.contains(&key(n)).unwrap()));
            (300..600).for_each(|n| assert_eq!(store.get(&key(n)).unwrap(), None));
            let keys: Vec<_> = (0..600).map(key).collect();
            let values = store.get_many(&keys).unwrap();
            assert!((0..600).all(|n| values[n].is_some() == (n < 300)));
            // Delete keys, put some of them again, overwrite others, and put new ones after looking them up.
            (0..100).for_each(|n| assert!(store.delete(&key(n)).unwrap()));
            (0..50).for_each(|n| assert!(!store.delete(&key(n)).unwrap()));
            (50..200).for_each(|n| store.put(&key(n), b"new").unwrap());
            (300..350).for_each(|n| store.put(&key(n), b"new").unwrap());
            let check = |store: &Store<_>| {
                for n in 0..600 {
                    let expected = match n {
                        50..200 | 300..350 => Some(&b"new"[..]),
                        200..300 => Some(&b"old"[..]),
                        _ => None,
                    };
                    assert_eq!(store.get(&key(n)).unwrap().as_deref(), expected, "{n}");
                }
            };
            check(&store);
            go.send(()).unwrap();
            store.wait_until_ready().unwrap();
            // The new filter has repaired all of these mistakes from the start. Only new members
            // can have brought some of them back.
            let gets = || {
                let before = store.stats().backend_gets;
                for &n in &mistakes {
                    assert_eq!(store.get(&key(n)).unwrap(), None);
                }
                store.stats().backend_gets - before
            };
            assert!(gets() < mistakes.len() as u64 / 2);
            assert_eq!(gets(), 0, "a mistake recurs");
            check(&store);
            assert_eq!(store.stats().members, 300);
            // Restore the original pairs.
            (0..300).for_each(|n| store.put(&key(n), b"old").unwrap());
            (300..350).for_each(|n| assert!(store.delete(&key(n)).unwrap()));
            (300..350).for_each(|n| assert_eq!(store.get(&key(n)).unwrap(), None));
        }
    }
}

/// A shard may become ready after the filter has answered, but before the store checks whether it
/// is ready.
#[test]
fn answer_of_an_unready_shard_is_not_used() {
    let _deadline = Deadline::new();
    let keys: Vec<_> = (0..200).map(key).collect();
    let backend = Arc::new(MemoryBackend::new());
    let store: Store<_> = options(Layout::Merged).open_with(Arc::clone(&backend), None).unwrap();
    for key in &keys {
        store.put(key, b"there").unwrap();
    }
    drop(store);
    for _ in 0..200 {
        // Without a directory, each opening builds the filter in the background.
        let store: Store<_> =
            options(Layout::Merged).open_with(Arc::clone(&backend), None).unwrap();
        loop {
            let stats = store.stats();
            assert!(store.get_many(&keys).unwrap().iter().all(Option::is_some));
            if stats.shards_ready == stats.shards {
                break;
            }
        }
    }
}

#[test]
fn filter_can_grow_while_it_is_repaired() {
    let mut store: Store<_> =
        options(Layout::Merged).open_with(MemoryBackend::new(), None).unwrap();
    store.wait_until_ready().unwrap();
    for n in 0..2000 {
        store.put(&key(n), b"").unwrap();
        (0..4).for_each(|m| assert!(!store.contains(&key(1 << 40 | n << 2 | m)).unwrap()));
    }
    assert!((0..2000).all(|n| store.contains(&key(n)).unwrap()));
    let stats = store.stats();
    assert_eq!((stats.repairs_failed, stats.repeated_false_positives), (0, 0));
    assert!(stats.repairs > 100);
}
