//! `twiceshy-count OPERATION FILTER`: runs one operation many times, under an instruction counter.
//!
//! The counter counts only the instructions within [`measured`]. `cargo xtask counts` runs this
//! program. It depends on nothing except the filters, so that its release build is short.

use std::hint::black_box;
use std::process::ExitCode;
use twiceshy::{
    Answer, Claim, Hash, QuotientFilter, Secret,
    error::{AdaptError, InsertError},
    hash::KeyedHasher,
    telescoping::{CodedFilter, CodedScheme, Extensions, Selectors},
};

#[derive(Clone, Copy)]
enum Op {
    /// Looks up keys that aren't members.
    Negative,
    /// Looks up members.
    Positive,
    /// Looks up keys that aren't members, in one call.
    NegativeMany,
    /// Looks up members, in one call.
    PositiveMany,
    /// Inserts members one by one: into an empty filter up to a load of 90 %, or into a repaired
    /// filter from 90 % to 92 %.
    Insert,
    /// Inserts in calls of 1024 members.
    InsertMany,
    /// Inserts all members in one call.
    Bulk,
    /// Repairs mistakes.
    Adapt,
    /// Looks up members with `check`, which returns claims.
    Check,
}

impl Op {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "negative" => Self::Negative,
            "positive" => Self::Positive,
            "negative-many" => Self::NegativeMany,
            "positive-many" => Self::PositiveMany,
            "insert" => Self::Insert,
            "insert-many" => Self::InsertMany,
            "bulk" => Self::Bulk,
            "adapt" => Self::Adapt,
            "check" => Self::Check,
            _ => return None,
        })
    }
}

const SLOTS: u64 = 1 << 15;
const MEMBERS: u64 = SLOTS / 10 * 9;

/// The number of members per repair in an adapted filter.
const MEMBERS_PER_REPAIR: usize = 4;

/// Prints how many times the operation ran, and whether the machine has the instructions that the
/// recorded counts depend on.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [op, filter] = &arguments[..] else {
        eprintln!("usage: twiceshy-count OPERATION FILTER");
        return ExitCode::from(2);
    };
    let work = Work::new();
    let times = Op::of(op).and_then(|op| match &**filter {
        "aqf" => Some(count(op, &work)),
        "taf" => count_coded::<Selectors>(op, false, &work),
        "taf-adapted" => count_coded::<Selectors>(op, true, &work),
        "exaf" => count_coded::<Extensions>(op, false, &work),
        "exaf-adapted" => count_coded::<Extensions>(op, true, &work),
        _ => None,
    });
    let Some(times) = times else {
        eprintln!("error: filter {filter} has no operation {op}");
        return ExitCode::from(2);
    };
    println!("{times} {}", if has_bit_instructions() { "bmi2" } else { "portable" });
    ExitCode::SUCCESS
}

/// Calls `work`. The counter recognises this function by its name.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    let result = black_box(work)();
    black_box(result)
}

/// The hashes of all keys.
struct Work {
    hasher: KeyedHasher,
    members: Vec<Hash>,
    strangers: Vec<Hash>,
}

impl Work {
    fn new() -> Self {
        let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
        let (members, strangers) = (hashes(&hasher, 0, MEMBERS), hashes(&hasher, 1 << 40, MEMBERS));
        Self { hasher, members, strangers }
    }
}

fn hashes(hasher: &KeyedHasher, first: u64, count: u64) -> Vec<Hash> {
    (first..first + count).map(|key| hasher.hash(&key)).collect()
}

/// Runs an operation that looks up members or non-members. Returns the number of lookups. This is a
/// macro, because a function would have to call the filter through a trait.
macro_rules! look_up {
    ($filter:ident, $op:ident, $work:ident) => {{
        let asked = match $op {
            Op::Negative | Op::NegativeMany => &$work.strangers,
            _ => &$work.members,
        };
        let mut maybe = Vec::with_capacity(asked.len());
        match $op {
            Op::NegativeMany | Op::PositiveMany => {
                measured(|| $filter.contains_many(asked, &mut maybe));
            }
            Op::Check => {
                measured(|| asked.iter().filter(|&&hash| $filter.check(hash).is_maybe()).count());
            }
            _ => {
                measured(|| asked.iter().filter(|&&hash| $filter.contains(hash)).count());
            }
        }
        asked.len()
    }};
}

/// Runs an operation of an adaptive quotient filter with 9-bit remainders. Returns how many times
/// it ran.
fn count(op: Op, work: &Work) -> usize {
    let Work { hasher, members, .. } = work;
    let builder = QuotientFilter::builder().remainder_bits(9).slots(SLOTS);
    let mut filter = builder.build().expect("memory for a filter");
    if !matches!(op, Op::Insert | Op::InsertMany | Op::Bulk) {
        filter.insert_many(members).expect("room");
    }
    let times = match op {
        Op::Negative | Op::Positive | Op::NegativeMany | Op::PositiveMany | Op::Check => {
            look_up!(filter, op, work)
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
            measured(|| filter.insert_many(members).expect("room"));
            members.len()
        }
        Op::Adapt => {
            let sorted = sorted(members);
            let mut times = 0;
            for stranger in hashes(hasher, 1 << 41, 1 << 19) {
                let Answer::Maybe(claim) = filter.check(stranger) else { continue };
                let listed = listed(&sorted, &claim);
                measured(|| filter.adapt(&claim, listed).expect("room"));
                times += 1;
            }
            times
        }
    };
    assert!(filter.len() == members.len() && filter.validate().is_ok());
    times
}

/// Runs an operation of a telescoping or an extension filter with 8-bit remainders. Returns how
/// many times it ran, or `None` if the filter has no such operation.
fn count_coded<S: CodedScheme>(op: Op, is_adapted: bool, work: &Work) -> Option<usize> {
    let Work { hasher, members, .. } = work;
    let builder = CodedFilter::<S>::builder().remainder_bits(8).slots(SLOTS);
    let mut filter = builder.build().expect("memory for a filter");
    let mut sorted = sorted(members);
    if matches!(op, Op::Insert) && !is_adapted {
        measured(|| members.iter().for_each(|&hash| filter.insert(hash).expect("room")));
    } else {
        for &hash in members {
            filter.insert(hash).expect("room");
        }
    }
    if is_adapted {
        repair_some(&mut filter, &sorted, hasher);
    }
    let times = match op {
        Op::Negative | Op::Positive | Op::NegativeMany | Op::PositiveMany | Op::Check => {
            look_up!(filter, op, work)
        }
        Op::Adapt => {
            let mut times = 0;
            for stranger in hashes(hasher, 1 << 41, 1 << 19) {
                let Answer::Maybe(claim) = filter.check(stranger) else { continue };
                let listed = listed(&sorted, &claim);
                match measured(|| filter.adapt(&claim, listed)) {
                    Ok(_) | Err(AdaptError::Crowded | AdaptError::Inseparable) => times += 1,
                    Err(error) => panic!("all suspects are listed: {error}"),
                }
            }
            times
        }
        Op::Insert if is_adapted => {
            let newcomers = hashes(hasher, 1 << 43, SLOTS / 50);
            for &hash in &newcomers {
                let inserted = measured(|| filter.insert(hash));
                if let Err(InsertError::NeedsMembers(claim)) = inserted {
                    let listed = listed(&sorted, &claim);
                    measured(|| filter.insert_listed(&claim, listed)).expect("room");
                }
                sorted.insert(sorted.partition_point(|&member| member < hash), hash);
            }
            newcomers.len()
        }
        Op::Insert => members.len(),
        Op::InsertMany | Op::Bulk => return None,
    };
    assert!(filter.len() == sorted.len() && filter.validate().is_ok());
    Some(times)
}

/// Repairs mistakes about keys that no operation looks up.
fn repair_some<S: CodedScheme>(filter: &mut CodedFilter<S>, sorted: &[Hash], hasher: &KeyedHasher) {
    let mut left = sorted.len() / MEMBERS_PER_REPAIR;
    let mut keys = 1u64 << 42..;
    while left > 0 {
        let stranger = hasher.hash(&keys.next().expect("a range without an end"));
        let mut answer = filter.check(stranger);
        while let Answer::Maybe(claim) = answer {
            match filter.adapt(&claim, listed(sorted, &claim)) {
                Ok(_) => left -= 1,
                // Try again with a claim of a wider range. If all members in it are listed, the
                // filter can make room by forgetting older repairs.
                Err(AdaptError::Crowded) if filter.suspects(stranger) != claim.suspects() => {
                    answer = filter.check(stranger);
                    continue;
                }
                Err(AdaptError::Crowded | AdaptError::Inseparable) => {}
                Err(error) => panic!("all suspects are listed: {error}"),
            }
            break;
        }
    }
}

fn sorted(members: &[Hash]) -> Vec<Hash> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Returns the members that a claim asks for.
fn listed<'a>(sorted: &'a [Hash], claim: &Claim) -> &'a [Hash] {
    let first = sorted.partition_point(|member| member < claim.suspects().start());
    let end = sorted.partition_point(|member| member <= claim.suspects().end());
    &sorted[first..end]
}

fn has_bit_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
