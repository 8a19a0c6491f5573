//! `twiceshy filter merge`.

use super::file::{LineFilter, load, save};
use super::secret::SecretArgs;
use crate::exit::Answer;
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "\
Examples:
  twiceshy filter build monday.txt -o monday.filter
  twiceshy filter build tuesday.txt --like monday.filter -o tuesday.filter
  twiceshy filter merge monday.filter tuesday.filter -o both.filter

Filters can be merged if they have the same secret, the same slot width, and sizes whose ratio is a
power of two. Filters that were built with --like meet these conditions. A key that is in two filters
counts twice. The merged filter answers \"maybe\" for a key if one of the filters would.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy filter merge --help` for examples.")]
pub(crate) struct Merge {
    /// The filters to merge
    #[arg(required = true, num_args = 2.., value_name = "FILTER")]
    filters: Vec<PathBuf>,
    /// Where to write the merged filter; an existing file is replaced
    #[arg(short, long, value_name = "FILTER")]
    output: PathBuf,
    #[command(flatten)]
    secret: SecretArgs,
}

impl Merge {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let target = Target::new(&self.output)?;
        self.filters.iter().try_for_each(|path| target.keep_off(path, "an input"))?;
        self.secret.keep_off(&target)?;
        let progress = session.progress("merging", Total::Unknown);
        let filters = self.filters.iter().map(|path| load(path, &self.secret));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let merged = LineFilter::merged(&filters.iter().collect::<Vec<_>>());
        let merged = merged.context("cannot merge these filters")?;
        let held = target.hold();
        save(&merged, &target, !self.secret.is_apart())?;
        drop(held);
        drop(progress);

        let statistics = merged.filter().stats();
        let report = Report::new()
            .count("filters", filters.len() as u64)
            .count("members", statistics.members as u64)
            .bytes("bytes of memory", statistics.memory)
            .share("false-positive rate", statistics.expected_rate);
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }
}
