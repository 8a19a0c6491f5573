//! Figures 2 to 4 of the telescoping filter's paper: the false-positive rate for different numbers of
//! distinct queries.

use super::summary::{around, judge, mean};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Kind, Shape};
use std::collections::HashSet;
use twiceshy_report::{Axis, Block, Column, Plot, Series, Table};
use twiceshy_workloads::stream::firehose::{ActiveSet, ActiveSetConfig, PowerLaw, PowerLawConfig};
use twiceshy_workloads::stream::{Flows, FlowsConfig};

pub(super) const QUERY_RATIO: Experiment = Experiment {
    name: "query-ratio",
    title: "Many different queries per member",
    question: "In the same space, which filter makes the fewest mistakes on event streams and \
               network flows, depending on the number of different queries per member (A/S)?",
    paper: "Telescoping filter, figures 2 to 4 (thesis, 6.1 to 6.3): on FireHose's active set, the \
            telescoping filter is best at about 5 to 20 queries per member, and the extension \
            filter is substantially worse. On network traces, all adaptive filters repair equally \
            well, so new queries dominate, and the cuckooing filter is best, because all its bits \
            are fingerprint.",
    run,
};

/// The filters, in the order of the tables. To add a filter, add it here.
pub(super) const KINDS: [Kind; 10] = [
    Kind::Telescoping,
    Kind::Uncompressed,
    Kind::Extension,
    Kind::Aqf,
    Kind::Cyclic1,
    Kind::Cyclic2,
    Kind::Cyclic3,
    Kind::Swapping,
    Kind::Cuckooing,
    Kind::PlainCuckoo,
];
/// The filters that the paper compares the telescoping filter with.
const RIVALS: [Kind; 5] =
    [Kind::Cyclic1, Kind::Cyclic2, Kind::Cyclic3, Kind::Swapping, Kind::Cuckooing];

const REMAINDER_BITS: u32 = 8;
/// The numbers of queries per member at which the telescoping filter should be best.
const MODERATE: std::ops::RangeInclusive<f64> = 5.0..=20.0;
/// The factor up to which two rates count as equal. Rates vary, because mistakes are few.
const ABOUT: f64 = 1.1;
/// The factor up to which a rate may vary and still count as independent of the number of queries
/// per member.
const STEADY: f64 = 1.2;

#[derive(Clone, Copy)]
enum Stream {
    ActiveSet,
    PowerLaw,
    Flows,
}

impl Stream {
    const ALL: [Self; 3] = [Self::ActiveSet, Self::PowerLaw, Self::Flows];

    fn name(self) -> &'static str {
        match self {
            Self::ActiveSet => "FireHose, active set",
            Self::PowerLaw => "FireHose, power law",
            Self::Flows => "Network flows",
        }
    }

    fn queries(self, context: &Context, seed: u64) -> Vec<u64> {
        let count = match self {
            Self::ActiveSet => context.pick(60_000, 3_000_000, 10_000_000),
            Self::PowerLaw => context.pick(60_000, 6_000_000, 50_000_000),
            Self::Flows => context.pick(30_000, 3_000_000, 20_000_000),
        };
        // At the smallest scale, draw from fewer keys, because the filters are smaller, too.
        let less = context.pick(32, 1, 1);
        let keys: Box<dyn Iterator<Item = u64>> = match self {
            Self::ActiveSet => {
                let published = ActiveSetConfig::default();
                let config = ActiveSetConfig { active: published.active / less, ..published };
                let stream = ActiveSet::new(config, seed).expect("a shape");
                Box::new(stream.map(|datum| datum.key))
            }
            Self::PowerLaw => {
                let published = PowerLawConfig::default();
                let keys = published.keys / u64::from(less);
                let config = PowerLawConfig { keys, ..published };
                let stream = PowerLaw::new(config, seed).expect("a shape");
                Box::new(stream.map(|datum| datum.key))
            }
            Self::Flows => {
                let usual = FlowsConfig::default();
                let (open, known) = (usual.open / less, usual.known / u64::from(less));
                let config = FlowsConfig { open, known, ..usual };
                Box::new(Flows::new(config, seed).expect("a shape"))
            }
        };
        keys.take(count).collect()
    }
}

/// The measurements with one stream.
struct Seen {
    stream: Stream,
    /// The number of different queries per member, for each size of filter.
    ratios: Vec<f64>,
    /// The number of mistakes per query, by kind, size and seed.
    rates: Vec<Vec<Vec<f64>>>,
}

impl Seen {
    fn new(stream: Stream, sizes: &[Shape], inputs: &[Vec<u64>], done: impl Fn()) -> Self {
        let distinct: HashSet<&u64> = inputs[0].iter().collect();
        let rate = |kind: Kind, shape: &Shape, seed: usize| {
            let mut filter = kind.build(&Shape { seed: shape.seed + seed as u64, ..*shape });
            filter.insert(&super::victim::members(shape));
            let rate = filter.ask(&inputs[seed]) as f64 / inputs[seed].len() as f64;
            done();
            rate
        };
        let of = |kind| {
            let seeds = |shape| (0..inputs.len()).map(|seed| rate(kind, shape, seed)).collect();
            sizes.iter().map(seeds).collect()
        };
        let ratios = sizes.iter().map(|shape| distinct.len() as f64 / shape.members() as f64);
        Self { stream, ratios: ratios.collect(), rates: KINDS.map(of).into() }
    }

    fn values(&self, kind: Kind, size: usize) -> &[f64] {
        let at = KINDS.iter().position(|&other| other == kind).expect("all play");
        &self.rates[at][size]
    }

    fn mean(&self, kind: Kind, size: usize) -> f64 {
        mean(self.values(kind, size))
    }

    /// Returns the lowest rate among the filters that the paper compares with.
    fn rival(&self, size: usize) -> f64 {
        RIVALS.map(|kind| self.mean(kind, size)).into_iter().fold(f64::INFINITY, f64::min)
    }

    /// Iterates over the sizes with a moderate number of queries per member.
    fn moderate(&self) -> impl Iterator<Item = usize> {
        (0..self.ratios.len()).filter(|&size| MODERATE.contains(&self.ratios[size]))
    }

    fn blocks(&self) -> [Block; 2] {
        let mut plot = Plot::lines(
            format!("Mistakes: {}", self.stream.name()),
            Axis::log2("different queries per member (A/S)", ""),
            Axis::log10("mistakes per query", ""),
        )
        .note("The stream is the same; the number of members decreases from left to right.");
        let columns = self.ratios.iter().map(|ratio| format!("A/S {ratio:.1}"));
        let mut table = Table::new(format!("Mistakes per query: {}", self.stream.name()))
            .columns([Column::text("filter")])
            .columns(columns.map(|name| Column::percent(name, 4)));
        for kind in KINDS {
            let points =
                self.ratios.iter().zip(0..).map(|(&x, size)| around(x, self.values(kind, size)));
            plot = plot.series(Series::new(kind.name()).points(points));
            let cells = (0..self.ratios.len()).map(|size| self.mean(kind, size).into());
            table = table.row([kind.name().into()].into_iter().chain(cells));
        }
        [plot.into(), table.into()]
    }

    fn words(&self) -> String {
        let percent = |rate: f64| format!("{:.4} %", rate * 100.0);
        let most = self.ratios.len() - 1;
        format!(
            "{}, with {:.0} different queries per member: telescoping {}, extension {}, best \
             adaptive cuckoo filter {}, plain cuckoo filter {}.",
            self.stream.name(),
            self.ratios[most],
            percent(self.mean(Kind::Telescoping, most)),
            percent(self.mean(Kind::Extension, most)),
            percent(self.rival(most)),
            percent(self.mean(Kind::PlainCuckoo, most)),
        )
    }
}

fn run(context: &Context) -> Outcome {
    let least = context.pick(7, 12, 13);
    let sizes = context.pick(5, 6, 6);
    let seeds = context.pick(1, 2, 10);
    // Start with the most members, so that the number of queries per member rises.
    let shape = |size: u32| Shape {
        slots: 1 << (least + sizes - 1 - size),
        remainder_bits: REMAINDER_BITS,
        seed: context.seed,
    };
    let sizes: Vec<Shape> = (0..sizes).map(shape).collect();
    let bar = progress("filters", Stream::ALL.len() * KINDS.len() * sizes.len() * seeds);
    let [active, power, flows] = Stream::ALL.map(|stream| {
        let input = |seed| stream.queries(context, context.seed + seed as u64);
        let inputs: Vec<Vec<u64>> = (0..seeds).map(input).collect();
        Seen::new(stream, &sizes, &inputs, || bar.inc(1))
    });
    bar.finish_and_clear();

    let most = sizes.len() - 1;
    let is_best = |size| active.mean(Kind::Telescoping, size) <= ABOUT * active.rival(size);
    let is_better =
        |seen: &Seen| seen.mean(Kind::Telescoping, most) < seen.mean(Kind::Extension, most);
    let cuckooing = flows.mean(Kind::Cuckooing, 0);
    let adaptive = || RIVALS.into_iter().chain([Kind::Telescoping, Kind::Extension]);
    let holds = [
        active.moderate().all(is_best),
        is_better(&active) && is_better(&power),
        adaptive().all(|kind| cuckooing <= ABOUT * flows.mean(kind, 0)),
        adaptive().all(|kind| flows.mean(kind, most) <= STEADY * flows.mean(kind, 0)),
    ];
    let all = [active, power, flows];
    let note = format!(
        "Remainders of {REMAINDER_BITS} bits and a load of 0.9; cuckoo filters have 3 more bits \
         per slot, like the telescoping filter. Means over {seeds} seeds. The flows replace the \
         paper's captured packets."
    );
    Outcome {
        seen: all.iter().map(Seen::words).collect::<Vec<_>>().join(" "),
        verdict: judge(&holds),
        blocks: all.iter().flat_map(Seen::blocks).chain([Block::Text(note)]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_filters_make_fewer_mistakes_on_every_stream() {
        let context = Context::smallest();
        let shape = Shape { slots: 1 << 10, remainder_bits: REMAINDER_BITS, seed: 5 };
        for stream in Stream::ALL {
            let inputs = [stream.queries(&context, 5)];
            let seen = Seen::new(stream, &[shape], &inputs, || {});
            let plain = seen.mean(Kind::PlainCuckoo, 0);
            // Most flows have few packets, so queries rarely repeat and adapting helps less.
            let times = if matches!(stream, Stream::Flows) { 1.0 } else { 2.0 };
            for kind in [Kind::Telescoping, Kind::Extension, Kind::Aqf, Kind::Swapping] {
                let rate = seen.mean(kind, 0);
                assert!(times * rate < plain, "{}, {}: {rate}", stream.name(), kind.name());
            }
        }
    }
}
