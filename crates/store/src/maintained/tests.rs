//! Tests of failures that can't be caused through a store's public functions.

use super::*;
use crate::error::StoreError;
use crate::sizing::Sizing;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use twiceshy::QuotientFilter;

/// A database in memory.
#[derive(Default)]
struct Members(Mutex<BTreeSet<Hash>>);

impl MemberSource for Members {
    type Member = Hash;
    type Error = StoreError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Hash>, StoreError> {
        Ok(self.0.lock().unwrap().range(hashes).copied().collect())
    }
}

impl Source for Members {
    fn doubt(&self, _: Hash) -> Doubt {
        Doubt::None
    }
}

/// A filter with four shards.
fn maintained(policy: Policy) -> MaintainedFilter<QuotientFilter> {
    let sizing = Sizing { capacity: 100, shards: 4, ..Sizing::default() };
    let filter = sizing.build_empty().unwrap();
    let bits = sizing.remainder_bits::<QuotientFilter>().unwrap();
    let sizes = sizing.shard_sizes::<QuotientFilter>(filter.shards(), bits);
    MaintainedFilter::new(filter, true, sizes, policy)
}

fn hash(number: u128) -> Hash {
    Hash::from_u128(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn put(filter: &MaintainedFilter<QuotientFilter>, members: &Members, hash: Hash) {
    let is_there = |_| Ok(members.0.lock().unwrap().contains(&hash));
    let written = filter.write(
        members,
        &[hash],
        is_there,
        |_| Ok(()),
        |_| {
            members.0.lock().unwrap().insert(hash);
            Ok(())
        },
    );
    written.unwrap();
}

fn panic_while_changing(filter: &MaintainedFilter<QuotientFilter>, hash: Hash) {
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _writes = filter.writes(hash);
        std::panic::resume_unwind(Box::new("a bug in the filter"));
    }));
    assert!(panicked.is_err());
}

#[test]
fn shard_answers_maybe_after_a_panic_until_it_is_rebuilt() {
    let (filter, members) =
        (maintained(Policy::Found { repaired: true, kept: None }), Members::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    panic_while_changing(&filter, hash(7));
    drop(filter.writes(hash(7)));
    assert!(!filter.is_ready(hash(7)) && !filter.is_exact(), "the next writer notices");
    let shard = filter.filter.shard_of(hash(7));
    let new = (100..1000).map(hash).find(|&new| filter.filter.shard_of(new) == shard).unwrap();
    let looked_up = filter.get(&members, new, || Ok::<_, StoreError>(Some(())));
    assert_eq!(looked_up.unwrap(), Some(()), "the database was asked");
    put(&filter, &members, new);
    assert!(filter.is_exact() && filter.filter.contains(new));
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}

#[test]
fn list_rebuilds_a_distrusted_shard_before_the_next_insert() {
    let (filter, members) = (maintained(Policy::Listed { rate: 0.001 }), Members::default());
    (0..50).for_each(|number| put(&filter, &members, hash(number)));
    panic_while_changing(&filter, hash(7));
    assert_eq!(filter.stats().shards_ready, 4, "nobody has noticed yet");
    let shard = filter.filter.shard_of(hash(7));
    let mut new = (100..1000).map(hash).filter(|&new| filter.filter.shard_of(new) == shard);
    for new in new.by_ref().take(3) {
        put(&filter, &members, new);
        assert!(filter.answer(new));
    }
    assert!(filter.is_exact());
    assert_eq!(filter.find_fault(&members).unwrap(), None);
}
