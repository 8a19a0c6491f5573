//! Figure 9 of the Aeris paper: false positives of range queries, for different amounts of space.

use super::summary::{judge, mean, spread};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::range::{Keys, RangeKind, RangeShape};
use indicatif::ProgressBar;
use twiceshy_report::{Axis, Best, Column, Plot, Point, Series, Table};
use twiceshy_workloads::member::{Endpoints, Ranges};

pub(super) const RANGE_FPR: Experiment = Experiment {
    name: "range-fpr",
    title: "Ranges: false positives by space",
    question: "How often is an empty range answered \"maybe\" if ranges are skewed (Zipf 1.5), \
               close to members or not, and how much do more bits help?",
    paper: "Aeris, §5.2 and figure 9: with 8 to 20 bits per member, the Aeris filter's rate is ten \
            times lower than that of Memento and Grafite, which don't adapt, for ranges close to \
            members or not. Filters that store only prefixes of keys (SuRF) fail for ranges close \
            to members.",
    run,
};

const KINDS: [RangeKind; 4] =
    [RangeKind::Aeris, RangeKind::Memento, RangeKind::Grafite, RangeKind::FstTruncated];
const AERIS: usize = 0;
const MEMENTO: usize = 1;
const GRAFITE: usize = 2;
const TRUNCATED: usize = 3;
const LENGTHS: [u64; 3] = [1, 32, 1024];
const ENDPOINTS: [(&str, Endpoints); 2] =
    [("close to members", Endpoints::CORRELATED), ("anywhere", Endpoints::UNCORRELATED)];
const EXPONENT: f64 = 1.5;
/// The range of bits per member, as in the paper.
const SPACE: std::ops::RangeInclusive<f64> = 8.0..=20.0;
/// The number of bits per member that Grafite needs in addition to those for the range and the
/// rate.
const GRAFITE_BITS: f64 = 2.2;

/// The measurements of one filter with one remainder width.
struct Seen {
    /// The number of bits per member.
    bits: f64,
    /// The false-positive rate for each seed.
    rates: Vec<f64>,
}

/// The measurements with ranges of one length in one place.
struct Trial {
    length: u64,
    place: &'static str,
    /// The measurements for each filter and remainder width.
    seen: [Vec<Seen>; KINDS.len()],
}

impl Trial {
    /// Returns the mean rate of a filter over all remainder widths.
    fn rate(&self, kind: usize) -> f64 {
        mean(&self.seen[kind].iter().map(|seen| mean(&seen.rates)).collect::<Vec<_>>())
    }
}

fn bits_per_member(kind: RangeKind, shape: &RangeShape) -> f64 {
    kind.empty(shape).expect("memory for a filter").bits() as f64 / shape.members as f64
}

/// Returns one shape for each remainder width with which our filter takes as much space as a filter
/// in the paper's figure. If several widths take the same space, returns only the widest one.
/// `every` = n keeps only every n-th shape.
fn shapes(shape: RangeShape, every: usize) -> Vec<RangeShape> {
    let shapes = (1..=20).rev().map(|remainder_bits| RangeShape { remainder_bits, ..shape });
    let space = |shape: &RangeShape| bits_per_member(RangeKind::Memento, shape);
    let mut shapes: Vec<RangeShape> = shapes.filter(|s| SPACE.contains(&space(s))).collect();
    shapes.dedup_by_key(|shape| space(shape));
    shapes.into_iter().rev().step_by(every).collect()
}

/// Gives Grafite as much space as our filter has. This lowers the false-positive rate of Grafite.
fn same_space(kind: RangeKind, shape: RangeShape) -> RangeShape {
    if kind != RangeKind::Grafite {
        return shape;
    }
    let bits = bits_per_member(RangeKind::Memento, &shape);
    let rate_bits = bits - GRAFITE_BITS - (shape.longest_range as f64).log2();
    RangeShape { remainder_bits: rate_bits.max(1.0) as u32, ..shape }
}

fn trial(
    context: &Context,
    length: u64,
    (place, endpoints): (&'static str, Endpoints),
    bar: &ProgressBar,
) -> Trial {
    let seeds = context.pick(2, 16, 8);
    let queries = context.pick(10_000, 300_000, 200_000_000);
    let shape = RangeShape::new(1 << context.pick(14, 17, 26), length, 0, context.seed);
    let shapes = shapes(shape, context.pick(4, 2, 1));
    let unseen = || shapes.iter().map(|_| Seen { bits: 0.0, rates: Vec::new() }).collect();
    let mut trial = Trial { length, place, seen: std::array::from_fn(|_| unseen()) };
    for seed in context.seed..context.seed + seeds {
        let members = RangeShape { seed, ..shape }.sorted_members();
        let ranges = Ranges::new(&members, endpoints, length, EXPONENT, seed).expect("a law");
        let ranges: Vec<Keys> = ranges.take(queries).collect();
        for (kind, seen) in KINDS.into_iter().zip(&mut trial.seen) {
            for (shape, seen) in shapes.iter().zip(seen) {
                let shape = same_space(kind, RangeShape { seed, ..*shape });
                let mut filter = kind.filled(&shape, &members).expect("memory for a filter");
                seen.bits = filter.bits() as f64 / members.len() as f64;
                seen.rates.push(filter.ask(&ranges) as f64 / ranges.len() as f64);
            }
        }
        bar.inc(1);
    }
    trial
}

fn plot(trial: &Trial) -> Plot {
    let seeds = trial.seen[AERIS][0].rates.len();
    let mut plot = Plot::lines(
        format!("Ranges of {} {}", trial.length, trial.place),
        Axis::linear("space", "bits/member"),
        Axis::log10("false-positive rate", ""),
    )
    .note(format!(
        "Means over {seeds} seeds; bands show minimum and maximum, since it depends on whether a \
         frequent range collides. Mistakes are counted while the Aeris filter learns."
    ));
    for (kind, seen) in KINDS.iter().zip(&trial.seen) {
        let point = |seen: &Seen| {
            let (least, greatest) = spread(&seen.rates);
            Point::new(seen.bits, mean(&seen.rates)).spread(least, greatest)
        };
        plot = plot.series(Series::new(kind.name()).points(seen.iter().map(point)));
    }
    plot
}

fn table(trials: &[Trial]) -> Table {
    let mut table = Table::new("False positives, mean over all spaces")
        .columns([Column::text("ranges"), Column::decimals("keys", "", 0)])
        .columns(KINDS.map(|kind| Column::percent(kind.name(), 4)))
        .columns([
            Column::decimals("Memento to Aeris", "times", 1),
            Column::decimals("Grafite to Aeris", "times", 1),
        ])
        .note(
            "In each trial, all filters have the same space or slightly less. The smallest filters \
             dominate the mean; in the others, a frequent range collides so rarely that few seeds \
             have one.",
        );
    for trial in trials {
        let rates = [AERIS, MEMENTO, GRAFITE, TRUNCATED].map(|kind| trial.rate(kind));
        let ratios = [MEMENTO, GRAFITE].map(|other| (rates[other] / rates[AERIS]).into());
        let row = [trial.place.into(), trial.length.into()];
        table = table.row(row.into_iter().chain(rates.map(Into::into)).chain(ratios));
    }
    table.highlight(6, Best::Greatest)
}

fn run(context: &Context) -> Outcome {
    let cases = ENDPOINTS.iter().flat_map(|&place| LENGTHS.map(|length| (length, place)));
    let bar = progress("seeds", LENGTHS.len() * ENDPOINTS.len() * context.pick(2, 16, 8));
    let trials: Vec<Trial> =
        cases.map(|(length, place)| trial(context, length, place, &bar)).collect();
    bar.finish_and_clear();

    let ratios = |other: usize| -> Vec<f64> {
        trials.iter().map(|trial| trial.rate(other) / trial.rate(AERIS)).collect()
    };
    let (memento, grafite) = (ratios(MEMENTO), ratios(GRAFITE));
    let [(least, greatest), (least_grafite, greatest_grafite)] =
        [spread(&memento), spread(&grafite)];
    let close: Vec<f64> =
        trials[..LENGTHS.len()].iter().map(|trial| trial.rate(TRUNCATED)).collect();
    let (least_close, _) = spread(&close);
    let wrong_close = if least_close >= 1.0 {
        "all".to_owned()
    } else {
        format!("at least {:.1} % of the", (least_close * 1000.0).floor() / 10.0)
    };
    let tenfold = |ratios: &[f64]| ratios.iter().all(|&ratio| ratio >= 10.0);
    Outcome {
        seen: format!(
            "The adaptive filter makes {least:.0} to {greatest:.0} times fewer mistakes than the \
             one that doesn't adapt (Memento), depending on the length and place of the ranges; \
             more queries increase the factor. Grafite in the same space makes {least_grafite:.1} \
             to {greatest_grafite:.1} times as many as Aeris. Truncated keys, in place of SuRF, \
             are wrong for {wrong_close} ranges close to members. SNARF has no crate and is not \
             included."
        ),
        verdict: judge(&[tenfold(&memento), tenfold(&grafite), least_close > 0.9]),
        blocks: trials
            .iter()
            .map(|trial| plot(trial).into())
            .chain([table(&trials).into()])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_filters_have_the_requested_space() {
        for length in LENGTHS {
            let shapes = shapes(RangeShape::new(1 << 14, length, 0, 1), 1);
            assert!(shapes.len() >= 3, "{length}");
            let spaces: Vec<f64> =
                shapes.iter().map(|shape| bits_per_member(RangeKind::Memento, shape)).collect();
            assert!(spaces.is_sorted_by(|one, next| one < next), "{length}: {spaces:?}");
            for shape in shapes {
                let members = shape.sorted_members();
                let space = bits_per_member(RangeKind::Memento, &shape);
                let shape = same_space(RangeKind::Grafite, shape);
                let filter = RangeKind::Grafite.filled(&shape, &members).unwrap();
                let bits = filter.bits() as f64 / members.len() as f64;
                assert!(bits <= space * 1.02 && bits > space - 1.5, "{length}: {bits} of {space}");
            }
        }
    }
}
