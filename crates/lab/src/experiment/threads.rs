//! Figure 4 of the `AdaptiveQF` paper: how the speed scales with the number of threads.

use super::summary::{fastest, judge};
use super::{Context, Experiment, Outcome, progress};
use crate::bench::measure::process_cpu_nanoseconds;
use crate::contestant::{Kind, Shape};
use std::time::Instant;
use twiceshy::{Concurrent, Hash, QuotientFilter, Secret, hash::KeyedHasher};
use twiceshy_report::{Axis, Cell, Column, Plot, Point, Series, Table, Verdict};
use twiceshy_workloads::key::scatter;

pub(super) const THREADS: Experiment = Experiment {
    name: "threads",
    title: "Many threads, one filter",
    question: "How many inserts and lookups per second does one filter reach with several threads?",
    paper: "AdaptiveQF, figure 4: inserts scale almost linearly from 1 thread to 12. (The paper \
            doesn't show lookups.)",
    run,
};

/// The first non-member.
const STRANGERS: u64 = 1 << 40;
/// The minimum share of linear scaling that counts as almost linear.
const ALMOST: f64 = 0.8;
const SHARED: &str = "AQF, shared";
/// The name of the curve that shows the limit of the machine. Its threads have separate filters,
/// and share only the memory.
const APART: &str = "AQF, one each";
const LINEAR: &str = "linear";

/// The filters without locks. They are measured with one thread.
const ALONE: [Kind; 4] = [Kind::AqfNotAdapting, Kind::Qfilter, Kind::Cuckoo, Kind::Bloom];

#[derive(Clone, Copy)]
enum Op {
    Insert,
    Lookup,
}

const OPS: [Op; 2] = [Op::Insert, Op::Lookup];

/// Measures the wall-clock time in nanoseconds. CPU time would not show the combined speed of the
/// threads.
fn on_the_clock(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// Calls `work` in each thread with a part of the keys. Returns the wall-clock time in nanoseconds.
fn in_threads(threads: usize, keys: &[u64], work: impl Fn(usize, &[u64]) + Sync) -> f64 {
    let work = &work;
    on_the_clock(|| {
        std::thread::scope(|scope| {
            for (thread, part) in keys.chunks(keys.len().div_ceil(threads)).enumerate() {
                scope.spawn(move || work(thread, part));
            }
        });
    })
}

fn shared(shape: &Shape) -> Concurrent<QuotientFilter> {
    // Use several shards per thread, so that threads rarely wait for each other.
    let shards = 16 * cores().next_power_of_two();
    let builder = QuotientFilter::builder().slots(shape.slots);
    let builder = builder.remainder_bits(shape.remainder_bits).shards(shards);
    builder.build_concurrent().expect("memory for a filter")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The times of inserts and of lookups in nanoseconds, by round.
type Times = [Vec<f64>; 2];

/// The measurements of all rounds.
struct Measured {
    keys: usize,
    rounds: usize,
    /// The times of the shared filter, for 1, 2, 3… threads.
    together: Vec<Times>,
    /// The times with one filter per thread, for 1, 2, 3… threads.
    apart: Vec<Times>,
    alone: [Times; ALONE.len()],
    /// The time of inserts in all threads, and the share of that time in which the threads ran.
    running: Vec<(f64, f64)>,
}

impl Measured {
    /// Returns the points of the filters that are measured with one thread. They have no spreads,
    /// because spreads would hide each other.
    fn alone(&self, op: Op) -> [Point; ALONE.len()] {
        let best = |times: &Times| fastest(1.0, self.keys, &times[op as usize]).y;
        self.alone.each_ref().map(|times| Point::new(1.0, best(times)))
    }

    fn curve(&self, op: Op, by_threads: &[Times]) -> Vec<Point> {
        let point = |(threads, times): (usize, &Times)| {
            fastest(threads as f64, self.keys, &times[op as usize])
        };
        (1..).zip(by_threads).map(point).collect()
    }

    fn plot(&self, op: Op) -> Plot {
        let title = match op {
            Op::Insert => "Throughput of inserts",
            Op::Lookup => "Throughput of lookups of non-members",
        };
        let curve = self.curve(op, &self.together);
        let linear = [1.0, curve.len() as f64].map(|threads| (threads, threads * curve[0].y));
        let mut plot = Plot::lines(
            title,
            Axis::linear("threads", "").from_zero().whole(),
            Axis::linear("throughput", "op/s").si().from_zero(),
        )
        .note(format!(
            "Best of {} rounds by the wall clock; bands extend to the worst. Filters that can't be \
             shared are points at one thread.",
            self.rounds
        ))
        .series(Series::new(SHARED).points(curve))
        .series(Series::new(APART).points(self.curve(op, &self.apart)))
        .series(Series::new(LINEAR).points(linear));
        for (kind, point) in ALONE.iter().zip(self.alone(op)) {
            plot = plot.series(Series::new(kind.name()).points([point]));
        }
        plot
    }

    fn table(&self) -> Table {
        let mut table = Table::new("Best of all rounds").columns([
            Column::text("filter"),
            Column::decimals("threads", "", 0),
            Column::decimals("inserts", "M/s", 2),
            Column::percent("of linear", 0),
            Column::decimals("lookups", "M/s", 2),
            Column::percent("of linear", 0),
        ]);
        for (name, by_threads) in [(SHARED, &self.together), (APART, &self.apart)] {
            let curves = OPS.map(|op| self.curve(op, by_threads));
            for at in 0..by_threads.len() {
                let rates = curves.iter().flat_map(|curve| -> [Cell; 2] {
                    [(curve[at].y / 1e6).into(), of_linear(curve, at).into()]
                });
                table = table.row([name.into(), curves[0][at].x.into()].into_iter().chain(rates));
            }
        }
        let [inserts, lookups] = OPS.map(|op| self.alone(op));
        for (at, kind) in ALONE.iter().enumerate() {
            let [insert, lookup] = [inserts[at], lookups[at]].map(|point| (point.y / 1e6).into());
            table = table.row([kind.name().into(), 1.0.into(), insert, Cell::Empty, lookup]);
        }
        table
    }
}

/// Returns the speed at a point of a curve, as a share of the speed that linear scaling would give.
fn of_linear(curve: &[Point], at: usize) -> f64 {
    curve[at].y / (curve[0].y * curve[at].x)
}

fn measure(shape: &Shape, rounds: usize) -> Measured {
    let members: Vec<u64> = (0..shape.members()).map(scatter).collect();
    let strangers: Vec<u64> = (STRANGERS..STRANGERS + shape.members()).map(scatter).collect();
    let hasher = KeyedHasher::new(&Secret::from_bytes([7; 16]));
    let hash = |key: &u64| -> Hash { hasher.hash(key) };
    let insert_each = |filter: &Concurrent<QuotientFilter>, keys: &[u64]| {
        for key in keys {
            filter.insert(hash(key)).expect("room");
        }
    };
    let look_up = |filter: &Concurrent<QuotientFilter>, keys: &[u64]| {
        let maybe = keys.iter().filter(|key| filter.contains(hash(key))).count();
        assert!(maybe < strangers.len() / 4);
    };
    let mut measured = Measured {
        keys: members.len(),
        rounds,
        together: vec![Times::default(); cores()],
        apart: vec![Times::default(); cores()],
        alone: std::array::from_fn(|_| Times::default()),
        running: Vec::new(),
    };
    let bar = progress("rounds", rounds);
    for _ in 0..rounds {
        for (threads, times) in (1..).zip(&mut measured.together) {
            let filter = shared(shape);
            let before = process_cpu_nanoseconds();
            let time = in_threads(threads, &members, |_, keys| insert_each(&filter, keys));
            times[0].push(time);
            if threads == cores() {
                let busy = process_cpu_nanoseconds() - before;
                measured.running.push((time, busy / (time * threads as f64)));
            }
            assert_eq!(filter.len(), members.len(), "a member is missing");
            times[1].push(in_threads(threads, &strangers, |_, keys| look_up(&filter, keys)));
        }
        for (threads, times) in (1..).zip(&mut measured.apart) {
            let part = Shape { slots: shape.slots / threads as u64 + 1, ..*shape };
            let filters: Vec<_> = (0..threads).map(|_| shared(&part)).collect();
            times[0].push(in_threads(threads, &members, |thread, keys| {
                insert_each(&filters[thread], keys);
            }));
            times[1].push(in_threads(threads, &strangers, |thread, keys| {
                look_up(&filters[thread], keys);
            }));
        }
        for (kind, times) in ALONE.iter().zip(&mut measured.alone) {
            let mut filter = kind.build(shape);
            times[0].push(on_the_clock(|| filter.insert_each(&members)));
            times[1].push(on_the_clock(|| assert!(filter.count(&strangers) < members.len() / 4)));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    measured
}

fn run(context: &Context) -> Outcome {
    let shape = Shape { slots: 1 << context.pick(18, 22, 26), ..context.shape() };
    let measured = measure(&shape, context.pick(3, 7, 5));
    let [inserts, lookups] = OPS.map(|op| measured.curve(op, &measured.together));
    let last = inserts.len() - 1;
    let share = of_linear(&inserts, last);
    let apart = of_linear(&measured.curve(Op::Insert, &measured.apart), last);
    let best = measured.running.iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
    let running = best.map_or(0.0, |&(_, running)| running);
    let locks = inserts[0].y / measured.alone(Op::Insert)[0].y;
    let seen = format!(
        "With {} threads, inserts reach {:.0} % of linear scaling (the threads were running for \
         {:.0} % of the time), and lookups {:.0} %. If each thread inserts into its own filter, so \
         that they only share the machine, it is {:.0} %. In one thread, the shared filter does \
         {locks:.2} times as many inserts as the same filter without locks.",
        inserts.len(),
        share * 100.0,
        running * 100.0,
        of_linear(&lookups, last) * 100.0,
        apart * 100.0,
    );
    // If other programs use the processors, or the processors slow each other down, the result
    // proves nothing.
    let is_open = last == 0 || (share < ALMOST && running.min(apart) < ALMOST);
    let [insert_plot, lookup_plot] = OPS.map(|op| measured.plot(op));
    Outcome {
        seen,
        verdict: if is_open { Verdict::Open } else { judge(&[share >= ALMOST]) },
        blocks: vec![insert_plot.into(), lookup_plot.into(), measured.table().into()],
    }
}
