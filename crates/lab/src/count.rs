//! `twiceshy-lab count`: one operation, many times, to be run under an instruction counter.
//!
//! What is counted is what happens in [`measured`]; `cargo xtask counts` does it.

use crate::bench::fixed::{Fixed, repair_some};
use std::hint::black_box;
use std::process::ExitCode;
use twiceshy::{
    AdaptError, AdaptiveQuotientFilter, Answer, Claim, CodedFilter, CodedScheme, Extensions, Hash,
    InsertError, KeyedHasher, PlainFilter, Secret, Selectors,
};

/// What to count.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The operation.
    op: Op,
    /// Whose; not all of them have every operation.
    #[arg(default_value = "aqf")]
    filter: Kind,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// The adaptive quotient filter, with 9-bit remainders.
    Aqf,
    /// The plain quotient filter, with 8-bit remainders, as all that follow.
    Qf,
    /// The telescoping filter.
    Taf,
    /// The same, after one repair for four members.
    TafAdapted,
    /// The extension filter.
    Exaf,
    /// The same, after one repair for four members.
    ExafAdapted,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Op {
    /// Lookups of keys that aren't members.
    Negative,
    /// Lookups of members.
    Positive,
    /// Lookups of keys that aren't members, in one call.
    NegativeMany,
    /// Lookups of members, in one call.
    PositiveMany,
    /// Inserts into an empty filter, up to 90 % load; into one that was repaired, from there to 92 %.
    Insert,
    /// The same, in calls of 1024.
    InsertMany,
    /// The same, in one call.
    Bulk,
    /// Repairs of mistakes.
    Adapt,
    /// Lookups of members that return a claim.
    Check,
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

/// Keys, hashed.
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

/// Does the operation. Prints how often, and whether the machine has the instructions that
/// the counts depend on.
///
/// # Errors
/// If the filter has no such operation.
pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let (work, op) = (Work::new(), options.op);
    let times = match options.filter {
        Kind::Aqf => Some(count(op, &work)),
        Kind::Qf => count_fixed::<PlainFilter>(op, false, &work),
        Kind::Taf => count_coded::<Selectors>(op, false, &work),
        Kind::TafAdapted => count_coded::<Selectors>(op, true, &work),
        Kind::Exaf => count_coded::<Extensions>(op, false, &work),
        Kind::ExafAdapted => count_coded::<Extensions>(op, true, &work),
    };
    let Some(times) = times else {
        eprintln!("error: that filter has no such operation");
        return Err(ExitCode::from(2));
    };
    println!("{times} {}", if has_bit_instructions() { "bmi2" } else { "portable" });
    Ok(())
}

/// An operation of an adaptive quotient filter; how often it was done.
fn count(op: Op, work: &Work) -> usize {
    let Work { hasher, members, strangers } = work;
    let mut filter = empty();
    if !matches!(op, Op::Insert | Op::InsertMany | Op::Bulk) {
        filter.insert_many(members).expect("room");
    }
    let mut maybe = Vec::with_capacity(members.len());
    let times = match op {
        Op::Negative | Op::Positive => {
            let asked = if matches!(op, Op::Positive) { members } else { strangers };
            measured(|| asked.iter().filter(|&&hash| filter.contains(hash)).count());
            asked.len()
        }
        Op::NegativeMany | Op::PositiveMany => {
            let asked = if matches!(op, Op::PositiveMany) { members } else { strangers };
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
            measured(|| filter.insert_many(members).expect("room"));
            members.len()
        }
        Op::Adapt => repair(&mut filter, members, &hashes(hasher, 1 << 41, 1 << 19)),
        Op::Check => {
            measured(|| members.iter().filter(|&&hash| filter.check(hash).is_maybe()).count());
            members.len()
        }
    };
    assert!(filter.len() == members.len() && filter.validate().is_ok());
    times
}

/// An operation of a filter with codes; how often it was done.
fn count_coded<S: CodedScheme>(op: Op, is_adapted: bool, work: &Work) -> Option<usize>
where
    CodedFilter<S>: Fixed,
{
    let Work { hasher, members, .. } = work;
    let is_fixed = !matches!((op, is_adapted), (Op::Adapt | Op::Check, _) | (Op::Insert, true));
    if is_fixed {
        return count_fixed::<CodedFilter<S>>(op, is_adapted, work);
    }
    let mut filter = <CodedFilter<S> as Fixed>::empty(SLOTS, 8);
    for &hash in members {
        filter.insert(hash).expect("room");
    }
    if is_adapted {
        repair_some(&mut filter, members, hasher);
    }
    let mut sorted = members.clone();
    sorted.sort_unstable();
    let times = match op {
        Op::Check => {
            measured(|| members.iter().filter(|&&hash| filter.check(hash).is_maybe()).count());
            members.len()
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
        _ => {
            let newcomers = hashes(hasher, 1 << 43, SLOTS / 50);
            for &hash in &newcomers {
                let inserted = measured(|| filter.insert(hash));
                if inserted == Err(InsertError::Crowded) {
                    let claim = filter.claim_to_insert(hash);
                    let listed = listed(&sorted, &claim);
                    measured(|| filter.insert_listed(&claim, listed)).expect("room");
                }
                sorted.insert(sorted.partition_point(|&member| member < hash), hash);
            }
            newcomers.len()
        }
    };
    assert!(filter.len() == sorted.len() && filter.validate().is_ok());
    Some(times)
}

/// The members that a claim asks for.
fn listed<'a>(sorted: &'a [Hash], claim: &Claim) -> &'a [Hash] {
    let first = sorted.partition_point(|member| member < claim.suspects().start());
    let behind = sorted.partition_point(|member| member <= claim.suspects().end());
    &sorted[first..behind]
}

/// An operation of a filter with slots of one size; how often it was done.
fn count_fixed<F: Fixed>(op: Op, is_adapted: bool, work: &Work) -> Option<usize> {
    let Work { hasher, members, strangers } = work;
    let mut filter = F::empty(SLOTS, 8);
    let insert =
        |filter: &mut F| members.iter().for_each(|&hash| filter.insert(hash).expect("room"));
    if matches!(op, Op::Insert) && !is_adapted {
        measured(|| insert(&mut filter));
        return Some(members.len());
    }
    insert(&mut filter);
    if is_adapted {
        repair_some(&mut filter, members, hasher);
    }
    let is_member = matches!(op, Op::Positive | Op::PositiveMany);
    let asked = if is_member { members } else { strangers };
    let mut maybe = Vec::with_capacity(asked.len());
    let found = match op {
        Op::Negative | Op::Positive => {
            measured(|| asked.iter().filter(|&&hash| filter.contains(hash)).count())
        }
        Op::NegativeMany | Op::PositiveMany => {
            measured(|| filter.contains_many(asked, &mut maybe));
            maybe.iter().filter(|&&maybe| maybe).count()
        }
        _ => return None,
    };
    assert!(!is_member || found == members.len(), "a member is lost");
    Some(asked.len())
}

/// Repairs all mistakes among `strangers`; how many there were.
fn repair(filter: &mut AdaptiveQuotientFilter, members: &[Hash], strangers: &[Hash]) -> usize {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let mut repaired = 0;
    for &stranger in strangers {
        let Answer::Maybe(claim) = filter.check(stranger) else { continue };
        let listed = listed(&sorted, &claim);
        measured(|| filter.adapt(&claim, listed).expect("room"));
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
