//! Experiments that compare the papers' claims with our measurements.
//!
//! An experiment is a definition and a function. It uses contestants only through their trait. Its
//! result is plain data for the terminal, for JSON and for the report.

mod adaptivity;
mod bloom;
mod churn;
mod climber;
mod code_size;
mod crash;
mod hostile;
mod life;
mod merge_bulk;
mod merged_split;
mod micro;
mod more_bits;
mod query_ratio;
mod range_adversary;
mod range_expansion;
mod range_fpr;
mod range_hostile;
mod range_speed;
mod real_lists;
mod reverse_map;
mod scale;
mod selector_frequencies;
mod space;
mod stores;
mod summary;
mod system_inserts;
mod threads;
mod traces;
mod victim;
mod whittling;
mod whittling_fixed_space;
mod yes_no_space;

pub(crate) use scale::{Context, Options as ScaleOptions, progress};

use crate::output::{failure, print, print_origin};
use std::process::ExitCode;
use twiceshy_report::{Block, Section, Verdict};

/// The definition of an experiment.
pub(crate) struct Experiment {
    /// The name on the command line and in the report's addresses.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The question.
    pub(crate) question: &'static str,
    /// The paper's claim, and where it is.
    pub(crate) paper: &'static str,
    pub(crate) run: fn(&Context) -> Outcome,
}

/// The result of an experiment.
pub(crate) struct Outcome {
    /// A summary with numbers.
    pub(crate) seen: String,
    /// How the result compares with the paper's claim.
    pub(crate) verdict: Verdict,
    /// Plots and tables.
    pub(crate) blocks: Vec<Block>,
}

/// All experiments, in the order of the report.
pub(crate) const ALL: &[&Experiment] = &[
    &micro::MICRO,
    &space::SPACE,
    &threads::THREADS,
    &system_inserts::SYSTEM_INSERTS,
    &reverse_map::REVERSE_MAP,
    &hostile::HOSTILE,
    &merged_split::MERGED_SPLIT,
    &adaptivity::OVER_TIME,
    &traces::TRACES,
    &real_lists::REAL_LISTS,
    &churn::CHURN,
    &merge_bulk::MERGE_BULK,
    &more_bits::MORE_BITS,
    &whittling::WHITTLING,
    &whittling_fixed_space::WHITTLING_FIXED_SPACE,
    &code_size::CODE_SIZE,
    &selector_frequencies::SELECTOR_FREQUENCIES,
    &query_ratio::QUERY_RATIO,
    &climber::CLIMBER,
    &bloom::BLOOM,
    &crash::CRASH,
    &life::LIFE,
    &yes_no_space::YES_NO_SPACE,
    &range_fpr::RANGE_FPR,
    &range_speed::RANGE_SPEED,
    &range_adversary::RANGE_ADVERSARY,
    &range_hostile::RANGE_HOSTILE,
    &range_expansion::RANGE_EXPANSION,
];

/// The names of the experiments that use real lists and traces, if available.
const WITH_DATA: [&str; 2] = [traces::TRACES.name, real_lists::REAL_LISTS.name];

impl Experiment {
    /// Runs the experiment, and records the command that reproduces it.
    pub(crate) fn section(&self, context: &Context) -> Section {
        let outcome = (self.run)(context);
        let mut section = Section::new(self.name, self.title)
            .question(self.question)
            .paper(self.paper)
            .seen(outcome.seen)
            .verdict(outcome.verdict)
            .command(context.command(self.name, WITH_DATA.contains(&self.name)));
        section.blocks = outcome.blocks;
        section
    }
}

/// Formats an error with its causes.
fn why(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |why, cause| format!("{why}: {cause}"))
}

/// Options of `twiceshy-lab run`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Names of the experiments; `--list` shows all.
    #[arg(required_unless_present = "list")]
    names: Vec<String>,
    /// List all experiments and their questions.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    context: ScaleOptions,
    /// Print the results as JSON, one object per line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    if options.list {
        for experiment in ALL {
            print(format_args!("{:<24}{}", experiment.name, experiment.question))?;
        }
        return Ok(());
    }
    let mut wanted = Vec::new();
    for name in &options.names {
        let Some(experiment) = ALL.iter().find(|experiment| experiment.name == name) else {
            return Err(failure(format_args!(
                "unknown experiment {name:?}; `twiceshy-lab run --list` lists all"
            )));
        };
        wanted.push(experiment);
    }
    let context = options.context.context().map_err(failure)?;
    if options.json {
        print_origin()?;
    }
    for experiment in wanted {
        let section = experiment.section(&context);
        if options.json {
            print(serde_json::to_string(&section).expect("plain data"))?;
        } else {
            print(text(&section))?;
        }
    }
    Ok(())
}

/// Formats a section for the terminal. The evidence comes first and the conclusion last, so that
/// the conclusion stays visible.
fn text(section: &Section) -> String {
    const WIDTH: usize = 100;
    let evidence = section.blocks.iter().map(|block| match block {
        Block::Table(table) => table.to_text(WIDTH),
        Block::Text(text) => format!("{text}\n"),
        // Plots are only in the report.
        Block::Plot(plot) => format!("[{}: see `twiceshy-lab report`]\n", plot.title),
    });
    let Section { title, question, paper, seen, verdict, .. } = section;
    let evidence = evidence.collect::<Vec<_>>().join("\n");
    let verdict = verdict.map_or("none", Verdict::word);
    format!(
        "{title}\n\n{question}\n\n{evidence}\n\
         The paper claims: {paper}\nMeasured here: {seen}\nVerdict: {verdict}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each experiment runs in seconds and shows a table or a plot.
    #[test]
    fn every_experiment_has_an_outcome() {
        for experiment in ALL {
            let section = experiment.section(&Context::smallest());
            assert!(!section.seen.is_empty() && !section.blocks.is_empty(), "{}", section.id);
            let word = section.verdict.expect("a verdict").word();
            let end = format!("{}\nVerdict: {word}\n", section.seen);
            assert!(text(&section).ends_with(&end), "{}", section.id);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|experiment| experiment.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
