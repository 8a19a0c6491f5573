//! Tests of failures that can't be caused through a store's public functions.

mod rebuilds;

use super::*;
use crate::error::StoreError;
use crate::sizing::Sizing;
use std::collections::BTreeSet;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use twiceshy::{QuotientFilter, TelescopingFilter};
use twiceshy_deadline::Deadline;

type Hook<T> = OnceLock<Box<dyn Fn(&T) + Send + Sync>>;

/// A database in memory, which may keep records of mistakes.
#[derive(Default)]
struct Members<const RECORDS: bool = false> {
    keys: Mutex<BTreeSet<Hash>>,
    records: Mutex<BTreeSet<Hash>>,
    /// Whether listings fail.
    fails: AtomicBool,
    /// Called with the interval before its members are listed.
    before_listing: Hook<RangeInclusive<Hash>>,
    /// Called with the listed members before they are returned.
    after_listing: Hook<Vec<Hash>>,
    /// Called when a rebuild asks for the keys in doubt in an interval. It holds the lock of the writes.
    on_doubts: Hook<RangeInclusive<Hash>>,
}

fn call<T>(hook: &Hook<T>, argument: &T) {
    if let Some(hook) = hook.get() {
        hook(argument);
    }
}

fn set<T>(hook: &Hook<T>, new: impl Fn(&T) + Send + Sync + 'static) {
    assert!(hook.set(Box::new(new)).is_ok());
}

impl<const RECORDS: bool> MemberSource for Members<RECORDS> {
    type Member = Hash;
    type Error = StoreError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>, StoreError> {
        call(&self.before_listing, &hashes);
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::Unready);
        }
        let listed = self.keys.lock().unwrap().range(hashes).copied().collect();
        call(&self.after_listing, &listed);
        Ok(listed)
    }
}

impl<const RECORDS: bool> Source for Members<RECORDS> {
    const KEEPS_RECORDS: bool = RECORDS;

    fn recorded(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = Result<Hash, StoreError>> {
        let records: Vec<Hash> =
            self.records.lock().unwrap().range(hashes.clone()).copied().collect();
        records.into_iter().map(Ok)
    }

    fn is_recorded(&self, hash: Hash) -> Result<bool, StoreError> {
        Ok(self.records.lock().unwrap().contains(&hash))
    }

    fn write_records(&self, new: &[Hash], forgotten: &[Hash]) -> Result<(), StoreError> {
        let mut records = self.records.lock().unwrap();
        records.extend(new);
        records.retain(|record| !forgotten.contains(record));
        Ok(())
    }

    fn doubt(&self, _: Hash) -> Doubt {
        Doubt::None
    }

    fn doubts(&self, hashes: &RangeInclusive<Hash>) -> Vec<Hash> {
        call(&self.on_doubts, hashes);
        Vec::new()
    }
}

const FOUND: Policy = Policy::Found { repaired: true, kept: None };

/// A filter with four shards.
fn maintained<F: Shard>(capacity: usize, policy: Policy) -> MaintainedFilter<F> {
    let sizing = Sizing { capacity, shards: 4, false_positive_rate: 0.05, ..Sizing::default() };
    let filter = sizing.build_empty().unwrap();
    let bits = sizing.remainder_bits::<F>().unwrap();
    let sizes = sizing.shard_sizes::<F>(filter.shards(), bits);
    MaintainedFilter::new(filter, true, sizes, policy)
}

fn hash(number: u128) -> Hash {
    Hash::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Returns endless hashes that belong to a shard.
fn hashes_of<F: Shard>(
    filter: &MaintainedFilter<F>,
    shard: usize,
    first: u128,
) -> impl Iterator<Item = Hash> {
    (first..).map(hash).filter(move |&hash| filter.filter.shard_of(hash) == shard)
}

/// Writes keys in one batch.
fn put_all<F: Shard, const RECORDS: bool>(
    filter: &MaintainedFilter<F>,
    members: &Members<RECORDS>,
    hashes: &[Hash],
) {
    let is_there = |at: usize| Ok(members.keys.lock().unwrap().contains(&hashes[at]));
    let written = filter.write(
        members,
        hashes,
        is_there,
        |_| Ok(()),
        |_| {
            members.keys.lock().unwrap().extend(hashes);
            Ok(())
        },
    );
    written.unwrap();
}

fn put<F: Shard, const RECORDS: bool>(
    filter: &MaintainedFilter<F>,
    members: &Members<RECORDS>,
    hash: Hash,
) {
    put_all(filter, members, &[hash]);
}

fn is_found<F: Shard, const RECORDS: bool>(
    filter: &MaintainedFilter<F>,
    members: &Members<RECORDS>,
    hash: Hash,
) -> bool {
    let look_up =
        || Ok::<_, StoreError>(members.keys.lock().unwrap().contains(&hash).then_some(()));
    filter.get(members, hash, look_up).unwrap().is_some()
}

/// Panics during a change of a hash's shard: the source panics while a rebuild holds the lock.
fn panic_while_changing(filter: &MaintainedFilter<QuotientFilter>, members: &Members, hash: Hash) {
    set(&members.on_doubts, |_| std::panic::resume_unwind(Box::new("a bug")));
    let shard = filter.filter.shard_of(hash);
    let rebuild = || filter.rebuild_shard(members, shard, 0).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(rebuild)).is_err());
}

/// Returns a copy of the database without its hooks.
fn healed(members: &Members) -> Members {
    Members { keys: Mutex::new(members.keys.lock().unwrap().clone()), ..Members::default() }
}

#[test]
fn shard_answers_maybe_from_a_panic_in_its_change_until_it_is_rebuilt() {
    let (filter, members) = (maintained(100, FOUND), Members::<false>::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    panic_while_changing(&filter, &members, hash(7));
    let members = healed(&members);
    let stats = filter.stats();
    assert_eq!((stats.shards_ready, stats.shards_due), (3, 1), "no writer has come since");
    let shard = filter.filter.shard_of(hash(7));
    let new = hashes_of(&filter, shard, 100).next().unwrap();
    let looked_up = filter.get(&members, new, || Ok::<_, StoreError>(Some(())));
    assert_eq!(looked_up.unwrap(), Some(()), "the database was asked");
    put(&filter, &members, new);
    assert!(filter.is_exact() && filter.filter.contains(new));
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

#[test]
fn list_answers_exactly_after_a_panic_in_a_shard() {
    let policy = Policy::Listed { rate: 0.05 };
    let (filter, members) = (maintained(100, policy), Members::<false>::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    let listed: Vec<Hash> = (1000..1100).map(hash).collect();
    let list = |mistakes: &[Hash]| {
        filter.list_mistakes(&members, mistakes, |_| Ok(()), |_| Ok(())).unwrap()
    };
    assert_eq!(list(&listed), 100);
    panic_while_changing(&filter, &members, hash(7));
    assert_eq!(filter.stats().shards_ready, 3);
    let check = |numbers: std::ops::Range<u128>, expected: bool| {
        let hashes: Vec<Hash> = numbers.map(hash).collect();
        assert!(hashes.iter().all(|&hash| filter.answer(hash) == expected));
        let mut answers = Vec::new();
        filter.answer_many(&hashes, &mut answers);
        assert_eq!(answers, vec![expected; hashes.len()]);
    };
    check(0..50, true);
    check(1000..1100, false);
    let shard = filter.filter.shard_of(hash(7));
    let unlisted: Vec<Hash> = hashes_of(&filter, shard, 2000).take(50).collect();
    assert!(unlisted.iter().all(|&hash| filter.answer(hash)));
    // The next change rebuilds the shard first.
    let members = healed(&members);
    let more: Vec<Hash> = hashes_of(&filter, shard, 1100).take(5).collect();
    filter.list_mistakes(&members, &more, |_| Ok(()), |_| Ok(())).unwrap();
    assert_eq!(filter.stats().shards_ready, 4);
    assert!(more.iter().all(|&mistake| !filter.answer(mistake)));
    check(0..50, true);
    check(1000..1100, false);
}

#[test]
fn list_rebuilds_a_distrusted_shard_before_the_next_insert() {
    let policy = Policy::Listed { rate: 0.001 };
    let (filter, members) = (maintained(100, policy), Members::<false>::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    panic_while_changing(&filter, &members, hash(7));
    let members = healed(&members);
    assert_eq!(filter.stats().shards_ready, 3);
    let shard = filter.filter.shard_of(hash(7));
    for new in hashes_of(&filter, shard, 100).take(3) {
        put(&filter, &members, new);
        assert!(filter.answer(new));
    }
    assert!(filter.is_exact());
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

#[test]
fn batch_is_delayed_once_for_all_nearly_full_shards() {
    let (filter, members) =
        (maintained::<QuotientFilter>(4000, FOUND), Members::<false>::default());
    // The thread is only announced, and doesn't run. So no shard is rebuilt.
    filter.announce_thread();
    let mut batch = Vec::new();
    for shard in 0..4 {
        let is_crowded = || filter.shards[shard].delay.load(Ordering::Relaxed) > 0;
        let mut hashes = hashes_of(&filter, shard, 0);
        while !is_crowded() {
            put(&filter, &members, hashes.next().unwrap());
        }
        batch.extend(hashes.next());
    }
    let before = filter.stats();
    assert_eq!((before.shards_due, before.stalled_writes), (4, 0));
    assert_eq!(before.delayed_writes, 4, "the last put into each shard");
    put_all(&filter, &members, &batch);
    assert_eq!(filter.stats().delayed_writes, 5);
    put(&filter, &members, batch[2]);
    assert_eq!(filter.stats().delayed_writes, 6);
}

#[test]
fn write_that_finds_its_shard_full_is_counted() {
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    assert_eq!(filter.stats().stalled_writes, 0, "shards were rebuilt before they were full");
    let many: Vec<Hash> = (100..1100).map(hash).collect();
    put_all(&filter, &members, &many);
    let stats = filter.stats();
    assert!((1..=24).contains(&stats.stalled_writes), "{stats:?}");
    assert_eq!((stats.delayed_writes, stats.shards_ready), (0, 4));
}

/// Makes listings of one shard wait. Returns the channels that say that a listing waits, and that let it go
/// on.
fn hang(members: &Members, hashes: RangeInclusive<Hash>) -> (Receiver<()>, Sender<()>) {
    let ((waits, is_waiting), (release, released)) = (channel(), channel());
    let released = Mutex::new(released);
    set(&members.before_listing, move |listed: &RangeInclusive<Hash>| {
        if listed.start() == hashes.start() {
            let _ = waits.send(());
            // The sender is dropped at the end of the test.
            let _ = released.lock().unwrap().recv();
        }
    });
    (is_waiting, release)
}

fn check_stall(has_thread: bool) {
    let _deadline = Deadline::new();
    let (mut filter, members) =
        (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    filter.upkeep.longest_stall = Duration::from_millis(20);
    let (filter, members) = (&filter, &members);
    let (is_waiting, release) = hang(members, filter.filter.shard_hashes(0));
    thread::scope(|scope| {
        let release = release;
        let rebuilding = if has_thread {
            filter.announce_thread();
            filter.wants_room(0);
            scope.spawn(|| filter.tend_in_background(members, 1.0))
        } else {
            scope.spawn(|| drop(filter.rebuild_shard(members, 0, 0)))
        };
        is_waiting.recv().unwrap();
        let many: Vec<Hash> = hashes_of(filter, 1, 0).take(500).collect();
        put_all(filter, members, &many);
        assert!(!filter.is_ready(many[0]) && filter.stats().stalled_writes > 0);
        assert!(many.iter().all(|&member| is_found(filter, members, member)));
        drop(release);
        filter.stop();
        rebuilding.join().unwrap();
    });
    filter.tend(members).unwrap();
    assert!(filter.is_exact());
    assert_eq!(filter.find_fault(members).unwrap(), None);
}

#[test]
fn writer_stops_waiting_for_a_background_thread_that_hangs() {
    check_stall(true);
}

#[test]
fn writer_stops_waiting_for_another_caller_that_hangs() {
    check_stall(false);
}

/// While all shards are rebuilt at once, a hanging rebuild doesn't keep other shards from being rebuilt.
#[test]
fn write_does_not_wait_for_a_hanging_rebuild_of_its_shard() {
    let _deadline = Deadline::new();
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    filter.announce_thread();
    let mut hashes = hashes_of(&filter, 1, 0);
    while filter.shards[1].delay.load(Ordering::Relaxed) == 0 {
        put(&filter, &members, hashes.next().unwrap());
    }
    filter.renounce_thread();
    let (filter, members) = (&filter, &members);
    let (is_waiting, release) = hang(members, filter.filter.shard_hashes(1));
    thread::scope(|scope| {
        let release = release;
        let rebuilding =
            scope.spawn(|| filter.rebuild_all(members, || Ok(()), || true, |_| ()).unwrap());
        is_waiting.recv().unwrap();
        assert_eq!(filter.stats().shards_due, 1);
        put(filter, members, hashes_of(filter, 1, 0).next().unwrap());
        drop(release);
        rebuilding.join().unwrap();
    });
    assert_eq!(filter.find_fault(members).unwrap(), None);
}

#[test]
fn rebuild_with_an_end_does_not_wait_for_another_rebuild() {
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    let other = filter.upkeep.one_at_a_time.lock().unwrap();
    let now = Some(std::time::Instant::now());
    assert!(filter.rebuild_shard_until(&members, 0, 0, now).unwrap().is_none());
    drop(other);
    assert!(filter.rebuild_shard_until(&members, 0, 0, now).unwrap().unwrap().is_swapped);
}

#[test]
fn import_waits_for_a_hanging_rebuild_only_until_a_deadline() {
    let _deadline = Deadline::new();
    let (mut filter, members) =
        (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    filter.upkeep.longest_stall = Duration::from_millis(20);
    let (filter, members) = (&filter, &members);
    let (is_waiting, release) = hang(members, filter.filter.shard_hashes(0));
    thread::scope(|scope| {
        let release = release;
        let rebuilding = scope.spawn(|| drop(filter.rebuild_shard(members, 0, 0)));
        is_waiting.recv().unwrap();
        filter.expect_evenly(members, 100_000);
        filter.expect_members(members, (0..1000).map(hash));
        assert_eq!(filter.stats().rebuilds, 0);
        drop(release);
        rebuilding.join().unwrap();
    });
    filter.expect_evenly(members, 100_000);
    assert_eq!(filter.stats().rebuilds, 5);
}

#[test]
fn records_are_counted_while_a_repair_stays_busy() {
    const RECORDS: u128 = 100;
    let _deadline = Deadline::new();
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<true>::default());
    (0..100).for_each(|number| put(&filter, &members, hash(number)));
    members.records.lock().unwrap().extend((1000..1000 + RECORDS).map(hash));
    let mistake = (2000..9000).map(hash).find(|&hash| filter.filter.contains(hash)).unwrap();
    filter.announce_thread();
    let locked = filter.lock(&[mistake]);
    assert!(!is_found(&filter, &members, mistake) && filter.stats().repairs_waiting == 1);
    thread::scope(|scope| {
        let tending = scope.spawn(|| filter.tend_in_background(&members, 1.0));
        while filter.stats().mistakes < RECORDS as u64 {
            thread::yield_now();
        }
        drop(locked);
        filter.stop();
        tending.join().unwrap();
    });
}

/// More room would stay unused if the writers end, because shards shrink only after removals.
#[test]
fn shard_that_a_batch_finds_full_grows_only_by_a_fifth() {
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    let mut hashes = hashes_of(&filter, 0, 0);
    let mut put_next = |count| {
        let batch: Vec<Hash> = hashes.by_ref().take(count).collect();
        put_all(&filter, &members, &batch);
    };
    (0..5000).for_each(|_| put_next(1));
    // Nobody rebuilds the shard, because there is no such thread.
    filter.announce_thread();
    while filter.shards[0].delay.load(Ordering::Relaxed) == 0 {
        put_next(1);
    }
    filter.renounce_thread();
    assert_eq!(filter.stats().stalled_writes, 0);
    let full = filter.filter.shard_fill(0);
    put_next((full.slots - full.used) as usize + 50);
    let grown = filter.filter.shard_fill(0);
    let load = grown.members as f64 / grown.slots as f64;
    assert!(filter.stats().stalled_writes == 1 && grown.slots > full.slots);
    assert!(load > 0.78, "{load}");
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

/// A rebuild has read the no list before the key is added, and swaps its filter in before the key is on the
/// list. Then the repair fails.
#[test]
fn no_list_key_is_answered_no_although_its_last_repair_fails() {
    let _deadline = Deadline::new();
    let policy = Policy::Listed { rate: 0.05 };
    // Both filters have plain remainders, like those of lists, so they make the same mistakes.
    let sizing =
        Sizing { capacity: 100, shards: 4, false_positive_rate: 0.05, ..Sizing::default() };
    let bits = sizing.remainder_bits::<QuotientFilter>().unwrap();
    let large = || {
        let (empty, sizes) =
            (sizing.build_with(bits).unwrap(), sizing.shard_sizes::<QuotientFilter>(4, bits));
        let filter = MaintainedFilter::<QuotientFilter>::new(empty, true, sizes, policy);
        let members = Members::<false>::default();
        (0..200).for_each(|number| put(&filter, &members, hash(number)));
        filter.rebuild_shard(&members, 0, 1000).unwrap();
        (filter, members)
    };
    let (twin, of_twin) = large();
    twin.rebuild_shard(&of_twin, 0, 0).unwrap();
    let (filter, members) = large();
    // The smaller filter confuses this key with a member.
    let is_new_mistake = |&key: &Hash| twin.filter.contains(key) && !filter.filter.contains(key);
    let key = hashes_of(&filter, 0, 1000).find(is_new_mistake).unwrap();
    let ((built, is_built), (swap, may_swap), (swapped, is_swapped)) =
        (channel(), channel::<()>(), channel());
    let (filter, members) = (&filter, &members);
    thread::scope(|scope| {
        scope.spawn(move || {
            rebuild::hook::set(Some(Box::new(move |moment| {
                if matches!(moment, rebuild::hook::Moment::Round(_)) {
                    built.send(()).unwrap();
                    may_swap.recv().unwrap();
                }
            })));
            let rebuilt = filter.rebuild_shard(members, 0, 0);
            rebuild::hook::set(None);
            swapped.send(rebuilt.unwrap().is_swapped).unwrap();
        });
        is_built.recv().unwrap();
        let write = |_: &[bool]| {
            swap.send(()).unwrap();
            assert!(is_swapped.recv().unwrap());
            members.fails.store(true, Ordering::Relaxed);
            Ok(())
        };
        filter.list_mistakes(members, &[key], |_| Ok(()), write).unwrap_err();
    });
    members.fails.store(false, Ordering::Relaxed);
    assert!(filter.is_mistake(key) && !filter.answer(key));
    filter.tend(members).unwrap();
    assert!(filter.is_exact() && !filter.answer(key));
    assert_eq!(filter.find_fault(members).unwrap(), None);
}

#[test]
fn callers_rebuild_shards_after_the_background_thread_has_died() {
    /// A panic that can't be caught, because dropping it panics again.
    struct Deadly;

    impl Drop for Deadly {
        fn drop(&mut self) {
            panic!("dropping a panic");
        }
    }

    let _deadline = Deadline::new();
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    let is_first = AtomicBool::new(true);
    set(&members.before_listing, move |_| {
        if is_first.swap(false, Ordering::Relaxed) {
            panic_any(Deadly);
        }
    });
    filter.announce_thread();
    assert!(filter.stats().has_background_thread);
    filter.wants_room(0);
    thread::scope(|scope| {
        let died = scope.spawn(|| filter.tend_in_background(&members, 1.0)).join();
        assert!(died.is_err());
    });
    let dead = filter.stats();
    assert!(!dead.has_background_thread && dead.rebuilds == 0 && dead.rebuilds_failed == 1);
    (0..1000).for_each(|number| put(&filter, &members, hash(number)));
    assert!(filter.stats().rebuilds > 4);
    while filter.stats().shards_due > 0 {
        // The shard whose rebuild has failed is tried again after a delay.
        filter.tend(&members).unwrap();
        thread::yield_now();
    }
    assert!(filter.is_exact());
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

#[test]
fn background_thread_rests_in_proportion_to_its_work() {
    let rest = |share| upkeep::rest_after(Duration::from_secs(2), share);
    assert_eq!(rest(1.0), Duration::ZERO);
    assert_eq!(rest(0.5), Duration::from_secs(2));
    assert_eq!(rest(0.25), Duration::from_secs(6));
    assert_eq!(rest(1e-300), Duration::from_secs(2_000_000));
}

/// The thread rests a million times as long as it works, except while a writer waits.
#[test]
fn waiting_writer_ends_the_pause_of_the_background_thread() {
    let _deadline = Deadline::new();
    let (filter, members) = (maintained::<QuotientFilter>(100, FOUND), Members::<false>::default());
    let (listed, has_listed) = channel();
    set(&members.after_listing, move |_| {
        let _ = listed.send(());
    });
    filter.announce_thread();
    filter.wants_room(0);
    thread::scope(|scope| {
        let resting = scope.spawn(|| filter.tend_in_background(&members, 1e-6));
        has_listed.recv().unwrap();
        for shard in 1..4 {
            let many: Vec<Hash> = hashes_of(&filter, shard, 0).take(200).collect();
            put_all(&filter, &members, &many);
        }
        let stats = filter.stats();
        filter.stop();
        resting.join().unwrap();
        assert!(stats.stalled_writes >= 3 && stats.rebuilds >= 4, "{stats:?}");
        // No writer has waited so long that its shard answers "maybe".
        assert_eq!(stats.shards_ready, 4);
    });
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

/// Removes a key while its shard is replaced by a smaller one, which confuses more hashes. Another thread's
/// write of such a hash is in the filter, but not in the first listing. Returns whether the removal has
/// listed members without that write.
fn remove_beyond_stripes(trial: u128) -> bool {
    const FIRST: u128 = 0x9e37_79b9_7f4a_7c15;
    let filter = maintained::<TelescopingFilter>(100, FOUND);
    let members = Members::<true>::default();
    let number = |number: u128| hash(trial * 1000 + number + FIRST);
    let in_shard = |hash: &Hash| filter.filter.shard_of(*hash) == 0;
    (0..100).map(number).filter(in_shard).for_each(|member| put(&filter, &members, member));
    for absent in (100..1000).map(number).filter(in_shard) {
        assert!(!is_found(&filter, &members, absent));
    }
    // Both hashes are in one quotient of the small filter, but in different stripes.
    let interval = filter.filter.suspects(number(0).min(Hash::from_u128(u128::MAX >> 3)));
    let (start, end) = (interval.start().as_u128(), interval.end().as_u128());
    let at = |share: u128| Hash::from_u128(start + (end - start) / 16 * share + trial);
    let (removed, written) = (at(2), at(14));
    put(&filter, &members, removed);
    filter.rebuild_shard(&members, 0, 1000).unwrap();

    let ((enter, entered), (release, released)) = (channel(), channel::<()>());
    let (done, is_done) = channel();
    let (is_removing, has_missed) = (AtomicBool::new(false), AtomicBool::new(false));
    let state = std::sync::Arc::new((is_removing, has_missed));
    let hook = std::sync::Arc::clone(&state);
    let (release_in_hook, is_done) = (release.clone(), Mutex::new(is_done));
    set(&members.after_listing, move |listed: &Vec<Hash>| {
        let (is_removing, has_missed) = &*hook;
        if is_removing.swap(false, Ordering::SeqCst) && !listed.contains(&written) {
            // Let the other write finish before the listing is used.
            has_missed.store(true, Ordering::SeqCst);
            release_in_hook.send(()).unwrap();
            is_done.lock().unwrap().recv().unwrap();
        }
    });
    thread::scope(|scope| {
        let (filter, members) = (&filter, &members);
        let write = move || {
            enter.send(()).unwrap();
            released.recv().unwrap();
            members.keys.lock().unwrap().insert(written);
            let _ = done.send(());
            Ok(())
        };
        let remove = || {
            let writing = scope.spawn(move || {
                let is_there = |_| Ok(false);
                filter.write(members, &[written], is_there, |_| Ok(()), |_| write()).unwrap();
            });
            entered.recv().unwrap();
            filter.rebuild_shard(members, 0, 0).unwrap();
            members.keys.lock().unwrap().remove(&removed);
            state.0.store(true, Ordering::SeqCst);
            Ok::<_, StoreError>(writing)
        };
        let writing = OnceLock::new();
        let remove = || remove().map(|handle| assert!(writing.set(handle).is_ok()));
        let is_removed = filter.remove(members, removed, || Ok(true), || Ok(true), remove);
        assert!(is_removed.unwrap());
        state.0.store(false, Ordering::SeqCst);
        let _ = release.send(());
        writing.into_inner().unwrap().join().unwrap();
    });
    let stats = filter.stats();
    assert!(stats.ghosts_left == 0 && !filter.has_ghosts(0), "{stats:?}");
    assert_eq!(filter.find_fault(&members).unwrap(), None);
    assert_eq!(stats.members, members.keys.lock().unwrap().len() as u64);
    state.1.load(Ordering::SeqCst)
}

#[test]
fn removal_lists_again_if_the_listing_lacks_a_write_in_flight() {
    let _deadline = Deadline::new();
    let has_missed = iter::successors(Some(0), |trial| Some(trial + 1)).map(remove_beyond_stripes);
    assert_eq!(has_missed.filter(|&has_missed| has_missed).take(1).count(), 1);
}
