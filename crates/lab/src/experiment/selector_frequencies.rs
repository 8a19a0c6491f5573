//! Compares the distribution of selectors with corollary 3 of the telescoping filter's paper.

use super::summary::{judge, mean};
use super::victim::members;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Contestant, Shape, Telescoping};
use twiceshy_report::{Axis, Column, Plot, Point, Series, Table};
use twiceshy_workloads::stream::uniform;

pub(super) const SELECTOR_FREQUENCIES: Experiment = Experiment {
    name: "selector-frequencies",
    title: "How high selectors get",
    question: "How many members of a telescoping filter have selector k, after c different queries \
               per slot were asked once, and after they were repeated until none is a mistake?",
    paper: "Telescoping filter, lemma 2 and corollary 3: with any number of repetitions, \
            P(0) < e^(-cε), and P(k) < ε^k (c + c²/2! + … + c^k/k!). The bounds closely match the \
            observations.",
    run,
};

const REMAINDER_BITS: u32 = 8;
/// The number of code bits. They are enough that no repair is forgotten.
const CODE_BITS: u32 = 120;
/// The numbers of different queries per slot. The paper calls this number c, because its filters
/// have as many slots as members.
const RATIOS: [u64; 3] = [5, 20, 50];
/// The highest selector that is compared.
const HIGHEST: usize = 4;
/// The number of standard deviations that can be due to chance.
const CHANCE: f64 = 5.0;

/// The share of the members that have each selector.
type Shares = [f64; HIGHEST + 1];

/// The measurements with one number of queries per slot.
#[derive(Clone, Copy)]
struct Seen {
    once: Shares,
    again: Shares,
    forgotten: u64,
}

fn shares(filter: &Telescoping, members: u64) -> Shares {
    let levels = filter.details().levels;
    std::array::from_fn(|level| levels[level] as f64 / members as f64)
}

fn observe(shape: &Shape, ratio: u64) -> Seen {
    let mut filter = Telescoping::with_code(shape, CODE_BITS);
    filter.insert(&members(shape));
    let queries = uniform(u64::MAX, shape.seed).expect("a universe");
    let queries: Vec<u64> = queries.take((ratio * shape.slots) as usize).collect();
    filter.ask(&queries);
    let once = shares(&filter, shape.members());
    while filter.ask(&queries) > 0 {}
    let again = shares(&filter, shape.members());
    Seen { once, again, forgotten: filter.details().forgotten }
}

/// Returns the bounds of corollary 3.
fn bounds(ratio: f64, rate: f64) -> Shares {
    std::array::from_fn(|k| {
        if k == 0 {
            return (-ratio * rate).exp();
        }
        let terms = (1..=k).scan(1.0, |term, i| {
            *term *= ratio / i as f64;
            Some(*term)
        });
        rate.powf(k as f64) * terms.sum::<f64>()
    })
}

/// Returns the shares to expect if a query collides with the same probability at each level of its
/// quotient. The number of queries per quotient follows a Poisson distribution.
fn expected(ratio: f64, rate: f64) -> Shares {
    let mut shares = [0.0; HIGHEST + 1];
    let mut probability = (-ratio).exp();
    for queries in 0..10 * ratio as i32 + 100 {
        let chance = 1.0 - (1.0 - rate).powi(queries);
        for (k, share) in shares.iter_mut().enumerate() {
            *share += probability * chance.powf(k as f64) * (1.0 - chance);
        }
        probability *= ratio / f64::from(queries + 1);
    }
    shares
}

/// Returns the means over seeds.
fn mean_of(seen: &[Seen], value: impl Fn(&Seen) -> Shares) -> Shares {
    std::array::from_fn(|k| mean(&seen.iter().map(|seen| value(seen)[k]).collect::<Vec<_>>()))
}

fn run(context: &Context) -> Outcome {
    let slots = 1 << context.pick(12, 18, 22);
    let shape = Shape { slots, remainder_bits: REMAINDER_BITS, seed: context.seed };
    let seeds = context.pick(2, 4, 10);
    let bar = progress("filters", RATIOS.len() * seeds);
    let seen: [Vec<Seen>; RATIOS.len()] = RATIOS.map(|ratio| {
        let of = |seed| {
            let seen = observe(&Shape { seed: context.seed + seed, ..shape }, ratio);
            bar.inc(1);
            seen
        };
        (0..seeds as u64).map(of).collect()
    });
    bar.finish_and_clear();

    let observed = shape.members() as f64 * seeds as f64;
    let forgotten: u64 = seen.iter().flatten().map(|seen| seen.forgotten).sum();
    let mut blocks = Vec::new();
    let (mut once_holds, mut again_holds, mut is_expected) = (true, true, true);
    let mut most = 0.0f64;
    for (ratio, seen) in RATIOS.into_iter().zip(&seen) {
        let bound = bounds(ratio as f64, shape.rate());
        let expected = expected(ratio as f64, shape.rate());
        let once = mean_of(seen, |seen| seen.once);
        let again = mean_of(seen, |seen| seen.again);
        let mut plot = Plot::lines(
            format!("Selectors, {ratio} different queries per slot"),
            Axis::linear("selector", "").whole(),
            Axis::log10("share of the members", ""),
        );
        let mut table = Table::new(format!("Selectors, {ratio} different queries per slot"))
            .columns([
                Column::decimals("k", "", 0),
                Column::percent("asked once", 4),
                Column::percent("corollary 3", 4),
                Column::percent("repeated", 4),
                Column::percent("equal levels", 4),
                Column::decimals("repeated / corollary 3", "", 2),
            ]);
        let lines = [
            ("asked once", &once),
            ("corollary 3", &bound),
            ("repeated", &again),
            ("equal levels", &expected),
        ];
        for (name, shares) in lines {
            let points = shares.iter().enumerate().map(|(k, &share)| Point::new(k as f64, share));
            plot = plot.series(Series::new(name).points(points));
        }
        for k in 0..=HIGHEST {
            let noise = |share: f64| CHANCE * (share / observed).sqrt() + 1.0 / observed;
            let is_below = |share: f64| share <= bound[k] + noise(bound[k]);
            once_holds &= is_below(once[k]);
            again_holds &= is_below(again[k]);
            is_expected &= (again[k] - expected[k]).abs() <= noise(expected[k]);
            if expected[k] > noise(expected[k]) {
                most = most.max(again[k] / bound[k]);
            }
            table = table.row([
                (k as u64).into(),
                once[k].into(),
                bound[k].into(),
                again[k].into(),
                expected[k].into(),
                (again[k] / bound[k]).into(),
            ]);
        }
        blocks.extend([plot.into(), table.into()]);
    }
    blocks.push(EXPLAINED.to_owned().into());
    let keeps = |holds| if holds { "are within" } else { "exceed" };
    Outcome {
        seen: format!(
            "If queries are asked once, the shares {} the bounds. If they are repeated, the shares \
             {} them: at most {most:.2} times the bound. {} what follows if all levels are equal, \
             up to chance. {forgotten} repairs were forgotten.",
            keeps(once_holds),
            keeps(again_holds),
            if is_expected { "That is" } else { "That isn't" },
        ),
        verdict: judge(&[once_holds, again_holds]),
        blocks,
    }
}

const EXPLAINED: &str = "\
    Why repetitions exceed corollary 3: lemma 2 counts the sets of i queries that collide with a \
    member one after the other, in the order of their arrival. That is complete if each query \
    arrives once: a query that came before a member got its selector isn't compared with it again. \
    If queries are repeated, any of them may collide at each level, so ordered choices count: c^i \
    instead of c^i/i!. For k = 1 that is the same. For k = 2 it is up to twice as much, for k = 3 \
    up to six times, minus the members that go higher. So we code selectors as if all levels were \
    equal: at each level, some query of the quotient collides with the same probability p, and \
    P(k) is p^k (1 - p).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_match_the_paper() {
        let rate = 1.0 / 256.0;
        let [none, one, two, three, _] = bounds(4.0, rate);
        assert!((none - (-4.0f64 / 256.0).exp()).abs() < 1e-12);
        assert!((one - rate * 4.0).abs() < 1e-12);
        assert!((two - rate * rate * 12.0).abs() < 1e-12);
        assert!((three - rate.powi(3) * (12.0 + 64.0 / 6.0)).abs() < 1e-12);
        let all: f64 = expected(50.0, rate).iter().sum();
        assert!((0.999..1.0).contains(&all));
        assert!((expected(50.0, rate)[0] - bounds(50.0, rate)[0]).abs() < 1e-6);
    }

    #[test]
    fn selectors_exceed_the_bound_only_after_repeated_queries() {
        let shape = Shape { slots: 1 << 14, remainder_bits: REMAINDER_BITS, seed: 1 };
        let Seen { once, again, forgotten } = observe(&shape, 50);
        let bound = bounds(50.0, shape.rate());
        assert!(once[2] < bound[2] && again[2] > 1.1 * bound[2], "{once:?} {again:?}");
        assert!(once[3] < bound[3] && again[3] > 2.0 * bound[3], "{once:?} {again:?}");
        assert_eq!(forgotten, 0);
    }
}
