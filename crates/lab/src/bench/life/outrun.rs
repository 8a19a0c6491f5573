//! Writers that are faster than the background work of their store.

use super::rows::{Outrun, PutLatencies, Row, Size};
use super::subject::{Strangers, Subject, Timings, member};
use super::{Emit, PUT, Work};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;
use twiceshy_store::Stats;

/// The maximum number of members to put. It is enough for several seconds.
const MOST: u64 = 1 << 20;

/// The share of one core for background work.
const SHARE: f64 = 0.05;

const WRITERS: u64 = 2;

/// The number of members per call.
const CALL: u64 = 16;

impl Work {
    pub(super) fn outrun_members(&self) -> u64 {
        self.members.min(MOST)
    }
}

/// Makes every second `put_many` call; the other writer makes the others. Returns the latencies of
/// the calls, and the number of failed calls.
fn write(subject: &Subject, writer: u64, members: u64, bar: &ProgressBar) -> (Histogram<u64>, u64) {
    let Timings { puts: mut latencies, .. } = Timings::new();
    let mut failed = 0;
    for first in (writer * CALL..members).step_by((WRITERS * CALL) as usize) {
        let end = members.min(first + CALL);
        let pairs = (first..end).map(|number| (member(number), b""));
        let start = Instant::now();
        let put = subject.store.put_many(pairs);
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
        failed += u64::from(put.is_err());
        bar.inc((end - first) * PUT);
    }
    (latencies, failed)
}

/// Fills a store that has no planned size, faster than its background thread can rebuild shards.
pub(super) fn outrun(work: &Work, bar: &ProgressBar, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
    let work = Work { background_share: SHARE, ..work.clone() };
    let members = work.outrun_members();
    let subject = Subject::open(work.place(), None, &work);
    let start = Instant::now();
    let (puts, failed_puts) = thread::scope(|scope| {
        let write = |writer| write(&subject, writer, members, bar);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        let mut all = (Timings::new().puts, 0);
        for writer in writers {
            let (latencies, failed) = writer.join().expect("no panic");
            all.0.add(&latencies).expect("equal bounds");
            all.1 += failed;
        }
        all
    });
    let seconds = start.elapsed().as_secs_f64();
    let Stats { shards_due, delayed_writes, stalled_writes, .. } = subject.store.stats();
    // Rebuild the due shards now, because the background thread would take longer.
    subject.store.tend().expect("a backend that can be read");
    let (stats, _) = subject.rest();
    emit(Row::Outrun(Outrun {
        size: Size::of(subject.place.engine.name(), &stats),
        background_share: SHARE,
        writers: WRITERS,
        puts: stats.members,
        puts_per_call: CALL,
        puts_per_second: members as f64 / seconds,
        latencies: PutLatencies::of(&puts),
        failed_puts,
        delayed_writes,
        stalled_writes,
        rebuilds: stats.rebuilds,
        failed_rebuilds: stats.rebuilds_failed,
        shards_due: shards_due as u64,
        rate: subject.rate(&mut Strangers::new(6), work.rate_queries),
    }))
}
