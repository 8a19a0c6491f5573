//! Snapshots of concurrent filters.

use super::{Folder, FrozenFilter, LINE, Numbers, build, saved as saved_plain, worn};
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use twiceshy::KeyedSnapshot;
use twiceshy::{
    Answer, Concurrent, ExtensionFilter, Hash, Keyed, PlainQuotientFilter, QuotientFilter, Secret,
    SecretMode, Snapshot, TelescopingFilter, builder::Builder, concurrent::PlainShard,
    snapshot::SnapshotError,
};
use twiceshy_deadline::Deadline;
use twiceshy_model::concurrent::{Members, check_entries, entries_of, forget, list};
use twiceshy_model::snapshot::{HEADER, read_shards, seal_shards, shards_in};

fn builder() -> Builder<QuotientFilter> {
    QuotientFilter::builder()
}

fn saved(filter: &Concurrent<QuotientFilter>) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    bytes
}

fn restored(bytes: &[u8]) -> Result<Concurrent<QuotientFilter>, SnapshotError> {
    Concurrent::<QuotientFilter>::read_from(bytes)
}

/// Applies random inserts, counts, values, removals and repairs to a filter.
fn wear(
    filter: &Concurrent<QuotientFilter>,
    members: &mut Members,
    operations: u64,
    numbers: &mut Numbers,
) {
    for _ in 0..operations {
        let known = members.keys().nth(numbers.below(20) as usize).copied();
        let hash = Hash::from_u128(numbers.next());
        match (numbers.below(8), known) {
            (0, Some(known)) if filter.insert_times(known, 300).is_ok() => {
                *members.get_mut(&known).unwrap() += 300;
            }
            (1, Some(known)) if filter.remove_trusting(known).is_ok() => forget(members, known),
            (2, Some(known)) => {
                let _ = filter.set_value(known, 1);
            }
            (3, Some(known)) => {
                let near = Hash::from_u128(known.as_u128() ^ 1 << numbers.below(100));
                if let Answer::Maybe(claim) = filter.check(near) {
                    let _ = filter.adapt(&claim, list(members, claim.suspects()));
                }
            }
            _ if filter.insert(hash).is_ok() => *members.entry(hash).or_default() += 1,
            _ => {}
        }
    }
}

fn assert_same(a: &Concurrent<QuotientFilter>, b: &Concurrent<QuotientFilter>) {
    assert_eq!((a.parameters(), a.stats()), (b.parameters(), b.stats()));
    assert_eq!(entries_of(a), entries_of(b));
    b.validate().unwrap();
    assert_eq!(saved(a), saved(b));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn used_shards_are_restored_and_continue_as_before(
        shards in prop::sample::select(vec![1usize, 2, 8, 32]), slots in 1u64..900,
        remainder_bits in 1u32..=30, value_bits in 0u32..=4, grows: bool,
        operations in 0u64..1200, seed: u64,
    ) {
        let shape = builder().slots(slots).remainder_bits(remainder_bits).value_bits(value_bits);
        let shape = if grows { shape.grow_at(0.8) } else { shape };
        let filter = shape.shards(shards).build_concurrent().unwrap();
        let (mut numbers, mut members) = (Numbers::new(seed), Members::new());
        wear(&filter, &mut members, operations, &mut numbers);
        let bytes = saved(&filter);
        prop_assert_eq!(bytes.len() % LINE, 0);
        prop_assert_eq!(shards_in(&bytes).len(), shards);
        let back = restored(&bytes).unwrap();
        assert_same(&filter, &back);
        check_entries(&back, &members);
        read_shards(&bytes);
        for _ in 0..300 {
            let query = Hash::from_u128(numbers.next());
            prop_assert_eq!(filter.contains(query), back.contains(query));
        }
        // The original and the restored filter behave and grow the same afterwards.
        let mut of_back = members.clone();
        let (mut one, mut other) = (Numbers::new(!seed), Numbers::new(!seed));
        wear(&filter, &mut members, 600, &mut one);
        wear(&back, &mut of_back, 600, &mut other);
        assert_same(&filter, &back);
        check_entries(&back, &of_back);
    }
}

/// Returns a small snapshot of two shards.
fn small() -> Vec<u8> {
    let filter = builder().slots(20).remainder_bits(5).shards(2).build_concurrent().unwrap();
    let (mut numbers, mut members) = (Numbers::new(3), Members::new());
    wear(&filter, &mut members, 15, &mut numbers);
    assert!(filter.len() > 5);
    saved(&filter)
}

#[test]
fn truncated_snapshots_are_refused() {
    let bytes = small();
    for length in 0..bytes.len() {
        let error = restored(&bytes[..length]).unwrap_err();
        let SnapshotError::Truncated { found, expected } = *error.cause() else {
            panic!("{length}: {error}");
        };
        assert_eq!(found, length as u64);
        assert!(expected > found && expected <= bytes.len() as u64, "{error}");
    }
    // Reading stops at the end of the snapshot.
    let longer = [&bytes[..], b"more"].concat();
    let mut rest = &longer[..];
    Concurrent::<QuotientFilter>::read_from(&mut rest).unwrap();
    assert_eq!(rest, b"more");
}

#[test]
fn flipped_bits_are_noticed() {
    let bytes = small();
    let of_shards = shards_in(&bytes).into_iter().map(|shard| shard.start);
    let starts: Vec<usize> = [0].into_iter().chain(of_shards).collect();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = restored(&changed).expect_err("a bit has changed");
        let is_of_version = starts.iter().any(|at| (at + 8..at + 12).contains(&(bit / 8)));
        match error.cause() {
            SnapshotError::Version { .. } => assert!(is_of_version),
            SnapshotError::Checksum { .. }
            | SnapshotError::NotASnapshot
            | SnapshotError::OtherKind { .. } => {}
            other => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn other_versions_and_kinds_are_refused_with_a_clear_error() {
    let mut bytes = small();
    bytes[8] = 9;
    let error = restored(&bytes).unwrap_err();
    assert!(matches!(error, SnapshotError::Version { found: 9 }), "{error}");
    let plain = saved_plain(&build(20, 5, 0));
    let error = restored(&plain).unwrap_err();
    assert!(error.to_string().contains("not concurrent"), "{error}");
    for error in [
        QuotientFilter::read_from(&small()[..]).unwrap_err(),
        FrozenFilter::from_bytes(small()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("of a concurrent quotient filter"), "{error}");
    }
    let error = restored(b"a letter, not a snapshot").unwrap_err();
    assert!(matches!(error, SnapshotError::NotASnapshot), "{error}");
}

#[test]
fn impossible_headers_and_footers_are_refused() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut crafted = small();
        change(&mut crafted);
        seal_shards(&mut crafted);
        read_shards(&crafted);
        restored(&crafted).expect_err("it was changed").to_string()
    };
    for shards in [0u32, 3, 5, 4097, 8192, 1 << 31, u32::MAX] {
        let error = refused(&|bytes| bytes[16..20].copy_from_slice(&shards.to_le_bytes()));
        assert!(error.contains(&format!("{shards} shards")), "{error}");
    }
    for byte in [13, 15, 36, 40, 59] {
        assert!(refused(&|bytes| bytes[byte] = 1).contains("reserved"));
    }
    assert!(refused(&|bytes| bytes[20] = 2).contains("hash scheme 2"));
    let size = small().len();
    for behind in [12, 30, 59] {
        let error = refused(&|bytes| bytes[size - LINE + behind] = 1);
        assert!(error.contains("reserved"), "{error}");
    }
    // First let the header count more shards than the snapshot has, then fewer.
    let error = refused(&|bytes| bytes[16] = 4);
    assert!(error.starts_with("shard 2: "), "{error}");
    assert!(refused(&|bytes| bytes[16] = 1).contains("has changed"));
}

/// Combines snapshots of plain filters into one of shards.
fn together(shards: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = small()[..LINE].to_vec();
    bytes[16] = shards.len() as u8;
    bytes.extend(shards.concat());
    bytes.extend([0; LINE]);
    seal_shards(&mut bytes);
    bytes
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let of = |builder: Builder<QuotientFilter>| saved_plain(&builder.build().unwrap());
    let plain = || QuotientFilter::builder().slots(30).remainder_bits(5);
    let shard = of(plain());
    let valid = restored(&together(&[shard.clone(), shard.clone()])).unwrap();
    assert_eq!(valid.shards(), 2);
    let refused = |others: &[Vec<u8>]| {
        let shards = [std::slice::from_ref(&shard), others].concat();
        let error =
            restored(&together(&shards)).expect_err("one shard belongs to a different filter");
        assert!(error.to_string().starts_with("shard 1: "), "{error}");
        error.to_string()
    };
    assert!(refused(&[of(plain().value_bits(3))]).contains("values"));
    // Shards may differ in their number of slots, remainder bits, slot bits, and load to grow at.
    let other = of(QuotientFilter::builder().slots(99).remainder_bits(9).grow_at(0.9));
    restored(&together(&[shard.clone(), other])).unwrap();
    // A shard that contains a secret, or the mark of one, is refused.
    let keyed = Keyed::<u64, _>::new(plain().build().unwrap(), Secret::from_bytes([7; 16]));
    let (mut marked, mut with) = (Vec::new(), Vec::new());
    keyed.write_to(&mut marked, SecretMode::Omit).unwrap();
    keyed.write_to(&mut with, SecretMode::Include).unwrap();
    assert!(refused(&[marked]).contains("secret"));
    assert!(refused(&[with]).contains("secret"));
    // A section that isn't a shard is refused.
    let error = refused(&[small()]);
    assert!(error.contains("concurrent"), "{error}");

    // First try the right shards in the wrong order, then a shard of a different snapshot. The
    // checksums of all shards are correct.
    let bytes = small();
    let parts = shards_in(&bytes);
    let (first, second) = (bytes[parts[0].clone()].to_vec(), bytes[parts[1].clone()].to_vec());
    let end = &bytes[bytes.len() - LINE..];
    for shards in [[&second, &first], [&first, &first], [&shard, &second]] {
        let crafted = [&bytes[..LINE], &shards.map(|shard| &shard[..]).concat(), end].concat();
        let error = restored(&crafted).unwrap_err();
        assert!(error.to_string().contains("list of shards"), "{error}");
    }
}

/// The hashes of a shard end in zeros. Fingerprints of other hashes are invalid.
#[test]
fn fingerprints_of_hashes_outside_the_shard_are_refused() {
    let mut filter = build(30, 5, 0);
    let [member, mistake] = [7, 6].map(Hash::from_u128);
    filter.insert(member).unwrap();
    let Answer::Maybe(claim) = filter.check(mistake) else { panic!("they share most bits") };
    filter.adapt(&claim, &[member]).unwrap();
    let alone = together(&[saved_plain(&filter)]);
    assert!(restored(&alone).unwrap().contains(member));
    let shards = [saved_plain(&build(30, 5, 0)), saved_plain(&filter)];
    let error = restored(&together(&shards)).unwrap_err();
    assert!(matches!(error, SnapshotError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("in shard 1"), "{error}");
}

/// A shard may claim any size, but reading ends with the input.
#[test]
fn reading_stops_at_the_end_of_the_snapshot_if_a_shard_claims_a_huge_size() {
    for log2 in [20, 30, 40, 48] {
        let slots = 1u64 << log2;
        let mut bytes = small();
        let shard = &mut bytes[LINE..];
        shard[16..24].copy_from_slice(&slots.to_le_bytes());
        let lines = (slots + 4 * slots.isqrt() + 64).div_ceil(56);
        shard[72..80].copy_from_slice(&lines.to_le_bytes());
        let checksum = crc32fast::hash(&shard[..HEADER - 4]);
        shard[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
        let error = restored(&bytes).unwrap_err();
        assert!(
            matches!(error.cause(), SnapshotError::Truncated { .. } | SnapshotError::Memory { .. }),
            "{error}"
        );
        assert!(error.to_string().starts_with("shard 0: "), "{error}");
    }
}

#[test]
fn files_of_shards_are_replaced_and_restored() {
    let folder = Folder::new("shards");
    let path = folder.0.join("filter");
    let filter = builder().capacity(500).shards(4).build_concurrent().unwrap();
    filter.save(&path).unwrap();
    let (mut numbers, mut members) = (Numbers::new(4), Members::new());
    wear(&filter, &mut members, 800, &mut numbers);
    filter.save(&path).unwrap();
    assert_eq!(folder.names(), ["filter"]);
    assert_same(&filter, &Concurrent::<QuotientFilter>::open(&path).unwrap());
    std::fs::write(&path, [&saved(&filter)[..], &[0]].concat()).unwrap();
    let error = Concurrent::<QuotientFilter>::open(&path).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::TooLong { .. }), "{error}");
    let missing = folder.0.join("no-such-folder").join("filter");
    for error in [
        filter.save(&missing).unwrap_err(),
        Concurrent::<QuotientFilter>::open(&missing).unwrap_err(),
    ] {
        assert!(error.to_string().contains("no-such-folder"), "{error}");
    }
    let mut room = [0; 300];
    assert!(matches!(filter.write_to(&mut room[..]), Err(SnapshotError::Io(_))));
}

/// A writer that inserts into the filter while the filter is being saved.
struct Using<'a>(&'a Concurrent<QuotientFilter>, usize);

impl std::io::Write for Using<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.insert(Hash::from_u128((self.1 as u128) << 117)).unwrap();
        self.1 += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn filter_can_be_used_while_it_is_saved() {
    let _deadline = Deadline::new();
    let filter = builder().capacity(300).shards(4).build_concurrent().unwrap();
    let mut numbers = Numbers::new(5);
    let hashes: Vec<Hash> = (0..4_000).map(|_| Hash::from_u128(numbers.next())).collect();
    let inserted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for &hash in &hashes {
                filter.insert(hash).unwrap();
                inserted.fetch_add(1, Ordering::Release);
            }
        });
        while !writing.is_finished() {
            let before = inserted.load(Ordering::Acquire);
            let back = restored(&saved(&filter)).unwrap();
            assert!(hashes[..before].iter().all(|&hash| back.contains(hash)));
            assert!(back.len() >= before);
        }
    });
    // Saving holds no lock while it writes; otherwise the writer would deadlock.
    filter.write_to(Using(&filter, 0)).unwrap();
    assert!(filter.len() > hashes.len());
}

/// A writer that makes all shards keep their size as soon as the first bytes are written.
struct Stopping<'a>(&'a Concurrent<QuotientFilter>, Vec<u8>);

impl std::io::Write for Stopping<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.1.len() > LINE {
            self.0.stop_growing();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn filter_that_stops_growing_while_it_is_saved_is_restored() {
    let filter = builder().capacity(300).shards(4).build_concurrent().unwrap();
    filter.insert(Hash::MAX).unwrap();
    let mut stopping = Stopping(&filter, Vec::new());
    filter.write_to(&mut stopping).unwrap();
    let back = restored(&stopping.1).unwrap();
    assert!(back.contains(Hash::MAX));
    assert!(saved(&back) == stopping.1 && saved(&back) != saved(&filter));
}

type Users<F> = Keyed<str, Concurrent<F>>;

#[test]
fn keyed_concurrent_filter_is_saved_with_and_without_its_secret() {
    fn check<F: PlainShard>() {
        let builder = Builder::<F>::default().slots(100).remainder_bits(9).shards(4);
        let users: Users<F> = builder.build_concurrent_keyed().unwrap();
        users.insert("alice").unwrap();
        let saved = |mode| {
            let mut bytes = Vec::new();
            users.write_to(&mut bytes, mode).unwrap();
            bytes
        };
        let read = |bytes: &[u8], secret| Users::<F>::read_from(bytes, secret);
        let other = Some(Secret::from_bytes([1; 16]));
        let omitted = saved(SecretMode::Omit);
        let secret = users.secret();
        assert!(read(&omitted, Some(secret.clone())).unwrap().contains("alice"));
        assert!(!omitted.windows(16).any(|bytes| bytes == secret.expose()));
        assert!(matches!(read(&omitted, None), Err(SnapshotError::NoSecret)));
        assert!(matches!(read(&omitted, other.clone()), Err(SnapshotError::OtherSecret)));
        let included = saved(SecretMode::Include);
        assert!(read(&included, None).unwrap().contains("alice"));
        assert!(matches!(read(&included, other.clone()), Err(SnapshotError::OtherSecret)));
        assert_eq!(included.len(), omitted.len() + LINE);
        // A filter of hashes ignores the secret and the mark.
        for bytes in [&omitted, &included] {
            let hashes = Concurrent::<F>::read_from(&bytes[..]).unwrap();
            let mut bare = Vec::new();
            hashes.write_to(&mut bare).unwrap();
            assert!(hashes.contains(users.hash("alice")));
            assert!(read(&bare, other.clone()).is_ok(), "without a mark, any secret is accepted");
        }
        for at in 0..2 * LINE {
            let mut changed = included.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed, None).is_err(), "byte {at}");
        }
        for length in 0..included.len() {
            assert!(read(&included[..length], None).is_err());
        }
    }
    check::<QuotientFilter>();
    check::<TelescopingFilter>();
    check::<ExtensionFilter>();
    check::<PlainQuotientFilter>();
}

/// Compares with a file of format version 1. If the file is missing, writes it for review.
#[test]
fn version_1_of_shards_is_read_and_written_unchanged() {
    let shape = builder().slots(120).remainder_bits(9).value_bits(1).shards(4).grow_at(0.9);
    let filter = shape.build_concurrent().unwrap();
    let (mut numbers, mut members) = (Numbers::new(6), Members::new());
    wear(&filter, &mut members, 200, &mut numbers);
    assert!(filter.stats().repairs > 0);
    assert!(filter.parameters().iter().any(|shard| shard.remainder_bits < shard.slot_bits));
    let name = "v1-concurrent.twiceshy";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(&path, saved(&filter)).unwrap();
        panic!("{name} was missing, and is written now");
    };
    let back = restored(&kept).unwrap();
    check_entries(&back, &members);
    back.validate().unwrap();
    // An earlier version wrote this file. That version refused a repair if the shard had to grow,
    // so the file has the same members, but fewer repairs.
    assert_eq!((back.parameters(), back.len()), (filter.parameters(), filter.len()));
    assert!(back.stats().repairs < filter.stats().repairs);
    assert!(kept == saved(&back), "{name} would be written differently today");
}

/// A plain filter is a valid shard.
#[test]
fn unsharded_filter_is_a_valid_single_shard() {
    let plain = worn(build(200, 9, 3), 260, 7);
    let filter = restored(&together(&[saved_plain(&plain)])).unwrap();
    assert_eq!(entries_of(&filter), plain.iter().collect::<Vec<_>>());
    filter.validate().unwrap();
}
