//! Snapshots of telescoping and extension filters: saved filters are restored exactly, and damaged
//! ones are refused or harmless.

use super::{Set, random};
use arbitrary::Unstructured;
use proptest::prelude::*;
use std::path::Path;
use twiceshy::KeyedSnapshot;
use twiceshy::{
    Concurrent, ExtensionFilter, Hash, Keyed, PlainQuotientFilter, QuotientFilter, Secret,
    SecretMode, Snapshot, TelescopingFilter,
    concurrent::ShardPlan,
    snapshot::SnapshotError,
    telescoping::{self, CodedFilter, Extensions, Selectors},
};
use twiceshy_model::coded_snapshot::{drive, read};
use twiceshy_model::snapshot::{HEADER, seal};

const LINE: usize = 64;
const FLAGS_AT: usize = 12;
const SLOTS_AT: usize = 16;
const REMAINDER_BITS_AT: usize = 24;
const CODE_BITS_AT: usize = 28;
const ODDS_AT: usize = 32;
const LEN_AT: usize = 40;
const REPAIRS_AT: usize = 64;
const LINES_AT: usize = 72;
const RESERVED_AT: usize = 88;

/// Returns a filter with so many repairs that it has forgotten some.
fn worn<S: telescoping::CodedScheme>(slots: u64, remainder_bits: u32) -> CodedFilter<S> {
    let builder =
        CodedFilter::<S>::builder().slots(slots).remainder_bits(remainder_bits).code_bits(8);
    let mut set = Set::new(&builder);
    (0..slots * 9 / 10).for_each(|number| set.insert(random(1)(number)));
    for number in 0..20 * slots {
        set.ask(random(2)(number));
    }
    set.check();
    assert!(set.filter.stats().repairs > 0);
    // With shorter remainders, blocks have more room for codes than requested.
    assert!(set.filter.details().forgotten > 0 || remainder_bits < 7);
    set.filter
}

fn saved<S: telescoping::CodedScheme>(filter: &CodedFilter<S>) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    bytes
}

/// Reads a crafted file whose remainders are so long that there are no levels. Decoding one of its
/// codes would never end.
#[test]
fn filters_whose_remainders_leave_no_levels_are_refused() {
    let builder = TelescopingFilter::builder().slots(65_536).remainder_bits(56);
    let mut bytes = saved(&builder.build().unwrap());
    // Add one slot to the header, and the line that this slot takes. With so many slots, a hash has
    // too few bits for a second digit.
    bytes[SLOTS_AT..SLOTS_AT + 8].copy_from_slice(&65_537u64.to_le_bytes());
    let lines = u64::from_le_bytes(bytes[LINES_AT..LINES_AT + 8].try_into().unwrap());
    bytes[LINES_AT..LINES_AT + 8].copy_from_slice(&(lines + 1).to_le_bytes());
    bytes.extend([0; LINE]);
    for code in [0, 1] {
        bytes[HEADER + 3] = code;
        let mut changed = bytes.clone();
        seal(&mut changed);
        let error = TelescopingFilter::read_from(&changed[..]).unwrap_err().to_string();
        assert!(error.contains("counts of repairs"), "{error}");
    }
}

/// Changes a snapshot, corrects its checksums, and returns the error.
fn refused(bytes: &[u8], change: impl Fn(&mut [u8])) -> String {
    let mut changed = bytes.to_vec();
    change(&mut changed);
    seal(&mut changed);
    read(&changed);
    TelescopingFilter::read_from(&changed[..]).unwrap_err().to_string()
}

fn check_round_trip<S: telescoping::CodedScheme>(slots: u64, remainder_bits: u32) {
    let filter = worn::<S>(slots, remainder_bits);
    let bytes = saved(&filter);
    read(&bytes);
    let back = CodedFilter::<S>::read_from(&bytes[..]).unwrap();
    assert_eq!(back.parameters(), filter.parameters());
    assert_eq!(back.stats(), filter.stats());
    assert!(back.iter().eq(filter.iter()));
    assert_eq!(saved(&back), bytes);
}

#[test]
fn filter_with_the_greatest_repair_count_can_be_repaired_and_restored() {
    let filter = worn::<Selectors>(300, 7);
    let mut bytes = saved(&filter);
    bytes[REPAIRS_AT..REPAIRS_AT + 8].copy_from_slice(&(1u64 << 63).to_le_bytes());
    seal(&mut bytes);
    let filter = TelescopingFilter::read_from(&bytes[..]).unwrap();
    let members = (0..270).map(random(1)).collect();
    let mut set = Set { filter, members };
    let mistake =
        (0..1_000_000).map(random(3)).find(|&query| set.ask(query) && !set.filter.contains(query));
    assert!(mistake.is_some());
    let again = TelescopingFilter::read_from(&saved(&set.filter)[..]).unwrap();
    assert_eq!(again.stats().repairs, 1 << 63);
}

#[test]
fn saved_filters_are_restored() {
    for (slots, remainder_bits) in [(40, 1), (300, 3), (1000, 7)] {
        check_round_trip::<Selectors>(slots, remainder_bits);
        check_round_trip::<Extensions>(slots, remainder_bits);
    }
    let empty = TelescopingFilter::builder().slots(1).remainder_bits(56).build().unwrap();
    read(&saved(&empty));
    assert!(TelescopingFilter::read_from(&saved(&empty)[..]).unwrap().is_empty());
}

#[test]
fn other_kinds_are_refused() {
    let telescoping = saved(&worn::<Selectors>(60, 4));
    let extending = saved(&worn::<Extensions>(60, 4));
    let error = ExtensionFilter::read_from(&telescoping[..]).unwrap_err().to_string();
    assert!(error.contains("a telescoping filter"), "{error}");
    let error = TelescopingFilter::read_from(&extending[..]).unwrap_err().to_string();
    assert!(error.contains("an extension filter"), "{error}");
    let error = QuotientFilter::read_from(&extending[..]).unwrap_err().to_string();
    assert!(error.contains("an extension filter"), "{error}");
    let mut of_quotients = Vec::new();
    QuotientFilter::builder().slots(9).build().unwrap().write_to(&mut of_quotients).unwrap();
    let error = TelescopingFilter::read_from(&of_quotients[..]).unwrap_err().to_string();
    assert!(error.contains("a quotient filter"), "{error}");
    let nothing = TelescopingFilter::read_from(&b"GIF89a"[..]).unwrap_err();
    assert!(matches!(nothing, SnapshotError::NotASnapshot));
}

#[test]
fn changed_and_truncated_snapshots_are_refused() {
    let keyed = Keyed::<str, _>::new(worn::<Selectors>(60, 4), Secret::from_bytes([9; 16]));
    let mut bytes = Vec::new();
    keyed.write_to(&mut bytes, SecretMode::Include).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(TelescopingFilter::read_from(&changed[..]).is_err(), "byte {at}");
        assert!(TelescopingFilter::read_from(&bytes[..at]).is_err(), "cut at {at}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(TelescopingFilter::read_from(&longer[..]).is_ok(), "it is read up to its end");
}

#[test]
fn impossible_headers_are_refused() {
    let bytes = saved(&worn::<Selectors>(100, 4));
    let put = |at: usize, number: u64| {
        move |bytes: &mut [u8]| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes())
    };
    let put_short = |at: usize, number: u32| {
        move |bytes: &mut [u8]| bytes[at..at + 4].copy_from_slice(&number.to_le_bytes())
    };
    let lines = u64::from_le_bytes(bytes[LINES_AT..LINES_AT + 8].try_into().unwrap());
    assert!(refused(&bytes, put(LINES_AT, lines - 1)).contains("lines"));
    assert!(refused(&bytes, put(LINES_AT, lines + 1)).contains("lines"));
    refused(&bytes, put(LINES_AT, u64::MAX));
    // The header describes a large filter, but the table is missing.
    assert!(refused(&bytes, put(SLOTS_AT, 1 << 40)).contains("lines"));
    assert!(refused(&bytes, put(SLOTS_AT, 0)).contains("0 slots"));
    assert!(refused(&bytes, put(SLOTS_AT, u64::MAX)).contains("slots"));
    assert!(refused(&bytes, put_short(REMAINDER_BITS_AT, 57)).contains("57 bits"));
    assert!(refused(&bytes, put_short(CODE_BITS_AT, 7)).contains("7 bits"));
    assert!(refused(&bytes, put_short(ODDS_AT, (1 << 15) - 1)).contains("odds"));
    assert!(refused(&bytes, put_short(ODDS_AT, 1 << 16)).contains("odds"));
    // With different odds, codes decode differently or not at all.
    assert!(refused(&bytes, put_short(ODDS_AT, (1 << 16) - 1)).contains("code"));
    assert!(refused(&bytes, put(LEN_AT, 89)).contains("slots are used"));
    assert!(refused(&bytes, put(LEN_AT, 101)).contains("used slots"));
    assert!(refused(&bytes, put(REPAIRS_AT, u64::MAX)).contains("too many repairs"));
    assert!(refused(&bytes, |bytes| bytes[FLAGS_AT] ^= 2).contains("reserved"));
    assert!(refused(&bytes, |bytes| bytes[RESERVED_AT] = 1).contains("reserved"));
}

/// Fills the table with one byte, so that, for example, every slot ends a run, or none does.
#[test]
fn invalid_tables_are_refused() {
    let bytes = saved(&worn::<Selectors>(400, 5));
    for byte in [0x55, 0xaa, 0x0f, 0x80, 0xff] {
        let end = bytes.len() - LINE;
        refused(&bytes, |bytes| bytes[HEADER..end].fill(byte));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn random_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..2500)) {
        drive(&bytes);
    }

    /// Changes only codes: invalid codes are refused, and valid ones give a different filter.
    #[test]
    fn random_codes_are_refused_or_valid(
        seed in prop::collection::vec(any::<u8>(), 1500),
        at in 0usize..1000,
        bits: u8,
    ) {
        let filter = twiceshy_model::coded_snapshot::with_repairs::<Selectors>(&mut Unstructured::new(&seed));
        let mut bytes = saved(&filter.unwrap());
        let end = bytes.len() - LINE;
        bytes[HEADER + at % (end - HEADER)] ^= bits;
        seal(&mut bytes);
        read(&bytes);
    }
}

type KeyedExtensions = Keyed<str, ExtensionFilter>;

#[test]
fn files_are_replaced_and_restored() {
    let folder = std::env::temp_dir().join(format!("twiceshy-coded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("filter");
    let secret = Secret::from_bytes([9; 16]);
    let filter = worn::<Extensions>(100, 4);
    filter.save(&path).unwrap();
    let back = ExtensionFilter::open(&path).unwrap();
    assert_eq!(saved(&back), saved(&filter));
    // This filter has no secret yet, so it accepts any secret.
    let keyed = KeyedExtensions::open(&path, Some(secret.clone())).unwrap();
    keyed.save(&path, SecretMode::Omit).unwrap();
    assert!(KeyedExtensions::open(&path, Some(secret.clone())).is_ok());
    let error = KeyedExtensions::open(&path, Some(Secret::from_bytes([1; 16]))).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::OtherSecret));
    let error = KeyedExtensions::open(&path, None).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::NoSecret));
    assert!(error.to_string().contains("filter: "), "{error}");
    keyed.save(&path, SecretMode::Include).unwrap();
    let back = KeyedExtensions::open(&path, None).unwrap();
    assert_eq!(back.secret().expose(), secret.expose());
    assert!(back.filter().iter().eq(filter.iter()));
    let longer = [std::fs::read(&path).unwrap(), vec![0]].concat();
    std::fs::write(&path, longer).unwrap();
    let error = ExtensionFilter::open(&path).unwrap_err();
    assert!(matches!(error.cause(), SnapshotError::TooLong { .. }));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Compares with a file of format version 1. If the file is missing, writes it for review.
fn check_fixture<S: telescoping::CodedScheme>(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    // Build the filter in one step, so that it doesn't depend on the order in which repairs are
    // forgotten.
    let members = (0..50).map(random(1)).collect();
    let mistakes = (0..300).map(random(2)).collect();
    let builder = CodedFilter::<S>::builder().slots(60).remainder_bits(4);
    let bytes = saved(&builder.build_from(members, mistakes).unwrap());
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(&path, &bytes).unwrap();
        panic!("the file was missing, and is written now");
    };
    read(&kept);
    let kept = CodedFilter::<S>::read_from(&kept[..]).unwrap();
    (0..50).for_each(|number| assert!(kept.contains(random(1)(number))));
    assert!(saved(&kept) == bytes, "it would be written differently today");
}

#[test]
fn version_1_is_read_and_written_unchanged() {
    check_fixture::<Selectors>("v1-telescoping.twiceshy");
    check_fixture::<Extensions>("v1-extensions.twiceshy");
}

#[test]
fn version_1_of_a_plain_filter_is_read_and_written_unchanged() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1-plain.twiceshy");
    let mut filter = PlainQuotientFilter::builder().slots(60).remainder_bits(4).build().unwrap();
    (0..50).for_each(|number| filter.insert(random(1)(number)).unwrap());
    let mut bytes = Vec::new();
    filter.write_to(&mut bytes).unwrap();
    let Ok(kept) = std::fs::read(&path) else {
        std::fs::write(&path, &bytes).unwrap();
        panic!("the file was missing, and is written now");
    };
    let restored = PlainQuotientFilter::read_from(&kept[..]).unwrap();
    (0..50).for_each(|number| assert!(restored.contains(random(1)(number))));
    assert_eq!(kept, bytes);
}

/// Compares with files of filters with fresh remainders, in format version 1: one filter, and one
/// with four shards. If a file is missing, writes it for review.
macro_rules! check_fresh_fixtures {
    ($filter:ty, $name:literal) => {{
        let mut members: Vec<Hash> = (0..50).map(random(1)).collect();
        members.sort_unstable();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let path = folder.join(concat!("v1-fresh-", $name, ".twiceshy"));
        let of_shards = folder.join(concat!("v1-concurrent-fresh-", $name, ".twiceshy"));
        let builder = <$filter>::builder().remainder_bits(4).slots(60);
        if !path.exists() || !of_shards.exists() {
            let plain = builder.build().unwrap();
            plain.rotated(members.iter().copied(), []).unwrap().save(&path).unwrap();
            let shards = builder.slots(80).shards(4).build_concurrent().unwrap();
            for shard in 0..4 {
                let hashes = shards.shard_hashes(shard);
                let listed = members.iter().copied().filter(|hash| hashes.contains(hash));
                let listed: Vec<Hash> = listed.collect();
                shards.rebuild_shard(shard, ShardPlan::default().fresh(), &listed, &[]).unwrap();
            }
            shards.save(&of_shards).unwrap();
            panic!("the files were missing, and are written now");
        }
        let filter = <$filter>::open(&path).unwrap();
        assert!(!filter.parameters().remainders.is_plain());
        assert!(members.iter().all(|&member| filter.contains(member)));
        filter.validate().unwrap();
        let mut bytes = Vec::new();
        filter.write_to(&mut bytes).unwrap();
        assert!(bytes == std::fs::read(&path).unwrap(), "it would be written differently today");

        let shards = Concurrent::<$filter>::open(&of_shards).unwrap();
        assert!((0..4).all(|shard| !shards.shard_fill(shard).has_plain_remainders));
        assert!(members.iter().all(|&member| shards.contains(member)));
        shards.validate().unwrap();
        let mut bytes = Vec::new();
        shards.write_to(&mut bytes).unwrap();
        assert!(
            bytes == std::fs::read(&of_shards).unwrap(),
            "it would be written differently today"
        );
    }};
}

#[test]
fn version_1_with_fresh_remainders_is_read_and_written_unchanged() {
    check_fresh_fixtures!(QuotientFilter, "quotient");
    check_fresh_fixtures!(TelescopingFilter, "telescoping");
    check_fresh_fixtures!(ExtensionFilter, "extensions");
    check_fresh_fixtures!(PlainQuotientFilter, "plain");
}
