//! Checks yes/no filters against the two lists, and reads arbitrary files.

use crate::snapshot::{seal, sealed};
use arbitrary::{Result, Unstructured};
use std::collections::BTreeSet;
use twiceshy::{
    Frozen, Hash, Snapshot, YesNoFilter,
    list::{Delta, ListError},
    snapshot::SnapshotError,
};

/// Reads bytes either as lists, to build, change and update filters, or as a snapshot or delta.
///
/// # Panics
/// If a listed key is answered wrongly, an update and a build make different filters, or an invalid
/// filter is read.
pub fn drive(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else { return };
    match mode % 4 {
        0 => read(rest),
        1 => read(&sealed(rest)),
        // The script ends when the bytes run out.
        _ => drop(lists(&mut Unstructured::new(rest))),
    }
}

/// Queries a snapshot in place. Checks that it is valid if and only if it can be read.
fn ask_frozen(bytes: &[u8]) {
    let read = YesNoFilter::read_from(bytes);
    let frozen = match Frozen::<YesNoFilter>::from_bytes(bytes.to_vec()) {
        Ok(frozen) => frozen,
        Err(error) => {
            let too_long = matches!(error, SnapshotError::TooLong { .. });
            assert!(read.is_err() || too_long, "refused, but read: {error}");
            return;
        }
    };
    let hashes: Vec<Hash> = (0..64)
        .flat_map(|number: u128| {
            [number << 121, !(number << 119), number.wrapping_mul(u128::MAX / 61)]
        })
        .map(Hash::from_u128)
        .collect();
    let mut answers = Vec::new();
    frozen.contains_many(&hashes, &mut answers);
    for (&hash, &answer) in hashes.iter().zip(&answers) {
        assert_eq!(frozen.contains(hash), answer);
    }
    assert_eq!(frozen.validate().is_ok(), read.is_ok());
    assert_eq!(frozen.to_filter().is_ok(), read.is_ok());
    let Ok(filter) = read else { return };
    assert_eq!((frozen.label(), frozen.len()), (filter.label(), filter.len()));
    assert!(hashes.iter().zip(&answers).all(|(&hash, &answer)| filter.contains(hash) == answer));
}

/// Reads bytes as a snapshot and as a delta: each must be refused or valid.
fn read(bytes: &[u8]) {
    ask_frozen(bytes);
    if let Ok(filter) = YesNoFilter::read_from(bytes) {
        filter.validate().expect("a restored filter is valid");
        let mut again = Vec::new();
        filter.write_to(&mut again).expect("writing to memory");
        assert!(YesNoFilter::read_from(&again[..]).is_ok_and(|other| other == filter));
    }
    let base =
        YesNoFilter::builder().false_positive_rate(0.5).build(&[], &[]).expect("a small filter");
    if let Ok(delta) = Delta::from_bytes(bytes)
        && let Ok(filter) = base.apply(&delta)
    {
        filter.validate().expect("an updated filter is valid");
    }
}

/// Builds two lists, and changes them a few times.
fn lists(bytes: &mut Unstructured<'_>) -> Result<()> {
    let rate = f64::from(bytes.int_in_range(1..=40u32)?).exp2().recip();
    let spread = bytes.int_in_range(0..=120u32)?;
    let room = f64::from(bytes.int_in_range(0..=8u32)?) / 4.0;
    let [mut yes, mut no]: [BTreeSet<Hash>; 2] = Default::default();
    let mut last: Option<YesNoFilter> = None;
    for _ in 0..bytes.int_in_range(1..=4)? {
        for _ in 0..bytes.int_in_range(0..=60)? {
            let hash = Hash::from_u128(bytes.arbitrary::<u128>()? << spread);
            let (list, other) =
                if bytes.arbitrary()? { (&mut yes, &mut no) } else { (&mut no, &mut yes) };
            other.remove(&hash);
            if bytes.ratio(1, 4)? {
                list.remove(&hash)
            } else {
                list.insert(hash)
            };
        }
        let [capacity, no_capacity] =
            [&yes, &no].map(|list| (list.len() as f64 * (1.0 + room)) as usize);
        let builder = YesNoFilter::builder().false_positive_rate(rate);
        let builder = builder.capacity(capacity).no_capacity(no_capacity);
        let builder = match &last {
            Some(last) => builder.like(last),
            None => builder,
        };
        let (y, n): (Vec<_>, Vec<_>) =
            (yes.iter().copied().collect(), no.iter().copied().collect());
        let filter = builder.build(&y, &n).expect("lists without a common key");
        check(&filter, &y, &n);
        if let (Some(&hash), false) = (y.first(), n.is_empty()) {
            let both = [&n[..], &[hash]].concat();
            let error = builder.build(&y, &both);
            assert!(
                matches!(error, Err(ListError::OnBothLists { hash: other, .. }) if other == hash)
            );
        }
        if let Some(last) = &last {
            update(last, &filter, bytes)?;
        }
        change(&filter, bytes)?;
        last = Some(filter);
    }
    Ok(())
}

fn check(filter: &YesNoFilter, yes: &[Hash], no: &[Hash]) {
    filter.validate().expect("a valid filter");
    assert_eq!((filter.len(), filter.details().no_keys), (yes.len(), no.len() as u64));
    let mut answers = Vec::new();
    for (list, answer) in [(yes, true), (no, false)] {
        filter.contains_many(list, &mut answers);
        assert!(
            answers.iter().all(|&other| other == answer),
            "a listed key is answered {}",
            !answer
        );
        assert!(list.iter().all(|&hash| filter.contains(hash) == answer));
    }
}

/// Checks that a delta gives the new filter, and that a damaged delta never gives a different one.
fn update(old: &YesNoFilter, new: &YesNoFilter, bytes: &mut Unstructured<'_>) -> Result<()> {
    let delta = old.delta_to(new).expect("both are valid").to_bytes();
    let read = Delta::from_bytes(&delta).expect("what was written");
    assert!(old.apply(&read).expect("it is for this one") == *new);
    let mut changed = delta;
    let end = changed.len() - 4;
    let at = bytes.int_in_range(0..=end - 1)?;
    changed[at] ^= bytes.int_in_range(1..=255u8)?;
    let checksum = crc32fast::hash(&changed[..end]);
    changed[end..].copy_from_slice(&checksum.to_le_bytes());
    // This call has no secret to compare the delta's mark with, so it accepts a changed mark. The
    // filter doesn't depend on the mark.
    if let Ok(filter) = Delta::from_bytes(&changed).and_then(|delta| old.apply(&delta)) {
        assert!(filter == *new, "a damaged delta makes a different filter");
    }
    Ok(())
}

/// Checks that a damaged snapshot with correct checksums is refused or valid.
fn change(filter: &YesNoFilter, bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut snapshot = Vec::new();
    filter.write_to(&mut snapshot).expect("writing to memory");
    assert!(YesNoFilter::read_from(&snapshot[..]).is_ok_and(|other| other == *filter));
    for _ in 0..bytes.int_in_range(1..=3)? {
        let at = bytes.int_in_range(0..=snapshot.len() - 1)?;
        snapshot[at] ^= bytes.int_in_range(1..=255u8)?;
    }
    seal(&mut snapshot);
    read(&snapshot);
    Ok(())
}
