//! Snapshots: what is saved comes back, and what was changed is noticed or harmless.

#[path = "snapshot/flipped.rs"]
mod flipped;
#[path = "snapshot/shards.rs"]
mod shards;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use twiceshy::{
    AdaptiveQuotientFilter, Answer, Frozen, Hash, Keyed, KeyedHasher, KeyedSnapshot, Member,
    Secret, SecretMode, Snapshot, SnapshotError,
};
use twiceshy_model::snapshot::{HEADER, drive, read, seal};

const SLOTS_AT: usize = 16;
const LINE: usize = 64;

type FrozenFilter = Frozen<AdaptiveQuotientFilter>;

/// Numbers that look random.
struct Numbers(u64, KeyedHasher);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(0, KeyedHasher::new(&Secret::from_bytes((u128::from(seed)).to_le_bytes())))
    }

    fn next(&mut self) -> u128 {
        self.0 += 1;
        self.1.hash(&self.0).as_u128()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() as u64 % bound
    }
}

/// A filter after random inserts, counts, values, removals, tombstones and repairs.
fn worn(mut filter: AdaptiveQuotientFilter, operations: u64, seed: u64) -> AdaptiveQuotientFilter {
    let mut numbers = Numbers::new(seed);
    let mut members = BTreeMap::<Hash, u64>::new();
    let value_bits = filter.parameters().value_bits;
    for _ in 0..operations {
        let known = members.keys().nth(numbers.below(20) as usize).copied();
        let hash = Hash::from_u128(numbers.next());
        match (numbers.below(10), known) {
            (0, Some(known)) if filter.insert_times(known, 300).is_ok() => {
                *members.get_mut(&known).unwrap() += 300;
            }
            (1, Some(known)) if members[&known] == 1 && filter.bury(known).is_ok() => {
                members.remove(&known);
            }
            (2, Some(known)) if members[&known] == 1 && filter.remove(known).is_ok() => {
                members.remove(&known);
            }
            (3, Some(known)) => {
                let _ = filter.set_value(known, numbers.next() as u64 & ((1 << value_bits) - 1));
            }
            (4, Some(known)) => {
                let near = Hash::from_u128(known.as_u128() ^ 1 << numbers.below(100));
                if let Answer::Maybe(claim) = filter.check(near) {
                    let listed: Vec<Member> = members
                        .range(claim.suspects())
                        .map(|(&hash, &count)| Member { hash, count })
                        .collect();
                    let _ = filter.adapt(&claim, &listed);
                }
            }
            _ if filter.insert(hash).is_ok() => *members.entry(hash).or_default() += 1,
            _ => {}
        }
    }
    filter.validate().unwrap();
    filter
}

fn build(slots: u64, remainder_bits: u32, value_bits: u32) -> AdaptiveQuotientFilter {
    let builder = AdaptiveQuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.value_bits(value_bits).build().unwrap()
}

fn saved(filter: &AdaptiveQuotientFilter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    bytes
}

fn restored(bytes: &[u8]) -> Result<AdaptiveQuotientFilter, SnapshotError> {
    AdaptiveQuotientFilter::read_from(bytes)
}

fn assert_same(a: &AdaptiveQuotientFilter, b: &AdaptiveQuotientFilter) {
    assert_eq!((a.parameters(), a.statistics()), (b.parameters(), b.statistics()));
    assert!(a.iter().eq(b.iter()));
    b.validate().unwrap();
    assert_eq!(saved(a), saved(b));
}

/// Saves, and reads in every way.
fn round_trip(filter: &AdaptiveQuotientFilter) {
    let bytes = saved(filter);
    assert_same(filter, &restored(&bytes).unwrap());
    read(&bytes);
    let frozen = FrozenFilter::from_bytes(bytes).unwrap();
    frozen.validate().unwrap();
    assert_same(filter, &frozen.to_filter().unwrap());
    assert_eq!(frozen.parameters(), filter.parameters());
    assert_eq!(frozen.len(), filter.len());
    let mut numbers = Numbers::new(1);
    let mut hashes: Vec<Hash> = (0..1000).map(|_| Hash::from_u128(numbers.next())).collect();
    hashes.extend(filter.iter().map(|entry| *entry.fingerprint.hashes().start()));
    let mut maybe = Vec::new();
    frozen.contains_many(&hashes, &mut maybe);
    for (&hash, maybe) in hashes.iter().zip(maybe) {
        assert_eq!((frozen.contains(hash), maybe), (filter.contains(hash), filter.contains(hash)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn worn_filters_come_back(
        slots in 1u64..700, remainder_bits in 1u32..=56, value_bits in 0u32..=16,
        operations in 0u64..1500, seed: u64,
    ) {
        round_trip(&worn(build(slots, remainder_bits, value_bits), operations, seed));
    }

    /// Slots that are wider than remainders, as of doubled filters.
    #[test]
    fn filters_of_wide_slots_come_back(
        slots in 1u64..700, remainder_bits in 1u32..=20, wider in 0u32..=20, seed: u64,
    ) {
        let mut parameters = build(slots, remainder_bits, 3).parameters();
        parameters.slot_bits += wider;
        let none = || std::iter::empty::<Hash>();
        let filter = AdaptiveQuotientFilter::from_sorted(parameters, none(), none()).unwrap();
        round_trip(&worn(filter, slots, seed));
    }

    #[test]
    fn any_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive(&bytes);
    }

    /// A right header, and anything for a table.
    #[test]
    fn garbage_is_asked_in_vain(
        slots in prop_oneof![1u64..2000, 100_000u64..200_000], remainder_bits in 1u32..=56,
        narrower in 0u32..=56, value_bits in 0u32..=16, used: u64, seed: u64, kind in 0usize..7,
    ) {
        let mut bytes = saved(&build(slots, remainder_bits, value_bits));
        let used = used % (slots + 1);
        bytes[56..64].copy_from_slice(&used.to_le_bytes());
        // As of a doubled filter.
        bytes[24] -= (narrower % remainder_bits) as u8;
        let mut numbers = Numbers::new(seed);
        for (index, line) in bytes[HEADER..].chunks_mut(LINE).enumerate() {
            for part in line.chunks_mut(16) {
                let number = match kind {
                    0 => u128::MAX,
                    1 | 2 => numbers.next(),
                    3 | 4 => numbers.next() & numbers.next() & numbers.next(),
                    _ => numbers.next() | numbers.next() | numbers.next(),
                };
                part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
            }
            // Known here and there, so that the others are searched for.
            match kind {
                0 | 2 | 4 | 6 => line[0] = if index % 16 == 0 { 0 } else { 255 },
                3 => line[0] = 0,
                _ => {}
            }
        }
        seal(&mut bytes);
        read(&bytes);
    }
}

/// Runs that are pushed far from home, so that spills don't fit their byte.
fn crowded() -> AdaptiveQuotientFilter {
    let mut filter = build(40_000, 9, 0);
    let mut numbers = Numbers::new(5);
    // In the first 64th of the table.
    for _ in 0..38_000 {
        filter.insert(Hash::from_u128(numbers.next() >> 6)).unwrap();
    }
    assert!(filter.statistics().fingerprints > 20_000);
    filter
}

#[test]
fn crowded_filters_come_back_and_are_asked_exactly() {
    let filter = crowded();
    round_trip(&filter);
    let frozen = FrozenFilter::from_bytes(saved(&filter)).unwrap();
    let stored: Vec<_> = filter.iter().map(|entry| entry.fingerprint).collect();
    let mut numbers = Numbers::new(6);
    for _ in 0..5000 {
        let hash = Hash::from_u128(numbers.next() >> 6);
        let before = stored.partition_point(|fingerprint| *fingerprint.hashes().start() <= hash);
        let covered = before.checked_sub(1).is_some_and(|index| stored[index].covers(hash));
        assert_eq!(frozen.contains(hash), covered);
    }
}

/// One run or cluster through a table of 200,000 lines, of every crafted kind: each lookup
/// ends.
#[test]
fn endless_runs_are_not_followed_for_ever() {
    let empty = saved(&build(1 << 23, 9, 0));
    for (spill, planes) in [(255, 0xff), (0, 0xff), (255, 0), (254, 0x55), (255, 0x2a)] {
        let mut bytes = empty.clone();
        for line in bytes[HEADER..].chunks_mut(LINE) {
            line.fill(planes);
            line[0] = spill;
        }
        // Occupied, without any run end behind.
        bytes[HEADER + 1] = 0xff;
        for first in [spill, 0] {
            bytes[HEADER] = first;
            seal(&mut bytes);
            let frozen = FrozenFilter::from_bytes(bytes.clone()).unwrap();
            for number in 0..64 {
                frozen.contains(Hash::from_u128(number << 122));
                frozen.contains(Hash::from_u128(number << 98));
            }
            assert!(frozen.validate().is_err() && frozen.to_filter().is_err());
        }
    }
}

/// A table of 9-bit slots, 42 in a line, with some bits of its first line set.
fn crafted(slots: u64, spill: u8, bits: impl IntoIterator<Item = usize>) -> FrozenFilter {
    let mut bytes = saved(&build(slots, 9, 0));
    bytes[HEADER] = spill;
    for bit in bits {
        bytes[HEADER + bit / 8] |= 1 << (bit % 8);
    }
    seal(&mut bytes);
    read(&bytes);
    FrozenFilter::from_bytes(bytes).unwrap()
}

const OCCUPIED: usize = 8;
const RUN_END: usize = OCCUPIED + 42;
const EXTENSION: usize = RUN_END + 42;

#[test]
fn fingerprints_longer_than_any_hash_may_be_its() {
    let extended = (1..42).map(|lane| EXTENSION + lane);
    let frozen = crafted(1000, 0, extended.chain([OCCUPIED, RUN_END]));
    assert!(frozen.contains(Hash::MIN));
}

#[test]
fn nothing_is_behind_the_last_slot() {
    // Two lines, and a run in the last slot.
    let frozen = crafted(1, 83, [OCCUPIED]);
    assert!(frozen.contains(Hash::MIN));
}

#[test]
fn a_run_that_leaves_the_table_may_hold_anything() {
    let frozen = crafted(1000, 0, [OCCUPIED]);
    assert!(frozen.contains(Hash::from_u128(u128::MAX / 2000)));
}

fn small() -> Vec<u8> {
    saved(&worn(build(20, 5, 2), 40, 3))
}

fn small_with_secret() -> Vec<u8> {
    let filter = worn(build(20, 5, 0), 20, 4);
    let mut bytes = Vec::new();
    let keyed = Keyed::<u64, _>::new(filter, Secret::from_bytes([9; 16]));
    keyed.write_to(&mut bytes, SecretMode::Include).unwrap();
    bytes
}

#[test]
fn every_truncation_is_noticed() {
    for bytes in [small(), small_with_secret()] {
        for length in 0..bytes.len() {
            let cut = bytes[..length].to_vec();
            for error in [restored(&cut).unwrap_err(), FrozenFilter::from_bytes(cut).unwrap_err()] {
                assert!(matches!(error, SnapshotError::Truncated { .. }), "{length}: {error}");
            }
        }
    }
}

#[test]
fn every_bit_counts() {
    for bytes in [small(), small_with_secret()] {
        restored(&bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(restored(&flipped).is_err(), "bit {bit}");
            let opened = FrozenFilter::from_bytes(flipped);
            assert!(opened.and_then(|frozen| frozen.validate()).is_err(), "bit {bit}");
        }
    }
}

/// What is restored is all that is there: written again from its fingerprints, it is the same.
#[test]
fn every_bit_of_a_table_counts_though_its_checksum_is_right() {
    // Slots with counters beside plain ones; and digits that reach past a hash's last bit.
    for (slots, remainder_bits, differing) in [(150, 9, 90), (60, 50, 10)] {
        let mut filter = build(slots, remainder_bits, 0);
        let mut numbers = Numbers::new(slots);
        for _ in 0..slots / 3 {
            let hash = Hash::from_u128(numbers.next());
            filter.insert_times(hash, numbers.next() as u64 % 8 / 6 + 1).unwrap();
            let near = Hash::from_u128(hash.as_u128() ^ 1 << differing);
            if let (0, Answer::Maybe(claim)) = (numbers.next() % 6, filter.check(near)) {
                let listed = [Member { hash, count: filter.count(hash) }];
                filter.adapt(&claim, &listed).unwrap();
            }
        }
        let bytes = saved(&filter);
        for bit in HEADER * 8..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            seal(&mut flipped);
            let Ok(other) = restored(&flipped) else { continue };
            let again = AdaptiveQuotientFilter::merged(&[&other]).unwrap();
            assert!(saved(&again)[HEADER..] == flipped[HEADER..], "bit {bit}");
        }
    }
}

#[test]
fn what_follows_is_left_or_refused() {
    let mut bytes = small();
    bytes.push(7);
    let mut rest = &bytes[..];
    AdaptiveQuotientFilter::read_from(&mut rest).unwrap();
    assert_eq!(rest, [7]);
    let error = FrozenFilter::from_bytes(bytes).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLong { .. }), "{error}");
}

#[test]
fn other_files_and_other_versions_are_named() {
    let error = restored(b"SQLite format 3\0").unwrap_err();
    assert!(error.to_string().starts_with("this is no snapshot of a filter"), "{error}");
    let mut bytes = small();
    bytes[8] = 2;
    let error = restored(&bytes).unwrap_err();
    assert!(matches!(error, SnapshotError::Version { found: 2 }));
    assert!(error.to_string().contains("version 2"), "{error}");
}

/// Each number of the header changed, with the right checksum.
#[test]
fn impossible_headers_are_refused() {
    let bytes = saved(&worn(build(20, 5, 2), 30, 3));
    let fields = [
        (12, 4),
        (16, 8),
        (24, 4),
        (28, 4),
        (32, 4),
        (36, 4),
        (40, 8),
        (48, 8),
        (56, 8),
        (72, 8),
        (88, 8),
        (96, 4),
        (112, 4),
        (120, 4),
    ];
    for (at, size) in fields {
        for change in [1u64, 2, 1 << 31, 1 << 47, 1 << 48, 1 << 63, u64::MAX] {
            let mut crafted = bytes.clone();
            let before = crafted[at..at + size].to_vec();
            for (byte, change) in crafted[at..at + size].iter_mut().zip(change.to_le_bytes()) {
                *byte ^= change;
            }
            if crafted[at..at + size] == before {
                continue;
            }
            seal(&mut crafted);
            read(&crafted);
            let result = restored(&crafted);
            // One slot more, other bits of a value, or another load to grow at may be those of
            // another valid filter.
            assert!(result.is_err() || [16, 32, 88].contains(&at), "{change:x} at {at}");
            assert!(!matches!(result, Err(SnapshotError::Checksum { .. })), "{change:x} at {at}");
        }
    }
}

#[test]
fn a_filter_that_grows_still_does_when_it_is_back() {
    let growing = AdaptiveQuotientFilter::builder().slots(50).remainder_bits(12).grow_at(0.8);
    let mut filter = restored(&saved(&growing.build().unwrap())).unwrap();
    let mut numbers = Numbers::new(5);
    for _ in 0..200 {
        filter.insert(Hash::from_u128(numbers.next())).unwrap();
    }
    assert_eq!(filter.parameters().slots, 400);
    round_trip(&filter);
}

/// One that could not grow any more uses all slots; so does it when it is back, and what is
/// undone there has its place again.
#[test]
fn a_filter_that_is_fuller_than_it_grows_at_refuses_and_undoes() {
    let growing = AdaptiveQuotientFilter::builder().slots(40).remainder_bits(1).grow_at(0.5);
    let mut filter = growing.build().unwrap();
    let hash = |number: u128| Hash::from_u128(number << 121 | 1);
    (0..35).for_each(|number| filter.insert(hash(number)).unwrap());
    filter.bury(hash(7)).unwrap();
    assert!(filter.load() > 0.8);
    let mut back = restored(&saved(&filter)).unwrap();
    // The first takes the place of a tombstone, and frees a slot; there is none for all others.
    let many: Vec<Hash> = [7].into_iter().chain(35..60).map(hash).collect();
    assert!(back.insert_many(&many).is_err());
    assert_same(&filter, &back);
    back.insert(hash(7)).unwrap();
    back.validate().unwrap();
}

/// Or else one insert would double it until there is no memory.
#[test]
fn no_filter_that_grows_for_ever_is_restored() {
    let growing = AdaptiveQuotientFilter::builder().slots(50).remainder_bits(56).grow_at(0.1);
    let bytes = saved(&worn(growing.build().unwrap(), 20, 1));
    let slots = restored(&bytes).unwrap().parameters().slots;
    assert_eq!(slots, 200);
    for load in [1e-300, 1e-9, 0.099, 1.1, f64::INFINITY, f64::NAN, -0.5, -0.0] {
        let mut crafted = bytes.clone();
        crafted[88..96].copy_from_slice(&load.to_le_bytes());
        seal(&mut crafted);
        let error = restored(&crafted).unwrap_err();
        assert!(error.to_string().contains("no filter grows at such a load"), "{load}: {error}");
    }
    // As full as can be, and at the least load: it doubles, but not often.
    let mut full = build(1000, 30, 0);
    let mut numbers = Numbers::new(2);
    while full.insert(Hash::from_u128(numbers.next())).is_ok() {}
    let mut crafted = saved(&full);
    crafted[88..96].copy_from_slice(&0.1f64.to_le_bytes());
    seal(&mut crafted);
    let mut filter = restored(&crafted).unwrap();
    filter.insert(Hash::from_u128(numbers.next())).unwrap();
    assert_eq!(filter.parameters().slots, 16_000);
    filter.validate().unwrap();
}

/// However large the header says that the filter is, what is not there is not waited for.
#[test]
fn absurd_sizes_end_with_the_file() {
    let bytes = saved(&build(20, 5, 0));
    for log2 in [20, 30, 36, 40, 44, 48] {
        let slots = 1u64 << log2;
        let mut crafted = bytes.clone();
        crafted[SLOTS_AT..SLOTS_AT + 8].copy_from_slice(&slots.to_le_bytes());
        let lines = (slots + 4 * slots.isqrt() + 64).div_ceil(56);
        crafted[72..80].copy_from_slice(&lines.to_le_bytes());
        seal(&mut crafted);
        let error = restored(&crafted).unwrap_err();
        assert!(
            matches!(error, SnapshotError::Truncated { .. } | SnapshotError::Memory { .. }),
            "{error}"
        );
        let error = FrozenFilter::from_bytes(crafted).unwrap_err();
        assert!(matches!(error, SnapshotError::Truncated { .. }), "{error}");
    }
}

/// A folder of its own for a test, removed behind it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("twiceshy-snapshot-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_replaced_opened_and_restored() {
    let folder = Folder::new("files");
    let path = folder.0.join("filter");
    let old = worn(build(500, 9, 0), 400, 1);
    old.save(&path).unwrap();
    let opened = FrozenFilter::open(&path).unwrap();
    let new = worn(build(900, 7, 0), 400, 2);
    new.save(&path).unwrap();
    assert_eq!(folder.names(), ["filter"]);
    // What was opened before stays as it was.
    assert_same(&old, &opened.to_filter().unwrap());
    assert_same(&new, &FrozenFilter::open(&path).unwrap().to_filter().unwrap());
    assert_same(&new, &AdaptiveQuotientFilter::open(&path).unwrap());
}

/// A mapped file that is truncated would kill the process.
#[test]
fn truncating_an_opened_file_changes_no_answer() {
    let folder = Folder::new("truncated");
    let path = folder.0.join("filter");
    let filter = worn(build(5000, 9, 0), 4000, 1);
    filter.save(&path).unwrap();
    let opened = FrozenFilter::open(&path).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    opened.validate().unwrap();
    assert_same(&filter, &opened.to_filter().unwrap());
}

#[test]
fn errors_name_the_file_and_leave_it() {
    let folder = Folder::new("errors");
    let filter = build(20, 5, 0);
    let missing = folder.0.join("no-such-folder").join("filter");
    for error in [
        filter.save(&missing).unwrap_err(),
        AdaptiveQuotientFilter::open(&missing).unwrap_err(),
        FrozenFilter::open(&missing).unwrap_err(),
    ] {
        assert!(error.to_string().contains("no-such-folder"), "{error}");
        assert!(matches!(error.cause(), SnapshotError::Io(_)));
    }
    // A folder can't be replaced by a file.
    let occupied = folder.0.join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    assert!(filter.save(&occupied).is_err());
    assert_eq!(folder.names(), ["occupied"]);
    let empty = folder.0.join("empty");
    std::fs::write(&empty, b"").unwrap();
    let error = FrozenFilter::open(&empty).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::Truncated { .. }), "{error}");
}

#[test]
fn a_writer_that_is_full_is_an_error() {
    let filter = build(20, 5, 0);
    let mut room = [0; 300];
    assert!(matches!(filter.write_to(&mut room[..]), Err(SnapshotError::Io(_))));
}

type Restored = Result<Keyed<u64, AdaptiveQuotientFilter>, SnapshotError>;

#[test]
fn secrets_are_saved_only_if_asked_for() {
    let secret = Secret::from_bytes(*b"sixteen secrets!");
    let mut keyed = AdaptiveQuotientFilter::builder()
        .capacity(100)
        .secret(secret.clone())
        .build_keyed::<u64>()
        .unwrap();
    (0..100).for_each(|key| keyed.insert(&key).unwrap());
    let holds = |bytes: &[u8]| bytes.windows(16).any(|window| window == secret.expose());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    keyed.write_to(&mut without, SecretMode::Omit).unwrap();
    keyed.write_to(&mut with, SecretMode::Include).unwrap();
    assert!(!holds(&without) && !holds(&saved(keyed.filter())) && holds(&with));

    let other = || Secret::from_bytes([1; 16]);
    let good: [Restored; 3] = [
        Keyed::read_from(&without[..], Some(secret.clone())),
        Keyed::read_from(&with[..], Some(secret.clone())),
        Keyed::read_from(&with[..], None),
    ];
    for keyed in good {
        let keyed = keyed.unwrap();
        assert!((0..100).all(|key| keyed.contains(&key)));
    }
    let wrong: [Restored; 2] =
        [Keyed::read_from(&without[..], Some(other())), Keyed::read_from(&with[..], Some(other()))];
    assert!(wrong.into_iter().all(|error| matches!(error, Err(SnapshotError::OtherSecret))));
    let none: Restored = Keyed::read_from(&without[..], None);
    assert!(matches!(none, Err(SnapshotError::NoSecret)));

    let frozen =
        Keyed::<u64, FrozenFilter>::from_bytes(with.clone(), Some(secret.clone())).unwrap();
    frozen.filter().validate().unwrap();
    let mut maybe = Vec::new();
    frozen.contains_many(&(0..100).collect::<Vec<u64>>(), &mut maybe);
    assert!(maybe.into_iter().all(|maybe| maybe));
    let error = Keyed::<u64, FrozenFilter>::from_bytes(with, Some(other())).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherSecret));
}

/// A filter of hashes knows nothing of secrets.
#[test]
fn a_filter_that_is_restored_alone_forgets_its_secret() {
    let mut keyed = AdaptiveQuotientFilter::builder().capacity(100).build_keyed::<u64>().unwrap();
    keyed.insert(&7).unwrap();
    let secret = || keyed.secret().clone();
    let other = || Secret::from_bytes([1; 16]);
    let (mut marked, mut with) = (Vec::new(), Vec::new());
    keyed.write_to(&mut marked, SecretMode::Omit).unwrap();
    keyed.write_to(&mut with, SecretMode::Include).unwrap();
    for bytes in [&marked, &with] {
        let alone = restored(bytes).unwrap();
        let frozen = FrozenFilter::from_bytes(bytes.clone()).unwrap();
        assert_same(&alone, &frozen.to_filter().unwrap());
        // So any secret is taken now, but the right one is told from others again.
        let bytes = saved(&alone);
        let wrong: Keyed<u64, AdaptiveQuotientFilter> =
            Keyed::read_from(&bytes[..], Some(other())).unwrap();
        assert_eq!(wrong.len(), 1);
        let right: Keyed<u64, AdaptiveQuotientFilter> =
            Keyed::read_from(&bytes[..], Some(secret())).unwrap();
        let mut again = Vec::new();
        right.write_to(&mut again, SecretMode::Omit).unwrap();
        assert_eq!(again, marked);
        // A copy of a frozen filter for keys has never forgotten it.
        let frozen =
            Keyed::<u64, FrozenFilter>::from_bytes(marked.clone(), Some(secret())).unwrap();
        let mut copied = Vec::new();
        frozen.to_filter().unwrap().write_to(&mut copied, SecretMode::Omit).unwrap();
        assert_eq!(copied, marked);
    }
}

#[test]
fn a_secret_section_is_a_secret_its_mark_and_zeros() {
    let bytes = small_with_secret();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut crafted = bytes.clone();
        change(&mut crafted);
        let section = crc32fast::hash(crafted.last_chunk::<LINE>().unwrap());
        crafted[120..124].copy_from_slice(&section.to_le_bytes());
        seal(&mut crafted);
        read(&crafted);
        restored(&crafted).unwrap_err().to_string()
    };
    let (end, start) = (bytes.len(), bytes.len() - LINE);
    assert!(refused(&|bytes| bytes[end - 1] = 1).contains("behind the secret"));
    assert!(refused(&|bytes| bytes[start + 16] = 1).contains("behind the secret"));
    assert!(refused(&|bytes| bytes[start] ^= 1).contains("another secret"));
    assert!(refused(&|bytes| bytes[80] ^= 1).contains("another secret"));
    assert!(refused(&|bytes| bytes[80..88].fill(0)).contains("no mark of it"));
}

#[cfg(unix)]
#[test]
fn a_file_with_the_secret_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    type Users = Keyed<str, AdaptiveQuotientFilter>;
    let folder = Folder::new("secret");
    let path = folder.0.join("filter");
    let keyed: Users = AdaptiveQuotientFilter::builder().capacity(10).build_keyed().unwrap();
    keyed.save(&path, SecretMode::Include).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    Users::open(&path, None).unwrap();
    Users::open(&path, Some(keyed.secret().clone())).unwrap();
    let error = Users::open(&path, Some(Secret::from_bytes([0; 16]))).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::OtherSecret));
    assert!(error.to_string().contains("filter: "), "{error}");
}

/// Compares with a file of the first version of the format. If it is missing, it is written,
/// to be looked at and kept.
fn compare_with_fixture(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(&path, bytes).unwrap();
        panic!("{name} was missing, and is written now");
    };
    read(&kept);
    assert_same(&restored(&kept).unwrap(), &restored(bytes).unwrap());
    assert!(kept == bytes, "{name} would be written differently today");
}

#[test]
fn version_1_is_read_and_written_for_ever() {
    let filter = worn(build(100, 9, 3), 130, 7);
    let statistics = filter.statistics();
    assert!(statistics.adaptations > 0 && statistics.extension_slots > 10);
    compare_with_fixture("v1.twiceshy", &saved(&filter));
    let secret = Secret::from_bytes(*b"not very secret.");
    let keyed = Keyed::<u64, _>::new(worn(build(30, 5, 0), 25, 8), secret);
    let mut bytes = Vec::new();
    keyed.write_to(&mut bytes, SecretMode::Include).unwrap();
    compare_with_fixture("v1-with-secret.twiceshy", &bytes);
}

#[cfg(feature = "serde")]
mod serde {
    use super::*;
    use ::serde::de::value::{BytesDeserializer, Error};
    use ::serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Index {
        name: String,
        filter: AdaptiveQuotientFilter,
    }

    #[test]
    fn filters_are_parts_of_other_things() {
        let index = Index { name: "keys".into(), filter: worn(build(300, 9, 2), 200, 9) };
        let json = serde_json::to_string(&index).unwrap();
        let back: Index = serde_json::from_str(&json).unwrap();
        assert_eq!(back.name, index.name);
        assert_same(&back.filter, &index.filter);
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        let bytes = small();
        let from = |bytes: &[u8]| {
            let bytes = BytesDeserializer::<Error>::new(bytes);
            AdaptiveQuotientFilter::deserialize(bytes)
        };
        assert_eq!(saved(&from(&bytes).unwrap()), bytes);
        let error = from(&bytes[..200]).unwrap_err();
        assert!(error.to_string().contains("200 of"), "{error}");
        assert!(from(&[&bytes[..], &[0]].concat()).is_err());
        assert!(serde_json::from_str::<AdaptiveQuotientFilter>("[1, 2, 3]").is_err());
        assert!(serde_json::from_str::<AdaptiveQuotientFilter>("\"text\"").is_err());
    }
}
