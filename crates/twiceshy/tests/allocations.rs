//! Tests that lookups in telescoping and extension filters allocate no memory.

use std::hint::black_box;
use twiceshy::{
    Answer, Hash, Secret,
    hash::KeyedHasher,
    telescoping::{self, CodedFilter, Extensions, Selectors},
};

/// Fills the codes of a filter with repairs, and then looks up members and other keys.
fn check_lookups<S: telescoping::CodedScheme>() {
    let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
    let mut members: Vec<Hash> = (0..900u64).map(|number| hasher.hash(&number)).collect();
    members.sort_unstable();
    let mut filter = CodedFilter::<S>::builder().slots(1000).remainder_bits(6).build().unwrap();
    for &member in &members {
        filter.insert(member).unwrap();
    }
    let others: Vec<Hash> = (1000..20_000u64).map(|number| hasher.hash(&number)).collect();
    for &other in &others[..10_000] {
        if let Answer::Maybe(claim) = filter.check(other) {
            let suspects = claim.suspects();
            let is_suspect = |member: &&Hash| suspects.contains(member);
            let listed: Vec<Hash> = members.iter().filter(is_suspect).copied().collect();
            // Ignore the error, because a repair fails if a code is full.
            let _ = filter.adapt(&claim, &listed);
        }
    }
    assert!(filter.stats().repairs > 100, "{:?}", filter.stats());

    let mut mistakes = 0;
    let allocations = allocation_counter::measure(|| {
        let is_maybe = |&&hash: &&Hash| filter.check(hash).is_maybe();
        assert_eq!(members.iter().filter(is_maybe).count(), members.len());
        mistakes = others.iter().filter(is_maybe).count();
        for &hash in members.iter().chain(&others) {
            black_box((filter.contains(hash), filter.suspects(hash)));
        }
    });
    assert_eq!(allocations.count_total, 0);
    assert!(mistakes > 10, "{mistakes}");
}

#[test]
fn lookups_of_coded_filters_do_not_allocate() {
    check_lookups::<Selectors>();
    check_lookups::<Extensions>();
}
