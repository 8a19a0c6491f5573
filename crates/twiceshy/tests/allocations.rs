//! Lookups of filters with codes allocate nothing, whatever they answer.

use std::hint::black_box;
use twiceshy::{
    Answer, CodedFilter, CodedScheme, Extensions, Hash, KeyedHasher, Secret, Selectors,
};

/// Repairs a filter so often that its codes have repairs, and then asks for members and others.
fn check_lookups<S: CodedScheme>() {
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
            // Refused where a code is full.
            let _ = filter.adapt(&claim, &listed);
        }
    }
    assert!(filter.statistics().adaptations > 100, "{:?}", filter.statistics());

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
fn checks_of_coded_filters_allocate_nothing() {
    check_lookups::<Selectors>();
    check_lookups::<Extensions>();
}
