//! Tests of rebuilds while keys are written, and of the memory that they take.

use super::super::notes::Roll;
use super::super::rebuild::hook::{self, Moment};
use super::super::*;
use super::hash;
use crate::error::StoreError;
use crate::sizing::{NOTE_BYTES, Sizing};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use twiceshy::{QuotientFilter, error::BuildError};

type BeforeListing = Box<dyn FnMut(&RangeInclusive<Hash>)>;
type OnDoubt = Box<dyn FnMut(Hash) -> Doubt>;

/// A database that keeps records, and calls a function before it lists members.
#[derive(Default)]
struct Database {
    members: RefCell<BTreeSet<Hash>>,
    records: RefCell<BTreeSet<Hash>>,
    /// Whether listings are empty by mistake.
    is_blind: Cell<bool>,
    before_listing: RefCell<Option<BeforeListing>>,
    /// Returns the doubt about a key, if it is set.
    on_doubt: RefCell<Option<OnDoubt>>,
}

impl MemberSource for Database {
    type Member = Hash;
    type Error = StoreError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>, StoreError> {
        // Take the hook out while it runs: if it lists members itself, it must not be called again.
        let hook = self.before_listing.borrow_mut().take();
        if let Some(mut hook) = hook {
            hook(&hashes);
            *self.before_listing.borrow_mut() = Some(hook);
        }
        let members = self.members.borrow();
        let members = members.range(hashes).filter(|_| !self.is_blind.get());
        Ok(members.copied().collect())
    }
}

impl Source for Database {
    const KEEPS_RECORDS: bool = true;
    const LEAVES_GHOSTS: bool = false;

    fn recorded(
        &self,
        hashes: &RangeInclusive<Hash>,
    ) -> impl Iterator<Item = Result<Hash, StoreError>> {
        let records: Vec<_> = self.records.borrow().range(hashes.clone()).copied().collect();
        records.into_iter().map(Ok)
    }

    fn is_recorded(&self, mistake: Hash) -> Result<bool, StoreError> {
        Ok(self.records.borrow().contains(&mistake))
    }

    fn write_records(&self, new: &[Hash], forgotten: &[Hash]) -> Result<(), StoreError> {
        let mut records = self.records.borrow_mut();
        records.extend(new);
        records.retain(|record| !forgotten.contains(record));
        Ok(())
    }

    fn doubt(&self, hash: Hash) -> Doubt {
        self.on_doubt.borrow_mut().as_mut().map_or(Doubt::None, |doubt| doubt(hash))
    }
}

/// A filter in front of a database, which is the exact model of the members.
struct Tried {
    filter: MaintainedFilter<QuotientFilter>,
    database: Database,
    /// Mistakes that were repaired.
    repaired: RefCell<BTreeSet<Hash>>,
    /// The number of the next absent key.
    next: Cell<u128>,
}

impl Tried {
    fn new(sizing: Sizing) -> Rc<Self> {
        let filter = sizing.build_empty().unwrap();
        let bits = sizing.remainder_bits::<QuotientFilter>().unwrap();
        let sizes = sizing.shard_sizes::<QuotientFilter>(filter.shards(), bits);
        let policy = Policy::Found { repaired: true, kept: None };
        Rc::new(Self {
            filter: MaintainedFilter::new(filter, true, sizes, policy),
            database: Database::default(),
            repaired: RefCell::default(),
            next: Cell::new(1 << 40),
        })
    }

    fn put(&self, hash: Hash) {
        let is_there = |_| Ok(self.database.members.borrow().contains(&hash));
        let write = |_: &insert::Admitted<'_, _>| {
            self.database.members.borrow_mut().insert(hash);
            Ok(())
        };
        self.filter.write(&self.database, &[hash], is_there, |_| Ok(()), write).unwrap();
    }

    /// Writes members again, in one batch.
    fn put_again(&self, hashes: &[Hash]) {
        let written =
            self.filter.write(&self.database, hashes, |_| Ok(true), |_| Ok(()), |_| Ok(()));
        written.unwrap();
    }

    fn remove(&self, hash: Hash) {
        let is_there = || Ok::<_, StoreError>(self.database.members.borrow().contains(&hash));
        let write = || {
            self.database.members.borrow_mut().remove(&hash);
            Ok(())
        };
        let removed = self.filter.remove(&self.database, hash, is_there, || Ok(true), write);
        assert!(removed.unwrap());
    }

    /// Looks up an absent key.
    fn ask(&self, absent: Hash) {
        let found = self.filter.get(&self.database, absent, || Ok::<_, StoreError>(None::<()>));
        assert_eq!(found.unwrap(), None);
    }

    /// Returns a key that the filter takes for a member by mistake.
    fn mistake(&self) -> Hash {
        loop {
            let absent = hash(self.next.get());
            self.next.set(self.next.get() + 1);
            if self.filter.filter.contains(absent) {
                return absent;
            }
        }
    }

    /// Makes mistakes, which are repaired.
    fn repair(&self, mistakes: usize) {
        for _ in 0..mistakes {
            let mistake = self.mistake();
            self.ask(mistake);
            assert!(!self.filter.filter.contains(mistake));
            self.repaired.borrow_mut().insert(mistake);
        }
    }

    /// Rebuilds the only shard, and calls a function before each round. Returns the number of the last
    /// round.
    fn rebuild(self: &Rc<Self>, mut before_round: impl FnMut(&Self, usize) + 'static) -> usize {
        let (tried, last) = (Rc::clone(self), Rc::new(Cell::new(0)));
        let seen = Rc::clone(&last);
        hook::set(Some(Box::new(move |moment| {
            if let Moment::Round(round) = moment {
                seen.set(round);
                before_round(&tried, round);
            }
        })));
        let rebuilt = self.filter.rebuild_shard(&self.database, 0, 0);
        hook::set(None);
        assert!(rebuilt.unwrap().is_swapped);
        last.get()
    }

    /// Checks that the filter holds exactly the members, and makes no repaired mistake.
    fn check(&self) {
        assert_eq!(self.filter.find_fault(&self.database).unwrap(), None);
        let members = self.database.members.borrow().len();
        assert_eq!(self.filter.filter.stats().members, members, "there are no ghosts");
        for &mistake in &*self.repaired.borrow() {
            assert!(!self.filter.filter.contains(mistake), "{mistake:?} came back");
        }
    }
}

/// Returns the sizing of a filter with one shard that makes many mistakes.
fn poor(capacity: usize) -> Sizing {
    Sizing { capacity, shards: 1, false_positive_rate: 0.2, ..Sizing::default() }
}

#[test]
fn rebuild_deletes_no_record_that_the_next_rebuild_keeps() {
    let Tried { filter, database, .. } = &*Tried::new(poor(100));
    let (all, record) = (Hash::MIN..=Hash::MAX, hash(7));
    database.records.borrow_mut().insert(record);
    let member = Roll::new(vec![record]);
    let (repaired, doomed) = filter.records_to_repair(database, &all, &member).unwrap();
    assert!(repaired.is_empty(), "the record's key is a member");
    // The member is removed, and another rebuild begins before the first one deletes its records.
    let next = filter.records_to_repair(database, &all, &Roll::default()).unwrap();
    assert_eq!(next.0, BTreeSet::from([record]));
    filter.forget_doomed(database, &doomed, &repaired);
    assert!(database.records.borrow().contains(&record), "the next filter has repaired it");
    filter.forget_doomed(database, &next.1, &next.0);
    assert!(database.records.borrow().contains(&record));
}

#[test]
fn surplus_records_are_thinned_out_evenly() {
    let Tried { filter, database, .. } = &*Tried::new(poor(100));
    let all = Hash::MIN..=Hash::MAX;
    database.records.borrow_mut().extend((0..1000).map(|number| Hash::from_u128(number << 100)));
    let queued = Hash::from_u128(500 << 100);
    assert_eq!(filter.records.push(queued), records::Queued::New);
    let (repaired, doomed) = filter.records_to_repair(database, &all, &Roll::default()).unwrap();
    assert_eq!(repaired.len(), records::most_old(0) + 1, "with the one that is queued");
    assert!(repaired.contains(&queued));
    let above = repaired.iter().filter(|record| record.as_u128() >= 500 << 100).count();
    assert!((30..=35).contains(&above), "{above}");
    filter.forget_doomed(database, &doomed, &repaired);
    assert_eq!(*database.records.borrow(), repaired);
}

/// The listing lacks the members, so the filter refuses every repair.
#[test]
fn mistake_that_cannot_be_repaired_counts_as_one_record() {
    let tried = Tried::new(poor(100));
    (0..50).for_each(|number| tried.put(hash(number)));
    tried.filter.count_records(&tried.database).unwrap();
    let mistake = tried.mistake();
    tried.database.is_blind.set(true);
    for round in 0..1000 {
        tried.ask(mistake);
        assert!(tried.filter.filter.contains(mistake));
        if round % 100 == 99 {
            tried.filter.flush_records(&tried.database).unwrap();
        }
    }
    let stats = tried.filter.stats();
    assert_eq!((stats.repairs_failed, stats.mistakes, stats.shards_due), (1000, 1, 0));
    assert_eq!(tried.filter.shards[0].records.load(Ordering::Relaxed), 1);
    assert_eq!(tried.filter.tend(&tried.database).unwrap(), 0);
}

#[test]
fn keys_removed_in_one_round_and_put_again_in_the_next_are_present() {
    let tried = Tried::new(poor(2000));
    (0..1000).for_each(|number| tried.put(hash(number)));
    tried.repair(40);
    let last = tried.rebuild(|tried, round| match round {
        0 => (0..200).for_each(|number| tried.remove(hash(number))),
        1 => (0..200).for_each(|number| tried.put(hash(number))),
        _ => {}
    });
    assert_eq!((last, tried.filter.filter.stats().members), (2, 1000));
    tried.check();
}

#[test]
fn keys_put_in_one_round_and_removed_in_the_next_are_absent() {
    let tried = Tried::new(poor(2000));
    (0..1000).for_each(|number| tried.put(hash(number)));
    tried.repair(40);
    let last = tried.rebuild(|tried, round| match round {
        0 => (1000..1200).for_each(|number| tried.put(hash(number))),
        1 => (1000..1200).for_each(|number| tried.remove(hash(number))),
        _ => {}
    });
    assert_eq!((last, tried.filter.filter.stats().members), (2, 1000));
    tried.check();
}

#[test]
fn rebuild_ends_although_many_keys_are_written_in_each_round() {
    for seed in 0..20 {
        let tried = Tried::new(poor(2000));
        (0..1000).for_each(|number| tried.put(hash(number)));
        tried.repair(20);
        let last = tried.rebuild(move |tried, round| {
            // Each key changes about every second time.
            let first = (seed + 7 * round as u128) % 100;
            for number in (first..1300).step_by(11) {
                let is_there = tried.database.members.borrow().contains(&hash(number));
                if is_there {
                    tried.remove(hash(number));
                } else {
                    tried.put(hash(number));
                }
            }
            tried.repair(4);
        });
        assert_eq!(last, 8, "the last round has more notes than it should");
        tried.check();
    }
}

#[test]
fn new_filter_is_built_larger_if_the_keys_of_a_round_do_not_fit() {
    let tried = Tried::new(poor(100));
    (0..3000).for_each(|number| tried.put(hash(number)));
    (500..3000).for_each(|number| tried.remove(hash(number)));
    tried.repair(40);
    let before = tried.filter.filter.shard_fill(0).slots;
    assert!(before > 2500, "the old filter has room for the keys of the rounds");
    let last = tried.rebuild(|tried, round| match round {
        0 => (3000..4500).for_each(|number| tried.put(hash(number))),
        1 => {
            (400..600).for_each(|number| match number {
                ..500 => tried.remove(hash(number)),
                _ => tried.put(hash(number)),
            });
            tried.repair(10);
        }
        _ => {}
    });
    let after = tried.filter.filter.shard_fill(0).slots;
    assert!(last == 2 && after > 2000 && after < before, "{before}, {after}");
    tried.check();
}

/// Writes all members, whenever a listing of the whole filter begins.
fn write_during_listings(tried: &Rc<Tried>, members: u128, largest: &Rc<Cell<u64>>) {
    let (weak, largest) = (Rc::downgrade(tried), Rc::clone(largest));
    let hook = move |hashes: &RangeInclusive<Hash>| {
        let is_rebuild = hashes.end().as_u128() - hashes.start().as_u128() > u128::MAX / 64;
        let Some(tried) = weak.upgrade() else { return };
        if is_rebuild && *hashes.start() == Hash::MIN {
            for number in 0..members {
                tried.put(hash(number));
                if number % 64 == 0 {
                    largest.set(tried.filter.stats().rebuild_bytes.max(largest.get()));
                }
            }
        }
    };
    *tried.database.before_listing.borrow_mut() = Some(Box::new(hook));
}

#[test]
fn rebuild_with_too_many_notes_starts_again_and_counts_the_memory_of_notes() {
    const MEMBERS: u128 = 20_000;
    let tried = Tried::new(poor(MEMBERS as usize));
    (0..MEMBERS).for_each(|number| tried.put(hash(number)));
    let failed = tried.filter.stats().rebuilds_failed;
    let largest = Rc::new(Cell::new(0));
    write_during_listings(&tried, MEMBERS, &largest);
    tried.rebuild(|_, _| {});
    *tried.database.before_listing.borrow_mut() = None;
    let stats = tried.filter.stats();
    // Beginning again is not a failure.
    assert_eq!((stats.rebuilds_failed - failed, stats.rebuild_bytes), (0, 0));
    let list = MEMBERS as u64 * size_of::<Hash>() as u64;
    let notes = (largest.get() - list) / NOTE_BYTES;
    // At first, there was room for 2^14 notes.
    assert!((19_900..20_200).contains(&notes), "{notes}");
    tried.check();
}

#[test]
fn rebuild_whose_notes_exceed_the_memory_limit_fails_and_changes_nothing() {
    const MEMBERS: u128 = 8000;
    const LIMIT: u64 = 512 << 10;
    let tried = Tried::new(Sizing { memory: Some(LIMIT), ..poor(MEMBERS as usize) });
    (0..MEMBERS).for_each(|number| tried.put(hash(number)));
    let before = tried.filter.stats();
    let largest = Rc::new(Cell::new(0));
    write_during_listings(&tried, MEMBERS, &largest);
    let failed = tried.filter.rebuild_shard(&tried.database, 0, 0).map(|_| ());
    assert!(matches!(failed, Err(StoreError::Build(BuildError::Memory { .. }))), "{failed:?}");
    let stats = tried.filter.stats();
    assert_eq!((stats.rebuilds, stats.rebuild_bytes), (before.rebuilds, 0));
    assert!(largest.get() + stats.filter_bytes <= LIMIT, "{}", largest.get());
    *tried.database.before_listing.borrow_mut() = None;
    tried.check();
    tried.rebuild(|_, _| {});
    tried.check();
}

#[test]
fn filter_and_rebuilds_stay_within_the_memory_limit() {
    const LIMIT: u64 = 1 << 20;
    for shards in [1, 2, 4] {
        let tried = Tried::new(Sizing { memory: Some(LIMIT), shards, ..poor(1000) });
        tried.filter.count_records(&tried.database).unwrap();
        let most = Rc::new(Cell::new((0, 0)));
        let measure = {
            let (tried, most) = (Rc::downgrade(&tried), Rc::clone(&most));
            move || {
                let Some(tried) = tried.upgrade() else { return };
                let stats = tried.filter.stats();
                let bytes = stats.filter_bytes + stats.rebuild_bytes;
                let records = stats.mistakes.max(most.get().1);
                most.set((bytes.max(most.get().0), records));
            }
        };
        hook::set(Some(Box::new({
            let measure = measure.clone();
            move |_| measure()
        })));
        *tried.database.before_listing.borrow_mut() = Some(Box::new(move |_| measure()));
        let mut members = 0;
        while tried.filter.stats().shards_ready == shards && members < 200_000 {
            (0..100).for_each(|number| tried.put(hash(members + number)));
            members += 100;
            for _ in 0..200 {
                let next = tried.next.get();
                tried.next.set(next + 1);
                tried.ask(hash(next));
            }
            tried.filter.tend(&tried.database).unwrap();
        }
        hook::set(None);
        let (bytes, records) = most.get();
        assert!(bytes <= LIMIT && bytes > LIMIT / 3, "{shards} shards: {bytes} bytes");
        assert!(members > 5000 && records > members as u64 / 16, "{shards}: {members}, {records}");
        assert_eq!(tried.filter.find_fault(&tried.database).unwrap(), None);
    }
}

/// Writes 5,000 keys before each of the first `rounds` rounds of a rebuild. Returns the number of times that
/// each round has begun, and the number of delayed writes.
fn outrun(rounds: usize) -> (BTreeMap<usize, usize>, u64) {
    const KEYS: u128 = 5000;
    let tried = Tried::new(poor(2 * KEYS as usize));
    let keys: Vec<Hash> = (0..KEYS).map(hash).collect();
    for &key in &keys {
        tried.put(key);
    }
    tried.repair(20);
    let (begun, written) = (Rc::new(RefCell::new(BTreeMap::new())), Rc::new(Cell::new(0)));
    let seen = Rc::clone(&begun);
    let batch = keys.clone();
    tried.rebuild(move |tried, round| {
        *seen.borrow_mut().entry(round).or_insert(0) += 1;
        if written.get() < rounds {
            written.set(written.get() + 1);
            tried.put_again(&batch);
        }
    });
    let delayed = tried.filter.stats().delayed_writes;
    tried.put_again(&keys[..1]);
    assert_eq!(tried.filter.stats().delayed_writes, delayed, "no rebuild is under way");
    assert_eq!(tried.filter.stats().rebuilds_failed, 0);
    tried.check();
    (begun.take(), delayed)
}

/// Writers wait while the notes of the last round are applied, so there must not be too many of them.
#[test]
fn writers_that_outrun_a_rebuild_are_slowed_down_before_the_swap() {
    let (begun, delayed) = outrun(11);
    assert!(begun.into_iter().eq((0..=11).map(|round| (round, 1))));
    assert_eq!(delayed, 6, "the batches in rounds 5 to 10");
}

#[test]
fn rebuild_that_writers_outrun_for_long_begins_again() {
    let (begun, _) = outrun(33);
    assert_eq!((begun[&0], begun[&32], begun.len()), (2, 1, 33));
}

/// The database may have the key, and the running rebuild has listed it.
#[test]
fn undone_write_of_a_key_that_may_be_a_member_keeps_it_in_a_filter_being_built() {
    let tried = Tried::new(Sizing { shards: 2, ..poor(100) });
    let filter = &tried.filter;
    let of_shard = |shard| (0..1000).map(hash).find(|&hash| filter.filter.shard_of(hash) == shard);
    let [member, other] = [0, 1].map(|shard| of_shard(shard).unwrap());
    tried.put(member);
    // After a crash, the listing isn't known to be complete, and then a write fails.
    filter.set_complete(false);
    filter.distrust(other);
    let weak = Rc::downgrade(&tried);
    let mut asked = 0;
    *tried.database.on_doubt.borrow_mut() = Some(Box::new(move |hash| {
        if hash == other {
            asked += 1;
            let filter = &weak.upgrade().unwrap().filter;
            // The other shard becomes ready just now, so the batch begins again.
            filter.shards[1].is_ready.store(true, Ordering::Release);
            // Then a lookup of the member fails.
            filter.set_complete(asked == 1);
        }
        Doubt::UntilReopened
    }));
    let last = tried.rebuild(move |tried, round| {
        if round == 0 {
            let is_there = |_| Err(StoreError::Unready);
            let batch = [member, other];
            let write = |_: &insert::Admitted<'_, _>| Ok(());
            let written = tried.filter.write(&tried.database, &batch, is_there, |_| Ok(()), write);
            assert!(written.is_err());
        }
    });
    assert_eq!(last, 0);
    *tried.database.on_doubt.borrow_mut() = None;
    filter.set_complete(true);
    assert!(filter.filter.contains(member), "a false negative");
    assert_eq!(filter.find_fault(&tried.database).unwrap(), None);
}

#[test]
fn shard_that_is_given_up_after_a_swap_stays_given_up() {
    let tried = Tried::new(poor(100));
    (0..50).for_each(|number| tried.put(hash(number)));
    let weak = Rc::downgrade(&tried);
    hook::set(Some(Box::new(move |moment| {
        if matches!(moment, Moment::Swapped) {
            weak.upgrade().unwrap().filter.give_up(0);
        }
    })));
    let rebuilt = tried.filter.rebuild_shard(&tried.database, 0, 0);
    hook::set(None);
    assert!(rebuilt.unwrap().is_swapped);
    let is_given_up = tried.filter.shards[0].is_given_up.load(Ordering::Relaxed);
    assert_eq!((tried.filter.stats().shards_ready, is_given_up), (0, true));
    tried.rebuild(|_, _| {});
    assert_eq!(tried.filter.stats().shards_ready, 1);
}

#[test]
fn rebuild_forgets_the_room_that_writers_asked_for_before_its_swap() {
    let mut tried = Tried::new(poor(100));
    Rc::get_mut(&mut tried).unwrap().filter.upkeep.longest_stall = Duration::ZERO;
    (0..50).for_each(|number| tried.put(hash(number)));
    tried.rebuild(|tried, _| tried.filter.make_room(&tried.database, 0, 64).unwrap());
    assert_eq!(tried.filter.tend(&tried.database).unwrap(), 0, "the swap has made room");
    tried.check();
}

#[test]
fn record_stays_queued_while_a_rebuild_may_repair_its_mistake() {
    let tried = Tried::new(poor(100));
    (0..50).for_each(|number| tried.put(hash(number)));
    let mistake = tried.mistake();
    let filter = &tried.filter;
    let epoch = filter.writes(mistake).epoch;
    // A repair queues its record, a rebuild reads the queue, and then the repair fails.
    assert_eq!(filter.records.push(mistake), records::Queued::New);
    tried.rebuild(move |tried, _| tried.filter.withdraw_record(mistake, epoch));
    assert!(!filter.filter.contains(mistake), "the rebuild has repaired it");
    let is_recorded = |epoch| {
        filter.withdraw_record(mistake, epoch);
        filter.records.queued() == 1
    };
    assert!(is_recorded(epoch) && !is_recorded(epoch + 1));
}

#[test]
fn first_build_lists_few_members_at_once() {
    for members in [0, 100, 100_000] {
        let mut tried = Tried::new(poor(100));
        *Rc::get_mut(&mut tried).unwrap().filter.shards[0].is_ready.get_mut() = false;
        tried.database.members.borrow_mut().extend((0..members).map(hash));
        let (weak, listed) = (Rc::downgrade(&tried), Rc::new(RefCell::new(Vec::new())));
        let lengths = Rc::clone(&listed);
        *tried.database.before_listing.borrow_mut() = Some(Box::new(move |hashes| {
            let database = &weak.upgrade().unwrap().database;
            let length = database.members.borrow().range(hashes.clone()).count();
            lengths.borrow_mut().push(length);
        }));
        tried.rebuild(|_, _| {});
        *tried.database.before_listing.borrow_mut() = None;
        let listed = listed.take();
        assert!(listed.iter().all(|&length| length < 5000), "{listed:?}");
        assert!(listed.len() <= 6 + members as usize / 3500, "{listed:?}");
        tried.check();
    }
}

#[test]
fn filter_counts_as_memory_of_the_rebuild_while_it_is_built() {
    const MEMBERS: u128 = 20_000;
    let tried = Tried::new(poor(MEMBERS as usize));
    (0..MEMBERS).for_each(|number| tried.put(hash(number)));
    let weak = Rc::downgrade(&tried);
    let building = Rc::new(Cell::new(0));
    let bytes = Rc::clone(&building);
    hook::set(Some(Box::new(move |moment| {
        if matches!(moment, Moment::Building) {
            bytes.set(weak.upgrade().unwrap().filter.stats().rebuild_bytes);
        }
    })));
    let rebuilt = tried.filter.rebuild_shard(&tried.database, 0, 0);
    hook::set(None);
    assert!(rebuilt.unwrap().is_swapped);
    let Stats { filter_bytes, rebuild_bytes, .. } = tried.filter.stats();
    let list = MEMBERS as u64 * size_of::<Hash>() as u64;
    assert!(building.get() >= list + filter_bytes && rebuild_bytes == 0, "{}", building.get());
}
