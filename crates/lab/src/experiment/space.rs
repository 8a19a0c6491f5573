//! Table 2 of the `AdaptiveQF` paper: space at the same false-positive rate.

use super::{Context, Experiment, Outcome, progress};
use crate::contestant::Kind;
use twiceshy_report::{Best, Column, Format, Table, Verdict};
use twiceshy_workloads::key::scatter;

pub(super) const SPACE: Experiment = Experiment {
    name: "space",
    title: "Space",
    question: "How much memory does each filter need for the same false-positive rate?",
    paper: "AdaptiveQF, table 2: at a rate of 2^-9, it needs 8 to 9 % more space than the ordinary \
            quotient filter, before any adaptation; the ordinary filters differ little.",
    run,
};

/// The overhead that the paper reports, in percent.
const PAPER: f64 = 9.0;
/// The highest overhead that counts as similar, in percent.
const TWICE: f64 = 2.0 * PAPER;

fn run(context: &Context) -> Outcome {
    let shape = context.shape();
    let members: Vec<u64> = (0..shape.members()).map(scatter).collect();
    let strangers: Vec<u64> =
        (0..context.pick(1 << 18, 1 << 22, 1 << 24)).map(|n| scatter(1 << 40 | n)).collect();
    let mut table = Table::new("Space at 90 % load").columns([
        Column::text("filter"),
        Column::decimals("space", "bits/member", 2),
        Column::percent("false positives", 3),
        Column::number("overhead", "bits/member", Format::Decimals(2)),
    ]);
    let mut per_member = Vec::new();
    let bar = progress("filters", Kind::ALL.len());
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::AqfNotAdapting) {
        let mut filter = kind.build(&shape);
        filter.insert(&members);
        let bits = filter.bits() as f64 / members.len() as f64;
        let rate = filter.count(&strangers) as f64 / strangers.len() as f64;
        table =
            table.row([kind.name().into(), bits.into(), rate.into(), (bits + rate.log2()).into()]);
        per_member.push((kind, bits));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let bits_of = |wanted| {
        per_member.iter().find(|(kind, _)| *kind == wanted).expect("every filter was measured").1
    };
    let (adaptive, plain) = (bits_of(Kind::Aqf), bits_of(Kind::Qfilter));
    let more = (adaptive / plain - 1.0) * 100.0;
    Outcome {
        seen: format!(
            "{adaptive:.2} bits per member for the adaptive quotient filter, {plain:.2} for the \
             ordinary one: {more:.1} % more. (*Overhead* is the space beyond log2(1/rate), which \
             every filter needs.)"
        ),
        verdict: match more {
            ..=PAPER => Verdict::Confirmed,
            ..=TWICE => Verdict::Partly,
            _ => Verdict::Refuted,
        },
        blocks: vec![table.highlight(1, Best::Least).into()],
    }
}
