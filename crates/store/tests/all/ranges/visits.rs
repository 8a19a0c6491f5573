//! Checks that an empty range costs at most one disk read while its mistake is kept.

use super::watched::{Watched, always, is_repaired};
use crate::common::Random;
use std::ops::Bound::Unbounded;
use std::ops::Range;
use twiceshy_store::{Backend, Keyspace, MemoryBackend, OpenOptions};

const MEMBERS: u64 = 60;

/// Returns member `n`. Members are a thousand apart, at different places in their partitions.
fn member(n: u64) -> u64 {
    n * 1001
}

/// Returns a range between two members. It is at most slightly longer than the planned length.
fn empty_range(random: &mut Random) -> Range<u64> {
    let first = member(random.below(MEMBERS)) + 1 + random.below(980);
    first..first + 1 + random.below(12)
}

struct Known {
    watched: Watched<u64, MemoryBackend>,
    mistakes: Vec<Range<u64>>,
}

impl Known {
    /// Creates a store with members, and asks for empty ranges to collect mistakes.
    fn new(options: OpenOptions) -> Self {
        let watched = Watched::open(options, MemoryBackend::new());
        (0..MEMBERS).for_each(|n| watched.store().put(member(n), b"1").unwrap());
        let mut random = Random(1);
        let mut mistakes = Vec::new();
        for _ in 0..400 {
            let range = empty_range(&mut random);
            if is_repaired(watched.store(), range.clone()) {
                mistakes.push(range);
            }
        }
        assert!(mistakes.len() > 20, "the filter is too good for this test");
        Self { watched, mistakes }
    }

    /// Checks that no query repeats any of the mistakes.
    fn check(&self) {
        for range in &self.mistakes {
            let ask = |store: &twiceshy_store::RangeStore<u64, _>| {
                assert!(store.range_is_empty(range.clone()).unwrap());
                assert!(store.range(range.clone()).unwrap().next().is_none());
                for key in range.clone() {
                    assert_eq!(store.get(key).unwrap(), None);
                    assert!(!store.delete(key).unwrap());
                }
            };
            assert_eq!(self.watched.visits(ask).0, 0, "{range:?} is visited again");
        }
        let stats = self.watched.store().stats();
        assert_eq!((stats.repeated_false_positives, stats.repairs_failed), (0, 0));
    }
}

#[test]
fn repaired_mistake_is_not_repeated() {
    Known::new(always()).check();
}

#[test]
fn no_mistake_is_repeated_after_reopening() {
    let mut known = Known::new(always());
    for _ in 0..3 {
        known.watched.reopen();
        known.check();
    }
}

#[test]
fn no_mistake_is_repeated_after_growth() {
    let known = Known::new(always());
    let bytes = known.watched.store().stats().filter_bytes;
    for n in 0..5000 {
        known.watched.store().put(1 << 40 | n << 10, b"2").unwrap();
    }
    assert!(known.watched.store().stats().filter_bytes > 4 * bytes, "it hasn't grown");
    known.check();
}

#[test]
fn no_mistake_is_repeated_after_all_members_were_replaced() {
    let known = Known::new(always());
    let store = known.watched.store();
    for n in 0..MEMBERS {
        assert!(store.delete(member(n)).unwrap());
        known.check();
        store.put(member(n), b"3").unwrap();
        known.check();
    }
    // Delete all members, then insert them in reverse order.
    (0..MEMBERS).for_each(|n| assert!(store.delete(member(n)).unwrap()));
    known.check();
    (0..MEMBERS).rev().for_each(|n| store.put(member(n), b"4").unwrap());
    known.check();
    let stats = store.stats();
    let repaired = stats.false_positives - stats.repairs_skipped;
    assert!(stats.repairs > repaired, "no mistake collided again");
}

#[test]
fn parts_of_a_mistaken_range_around_a_new_key_stay_repaired() {
    let mut known = Known::new(always());
    let store = known.watched.store();
    let mut parts = Vec::new();
    for range in std::mem::take(&mut known.mistakes) {
        let middle = range.start + (range.end - range.start) / 2;
        store.put(middle, b"5").unwrap();
        assert!(!store.range_is_empty(range.clone()).unwrap());
        parts.extend([range.start..middle, middle + 1..range.end]);
    }
    parts.retain(|part| store.iter().all(|pair| !part.contains(&pair.unwrap().0)));
    known.mistakes = parts;
    known.check();
    known.watched.reopen();
    known.check();
}

#[test]
fn kept_mistakes_stay_within_the_limit() {
    for most in [1, 7] {
        let mut known = Known::new(always().mistakes_kept(most));
        let kept = |known: &Known| known.watched.store().stats().mistakes;
        assert!(kept(&known) <= most as u64);
        // Put a key into a mistaken range. This cuts the range in two, but the limit may allow only one part.
        let range = known.mistakes.last().unwrap().clone();
        known.watched.store().put(range.start + (range.end - range.start) / 2, b"6").unwrap();
        assert!(kept(&known) <= most as u64);
        known.watched.reopen();
        assert!(kept(&known) <= most as u64);
        assert!((1..=most as u64).contains(&kept(&known)));
        known.watched.store().rebuild().unwrap();
        (0..MEMBERS).for_each(|n| assert!(known.watched.store().contains(member(n)).unwrap()));
    }
}

#[test]
fn mistakes_beyond_a_lower_limit_are_forgotten_at_the_next_open() {
    let backend = std::sync::Arc::new(MemoryBackend::new());
    let open = |most| {
        let options = always().mistakes_kept(most);
        options.open_ranges_with::<u64, _>(std::sync::Arc::clone(&backend), None).unwrap()
    };
    let store = open(1000);
    (0..MEMBERS).for_each(|n| store.put(member(n), b"1").unwrap());
    let mut random = Random(1);
    (0..400).for_each(|_| assert!(store.range_is_empty(empty_range(&mut random)).unwrap()));
    let on_disk = || backend.range(Keyspace::Mistakes, (Unbounded, Unbounded)).count() as u64;
    let mistakes = store.stats().mistakes;
    store.sync().unwrap();
    assert_eq!((store.stats().mistakes, on_disk()), (mistakes, mistakes));
    assert!(on_disk() > 20);
    drop(store);
    let store = open(9);
    assert_eq!((store.stats().mistakes, on_disk()), (9, 9));
}

#[test]
fn too_long_ranges_read_the_backend_and_are_not_kept() {
    let watched: Watched<u64, _> = Watched::open(always(), MemoryBackend::new());
    watched.store().put(5, b"1").unwrap();
    for range in [1000..2000, 6..u64::MAX, 1 << 40..1 << 41] {
        for _ in 0..2 {
            let (visits, is_empty) =
                watched.visits(|store| store.range_is_empty(range.clone()).unwrap());
            assert!(is_empty);
            assert_eq!(visits, 1, "{range:?}");
        }
    }
    let stats = watched.store().stats();
    assert_eq!((stats.unfiltered, stats.mistakes, stats.lookups), (6, 0, 6));
    assert!(!watched.store().range_is_empty(..).unwrap());
}

#[test]
fn empty_or_reversed_bounds_cost_no_disk_read() {
    let watched: Watched<u64, _> = Watched::open(always(), MemoryBackend::new());
    watched.store().put(5, b"1").unwrap();
    let (visits, ()) = watched.visits(|store| {
        assert!(store.range_is_empty(5..5).unwrap());
        assert!(store.range_is_empty(..0).unwrap());
        #[expect(clippy::reversed_empty_ranges, reason = "that is asked")]
        let reversed = 9..=3;
        assert!(store.range(reversed).unwrap().next().is_none());
    });
    assert_eq!(visits, 0);
}

#[test]
fn mistakes_are_repeated_if_repairs_are_off() {
    let watched = Watched::open(always().repairs(false), MemoryBackend::new());
    (0..MEMBERS).for_each(|n| watched.store().put(member(n), b"1").unwrap());
    let mut visits = [0, 0];
    for visits in &mut visits {
        let mut random = Random(1);
        for _ in 0..200 {
            let range = empty_range(&mut random);
            *visits += watched.visits(|store| store.range_is_empty(range).unwrap()).0;
        }
    }
    assert!(visits[0] > 20 && visits[0] == visits[1]);
    assert_eq!(watched.store().stats().mistakes, 0);
}

/// Some keys of the batch collide with repaired mistakes, and others lie inside a mistaken range.
#[test]
fn no_mistake_is_repeated_after_batches() {
    let mut known = Known::new(always());
    let store = known.watched.store();
    (0..MEMBERS).for_each(|n| assert!(store.delete(member(n)).unwrap()));
    let middle = |range: &Range<u64>| range.start + (range.end - range.start) / 2;
    let inside: Vec<u64> = known.mistakes.iter().step_by(3).map(middle).collect();
    let pairs = (0..MEMBERS).map(member).chain(inside.iter().copied()).map(|key| (key, b"7"));
    store.put_many(pairs).unwrap();
    let parts = known.mistakes.iter().flat_map(|range| {
        let mut keys: Vec<u64> = inside.iter().copied().filter(|key| range.contains(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let starts = std::iter::once(range.start).chain(keys.iter().map(|key| key + 1));
        let ends = keys.iter().copied().chain([range.end]);
        starts.zip(ends).map(|(start, end)| start..end).collect::<Vec<_>>()
    });
    known.mistakes = parts.collect();
    known.check();
    known.watched.reopen();
    known.check();
}
