//! Figure 9 of the `AdaptiveQF` paper: the space of filters for a yes list and a no list, for
//! different ratios of their lengths.

use super::summary::{judge, spread};
use super::{Context, Experiment, Outcome, progress};
use crate::contestant::lists::ListKind;
use twiceshy::{Hash, QuotientFilter, Secret, hash::KeyedHasher};
use twiceshy_report::{Axis, Column, Plot, Point, Series, Table};

pub(super) const YES_NO_SPACE: Experiment = Experiment {
    name: "yes-no-space",
    title: "Yes lists and no lists",
    question: "How small is a filter that answers every key of a yes list and a no list correctly, \
               and answers yes to 1/256 of all other keys?",
    paper: "AdaptiveQF, §6.8 and figure 9: a filter that can be changed is never much larger than \
            CRLite's cascade of Bloom filters, and often smaller. Theorem 7: every filter needs at \
            least log(max(1/ε, |N|/|Y|)) + log(e) min(ε|N|/|Y|, 1) bits per yes-list key.",
    run,
};

const RATE: f64 = 1.0 / 256.0;

/// The numbers of no-list keys per yes-list key, as powers of two.
const RATIOS: std::ops::RangeInclusive<i32> = -6..=6;

/// The share of slots that a planned table uses.
const LOAD: f64 = 0.95;

/// The factor up to which two sizes count as similar.
const SIMILAR: f64 = 1.05;

/// Returns the lower bound in bits per yes-list key.
fn bound(ratio: f64) -> f64 {
    RATE.recip().max(ratio).log2() + (RATE * ratio).min(1.0) / std::f64::consts::LN_2
}

/// Returns the bytes of the scheme of the paper's §4.3. It stores the keys of both lists in one
/// table, and a tag of one bit in every slot says which list its key is on.
///
/// So it needs (yes + no + extensions of both)/0.95 slots. Remainders may be shorter than those of
/// a filter of the yes list, because slots of no-keys cause no false positives.
fn tagged_bytes(yes: usize, no: usize) -> u64 {
    let [yes, no] = [yes, no].map(|keys| keys as f64);
    let tables = (1..56).filter_map(|bits: u32| {
        let by_rate = yes / f64::from(bits).exp2() / -(-RATE).ln_1p();
        let mut slots = ((yes + no) / LOAD).max(by_rate).max(1.0);
        // More slots need fewer digits, so moving halfway in each step converges.
        for _ in 0..16 {
            let of_yes = extension_digits(yes, no, slots, bits);
            let stored = yes + no + of_yes + extension_digits(no, yes, slots, bits);
            slots = slots.midpoint((stored / LOAD).max(by_rate)).max(1.0);
        }
        let builder = QuotientFilter::builder().slots(slots.ceil() as u64);
        builder.remainder_bits(bits + 1).plan().ok().map(|plan| plan.bytes)
    });
    tables.min().expect("a table for two lists")
}

/// Returns the expected number of digits beyond the remainders that distinguish `keys` from
/// `others`. A key shares the quotient and d more digits of r bits with one of the others with
/// probability 2^-rd/slots.
fn extension_digits(keys: f64, others: f64, slots: f64, bits: u32) -> f64 {
    let colliding = |digits: u32| {
        let chance = (-f64::from(bits) * f64::from(digits)).exp2() / slots;
        -(-others * chance).exp_m1()
    };
    let most = 128 / bits + 1;
    keys * (1..=most).map(colliding).take_while(|&share| share > 1e-9).sum::<f64>()
}

fn run(context: &Context) -> Outcome {
    let keys: usize = context.pick(1 << 14, 1_000_000, 1_000_000);
    let mut secret = [9; 16];
    secret[..8].copy_from_slice(&context.seed.to_le_bytes());
    let hasher = KeyedHasher::new(&Secret::from_bytes(secret));
    let all: Vec<Hash> = (0..keys as u64).map(|number| hasher.hash(&number)).collect();
    let others: Vec<Hash> = (0..keys as u64).map(|n| hasher.hash(&(n | 1 << 40))).collect();

    let mut table = Table::new("Bits per yes-list key")
        .columns([Column::text("no-list keys per yes-list key")])
        .columns([Column::decimals("lower bound", "bits", 2)]);
    table = table.columns(ListKind::ALL.map(|kind| Column::decimals(kind.name(), "bits", 2)));
    table = table.columns([Column::decimals("with tags (planned)", "bits", 1)]);
    let mut wrong = Table::new("Answers").columns([
        Column::text("filter"),
        Column::text("mutable"),
        Column::decimals("wrong answers for listed keys", "", 0),
        Column::percent("false-positive rate, maximum", 3),
    ]);
    let mut tally = [(0usize, 0f64); ListKind::ALL.len()];
    let mut bits = vec![Vec::new(); ListKind::ALL.len()];
    let bar = progress("ratios", RATIOS.count());
    for exponent in RATIOS {
        let ratio = f64::from(exponent).exp2();
        let count = (keys as f64 / (1.0 + ratio)).round() as usize;
        let (yes, no) = all.split_at(count);
        let name = if exponent < 0 {
            format!("1/{}", 1 << -exponent)
        } else {
            (1 << exponent).to_string()
        };
        let mut row = vec![name.into(), bound(ratio).into()];
        for (at, kind) in ListKind::ALL.into_iter().enumerate() {
            let filter = kind.build(yes, no, RATE);
            let per_key = filter.bits() as f64 / yes.len() as f64;
            bits[at].push((ratio, per_key));
            row.push(per_key.into());
            let (errors, rate) = &mut tally[at];
            *errors += yes.len() - filter.count(yes) + filter.count(no);
            *rate = rate.max(filter.count(&others) as f64 / others.len() as f64);
        }
        row.push((tagged_bytes(yes.len(), no.len()) as f64 * 8.0 / yes.len() as f64).into());
        table = table.row(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    for (kind, (errors, rate)) in ListKind::ALL.into_iter().zip(tally) {
        let changes = if kind.changes() { "yes" } else { "no" };
        wrong =
            wrong.row([kind.name().into(), changes.into(), (errors as u64).into(), rate.into()]);
    }
    let mut plot = Plot::lines(
        "Space by the ratio of the no list to the yes list",
        Axis::log2("no-list keys per yes-list key", ""),
        Axis::linear("space", "bits/yes-list key"),
    );
    let points = |at: usize| bits[at].iter().copied();
    for (at, kind) in ListKind::ALL.into_iter().enumerate() {
        plot =
            plot.series(Series::new(kind.name()).points(points(at).map(|(x, y)| Point::new(x, y))));
    }
    let least = bits[0].iter().map(|&(ratio, _)| Point::new(ratio, bound(ratio)));
    plot = plot.series(Series::new("lower bound").points(least));

    let of = |kind: ListKind| {
        &bits[ListKind::ALL.iter().position(|&k| k == kind).expect("every filter was measured")]
    };
    let (fixed, changing) = (of(ListKind::Fixed), of(ListKind::Changing));
    let (cascade, card) = (of(ListKind::Cascade), of(ListKind::Clubcard));
    let compared = |one: &[(f64, f64)], other: &[(f64, f64)]| -> (f64, f64) {
        let ratios: Vec<f64> = one.iter().zip(other).map(|(one, other)| one.1 / other.1).collect();
        spread(&ratios)
    };
    let (least, most) = compared(fixed, cascade);
    let (least_changing, most_changing) = compared(changing, cascade);
    let (least_card, most_card) = compared(fixed, card);
    let above: Vec<f64> = fixed.iter().map(|&(ratio, bits)| bits - bound(ratio)).collect();
    let (near, far) = spread(&above);
    let exact = tally.iter().all(|&(errors, _)| errors == 0);
    Outcome {
        seen: format!(
            "Our immutable filter takes {least:.2} to {most:.2} times the space of the cascade, \
             {near:.1} to {far:.1} bits more than the lower bound, and {least_card:.2} to \
             {most_card:.2} times the space of Clubcard, which can't be updated with a delta of \
             changed fingerprints. Our mutable one takes {least_changing:.2} to \
             {most_changing:.2} times the space of the cascade, plus its lists. {} listed keys were \
             answered wrongly.",
            tally.iter().map(|&(errors, _)| errors).sum::<usize>()
        ),
        verdict: judge(&[most <= 1.0, most_changing <= SIMILAR, exact]),
        blocks: vec![plot.into(), table.into(), wrong.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::tagged_bytes;

    #[test]
    fn tags_take_one_bit_and_no_list_keys_take_slots() {
        let per_key = |no| format!("{:.1}", tagged_bytes(1 << 20, no) as f64 * 8.0 / 2f64.powi(20));
        assert_eq!([1 << 14, 1 << 20, 1 << 26].map(per_key), ["13.1", "24.2", "626.5"]);
    }
}
