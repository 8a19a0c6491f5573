//! A store that is flooded with absent keys, each queried once.

use super::rows::{Flood, Row};
use super::subject::{Strangers, Subject};
use super::{Emit, RATE, Work};
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::time::Instant;
use twiceshy_store::Keyspace;

/// Returns the maximum number of mistakes that a flood may cause: 5 % more than the requested rate
/// allows, plus four standard deviations.
pub(super) fn allowed_mistakes(queries: u64) -> f64 {
    let expected = RATE * queries as f64;
    1.05 * expected + 4.0 * expected.sqrt()
}

impl Work {
    /// Returns the numbers of queries per member at which the flood is measured.
    fn flood_steps(&self) -> Vec<u64> {
        let most = self.queries_per_member;
        let next = |&step: &u64| (step < most).then(|| (step * 10).min(most));
        std::iter::successors(Some(1), next).collect()
    }
}

/// Asks for absent keys. The store is planned for its members, so its room for repairs is small.
pub(super) fn flood(work: &Work, bar: &ProgressBar, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
    /// Number of queries between two measurements of the memory.
    const TURN: u64 = 1 << 16;
    let members = work.flood_members;
    let subject = Subject::open(work.place(), Some(members), work);
    subject.fill(0..members);
    let (first, _) = subject.rest();
    let read = subject.members_read();
    let mut strangers = Strangers::new(3);
    let (mut queries, mut mistakes, mut peak) = (0, 0, first.memory());
    for step in work.flood_steps() {
        let (queries_before, mistakes_before) = (queries, mistakes);
        let start = Instant::now();
        while queries < step * members {
            let turn = TURN.min(step * members - queries);
            mistakes += subject.ask(&mut strangers, turn);
            queries += turn;
            peak = peak.max(subject.store.stats().memory());
            bar.inc(turn);
        }
        let (stats, _) = subject.rest();
        let seconds = start.elapsed().as_secs_f64();
        let asked = (queries - queries_before) as f64;
        let repairs = stats.repairs - first.repairs;
        let read = subject.members_read().since(read);
        let per_repair = |members: u64| members as f64 / (repairs as f64).max(1.0);
        emit(Row::Flood(Flood {
            backend: subject.place.engine.name(),
            members,
            queries_per_member: step,
            queries,
            queries_per_second: asked / seconds,
            mistakes_per_million: (mistakes - mistakes_before) as f64 / asked * 1e6,
            mistakes,
            allowed_mistakes: allowed_mistakes(queries),
            memory_bytes: stats.memory(),
            peak_memory_bytes: peak,
            disk_bytes: subject.backend.data_bytes(),
            kept_mistakes: subject.backend.pairs(Keyspace::Mistakes),
            rotations: stats.rotations - first.rotations,
            repairs,
            failed_repairs: stats.repairs_failed - first.repairs_failed,
            skipped_repairs: stats.repairs_skipped - first.repairs_skipped,
            members_read_per_repair: per_repair(read.listed + read.suspects),
            suspects_read_per_repair: per_repair(read.suspects),
        }))?;
    }
    Ok(())
}
