//! Tests for bugs that other implementations have, one test per bug.

use twiceshy::Listing;
use twiceshy::{
    Answer, Claim, Hash, MemberSource, QuotientFilter,
    error::{AdaptError, BuildError, InsertError},
    members::MemoryMap,
};

fn filter(remainder_bits: u32, slots: u64) -> QuotientFilter {
    QuotientFilter::builder()
        .remainder_bits(remainder_bits)
        .slots(slots)
        .build()
        .expect("a small filter")
}

/// Returns a hash for 16 slots of 8 bits: quotient, remainder, and three more digits.
fn hash(digits: u128) -> Hash {
    Hash::from_u128(digits << 92)
}

fn claim(filter: &QuotientFilter, query: Hash) -> Claim {
    match filter.check(query) {
        Answer::Maybe(claim) => claim,
        Answer::Absent => panic!("{query:?} is absent"),
    }
}

fn lengths(filter: &QuotientFilter) -> Vec<u32> {
    filter.iter().map(|entry| entry.fingerprint.bits() / 8).collect()
}

#[test]
fn lookup_checks_every_fingerprint_of_a_minirun() {
    let mut filter = filter(8, 16);
    let members = [hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00), hash(0x3_aa_30_00_00)];
    for member in members {
        filter.insert(member).unwrap();
    }
    let mistake = hash(0x3_aa_20_11_00);
    filter.adapt(&claim(&filter, mistake), &members).unwrap();
    // The first and the last fingerprint differ from the mistake after one digit, the middle one
    // after two. Each fingerprint is found although the ones before it don't match.
    assert_eq!(lengths(&filter), [2, 3, 2]);
    assert!(members.iter().all(|&member| filter.contains(member)));
    assert!(!filter.contains(mistake));
    // A mistake caused only by the last fingerprint lengthens only that fingerprint.
    let other = hash(0x3_aa_30_00_01);
    filter.adapt(&claim(&filter, other), &members).unwrap();
    assert_eq!(lengths(&filter), [2, 3, 4]);
    assert!(members.iter().all(|&member| filter.contains(member)));
    filter.validate().unwrap();
}

#[test]
fn one_repair_lengthens_all_colliding_fingerprints() {
    let mut filter = filter(8, 16);
    let members = [hash(0x3_aa_10_00_00), hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00)];
    for member in members {
        filter.insert(member).unwrap();
    }
    let adaptation = filter.adapt(&claim(&filter, hash(0x3_aa_70_00_00)), &members).unwrap();
    assert_eq!((adaptation.lengthened, adaptation.ghosts), (2, 0));
    assert_eq!(lengths(&filter), [2, 2]);
    assert!(!filter.contains(hash(0x3_aa_70_00_00)));
}

#[test]
fn inserting_a_neighbour_does_not_undo_a_repair() {
    let mut filter = filter(8, 16);
    filter.insert(hash(0x3_aa_10_20_00)).unwrap();
    let mistake = hash(0x3_aa_10_30_00);
    filter.adapt(&claim(&filter, mistake), &[hash(0x3_aa_10_20_00)]).unwrap();
    assert_eq!(lengths(&filter), [3]);
    // This member differs from its neighbour after one digit, so one digit is enough.
    filter.insert(hash(0x3_aa_40_20_00)).unwrap();
    // This member shares one digit with its neighbour, so it takes two digits.
    filter.insert(hash(0x3_aa_10_50_00)).unwrap();
    // A member of a different minirun needs no extension.
    filter.insert(hash(0x3_ab_10_50_00)).unwrap();
    assert_eq!(lengths(&filter), [3, 3, 2, 1]);
    assert!(!filter.contains(mistake));
}

#[test]
fn extensions_can_use_all_bits_of_a_hash() {
    for (remainder_bits, slots) in [(1, 3), (9, 1000), (7, 1 << 20), (40, 64), (13, 12_345)] {
        for base in [0, 1 << 90, u128::MAX - 1, u128::MAX / 3] {
            let (member, mistake) = (Hash::from_u128(base), Hash::from_u128(base + 1));
            let mut filter = filter(remainder_bits, slots.max(300));
            filter.insert(member).unwrap();
            if let Answer::Maybe(claim) = filter.check(mistake) {
                filter.adapt(&claim, &[member]).unwrap();
            }
            assert!(filter.contains(member) && !filter.contains(mistake));
            filter.validate().unwrap();
        }
    }
}

#[test]
fn suspect_inserted_after_listing_is_not_lost() {
    // Between listing and repair, another thread removes one suspect and inserts another. Counts
    // and prefixes still match.
    let mut filter = filter(8, 16);
    let mut map = MemoryMap::new();
    let (old, new, query) = (hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00), hash(0x3_aa_20_01_00));
    filter.insert(old).unwrap();
    map.insert(old, "old");
    let claim = claim(&filter, query);
    let listed = map.members(claim.suspects()).unwrap();
    filter.insert(new).unwrap();
    map.insert(new, "new");
    map.remove(old, "old");
    assert_eq!(filter.adapt(&claim, &listed), Err(AdaptError::Stale));
    assert_eq!(
        filter.adapt(&claim, Listing::new(&listed).dropping_ghosts()),
        Err(AdaptError::Stale)
    );
    assert!(filter.contains(new));
    // Repeat the call with a new claim. Now the fingerprint of the removed suspect is a ghost.
    let Answer::Maybe(claim) = filter.check(query) else { unreachable!() };
    let listed = map.members(claim.suspects()).unwrap();
    let refused = filter.adapt(&claim, &listed);
    assert_eq!(refused, Err(AdaptError::Unlisted { members: 1 }));
    let adaptation = filter.adapt(&claim, Listing::new(&listed).dropping_ghosts()).unwrap();
    assert_eq!((adaptation.lengthened, adaptation.ghosts), (1, 1));
    assert!(filter.contains(new) && !filter.contains(query) && !filter.contains(old));
}

#[test]
fn claims_of_a_different_filter_are_refused() {
    let mut filter = filter(8, 16);
    let (member, query) = (hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00));
    filter.insert(member).unwrap();
    let mut copy = filter.clone();
    assert_eq!(copy.adapt(&claim(&filter, query), &[member]), Err(AdaptError::Stale));
    copy.adapt(&claim(&copy, query), &[member]).unwrap();
    assert!(filter.contains(query) && !copy.contains(query));
}

#[test]
fn inserts_elsewhere_keep_a_claim_valid() {
    let mut filter = filter(8, 1 << 16);
    let quotient = |number: u128| Hash::from_u128(number << 112);
    let query = Hash::from_u128(quotient(7).as_u128() + 1);
    filter.insert(quotient(7)).unwrap();
    let claim = claim(&filter, query);
    for elsewhere in [6, 8, 100, 40_000] {
        filter.insert(quotient(elsewhere)).unwrap();
    }
    filter.adapt(&claim, &[quotient(7)]).unwrap();
    assert!(filter.contains(quotient(7)) && !filter.contains(query));
}

#[test]
fn batch_insert_makes_only_nearby_claims_stale() {
    let quotient = |number: u128| Hash::from_u128(number << 112);
    let query = Hash::from_u128(quotient(7).as_u128() + 1);
    let asked = || {
        let mut filter = filter(8, 1 << 16);
        filter.insert(quotient(7)).unwrap();
        let claim = claim(&filter, query);
        (filter, claim)
    };
    let (mut filter, claim) = asked();
    filter.insert_many(&[quotient(6), quotient(8), quotient(40_000)]).unwrap();
    filter.adapt(&claim, &[quotient(7)]).unwrap();
    for count in [2, 5000] {
        let (mut filter, claim) = asked();
        let batch: Vec<Hash> = (7..7 + count).map(quotient).collect();
        filter.insert_many(&batch).unwrap();
        assert_eq!(filter.adapt(&claim, &[quotient(7)]), Err(AdaptError::Stale));
    }
}

#[test]
fn batch_that_does_not_fit_changes_nothing() {
    // The run of the last quotient ends in the tail, which becomes full before the table.
    let mut filter = filter(8, 1000);
    let end = |number: u128| Hash::from_u128(u128::MAX - (number << 112));
    let (member, query) = (end(0), Hash::from_u128(u128::MAX - (1 << 100)));
    filter.insert(member).unwrap();
    let before = claim(&filter, query);
    filter.adapt(&before, &[member]).unwrap();
    let (prints, statistics) = (filter.iter().collect::<Vec<_>>(), filter.stats());
    for batch in [
        (0..900).map(end).collect::<Vec<_>>(),
        (0..2000).map(end).collect(),
        (0..900).map(|number| if number < 450 { hash(number << 8) } else { end(number) }).collect(),
    ] {
        let refused = filter.insert_many(&batch);
        assert!(matches!(refused, Err(InsertError::Full { .. })));
        assert_eq!((filter.iter().collect(), filter.stats()), (prints.clone(), statistics));
        filter.validate().unwrap();
        assert_eq!(filter.adapt(&before, &[member]).unwrap().lengthened, 0);
    }
    let mut empty = self::filter(8, 1000);
    assert!(empty.insert_many(&(0..900).map(end).collect::<Vec<_>>()).is_err());
    assert!(empty.is_empty() && empty.validate().is_ok());
    empty.insert_many(&[member, query]).unwrap();
    assert!(empty.contains(member) && empty.contains(query));
}

#[test]
fn claim_is_accepted_only_by_its_filter_even_after_a_swap() {
    let (member, query) = (hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00));
    let [mut one, mut other] = [filter(8, 16), filter(8, 16)];
    let mut copy = other.clone();
    for filter in [&mut one, &mut other, &mut copy] {
        filter.insert(member).unwrap();
    }
    let claim = claim(&one, query);
    assert_eq!(other.adapt(&claim, &[member]), Err(AdaptError::Stale));
    assert_eq!(copy.adapt(&claim, &[member]), Err(AdaptError::Stale));
    std::mem::swap(&mut one, &mut other);
    assert_eq!(one.adapt(&claim, &[member]), Err(AdaptError::Stale));
    other.adapt(&claim, &[member]).unwrap();
}

#[test]
fn unsorted_lists_are_refused() {
    let parameters = filter(8, 16).parameters();
    let (low, high) = (hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00));
    let unsorted = |members: &[Hash], mistakes: &[Hash]| {
        let (members, mistakes) = (members.to_vec(), mistakes.to_vec());
        match QuotientFilter::from_sorted(parameters, members, mistakes) {
            Err(BuildError::Unsorted(list)) => Some(list),
            _ => None,
        }
    };
    assert_eq!(unsorted(&[high, low], &[]), Some("members"));
    // The mistakes are before, between or after the members, or there are no members.
    for members in [&[Hash::MAX][..], &[hash(0x3_aa_18_00_00)], &[Hash::MIN], &[]] {
        assert_eq!(unsorted(members, &[high, low]), Some("mistakes"));
    }
    assert_eq!(unsorted(&[low, low], &[high, high]), None);
}

#[test]
fn refused_repair_changes_no_statistics_and_keeps_claims_valid() {
    let mut filter = filter(8, 2);
    let [a, b, query] = [0x11, 0x22, 0x33].map(|low| Hash::from_u128(0xaa << 119 | low << 110));
    filter.insert(a).unwrap();
    filter.insert(b).unwrap();
    let (claim, before) = (claim(&filter, query), filter.stats());
    filter.insert(Hash::MAX).unwrap_err();
    for listed in [&[a, b][..], &[a], &[a, b, b], &[a, b, query], &[a, Hash::MAX]] {
        let error = filter.adapt(&claim, listed).unwrap_err();
        assert_ne!(error, AdaptError::Stale, "{listed:?}");
        assert_eq!(filter.stats(), before);
    }
}

#[test]
fn each_repair_is_counted_once() {
    let mut filter = filter(8, 16);
    let (member, ghost) = (hash(0x3_aa_10_00_00), hash(0x3_aa_20_00_00));
    filter.insert(member).unwrap();
    let first = claim(&filter, hash(0x3_aa_10_10_00));
    for _ in 0..2 {
        filter.adapt(&first, &[member]).unwrap();
        assert_eq!(filter.stats().repairs, 1);
    }
    filter.insert(ghost).unwrap();
    let second = claim(&filter, hash(0x3_aa_20_10_00)); // only the ghost covers it
    let adaptation = filter.adapt(&second, Listing::new(&[member]).dropping_ghosts()).unwrap();
    assert_eq!((adaptation.lengthened, adaptation.ghosts), (0, 1));
    assert_eq!(filter.stats().repairs, 2);
}

#[test]
fn error_messages_say_what_to_do() {
    let mut filter = filter(8, 2);
    let [a, b, query] = [0x11, 0x22, 0x33].map(|low| Hash::from_u128(0xaa << 119 | low << 110));
    filter.insert(a).unwrap();
    filter.insert(b).unwrap();
    let claim = claim(&filter, query);
    let errors = [
        filter.adapt(&claim, &[a, b]).unwrap_err(),
        filter.adapt(&claim, &[a]).unwrap_err(),
        filter.adapt(&claim, &[a, b, b]).unwrap_err(),
        filter.adapt(&claim, &[a, b, query]).unwrap_err(),
        filter.adapt(&claim, &[a, Hash::MAX]).unwrap_err(),
    ];
    let messages = errors.map(|error| error.to_string());
    assert!(messages[0].contains("100.0 % load"), "{}", messages[0]);
    assert!(messages[1].contains("list them all"), "{}", messages[1]);
    assert!(messages[2].contains("not in the filter"), "{}", messages[2]);
    assert!(messages[3].contains("is a member"), "{}", messages[3]);
    assert!(messages[4].contains("list only members in it"), "{}", messages[4]);
    let full = filter.insert(Hash::MAX).unwrap_err().to_string();
    assert!(full.contains("build a larger one"), "{full}");
    filter.validate().unwrap();
    assert!(filter.contains(a) && filter.contains(b) && filter.len() == 2);
}
