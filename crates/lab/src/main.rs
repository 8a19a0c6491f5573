//! The lab: measures the filters beside their peers and the physical limit.

mod arch;
mod bench;
mod contestant;
mod experiment;
mod origin;
mod output;
mod report;
mod results;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures Twiceshy's filters beside their peers and the physical limit.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures speed: contestants interleaved, several rounds, best and median.
    #[command(subcommand)]
    Bench(Bench),
    /// Does experiments of the papers, and says what was seen.
    ///
    /// Example: twiceshy-lab run fpr-over-time --scale minutes
    Run(experiment::Options),
    /// Does them all, and writes one page with plots and tables.
    ///
    /// Example: twiceshy-lab report --scale minutes --out report.html
    Report(report::Options),
    /// Writes a page of Markdown from the JSON of earlier `bench` and `run` commands.
    ///
    /// Example: twiceshy-lab results measured --out docs/results.md
    Results(results::Options),
}

#[derive(Subcommand)]
enum Bench {
    /// Point filters: inserts and lookups of uniform u64 keys.
    ///
    /// Example: twiceshy-lab bench point --log2-slots 22
    Point(bench::point::Options),
    /// Filters for ranges: inserts of uniform u64 keys, and ranges without one.
    ///
    /// Example: twiceshy-lab bench range --log2-slots 22 --range 32
    Range(bench::range::Options),
    /// Filters of a yes list and a no list: building them, and asking for keys.
    ///
    /// Example: twiceshy-lab bench list --yes 1000000 --no 1000000
    List(bench::list::Options),
    /// What else the adaptive quotient filter does: building, merging, removing, growing.
    ///
    /// Example: twiceshy-lab bench aqf-ops --log2-slots 22
    AqfOps(bench::measure::Common),
    /// What the filter is worth before a store on a disk, also against an adversary.
    ///
    /// Example: twiceshy-lab bench store --pairs 1000000
    Store(bench::store::Options),
    /// The same for a store that is asked for ranges.
    ///
    /// Example: twiceshy-lab bench range-store --range 32
    RangeStore(bench::range_store::Options),
    /// What keeping a reverse map takes, ours and the papers': entries and pages, counted.
    ///
    /// Example: twiceshy-lab bench reverse-map --log2-slots 20
    ReverseMap(bench::reverse_map::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(Bench::Point(options)) => bench::point::run(&options),
        Command::Bench(Bench::Range(options)) => bench::range::run(&options),
        Command::Bench(Bench::List(options)) => bench::list::run(&options),
        Command::Bench(Bench::AqfOps(options)) => bench::aqf_ops::run(&options),
        Command::Bench(Bench::Store(options)) => bench::store::run(&options),
        Command::Bench(Bench::RangeStore(options)) => bench::range_store::run(&options),
        Command::Bench(Bench::ReverseMap(options)) => bench::reverse_map::run(&options),
        Command::Run(options) => experiment::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Results(options) => results::run(&options),
    };
    result.err().unwrap_or(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn options_fit_together() {
        super::Arguments::command().debug_assert();
    }
}
