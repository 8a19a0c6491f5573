//! Snapshots: saved filters are restored exactly, and damaged ones are refused or harmless.

mod flipped;
mod packed;
mod shards;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use twiceshy::KeyedSnapshot;
use twiceshy::quotient::Remainders;
use twiceshy::{
    Answer, Frozen, Hash, Keyed, Member, QuotientFilter, Secret, SecretMode, Snapshot,
    hash::KeyedHasher, snapshot::SnapshotError,
};
use twiceshy_model::quotient::{Form, hashes_of};
use twiceshy_model::snapshot::{HEADER, drive, read, seal};

const SLOTS_AT: usize = 16;
const LINE: usize = 64;

type FrozenFilter = Frozen<QuotientFilter>;

/// A pseudo-random number generator.
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

/// Applies random inserts, counts, values, removals, tombstones and repairs to a filter.
fn worn(mut filter: QuotientFilter, operations: u64, seed: u64) -> QuotientFilter {
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
            (1, Some(known))
                if members[&known] == 1
                    && filter.remove_trusting_keeping_repairs(known).is_ok() =>
            {
                members.remove(&known);
            }
            (2, Some(known)) if members[&known] == 1 && filter.remove_trusting(known).is_ok() => {
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

fn build(slots: u64, remainder_bits: u32, value_bits: u32) -> QuotientFilter {
    let builder = QuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.value_bits(value_bits).build().unwrap()
}

fn saved(filter: &QuotientFilter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    bytes
}

fn restored(bytes: &[u8]) -> Result<QuotientFilter, SnapshotError> {
    QuotientFilter::read_from(bytes)
}

fn assert_same(a: &QuotientFilter, b: &QuotientFilter) {
    assert_eq!((a.parameters(), a.stats()), (b.parameters(), b.stats()));
    assert!(a.iter().eq(b.iter()));
    b.validate().unwrap();
    assert_eq!(saved(a), saved(b));
}

/// Saves a filter, reads it in every way, and compares the results.
fn round_trip(filter: &QuotientFilter) {
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
    let form = Form::from(filter.parameters());
    hashes.extend(filter.iter().map(|entry| *hashes_of(&entry.fingerprint, form).start()));
    let mut maybe = Vec::new();
    frozen.contains_many(&hashes, &mut maybe);
    for (&hash, maybe) in hashes.iter().zip(maybe) {
        assert_eq!((frozen.contains(hash), maybe), (filter.contains(hash), filter.contains(hash)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn used_filters_are_restored(
        slots in 1u64..700, remainder_bits in 1u32..=56, value_bits in 0u32..=16,
        operations in 0u64..1500, seed: u64,
    ) {
        round_trip(&worn(build(slots, remainder_bits, value_bits), operations, seed));
    }

    /// Slots are wider than remainders, as in doubled filters.
    #[test]
    fn filters_with_wide_slots_and_fresh_remainders_are_restored(
        slots in 1u64..700, remainder_bits in 1u32..=20, wider in 0u32..=20, seed: u64,
        mixed: Option<[u8; 16]>,
    ) {
        let mut parameters = build(slots, remainder_bits, 3).parameters();
        parameters.slot_bits += wider;
        parameters.remainders = mixed.map_or(Remainders::PLAIN, Remainders::from_bytes);
        let none = || std::iter::empty::<Hash>();
        let filter = QuotientFilter::from_sorted(parameters, none(), none()).unwrap();
        round_trip(&worn(filter, slots, seed));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        drive(&bytes);
    }

    /// Reads a valid header, followed by random bytes as the table.
    #[test]
    fn lookups_in_random_tables_terminate(
        slots in prop_oneof![1u64..2000, 100_000u64..200_000], remainder_bits in 1u32..=56,
        narrower in 0u32..=56, value_bits in 0u32..=16, used: u64, seed: u64, kind in 0usize..7,
    ) {
        let mut bytes = saved(&build(slots, remainder_bits, value_bits));
        let used = used % (slots + 1);
        bytes[56..64].copy_from_slice(&used.to_le_bytes());
        // Slots are wider than remainders, as in a doubled filter.
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
            // Some spills are stored; the rest are saturated, so lookups have to search.
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

/// Returns a filter whose runs are so far from home that spills don't fit in their byte.
fn crowded() -> QuotientFilter {
    let mut filter = build(40_000, 9, 0);
    let mut numbers = Numbers::new(5);
    // All hashes are in the first 64th of the table.
    for _ in 0..38_000 {
        filter.insert(Hash::from_u128(numbers.next() >> 6)).unwrap();
    }
    assert!(filter.details().fingerprints > 20_000);
    filter
}

#[test]
fn filter_with_long_spills_is_restored_with_the_same_answers() {
    let filter = crowded();
    round_trip(&filter);
    let frozen = FrozenFilter::from_bytes(saved(&filter)).unwrap();
    let form = Form::from(filter.parameters());
    let stored: Vec<_> = filter.iter().map(|entry| hashes_of(&entry.fingerprint, form)).collect();
    let mut numbers = Numbers::new(6);
    for _ in 0..5000 {
        let hash = Hash::from_u128(numbers.next() >> 6);
        let before = stored.partition_point(|hashes| *hashes.start() <= hash);
        let covered = before.checked_sub(1).is_some_and(|index| stored[index].contains(&hash));
        assert_eq!(frozen.contains(hash), covered);
    }
}

/// In these crafted tables, one run or cluster spans 200,000 lines. Each lookup must end.
#[test]
fn lookups_terminate_even_if_a_run_spans_the_table() {
    let empty = saved(&build(1 << 23, 9, 0));
    for (spill, planes) in [(255, 0xff), (0, 0xff), (255, 0), (254, 0x55), (255, 0x2a)] {
        let mut bytes = empty.clone();
        for line in bytes[HEADER..].chunks_mut(LINE) {
            line.fill(planes);
            line[0] = spill;
        }
        // The first quotients are occupied. In some of these tables, no run ends after them.
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

/// Returns a filter with 9-bit slots, 42 per line, and some set bits in the first line.
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
fn lookup_answers_maybe_if_a_fingerprint_is_longer_than_a_hash() {
    let extended = (1..42).map(|lane| EXTENSION + lane);
    let frozen = crafted(1000, 0, extended.chain([OCCUPIED, RUN_END]));
    assert!(frozen.contains(Hash::MIN));
}

#[test]
fn lookup_of_a_run_in_the_last_slot_stays_within_the_table() {
    // The table has two lines, and a run in the last slot.
    let frozen = crafted(1, 83, [OCCUPIED]);
    assert!(frozen.contains(Hash::MIN));
}

#[test]
fn lookup_answers_maybe_if_a_run_leaves_the_table() {
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
fn truncated_snapshots_are_refused() {
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
fn flipped_bits_are_noticed() {
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

/// A restored filter has lost nothing of the table, so writing its fingerprints again gives the
/// same bytes.
#[test]
fn flipped_table_bits_are_refused_or_restored_exactly() {
    // Some slots with counters are next to plain ones. In the second filter, digits extend past a
    // hash's last bit.
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
            let again = QuotientFilter::merged(&[&other]).unwrap();
            assert!(saved(&again)[HEADER..] == flipped[HEADER..], "bit {bit}");
        }
    }
}

#[test]
fn reading_ignores_bytes_after_the_snapshot_and_frozen_filters_refuse_them() {
    let mut bytes = small();
    bytes.push(7);
    let mut rest = &bytes[..];
    QuotientFilter::read_from(&mut rest).unwrap();
    assert_eq!(rest, [7]);
    let error = FrozenFilter::from_bytes(bytes).unwrap_err();
    assert!(matches!(error, SnapshotError::TooLong { .. }), "{error}");
}

#[test]
fn other_files_and_versions_are_refused_with_a_clear_error() {
    let error = restored(b"SQLite format 3\0").unwrap_err();
    assert!(error.to_string().starts_with("this is not a snapshot of a filter"), "{error}");
    let mut bytes = small();
    bytes[8] = 2;
    let error = restored(&bytes).unwrap_err();
    assert!(matches!(error, SnapshotError::Version { found: 2 }));
    assert!(error.to_string().contains("version 2"), "{error}");
}

/// Changes each number of the header, and corrects the checksum.
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
        (96, 8),
        (104, 8),
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
            // These changes may be valid: one more slot, a different value width, a different
            // growth load, or a different odd number for the remainders.
            let may_be_valid = [16, 32, 88].contains(&at) || at == 96 && change == u64::MAX;
            assert!(result.is_err() || may_be_valid, "{change:x} at {at}");
            assert!(!matches!(result, Err(SnapshotError::Checksum { .. })), "{change:x} at {at}");
        }
    }
}

#[test]
fn restored_filter_still_grows() {
    let growing = QuotientFilter::builder().slots(50).remainder_bits(12).grow_at(0.8);
    let mut filter = restored(&saved(&growing.build().unwrap())).unwrap();
    let mut numbers = Numbers::new(5);
    for _ in 0..200 {
        filter.insert(Hash::from_u128(numbers.next())).unwrap();
    }
    assert_eq!(filter.parameters().slots, 400);
    round_trip(&filter);
}

/// A filter that can't grow any more can use all its slots, even after it is restored. A batch that
/// is undone leaves it unchanged.
#[test]
fn restored_full_filter_undoes_failed_batches() {
    let growing = QuotientFilter::builder().slots(40).remainder_bits(1).grow_at(0.5);
    let mut filter = growing.build().unwrap();
    let hash = |number: u128| Hash::from_u128(number << 121 | 1);
    (0..35).for_each(|number| filter.insert(hash(number)).unwrap());
    filter.remove_trusting_keeping_repairs(hash(7)).unwrap();
    assert!(filter.stats().load > 0.8);
    let mut back = restored(&saved(&filter)).unwrap();
    // The first insert replaces a tombstone and frees a slot; there is no room for the rest.
    let many: Vec<Hash> = [7].into_iter().chain(35..60).map(hash).collect();
    assert!(back.insert_many(&many).is_err());
    assert_same(&filter, &back);
    back.insert(hash(7)).unwrap();
    back.validate().unwrap();
}

/// If such filters were accepted, one insert would double them until memory runs out.
#[test]
fn filters_that_would_grow_endlessly_are_refused() {
    let growing = QuotientFilter::builder().slots(50).remainder_bits(56).grow_at(0.1);
    let bytes = saved(&worn(growing.build().unwrap(), 20, 1));
    let slots = restored(&bytes).unwrap().parameters().slots;
    assert_eq!(slots, 200);
    for load in [1e-300, 1e-9, 0.099, 1.1, f64::INFINITY, f64::NAN, -0.5, -0.0] {
        let mut crafted = bytes.clone();
        crafted[88..96].copy_from_slice(&load.to_le_bytes());
        seal(&mut crafted);
        let error = restored(&crafted).unwrap_err();
        assert!(error.to_string().contains("load at which it grows"), "{load}: {error}");
    }
    // A full filter with the lowest valid growth load is accepted, because it doubles only a few
    // times.
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

/// A header may claim any size, but reading ends with the input.
#[test]
fn reading_stops_at_the_end_of_the_file_if_the_stated_size_is_huge() {
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

/// A folder for one test, which is removed on drop.
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
    // Replacing the file doesn't change a filter that is already open.
    assert_same(&old, &opened.to_filter().unwrap());
    assert_same(&new, &FrozenFilter::open(&path).unwrap().to_filter().unwrap());
    assert_same(&new, &QuotientFilter::open(&path).unwrap());
}

/// If the file were mapped into memory, truncating it would kill the process.
#[test]
fn truncating_an_opened_file_changes_no_answers() {
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
fn errors_name_the_file_and_failed_saves_leave_no_files() {
    let folder = Folder::new("errors");
    let filter = build(20, 5, 0);
    let missing = folder.0.join("no-such-folder").join("filter");
    for error in [
        filter.save(&missing).unwrap_err(),
        QuotientFilter::open(&missing).unwrap_err(),
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
fn saving_to_a_full_writer_returns_an_error() {
    let filter = build(20, 5, 0);
    let mut room = [0; 300];
    assert!(matches!(filter.write_to(&mut room[..]), Err(SnapshotError::Io(_))));
}

type Restored = Result<Keyed<u64, QuotientFilter>, SnapshotError>;

#[test]
fn secrets_are_saved_only_on_request() {
    let secret = Secret::from_bytes(*b"sixteen secrets!");
    let mut keyed = QuotientFilter::builder()
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

/// A filter of hashes has no secret.
#[test]
fn filter_of_hashes_accepts_any_secret_after_restoring() {
    let mut keyed = QuotientFilter::builder().capacity(100).build_keyed::<u64>().unwrap();
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
        // The filter accepts any secret now. Saved with a secret, it refuses others again.
        let bytes = saved(&alone);
        let wrong: Keyed<u64, QuotientFilter> =
            Keyed::read_from(&bytes[..], Some(other())).unwrap();
        assert_eq!(wrong.len(), 1);
        let right: Keyed<u64, QuotientFilter> =
            Keyed::read_from(&bytes[..], Some(secret())).unwrap();
        let mut again = Vec::new();
        right.write_to(&mut again, SecretMode::Omit).unwrap();
        assert_eq!(again, marked);
        // A copy of a frozen filter for keys keeps the secret.
        let frozen =
            Keyed::<u64, FrozenFilter>::from_bytes(marked.clone(), Some(secret())).unwrap();
        let mut copied = Vec::new();
        frozen.to_filter().unwrap().write_to(&mut copied, SecretMode::Omit).unwrap();
        assert_eq!(copied, marked);
    }
}

#[test]
fn secret_in_a_snapshot_must_match_its_mark_and_be_followed_by_zeros() {
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
    assert!(refused(&|bytes| bytes[end - 1] = 1).contains("after the secret"));
    assert!(refused(&|bytes| bytes[start + 16] = 1).contains("after the secret"));
    assert!(refused(&|bytes| bytes[start] ^= 1).contains("a different secret"));
    assert!(refused(&|bytes| bytes[80] ^= 1).contains("a different secret"));
    assert!(refused(&|bytes| bytes[80..88].fill(0)).contains("no mark of it"));
}

#[cfg(unix)]
#[test]
fn file_with_the_secret_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    type Users = Keyed<str, QuotientFilter>;
    let folder = Folder::new("secret");
    let path = folder.0.join("filter");
    let keyed: Users = QuotientFilter::builder().capacity(10).build_keyed().unwrap();
    keyed.save(&path, SecretMode::Include).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    Users::open(&path, None).unwrap();
    Users::open(&path, Some(keyed.secret().clone())).unwrap();
    let error = Users::open(&path, Some(Secret::from_bytes([0; 16]))).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::OtherSecret));
    assert!(error.to_string().contains("filter: "), "{error}");
}

/// Returns a file of format version 1. It was written when every removal that kept repairs left a
/// tombstone, so the same operations make a different filter today.
fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    let kept = std::fs::read(fixture_path(name)).unwrap();
    read(&kept);
    kept
}

#[test]
fn version_1_is_read_and_written_unchanged() {
    let kept = fixture("v1.twiceshy");
    let filter = restored(&kept).unwrap();
    filter.validate().unwrap();
    assert_eq!(filter.parameters(), build(100, 9, 3).parameters());
    assert!(filter.stats().repairs > 0 && filter.details().extension_slots > 10);
    let entries: Vec<_> = filter.iter().collect();
    assert!(entries.iter().any(|entry| entry.count == 0) && entries.len() > 50);
    assert!(entries.iter().any(|entry| entry.count > 300 && entry.value > 0));
    assert!(saved(&filter) == kept, "it would be written differently today");

    let kept = fixture("v1-mixed.twiceshy");
    let mixed = restored(&kept).unwrap();
    mixed.validate().unwrap();
    assert!(mixed.stats().repairs > 0 && !mixed.parameters().remainders.is_plain());
    assert!(saved(&mixed) == kept, "it would be written differently today");

    let kept = fixture("v1-with-secret.twiceshy");
    let keyed: Keyed<u64, QuotientFilter> = Keyed::read_from(&kept[..], None).unwrap();
    let mut bytes = Vec::new();
    keyed.write_to(&mut bytes, SecretMode::Include).unwrap();
    assert!(bytes == kept, "it would be written differently today");
}

#[cfg(feature = "serde")]
mod serde {
    use super::*;
    use ::serde::de::value::{BytesDeserializer, Error};
    use ::serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Index {
        name: String,
        filter: QuotientFilter,
    }

    #[test]
    fn filters_can_be_serialized_as_fields_of_structs() {
        let index = Index { name: "keys".into(), filter: worn(build(300, 9, 2), 200, 9) };
        let json = serde_json::to_string(&index).unwrap();
        let back: Index = serde_json::from_str(&json).unwrap();
        assert_eq!(back.name, index.name);
        assert_same(&back.filter, &index.filter);
    }

    #[test]
    fn deserializing_invalid_bytes_fails() {
        let bytes = small();
        let from = |bytes: &[u8]| {
            let bytes = BytesDeserializer::<Error>::new(bytes);
            QuotientFilter::deserialize(bytes)
        };
        assert_eq!(saved(&from(&bytes).unwrap()), bytes);
        let error = from(&bytes[..200]).unwrap_err();
        assert!(error.to_string().contains("200 of"), "{error}");
        assert!(from(&[&bytes[..], &[0]].concat()).is_err());
        assert!(serde_json::from_str::<QuotientFilter>("[1, 2, 3]").is_err());
        assert!(serde_json::from_str::<QuotientFilter>("\"text\"").is_err());
    }
}
