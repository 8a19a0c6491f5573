//! Theorem 4 of the telescoping filter's paper: how many repairs fit into a code of a given size.

use super::summary::{around, judge, mean};
use super::victim::{Guarded, members};
use super::whittling::against;
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::{Contestant, Shape, Telescoping};
use twiceshy_report::{Axis, Block, Column, Plot, Series, Table};
use twiceshy_workloads::stream::uniform;

pub(super) const CODE_SIZE: Experiment = Experiment {
    name: "code-size",
    title: "How many bits repairs need",
    question: "How many different queries, asked repeatedly, can a telescoping filter distinguish \
               from its members, depending on the bits of its code?",
    paper: "Telescoping filter, theorem 4: with 1/e + b/(b - 1)² bits per member, the sustained \
            false-positive rate is ε for n/(b√ε) different queries. With 0.875 bits per slot it \
            does better: up to 20 queries per member (§6.1).",
    run,
};

const REMAINDER_BITS: u32 = 8;
/// The number of code bits per 64 slots. The filter also uses the rest of the cache line for the
/// code. Even so, a value of 46 results in fewer bits than the paper's 56.
const CODES: [u32; 4] = [24, 46, 56, 120];
/// The numbers of different queries per member.
const RATIOS: [u64; 6] = [2, 5, 10, 20, 50, 100];
/// The number of times that all queries are sent.
const PASSES: usize = 5;
/// The numbers of queries per member at the start of the adversary's first round.
const WHITTLED: [u64; 4] = [10, 20, 30, 50];
/// The number of rounds.
const ROUNDS: usize = 100;

/// The measurements of one filter with one set of queries.
struct Game {
    /// The share of the earlier mistakes that recur in the last pass.
    again: f64,
    /// The number of forgotten repairs per member.
    forgotten: f64,
    code_bits_per_slot: f64,
    bits_per_slot: f64,
}

/// Sends all queries several times.
fn play(shape: &Shape, code_bits: u32, ratio: u64) -> Game {
    let mut filter = Telescoping::with_code(shape, code_bits);
    filter.insert(&members(shape));
    let queries = uniform(u64::MAX, shape.seed).expect("a universe");
    let queries: Vec<u64> = queries.take((ratio * shape.members()) as usize).collect();
    let mut were_mistakes = vec![false; queries.len()];
    let mut again = 0;
    for _ in 0..PASSES {
        again = 0;
        for (&query, was_mistake) in queries.iter().zip(&mut were_mistakes) {
            if filter.contains(query) {
                filter.repair(query);
                again += usize::from(*was_mistake);
                *was_mistake = true;
            }
        }
    }
    let known = were_mistakes.iter().filter(|&&was_mistake| was_mistake).count();
    let details = filter.details();
    Game {
        again: again as f64 / known.max(1) as f64,
        forgotten: details.forgotten as f64 / shape.members() as f64,
        code_bits_per_slot: details.code_bits_per_slot,
        bits_per_slot: filter.bits() as f64 / shape.slots as f64,
    }
}

/// Returns the number of queries that an adversary has left after all rounds.
fn whittled(shape: &Shape, code_bits: u32, ratio: u64) -> f64 {
    let mut victim = Guarded::of(Box::new(Telescoping::with_code(shape, code_bits)), shape);
    let mut adversary = against(shape, ratio);
    adversary.run(&mut victim, ROUNDS);
    adversary.queries().len() as f64
}

/// Returns the number of different queries per member up to which theorem 4 promises this
/// false-positive rate.
fn promised(bits_per_member: f64, rate: f64) -> f64 {
    let rest = bits_per_member - 1.0 / std::f64::consts::E;
    if rest <= 0.0 {
        return 0.0;
    }
    // Solve b/(b - 1)² = rest for b, which is at least 2.
    let b = (2.0 * rest + 1.0 + (4.0 * rest + 1.0).sqrt()) / (2.0 * rest);
    1.0 / (b.max(2.0) * rate.sqrt())
}

/// The games for each code, ratio and seed.
type Games = [[Vec<Game>; RATIOS.len()]; CODES.len()];

fn plot(games: &Games, rate: f64) -> Plot {
    let mut plot = Plot::lines(
        "Repeated mistakes",
        Axis::log10("different queries per member", ""),
        Axis::log10("share", ""),
    )
    .reference("ε", rate);
    for of_code in games {
        let points = RATIOS.iter().zip(of_code).map(|(&ratio, games)| {
            around(ratio as f64, &games.iter().map(|game| game.again).collect::<Vec<_>>())
        });
        let name = format!("{:.2} bits per slot", of_code[0][0].code_bits_per_slot);
        plot = plot.series(Series::new(name).points(points));
    }
    plot.note(format!(
        "All queries are asked {PASSES} times. Shown is the share of the earlier mistakes that \
         recur in the last pass. Means over seeds."
    ))
}

/// Creates a table with one row per code.
fn table(title: &str, columns: impl Iterator<Item = Column>) -> Table {
    Table::new(title).columns([Column::decimals("code", "bits/slot", 3)]).columns(columns)
}

fn run(context: &Context) -> Outcome {
    let slots = 1 << context.pick(11, 16, 20);
    let shape = Shape { slots, remainder_bits: REMAINDER_BITS, seed: context.seed };
    let seeds = context.pick(1, 3, 5);
    let shapes: Vec<Shape> =
        (0..seeds).map(|seed| Shape { seed: context.seed + seed, ..shape }).collect();
    let bar = progress("games", CODES.len() * (RATIOS.len() + WHITTLED.len()) * shapes.len());
    let games: Games = CODES.map(|code| {
        RATIOS.map(|ratio| {
            let game = |shape| {
                let game = play(shape, code, ratio);
                bar.inc(1);
                game
            };
            shapes.iter().map(game).collect()
        })
    });
    let survivors: [[f64; WHITTLED.len()]; CODES.len()] = CODES.map(|code| {
        WHITTLED.map(|ratio| {
            let game = |shape| {
                let left = whittled(shape, code, ratio);
                bar.inc(1);
                left
            };
            mean(&shapes.iter().map(game).collect::<Vec<_>>())
        })
    });
    bar.finish_and_clear();

    let ratios = |decimals: u8| {
        RATIOS.iter().map(move |ratio| Column::percent(format!("{ratio} per member"), decimals))
    };
    let mut again = table("Repeated mistakes", ratios(3));
    let mut forgotten = table("Forgotten repairs per member", ratios(2));
    let mut promises = table(
        "Promised and reached",
        [
            Column::decimals("filter", "bits/slot", 2),
            Column::decimals("theorem 4", "queries/member", 1),
            Column::decimals("reached", "queries/member", 0),
        ]
        .into_iter(),
    )
    .note(
        "Reached: the largest tried number of different queries per member whose mistakes are \
         repeated with a probability of at most ε.",
    );
    let mut left = table(
        "Queries left to the adversary in rounds",
        WHITTLED.iter().map(|ratio| Column::decimals(format!("{ratio} per member"), "", 1)),
    )
    .note(format!("{ROUNDS} rounds of `whittling-fixed-space`, {} members.", shape.members()));
    let value = |games: &[Game], value: fn(&Game) -> f64| {
        mean(&games.iter().map(value).collect::<Vec<_>>())
    };
    let (mut holds, mut words) = (Vec::new(), Vec::new());
    for (of_code, survivors) in games.iter().zip(survivors) {
        let first = &of_code[0][0];
        let code = first.code_bits_per_slot;
        let rates = of_code.each_ref().map(|games| value(games, |game| game.again));
        let kept = RATIOS.iter().zip(rates).take_while(|&(_, rate)| rate <= shape.rate());
        let kept = kept.last().map_or(0, |(&ratio, _)| ratio);
        let per_member = code * shape.slots as f64 / shape.members() as f64;
        let promise = promised(per_member, shape.rate());
        holds.push(kept as f64 >= promise);
        words.push(format!("{code:.2} code bits per slot: {promise:.1} promised, {kept} reached"));
        let row = |cells: &mut dyn Iterator<Item = f64>| {
            let mut row = vec![code.into()];
            row.extend(cells.map(Into::into));
            row
        };
        again = again.row(row(&mut rates.into_iter()));
        forgotten = forgotten
            .row(row(&mut of_code.iter().map(|games| value(games, |game| game.forgotten))));
        promises = promises.row(row(&mut [first.bits_per_slot, promise, kept as f64].into_iter()));
        left = left.row(row(&mut survivors.into_iter()));
    }
    let blocks: Vec<Block> = vec![
        plot(&games, shape.rate()).into(),
        promises.into(),
        again.into(),
        forgotten.into(),
        left.into(),
    ];
    Outcome {
        seen: format!("Different queries per member, with {}.", words.join("; with ")),
        verdict: judge(&holds),
        blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promised_number_of_queries_matches_the_papers_example() {
        // The paper's example: b = 4, and 4 queries per member.
        let bits = 4.0 / 9.0 + 1.0 / std::f64::consts::E;
        assert!((promised(bits, 1.0 / 256.0) - 4.0).abs() < 1e-9);
        assert!((promised(9.0, 1.0 / 256.0) - 8.0).abs() < 1e-9);
        assert!(promised(0.3, 1.0 / 256.0) < 1e-9);
    }

    #[test]
    fn filter_with_more_code_bits_forgets_fewer_repairs() {
        let shape = Shape { slots: 1 << 12, remainder_bits: REMAINDER_BITS, seed: 1 };
        let [few, many] = [24, 120].map(|code| play(&shape, code, 50));
        assert!(few.code_bits_per_slot < 0.6 && many.code_bits_per_slot > 1.8);
        assert!(few.again > shape.rate() && many.again <= shape.rate());
        assert!(few.forgotten > 0.1 && many.forgotten < 0.01);
    }
}
