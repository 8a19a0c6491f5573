//! Reads arbitrary and damaged snapshots of telescoping and extension filters.

use crate::script::any_remainders;
use crate::snapshot::{drive_kinds, flip_bytes, overwrite_stretch, seal};
use arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;
use twiceshy::{
    Answer, ExtensionFilter, Hash, Member, Snapshot, TelescopingFilter,
    error::{InsertError, RemoveError},
    telescoping::{self, CodedFilter, Extensions, Selectors},
};

const FLAGS_AT: usize = 12;
const MARK_AT: usize = 80;

/// Reads bytes as a snapshot: as they are, with corrected checksums, or as changes to a saved
/// snapshot.
///
/// # Panics
/// If an invalid filter is read.
pub fn drive(bytes: &[u8]) {
    drive_kinds(bytes, read, |is_telescoping, bytes| {
        if is_telescoping { changed::<Selectors>(bytes) } else { changed::<Extensions>(bytes) }
    });
}

/// Builds a filter with some members and repairs.
///
/// # Errors
/// If there are not enough bytes.
///
/// # Panics
/// If a small filter can't be built.
pub fn with_repairs<S: telescoping::CodedScheme>(
    bytes: &mut Unstructured<'_>,
) -> Result<CodedFilter<S>> {
    let most_remainder_bits = if bytes.ratio(1, 4)? { 56 } else { 6 };
    let empty = CodedFilter::<S>::builder()
        .slots(bytes.int_in_range(1..=300)?)
        .remainder_bits(bytes.int_in_range(1..=most_remainder_bits)?)
        .code_bits(bytes.int_in_range(8..=120)?)
        .build()
        .expect("a small filter");
    let mut parameters = empty.parameters();
    parameters.remainders = any_remainders(bytes)?;
    let no_members: [Hash; 0] = [];
    let mut filter = CodedFilter::from_sorted(parameters, no_members, []).expect("a small one");
    let mut members = BTreeMap::<Hash, u64>::new();
    for _ in 0..bytes.int_in_range(0..=300)? {
        let hash = random(bytes.arbitrary::<u16>()?.into());
        match filter.check(hash) {
            Answer::Maybe(claim) if bytes.ratio(1, 2)? => {
                let listed: Vec<Member> = members
                    .range(claim.suspects())
                    .map(|(&hash, &count)| Member { hash, count })
                    .collect();
                let _ = filter.adapt(&claim, &listed);
            }
            _ if filter.insert(hash).is_ok() => *members.entry(hash).or_default() += 1,
            _ => {}
        }
    }
    Ok(filter)
}

fn random(number: u128) -> Hash {
    Hash::from_u128((number + 1).wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255))
}

/// Saves a filter, changes some bytes of its header or table, and corrects the checksums.
fn changed<S: telescoping::CodedScheme>(bytes: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut snapshot = Vec::new();
    with_repairs::<S>(bytes)?.write_to(&mut snapshot).expect("writing to memory");
    flip_bytes(&mut snapshot, 20, bytes)?;
    if bytes.ratio(1, 6)? {
        overwrite_stretch(&mut snapshot, bytes)?;
    }
    seal(&mut snapshot);
    Ok(snapshot)
}

/// Reads a snapshot as each scheme, and uses the result.
///
/// # Panics
/// Panics for the same reasons as [`drive`].
pub fn read(bytes: &[u8]) {
    let telescoping = TelescopingFilter::read_from(bytes);
    let extending = ExtensionFilter::read_from(bytes);
    assert!(telescoping.is_err() || extending.is_err(), "read as both schemes");
    if let Ok(filter) = telescoping {
        check(filter, bytes);
    }
    if let Ok(filter) = extending {
        check(filter, bytes);
    }
}

fn check<S: telescoping::CodedScheme>(mut filter: CodedFilter<S>, bytes: &[u8]) {
    filter.validate().expect("reading validates");
    assert_eq!(filter.iter().count(), filter.len());
    assert!(filter.iter().all(|entry| entry.quotient < filter.slots()));
    // A restored filter is saved without the mark of a secret, so compare the bytes only if the
    // snapshot had neither a mark nor a secret.
    let mut saved = Vec::new();
    filter.write_to(&mut saved).expect("writing to memory");
    if bytes[FLAGS_AT] & 1 == 0 && bytes[MARK_AT..MARK_AT + 8] == [0; 8] {
        assert_eq!(saved, bytes[..saved.len()], "saved differently than restored");
    }
    let hashes: Vec<Hash> = (0..200).map(random).chain([Hash::MIN, Hash::MAX]).collect();
    let mut maybe = Vec::new();
    filter.contains_many(&hashes, &mut maybe);
    for (&hash, &maybe) in hashes.iter().zip(&maybe) {
        assert_eq!(filter.contains(hash), maybe);
        assert_eq!(filter.check(hash).is_maybe(), maybe);
    }
    for &hash in &hashes[..40] {
        let before = filter.len();
        match filter.insert(hash) {
            Ok(()) => assert!(filter.contains(hash) && filter.len() == before + 1),
            Err(InsertError::Full { .. } | InsertError::NeedsMembers(_)) => {
                assert_eq!(filter.len(), before);
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        match filter.remove_trusting(hash) {
            Ok(()) => assert_eq!(filter.len(), before),
            Err(RemoveError::Ambiguous) => assert_eq!(filter.len(), before + 1),
            Err(error) => panic!("{error}"),
        }
    }
    filter.validate().expect("valid after changes");
}
