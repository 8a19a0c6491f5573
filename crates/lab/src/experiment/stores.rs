//! The common part of the experiments with stores on disk.

use super::scale::{Context, Scale};
use crate::bench::measure;
use crate::bench::store::{Key, Kind, Run, Size, Tally, in_turns, insert_in_turns, key};
use twiceshy_report::Verdict;
use twiceshy_workloads::key::scatter;

/// A note on memory and caches.
pub(super) const MEMORY: &str = "\
    All setups have the same memory: those without our filter get its bytes as block cache. The files \
    are in the operating system's cache as far as they fit, so a disk read is cheaper here than on a \
    machine whose memory is full. Therefore disk reads are counted.";

/// Returns the size of a store. It fills 90 % of `slots` slots, and its cache has room for a share
/// of its pairs.
pub(super) fn size(context: &Context, slots: usize, cache_percent: u64) -> Size {
    let pairs = slots / 10 * 9;
    let cache_bytes = pairs as u64 * Size::PAIR_BYTES * cache_percent / 100;
    Size { pairs, cache_bytes, seed: Some(context.seed) }
}

pub(super) fn members(size: &Size) -> Vec<Key> {
    (0..size.pairs as u64).map(|number| key(number, true)).collect()
}

/// Iterates over absent keys.
pub(super) fn strangers(seed: u64) -> impl Iterator<Item = Key> {
    (0..).map(move |number| key(scatter(seed).wrapping_add(number), false))
}

pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Nothing => "no filter",
        Kind::Engine => "engine's filter",
        Kind::Plain => "ours, without repairs",
        Kind::Adaptive => "ours, with repairs",
        Kind::Split => "ours, split",
        Kind::Forgetful => "ours, mistakes not stored",
    }
}

/// Creates stores, inserts all members, and compacts the stores.
pub(super) fn filled<const N: usize>(kinds: [Kind; N], size: &Size) -> [Run; N] {
    let runs = kinds.map(|kind| Run::new(kind, size, None));
    insert_in_turns(&runs, &members(size), 1);
    tidy(&runs);
    runs
}

/// Compacts the stores, and resets the counts of their backends.
pub(super) fn tidy(runs: &[Run]) {
    for run in runs {
        run.setup.compact();
        run.setup.asked();
    }
    measure::settle();
}

/// Sends the same queries to all setups by turns, at most `most` of them. Only the keys of one turn
/// are in memory at a time.
pub(super) fn ask_in_turns<const N: usize>(
    runs: &mut [Run; N],
    mut keys: impl Iterator<Item = Key>,
    most: usize,
    turns: usize,
) -> [Tally; N] {
    let mut tallies = std::array::from_fn(|_| Tally::default());
    let mut turn: Vec<Key> = Vec::new();
    for (index, (kind, _)) in in_turns(N, turns).enumerate() {
        if index % N == 0 {
            turn = keys.by_ref().take(most.div_ceil(turns)).collect();
        }
        if !turn.is_empty() {
            runs[kind].ask(&turn, &mut tallies[kind]);
        }
    }
    tallies
}

/// Lets the adversary query `count` absent keys. Returns the keys that cost a disk read.
pub(super) fn learn(run: &mut Run, count: usize, seed: u64) -> Vec<Key> {
    /// The number of keys per batch. It bounds the memory.
    const CHUNK: usize = 1 << 20;
    let mut strangers = strangers(seed).take(count);
    let mut learnt = Vec::new();
    loop {
        let keys: Vec<Key> = strangers.by_ref().take(CHUNK).collect();
        if keys.is_empty() {
            return learnt;
        }
        learnt.extend(run.learn(&keys));
    }
}

/// Judges a claim by the parts that were counted and the parts that were timed. At the smallest
/// scale, runs are too short for timings.
pub(super) fn judge(context: &Context, counted: &[bool], timed: &[bool]) -> Verdict {
    let timed = if context.scale == Scale::Seconds { &[] } else { timed };
    let claims = [counted, timed].concat();
    match claims.iter().filter(|&&holds| holds).count() {
        _ if claims.is_empty() => Verdict::Open,
        0 => Verdict::Refuted,
        all if all == claims.len() => Verdict::Confirmed,
        _ => Verdict::Partly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_scale_does_not_judge_timings() {
        let short = Context::smallest();
        let long = Context { scale: Scale::Minutes, ..Context::smallest() };
        assert_eq!(judge(&short, &[], &[true]), Verdict::Open);
        assert_eq!(judge(&short, &[true], &[false]), Verdict::Confirmed);
        assert_eq!(judge(&long, &[true], &[false]), Verdict::Partly);
        assert_eq!(judge(&long, &[], &[false, false]), Verdict::Refuted);
    }
}
