//! Figure 8 of the `AdaptiveQF` paper: false positives while members are replaced.

use super::{Context, Experiment, Outcome, progress};
use crate::contestant::Kind;
use twiceshy_report::{Axis, Plot, Series, Verdict};
use twiceshy_workloads::key::scatter;
use twiceshy_workloads::member::{Churn, ChurnConfig, Event};
use twiceshy_workloads::stream::Zipf;

pub(super) const CHURN: Experiment = Experiment {
    name: "churn",
    title: "Replacing members",
    question: "Does a filter stay adapted if 20 % of its members are replaced after every 10 % of \
               the queries?",
    paper: "AdaptiveQF, figure 8: the rate spikes when a new member collides with a frequent \
            query, and falls again immediately. (There, as here, the filter is used alone: no list of \
            mistakes is kept.)",
    run,
};

const UNIVERSE: u64 = 1_000_000_000;
const STEPS: usize = 100;

fn run(context: &Context) -> Outcome {
    let shape = context.shape();
    let queries = context.pick(50_000, 3_000_000, 30_000_000);
    let sample = context.pick(2_000, 50_000, 1_000_000);
    let zipf = Zipf::new(UNIVERSE, 1.5).expect("a law");
    let kinds = [Kind::AqfNotAdapting, Kind::Aqf];
    let bar = progress("queries", kinds.len() * STEPS);
    let mut plot = Plot::lines(
        "False-positive rate of new queries",
        Axis::linear("queries", "").si(),
        Axis::log10("false-positive rate", ""),
    )
    .note("Members are replaced after each tenth of the queries.");
    let means = kinds.map(|kind| {
        let config = ChurnConfig {
            members: shape.members(),
            queries: queries as u64,
            ..ChurnConfig::default()
        };
        let asked = zipf.stream(context.seed).take(queries);
        let events = Churn::new(config, asked, context.seed).expect("a workload");
        let mut fresh = zipf.stream(context.seed ^ 1 << 32).map(scatter);
        let mut filter = kind.build(&shape);
        filter.insert(&events.members().iter().copied().map(scatter).collect::<Vec<_>>());
        let (mut asked, mut rates) = (0, Vec::new());
        for event in events {
            match event {
                Event::Insert(number) => filter.insert(&[scatter(number)]),
                Event::Remove(number) => assert!(filter.remove(&[scatter(number)]), "removed"),
                Event::Ask(number) => {
                    if asked % (queries / STEPS) == 0 {
                        let sample: Vec<u64> = fresh.by_ref().take(sample).collect();
                        let rate = filter.count(&sample) as f64 / sample.len() as f64;
                        rates.push((asked as f64, rate));
                        bar.inc(1);
                    }
                    asked += 1;
                    let query = scatter(number);
                    if filter.contains(query) {
                        filter.repair(query);
                    }
                }
            }
        }
        plot = std::mem::take(&mut plot).series(Series::new(kind.name()).points(rates.clone()));
        rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64
    });
    bar.finish_and_clear();
    let [untold, told] = means;
    Outcome {
        seen: format!(
            "The mean rate over all queries is {:.4} % with repairs and {:.4} % without: {:.1} \
             times lower, including the replacements. (This is a single seed; the rate depends on \
             whether a frequent key collides.)",
            told * 100.0,
            untold * 100.0,
            untold / told
        ),
        verdict: if told < untold { Verdict::Confirmed } else { Verdict::Open },
        blocks: vec![plot.into()],
    }
}
