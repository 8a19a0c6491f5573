//! Stores that grow, shrink, or are filled to their planned size.

use super::rows::{
    Grow, GrowTotal, Latencies, Planned, PutLatencies, Remainders, Row, Shrink, Size,
};
use super::subject::{Place, Strangers, Subject, Timings, member};
use super::{Emit, PUT, Phase, RATE, Step, Work};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use twiceshy::QuotientFilter;
use twiceshy_store::Stats;

/// Returns the quantiles 0.9999 and 0.99999 and the maximum, in microseconds.
fn slowest(latencies: &Histogram<u64>) -> [f64; 3] {
    let microseconds = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    [0.9999, 0.99999, 1.0].map(microseconds)
}

impl PutLatencies {
    pub(super) fn of(puts: &Histogram<u64>) -> Self {
        let [p9999, p99999, max] = slowest(puts);
        Self { p9999, p99999, max }
    }
}

impl Latencies {
    fn of(timings: &Timings) -> Self {
        let [get_p9999_us, get_p99999_us, get_max_us] = slowest(&timings.gets);
        let [control_p9999_us, control_p99999_us, control_max_us] = slowest(&timings.control);
        Self {
            puts: PutLatencies::of(&timings.puts),
            get_p9999_us,
            get_p99999_us,
            get_max_us,
            control_p9999_us,
            control_p99999_us,
            control_max_us,
        }
    }
}

impl Size {
    pub(super) fn of(backend: &'static str, stats: &Stats) -> Self {
        Self {
            backend,
            members: stats.members,
            expected_rate: stats.expected_rate,
            filter_bits_per_member: stats.bits_per_key(),
            memory_bits_per_member: stats.memory() as f64 * 8.0 / stats.members as f64,
            memory_bytes: stats.memory(),
        }
    }
}

impl Remainders {
    /// Returns the width of a store's remainders, and the planned width for its members.
    fn of(subject: &Subject, members: u64) -> Self {
        let builder = QuotientFilter::builder().false_positive_rate(RATE);
        let plan = builder.capacity(members as usize).plan().expect("a possible filter");
        Self {
            remainder_bits: subject.remainder_bits(),
            remainder_bits_of_plan: plan.remainder_bits,
        }
    }
}

/// Runs the phases `grow` and `shrink`, if they were requested.
pub(super) fn grow_and_shrink(
    work: &Work,
    bar: &ProgressBar,
    emit: &mut Emit<'_>,
) -> Result<(), ExitCode> {
    let subject = Subject::open(work.place(), None, work);
    let mut fresh = Strangers::new(1);
    if work.wants(Phase::Grow) {
        grow(&subject, &mut fresh, work, bar, emit)?;
    } else {
        subject.fill(0..work.members);
        subject.rest();
    }
    if work.wants(Phase::Shrink) {
        shrink(&subject, &mut fresh, work, bar, emit)?;
    }
    Ok(())
}

fn grow(
    subject: &Subject,
    fresh: &mut Strangers,
    work: &Work,
    bar: &ProgressBar,
    emit: &mut Emit<'_>,
) -> Result<(), ExitCode> {
    let backend = subject.place.engine.name();
    let mut asked = Strangers::new(2);
    let (mut all, mut timings) = (Timings::new(), Timings::new());
    let (mut members, mut all_listed, mut all_rebuilds, mut measured) = (0, 0, 0, 0);
    let (mut before, mut read) = (subject.store.stats(), subject.members_read());
    for Step { members: size, is_full } in work.steps() {
        let on_put = |count| bar.inc(count * PUT);
        timings.add(&subject.put_while_asking(members..size, &mut asked, on_put));
        members = size;
        let (stats, catch_up) = subject.rest();
        assert_eq!(stats.members, members, "all members");
        if !is_full {
            emit(Row::GrowSize(Size::of(backend, &stats)))?;
            continue;
        }
        let puts = members - measured;
        let listed = subject.members_read().since(read).listed;
        let rebuilds = stats.rebuilds - before.rebuilds;
        (all_listed, all_rebuilds) = (all_listed + listed, all_rebuilds + rebuilds);
        all.add(&timings);
        emit(Row::Grow(Grow {
            size: Size::of(backend, &stats),
            remainders: Remainders::of(subject, members),
            rate: subject.rate(fresh, work.rate_queries),
            rebuild_bytes: timings.rebuild_bytes,
            puts_per_second: puts as f64 / timings.time.as_secs_f64(),
            gets_per_second: timings.gets.len() as f64 / timings.reading_time.as_secs_f64(),
            members_listed_per_put: listed as f64 / puts as f64,
            latencies: Latencies::of(&timings),
            delayed_writes: stats.delayed_writes - before.delayed_writes,
            rebuilds,
            catch_up_ms: catch_up.as_secs_f64() * 1e3,
        }))?;
        timings = Timings::new();
        measured = members;
        (before, read) = (subject.store.stats(), subject.members_read());
    }
    let Stats { delayed_writes, stalled_writes, .. } = subject.store.stats();
    emit(Row::GrowTotal(GrowTotal {
        backend,
        puts: members,
        gets: all.gets.len(),
        puts_per_second: members as f64 / all.time.as_secs_f64(),
        members_listed_per_put: all_listed as f64 / members as f64,
        latencies: Latencies::of(&all),
        delayed_writes,
        stalled_writes,
        rebuilds: all_rebuilds,
    }))
}

/// Deletes members, newest first.
fn shrink(
    subject: &Subject,
    fresh: &mut Strangers,
    work: &Work,
    bar: &ProgressBar,
    emit: &mut Emit<'_>,
) -> Result<(), ExitCode> {
    let backend = subject.place.engine.name();
    let (mut members, mut measured, mut time) = (work.members, work.members, Duration::ZERO);
    let (mut before, mut read) = (subject.store.stats(), subject.members_read());
    for &Step { members: size, is_full } in work.steps().iter().rev().skip(1) {
        let start = Instant::now();
        for number in (size..members).rev() {
            let is_deleted = subject.store.delete(&member(number)).expect("a working backend");
            assert!(is_deleted, "a member");
            if number.is_multiple_of(1024) {
                bar.inc(1024 * PUT);
            }
        }
        time += start.elapsed();
        members = size;
        let (stats, catch_up) = subject.rest();
        assert_eq!(stats.members, members, "all deletes");
        if !is_full {
            emit(Row::ShrinkSize(Size::of(backend, &stats)))?;
            continue;
        }
        let deletes = measured - members;
        let listed = subject.members_read().since(read).listed;
        emit(Row::Shrink(Shrink {
            size: Size::of(backend, &stats),
            remainders: Remainders::of(subject, members),
            rate: subject.rate(fresh, work.rate_queries),
            deletes_per_second: deletes as f64 / time.as_secs_f64(),
            members_listed_per_delete: listed as f64 / deletes as f64,
            rebuilds: stats.rebuilds - before.rebuilds,
            catch_up_ms: catch_up.as_secs_f64() * 1e3,
        }))?;
        (measured, time) = (members, Duration::ZERO);
        (before, read) = (subject.store.stats(), subject.members_read());
    }
    Ok(())
}

/// The smallest number of members for which there are targets for planned memory and for recovery.
pub(super) const PLANNED: u64 = 1 << 20;

impl Work {
    pub(super) fn place(&self) -> Place {
        Place::new(self.backend, self.directory.as_deref())
    }

    /// Returns the sizes that stores are planned for.
    pub(super) fn planned_sizes(&self) -> Vec<u64> {
        let mut sizes = vec![PLANNED.min(self.members), self.members];
        sizes.dedup();
        sizes
    }
}

/// Fills stores to their planned size.
pub(super) fn planned(work: &Work, bar: &ProgressBar, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
    for members in work.planned_sizes() {
        let subject = Subject::open(work.place(), Some(members), work);
        subject.fill(0..members);
        bar.inc(members * PUT);
        let (stats, _) = subject.rest();
        assert_eq!(stats.members, members, "all members");
        emit(Row::Planned(Planned {
            size: Size::of(work.backend.name(), &stats),
            remainders: Remainders::of(&subject, members),
            rate: subject.rate(&mut Strangers::new(1), work.rate_queries),
            rebuilds: stats.rebuilds,
        }))?;
    }
    Ok(())
}
