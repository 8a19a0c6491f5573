//! Snapshots of range filters: saved filters are restored exactly, and damaged ones are refused or
//! harmless.

use super::number;
use proptest::prelude::*;
use std::path::Path;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    AdaptiveRangeFilter, Answer, Concurrent, Frozen, QuotientFilter, RangeFilter, Secret,
    SecretMode, Snapshot, range::RangeKey, snapshot::SnapshotError,
};
use twiceshy_model::range_snapshot::{drive, read, secret};
use twiceshy_model::snapshot::{HEADER, seal};

const LINE: usize = 64;
const FLAGS_AT: usize = 12;
const SLOTS_AT: usize = 16;
const MEMENTO_BITS_AT: usize = 32;
const LEN_AT: usize = 40;
const KEY_BITS_AT: usize = 48;
const OLDEST_AT: usize = 52;
const REPAIRS_AT: usize = 64;
const LINES_AT: usize = 72;
const RESERVED_AT: usize = 88;

/// Returns a filter that has grown and was repaired. Some members are close to each other.
fn worn(slots: u64, remainder_bits: u32, expandable: bool) -> AdaptiveRangeFilter<u64> {
    let builder = AdaptiveRangeFilter::builder().slots(slots).remainder_bits(remainder_bits);
    let builder = builder.longest_range(16).secret(secret());
    let builder = if expandable { builder.expandable() } else { builder };
    let mut filter: AdaptiveRangeFilter<u64> = builder.build().unwrap();
    let members: Vec<u64> =
        (0..slots / 2).map(|n| if n % 3 == 0 { 5 * n } else { number(n) }).collect();
    for (index, &member) in members.iter().enumerate() {
        filter.insert(member).unwrap();
        for stranger in (0..4).map(|n| number(4 * index as u64 + n + 1_000_000)) {
            let range = stranger..=stranger.saturating_add(15);
            if let Answer::Maybe(claim) = filter.check_range(range) {
                let known = members[..=index].iter().copied();
                let suspects = known.filter(|&key| claim.is_suspect(filter.hash_of(key)));
                filter.adapt(&claim, suspects.collect::<Vec<_>>()).unwrap();
            }
        }
        if expandable && index == slots as usize / 4 {
            filter = filter.doubled().unwrap();
        }
    }
    assert!(filter.stats().repairs > 0);
    filter.validate().unwrap();
    filter
}

fn saved<K: RangeKey>(filter: &AdaptiveRangeFilter<K>) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes, SecretMode::Omit).unwrap();
    bytes
}

fn saved_plain(filter: &RangeFilter<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes, SecretMode::Omit).unwrap();
    bytes
}

fn restored(bytes: &[u8]) -> Result<AdaptiveRangeFilter<u64>, SnapshotError> {
    AdaptiveRangeFilter::read_from(bytes, Some(secret()))
}

/// Changes a snapshot, corrects its checksums, and returns the error.
fn refused(bytes: &[u8], change: impl Fn(&mut [u8])) -> String {
    let mut changed = bytes.to_vec();
    change(&mut changed);
    seal(&mut changed);
    read::<u64>(&changed);
    restored(&changed).unwrap_err().to_string()
}

#[test]
fn filter_with_the_greatest_repair_count_can_be_repaired_and_restored() {
    let members: Vec<u64> = (0..100).map(number).collect();
    let builder = AdaptiveRangeFilter::builder().slots(200).remainder_bits(3).secret(secret());
    let mut filter: AdaptiveRangeFilter<u64> = builder.build().unwrap();
    for &member in &members {
        filter.insert(member).unwrap();
    }
    let mut bytes = saved(&filter);
    bytes[REPAIRS_AT..REPAIRS_AT + 8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    seal(&mut bytes);
    let mut filter = restored(&bytes).unwrap();
    let mistake = (1000..).map(number).find_map(|key| match filter.check_range(key..=key) {
        Answer::Maybe(claim) => Some(claim),
        Answer::Absent => None,
    });
    let claim = mistake.expect("a filter of 3 bits makes mistakes");
    let suspects = members.iter().copied().filter(|&key| claim.is_suspect(filter.hash_of(key)));
    filter.adapt(&claim, suspects.collect::<Vec<_>>()).unwrap();
    assert_eq!(restored(&saved(&filter)).unwrap().stats().repairs, 1 << 63);
}

#[test]
fn saved_filters_are_restored() {
    for (slots, remainder_bits, expandable) in
        [(1, 1, false), (60, 3, true), (500, 3, false), (500, 7, true), (3000, 20, true)]
    {
        let filter = if slots == 1 {
            let builder = AdaptiveRangeFilter::builder().slots(1).remainder_bits(1);
            builder.secret(secret()).build().unwrap()
        } else {
            worn(slots, remainder_bits.min(8), expandable)
        };
        let bytes = saved(&filter);
        read::<u64>(&bytes);
        let back = restored(&bytes).unwrap();
        assert_eq!((back.len(), back.stats().repairs), (filter.len(), filter.stats().repairs));
        assert!(back.iter().eq(filter.iter()));
        assert_eq!(saved(&back), bytes);
        let plain = RangeFilter::<u64>::read_from(&bytes[..], Some(secret())).unwrap();
        assert!(plain.iter().eq(filter.iter()));
        let of_plain = saved_plain(&plain);
        assert!(restored(&of_plain).unwrap().iter().eq(filter.iter()));
        let frozen = Frozen::<RangeFilter<u64>>::from_bytes(bytes, Some(secret())).unwrap();
        frozen.validate().unwrap();
        let copy = frozen.to_filter().unwrap();
        assert_eq!(saved_plain(&copy), of_plain);
        assert_eq!(copy.hash_of(7), filter.hash_of(7));
        assert_eq!(copy.details(), filter.details());
    }
}

/// Inserts a box that is longer than the initial tail.
#[test]
fn table_with_lengthened_tail_is_restored() {
    let builder = RangeFilter::<u64>::builder().slots(2000).remainder_bits(8).longest_range(1);
    let lengthened = (0..200).find_map(|key| {
        let mut filter = builder.clone().secret(secret()).build().unwrap();
        let before = filter.stats().memory;
        (0..9000).for_each(|_| filter.insert(key).unwrap());
        (filter.stats().memory > before).then_some(filter)
    });
    let lengthened = lengthened.expect("a key near the end of the table");
    let bytes = saved_plain(&lengthened);
    read::<u64>(&bytes);
    assert!(
        RangeFilter::<u64>::read_from(&bytes[..], Some(secret()))
            .unwrap()
            .iter()
            .eq(lengthened.iter())
    );
}

#[test]
fn snapshot_with_wrong_key_width_secret_or_kind_is_refused() {
    let filter = worn(100, 4, false);
    let bytes = saved(&filter);
    let other = Secret::from_bytes([1; 16]);
    let error = RangeFilter::<u64>::read_from(&bytes[..], Some(other.clone())).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherSecret));
    let error = Frozen::<RangeFilter<u64>>::from_bytes(bytes.clone(), Some(other)).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherSecret));
    let error = RangeFilter::<u32>::read_from(&bytes[..], Some(secret())).unwrap_err();
    assert!(matches!(error, SnapshotError::KeyBits { found: 64, expected: 32 }), "{error}");
    assert!(Frozen::<RangeFilter<u128>>::from_bytes(bytes.clone(), Some(secret())).is_err());
    assert!(RangeFilter::<f64>::read_from(&bytes[..], Some(secret())).is_ok());

    let error = QuotientFilter::read_from(&bytes[..]).unwrap_err();
    assert!(error.to_string().contains("range filter"), "{error}");
    let error = Concurrent::<QuotientFilter>::read_from(&bytes[..]).unwrap_err();
    assert!(error.to_string().contains("range filter"), "{error}");
    let mut of_keys = Vec::new();
    QuotientFilter::builder().slots(9).build().unwrap().write_to(&mut of_keys).unwrap();
    let error = restored(&of_keys).unwrap_err();
    assert!(error.to_string().contains("single keys"), "{error}");
    let mut of_shards = Vec::new();
    let concurrent = QuotientFilter::builder().slots(9).build_concurrent().unwrap();
    concurrent.write_to(&mut of_shards).unwrap();
    assert!(restored(&of_shards).unwrap_err().to_string().contains("concurrent"));
    assert!(matches!(restored(b"GIF89a").unwrap_err(), SnapshotError::NotASnapshot));
}

#[test]
fn changed_and_truncated_snapshots_are_refused() {
    let mut bytes = Vec::new();
    worn(60, 4, true).write_to(&mut bytes, SecretMode::Include).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(restored(&changed).is_err(), "byte {at}");
        let frozen = Frozen::<RangeFilter<u64>>::from_bytes(changed, Some(secret()));
        assert!(frozen.is_err() || frozen.unwrap().validate().is_err(), "byte {at}");
        assert!(restored(&bytes[..at]).is_err(), "cut at {at}");
        assert!(
            Frozen::<RangeFilter<u64>>::from_bytes(bytes[..at].to_vec(), Some(secret())).is_err()
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(restored(&longer).is_ok(), "it is read up to its end");
    let frozen = Frozen::<RangeFilter<u64>>::from_bytes(longer, Some(secret()));
    assert!(matches!(frozen, Err(SnapshotError::TooLong { .. })));
}

#[test]
fn impossible_headers_are_refused() {
    let bytes = saved(&worn(100, 4, true));
    let put = |at: usize, number: u64| {
        move |bytes: &mut [u8]| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes())
    };
    let lines = u64::from_le_bytes(bytes[LINES_AT..LINES_AT + 8].try_into().unwrap());
    // A longer tail is valid if the snapshot has the bytes for it, up to a limit.
    let longer = |more: u64| {
        let mut longer = bytes.clone();
        longer.resize(longer.len() + LINE * more as usize, 0);
        put(LINES_AT, lines + more)(&mut longer);
        seal(&mut longer);
        read::<u64>(&longer);
        restored(&longer).map(|filter| filter.len())
    };
    assert_eq!(longer(2 * lines).unwrap(), restored(&bytes).unwrap().len());
    assert!(longer(2 * lines + 1).unwrap_err().to_string().contains("lines"));
    assert!(refused(&bytes, put(LINES_AT, lines - 1)).contains("lines"));
    assert!(refused(&bytes, put(LINES_AT, lines + 1)).contains("of"));
    refused(&bytes, put(LINES_AT, u64::MAX));
    // The header describes a large filter, but the table is missing.
    assert!(refused(&bytes, put(SLOTS_AT, 1 << 40)).contains("lines"));
    refused(&bytes, |bytes| {
        put(SLOTS_AT, 1 << 28)(bytes);
        put(LINES_AT, 1 << 24)(bytes);
    });
    for (at, wrong) in
        [(SLOTS_AT, 0), (SLOTS_AT, u64::MAX), (MEMENTO_BITS_AT, 21), (KEY_BITS_AT, 4)]
    {
        let message = refused(&bytes, |bytes| {
            let size = if at == SLOTS_AT { 8 } else { 4 };
            bytes[at..at + size].copy_from_slice(&wrong.to_le_bytes()[..size]);
        });
        assert!(message.contains("sizes are impossible"), "{message}");
    }
    assert!(refused(&bytes, |bytes| bytes[OLDEST_AT] = 5).contains("sizes are impossible"));
    assert!(refused(&bytes, |bytes| bytes[OLDEST_AT] = 0).contains("older"));
    assert!(refused(&bytes, |bytes| bytes[SLOTS_AT + 8] ^= 1).contains("width"));
    assert!(refused(&bytes, |bytes| bytes[FLAGS_AT] ^= 4).contains("reserved"));
    assert!(refused(&bytes, |bytes| bytes[RESERVED_AT] = 1).contains("reserved"));
    assert!(refused(&bytes, |bytes| bytes[LEN_AT] ^= 1).contains("members"));
    assert!(refused(&bytes, put(LEN_AT, u64::MAX)).contains("too many members"));
}

/// A slot of zeros is a valid box only in a filter without ages.
#[test]
fn boxes_without_age_are_refused() {
    for expandable in [false, true] {
        let builder = AdaptiveRangeFilter::<u64>::builder().slots(30).remainder_bits(5);
        let builder = if expandable { builder.expandable() } else { builder };
        let filter = builder.longest_range(1).secret(secret()).build().unwrap();
        let mut bytes = saved(&filter);
        // Set the first bits of two planes of 56 lanes: a run of one slot for the first quotient.
        bytes[HEADER + 1] |= 1;
        bytes[HEADER + 8] |= 1;
        bytes[LEN_AT] = 1;
        bytes[LEN_AT + 16] = 1;
        seal(&mut bytes);
        read::<u64>(&bytes);
        assert_eq!(restored(&bytes).is_err(), expandable, "{:?}", restored(&bytes));
    }
}

/// Sets every slot of the table to a continuation, the end of a run, or both.
#[test]
fn lookups_in_invalid_tables_terminate() {
    for expandable in [false, true] {
        let bytes = saved(&worn(400, 5, expandable));
        for byte in [0x55, 0xaa, 0x0f, 0x80, 0xff] {
            let mut nonsense = bytes.clone();
            let end = nonsense.len() - LINE;
            nonsense[HEADER..end].fill(byte);
            seal(&mut nonsense);
            read::<u64>(&nonsense);
            let frozen = Frozen::<RangeFilter<u64>>::from_bytes(nonsense, Some(secret())).unwrap();
            assert!(frozen.validate().is_err());
            frozen.contains_range(0..1 << 14);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn random_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        drive(&bytes);
    }
}

#[test]
fn files_are_replaced_opened_and_restored() {
    let folder = std::env::temp_dir().join(format!("twiceshy-ranges-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("filter");
    let (old, new) = (worn(200, 4, false), worn(300, 4, true));
    old.save(&path, SecretMode::Omit).unwrap();
    let opened = Frozen::<RangeFilter<u64>>::open(&path, Some(secret())).unwrap();
    new.save(&path, SecretMode::Include).unwrap();
    // Replacing the file doesn't change a filter that is already open.
    assert_eq!(
        saved_plain(&opened.to_filter().unwrap()),
        saved_plain(&RangeFilter::read_from(&saved(&old)[..], Some(secret())).unwrap())
    );
    let back = AdaptiveRangeFilter::<u64>::open(&path, None).unwrap();
    assert_eq!(saved(&back), saved(&new));
    assert_eq!(back.secret().expose(), secret().expose());
    RangeFilter::<u64>::open(&path, None).unwrap();
    RangeFilter::<u64>::open(&path, Some(secret())).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    back.save(&path, SecretMode::Omit).unwrap();
    let error = AdaptiveRangeFilter::<u64>::open(&path, None).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::NoSecret));
    assert!(error.to_string().contains("filter: "), "{error}");
    let error =
        Frozen::<RangeFilter<u64>>::open(&path, Some(Secret::from_bytes([0; 16]))).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::OtherSecret));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Compares with files of format version 1, without and with ages. If one is missing, writes it for
/// review.
#[test]
fn version_1_is_read_and_written_unchanged() {
    for (name, is_expandable) in [("v1-ranges-fixed.twiceshy", false), ("v1-ranges.twiceshy", true)]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let bytes = saved(&worn(60, 4, is_expandable));
        let Ok(kept) = std::fs::read(&path) else {
            std::fs::write(&path, &bytes).unwrap();
            panic!("{name} was missing, and is written now");
        };
        read::<u64>(&kept);
        assert!(kept == bytes, "{name} would be written differently today");
    }
}

/// If the file were mapped into memory, truncating it would kill the process.
#[test]
fn truncating_an_opened_file_changes_no_answers() {
    let folder =
        std::env::temp_dir().join(format!("twiceshy-truncated-ranges-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("filter");
    let filter = worn(5000, 4, false);
    filter.save(&path, SecretMode::Omit).unwrap();
    let opened = Frozen::<RangeFilter<u64>>::open(&path, Some(secret())).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    opened.validate().unwrap();
    assert!((0..20_000).all(|key| opened.contains(key) == filter.contains(key)));
    std::fs::remove_dir_all(&folder).unwrap();
}
