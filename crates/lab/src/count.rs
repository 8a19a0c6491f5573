//! `twiceshy-lab count`: one operation, many times, to be run under an instruction counter.
//!
//! What is counted is what happens in [`measured`]; `cargo xtask counts` does it.

use std::hint::black_box;
use twiceshy::{AdaptiveQuotientFilter, Answer, Hash, KeyedHasher, Secret};

/// What to count.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Op {
    /// Lookups of keys that aren't members.
    Negative,
    /// Lookups of members.
    Positive,
    /// Lookups of keys that aren't members, in one call.
    NegativeMany,
    /// Lookups of members, in one call.
    PositiveMany,
    /// Inserts into an empty filter, up to 90 % load.
    Insert,
    /// The same, in calls of 1024.
    InsertMany,
    /// The same, in one call.
    Bulk,
    /// Repairs of mistakes.
    Adapt,
}

const SLOTS: u64 = 1 << 15;
const MEMBERS: u64 = SLOTS / 10 * 9;

/// Calls `work`; a counter recognises it by its name.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    let result = black_box(work)();
    black_box(result)
}

fn empty() -> AdaptiveQuotientFilter {
    let builder = AdaptiveQuotientFilter::builder().remainder_bits(9).slots(SLOTS);
    builder.build().expect("memory for a filter")
}

/// Does the operation. Prints how often, and whether the machine has the instructions that
/// the counts depend on.
pub(crate) fn run(op: Op) {
    let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
    let hashes = |first: u64, count: u64| -> Vec<Hash> {
        (first..first + count).map(|key| hasher.hash(&key)).collect()
    };
    let members = hashes(0, MEMBERS);
    let strangers = hashes(1 << 40, MEMBERS);
    let mut filter = empty();
    if !matches!(op, Op::Insert | Op::InsertMany | Op::Bulk) {
        filter.insert_many(&members).expect("room");
    }
    let mut maybe = Vec::with_capacity(members.len());
    let times = match op {
        Op::Negative | Op::Positive => {
            let asked = if matches!(op, Op::Positive) { &members } else { &strangers };
            measured(|| asked.iter().filter(|&&hash| filter.contains(hash)).count());
            asked.len()
        }
        Op::NegativeMany | Op::PositiveMany => {
            let asked = if matches!(op, Op::PositiveMany) { &members } else { &strangers };
            measured(|| filter.contains_many(asked, &mut maybe));
            asked.len()
        }
        Op::Insert => {
            measured(|| members.iter().for_each(|&hash| filter.insert(hash).expect("room")));
            members.len()
        }
        Op::InsertMany => {
            measured(|| {
                members.chunks(1024).for_each(|batch| filter.insert_many(batch).expect("room"));
            });
            members.len()
        }
        Op::Bulk => {
            measured(|| filter.insert_many(&members).expect("room"));
            members.len()
        }
        Op::Adapt => repair(&mut filter, &members, &hashes(1 << 41, 1 << 19)),
    };
    assert!(filter.len() == members.len() && filter.validate().is_ok());
    println!("{times} {}", if has_bit_instructions() { "bmi2" } else { "portable" });
}

/// Repairs all mistakes among `strangers`; how many there were.
fn repair(filter: &mut AdaptiveQuotientFilter, members: &[Hash], strangers: &[Hash]) -> usize {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let mut repaired = 0;
    for &stranger in strangers {
        let Answer::Maybe(claim) = filter.check(stranger) else { continue };
        let first = sorted.partition_point(|member| member < claim.suspects().start());
        let behind = sorted.partition_point(|member| member <= claim.suspects().end());
        measured(|| filter.adapt(&claim, &sorted[first..behind]).expect("room"));
        repaired += 1;
    }
    repaired
}

fn has_bit_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
