//! Compares adaptive and plain Bloom filters: the false-positive rate they sustain, and its cost.

use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Contestant, Kind, Shape};
use twiceshy_report::{Column, Table, Verdict};
use twiceshy_workloads::key::scatter;

pub(super) const BLOOM: Experiment = Experiment {
    name: "bloom",
    title: "An adaptive Bloom filter",
    question: "How much space does it take to make a Bloom filter adaptive, and does it keep its \
               rate if old mistakes are queried repeatedly?",
    paper: "Bloom filters, adaptivity, and the dictionary problem, theorem 19: a sustained \
            false-positive rate of ε for as many queries as there are members, in (1 + O(ε)) times \
            the space of a Bloom filter.",
    run,
};

const KINDS: [Kind; 3] = [Kind::Bloom, Kind::Abf, Kind::Cascade];
/// The false-positive rates, as powers of 1/2.
const BITS: [u32; 4] = [2, 4, 7, 10];
/// The number of times that each old mistake is queried again.
const AGAIN: usize = 9;
/// The constant that we assume for the O(ε) in the claim. It limits the additional space compared
/// with a Bloom filter, in units of ε.
const MOST: f64 = 10.0;
/// The size of a filter in bytes that does not depend on its members: the struct itself, and the
/// versions of its cells.
const FIXED: f64 = 10_000.0;

/// The measurements of one filter.
struct Game {
    fresh: f64,
    again: f64,
    /// The number of mistakes that were repeated every time they were queried.
    left: u64,
    bits: f64,
}

/// Queries as many non-members as there are members, and then queries the mistakes again.
fn play(kind: Kind, shape: &Shape) -> Game {
    let mut filter = kind.build(shape);
    filter.insert(&(0..shape.members()).map(scatter).collect::<Vec<_>>());
    let ask = |filter: &mut Box<dyn Contestant>, key: u64| {
        let is_mistake = filter.contains(key);
        if is_mistake {
            filter.repair(key);
        }
        is_mistake
    };
    let strangers = (0..shape.members()).map(|number| scatter(1 << 40 | number));
    let mistakes: Vec<u64> = strangers.filter(|&key| ask(&mut filter, key)).collect();
    let mut is_left = vec![true; mistakes.len()];
    let mut again = 0;
    for _ in 0..AGAIN {
        for (&key, is_left) in mistakes.iter().zip(&mut is_left) {
            let is_mistake = ask(&mut filter, key);
            again += usize::from(is_mistake);
            *is_left &= is_mistake;
        }
    }
    let members = shape.members() as f64;
    Game {
        fresh: mistakes.len() as f64 / members,
        again: again as f64 / (AGAIN * mistakes.len()).max(1) as f64,
        left: is_left.iter().filter(|&&is_left| is_left).count() as u64,
        bits: filter.bits() as f64 / members,
    }
}

fn run(context: &Context) -> Outcome {
    let slots = 1 << context.pick(14, 18, 22);
    let bar = progress("games", KINDS.len() * BITS.len());
    let mut table = Table::new("As many queries as members, then the mistakes repeated")
        .columns([
            Column::text("filter"),
            Column::percent("rate", 3),
            Column::percent("mistakes", 3),
            Column::percent("repeated", 3),
            Column::decimals("repeated every time", "", 0),
            Column::decimals("space", "bits/member", 2),
            Column::decimals("ratio to the best Bloom filter", "", 2),
        ])
        .note(format!(
            "The mistakes are queried {AGAIN} times more, and repaired whenever they occur."
        ))
        .note("The quotient cascade of theorem 20 is shown for comparison.");
    let (mut keeps_rate, mut keeps_space, mut most, mut worst) = (true, true, 0.0, 0.0f64);
    let mut left = 0;
    for remainder_bits in BITS {
        let shape = Shape { slots, remainder_bits, ..context.shape() };
        let rate = shape.rate();
        // The space of a Bloom filter with the optimal number of functions.
        let plain = f64::from(remainder_bits) * std::f64::consts::LOG2_E;
        for kind in KINDS {
            let game = play(kind, &shape);
            let factor = game.bits / plain;
            if kind == Kind::Abf {
                let noise = 5.0 * (rate / shape.members() as f64).sqrt();
                keeps_rate &= game.fresh <= 1.02 * rate + noise && game.again <= rate;
                let fixed = FIXED * 8.0 / shape.members() as f64 / plain;
                keeps_space &= factor <= 1.03 + MOST * rate + fixed;
                most = f64::max(most, game.again);
                left = left.max(game.left);
                worst = worst.max(factor);
            }
            table = table.row([
                kind.name().into(),
                rate.into(),
                game.fresh.into(),
                game.again.into(),
                game.left.into(),
                game.bits.into(),
                factor.into(),
            ]);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Outcome {
        seen: format!(
            "The adaptive Bloom filter repeated at most {:.3} % of the old mistakes. An adversary \
             who queries {AGAIN} times and keeps only mistakes has {left} left. It took at most \
             {worst:.2} times the space of the best Bloom filter, at a rate of 1/4. At each rate, \
             1 + {MOST} ε times that space, plus {FIXED} bytes, is {}.",
            most * 100.0,
            if keeps_space { "enough" } else { "exceeded" },
        ),
        verdict: match (keeps_rate, keeps_space) {
            (true, true) => Verdict::Confirmed,
            (true, false) => Verdict::Partly,
            (false, _) => Verdict::Refuted,
        },
        blocks: vec![table.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_filters_repeat_few_mistakes_and_plain_filters_repeat_all() {
        let shape = Shape { slots: 1 << 14, remainder_bits: 4, seed: 3 };
        let [plain, adaptive, cascade] = KINDS.map(|kind| play(kind, &shape));
        assert!(plain.again > 0.999 && plain.left > 500);
        assert!(adaptive.left == 0 && cascade.left == 0);
        assert!(adaptive.again < shape.rate() && adaptive.fresh < 1.3 * shape.rate());
        assert!(run(&Context::smallest()).verdict == Verdict::Confirmed);
    }
}
