//! The lab measures our filters, other filters for comparison, and the limit that memory sets.

mod arch;
mod bench;
mod contestant;
mod experiment;
mod origin;
mod output;
mod report;
mod results;
#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures Twiceshy's filters and others, and the lookup speed that one random memory access per
/// key allows.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures speed in several rounds, in which filters take turns. Prints the best and the
    /// median round.
    #[command(subcommand)]
    Bench(Bench),
    /// Runs experiments of the papers, and prints the results.
    ///
    /// Example: twiceshy-lab run fpr-over-time --scale minutes
    Run(experiment::Options),
    /// Runs all experiments, and writes one page with plots and tables.
    ///
    /// Example: twiceshy-lab report --scale minutes --out report.html
    Report(report::Options),
    /// Writes a Markdown page from the JSON output of earlier `bench` and `run` commands.
    ///
    /// Example: twiceshy-lab results measured --out docs/results.md
    Results(results::Options),
}

#[derive(Subcommand)]
enum Bench {
    /// Measures point filters: inserts and lookups of uniform u64 keys.
    ///
    /// Example: twiceshy-lab bench point --log2-slots 22
    Point(bench::point::Options),
    /// Measures range filters: inserts of uniform u64 keys, and queries for empty ranges.
    ///
    /// Example: twiceshy-lab bench range --log2-slots 22 --range 32
    Range(bench::range::Options),
    /// Measures filters for a yes list and a no list: building and lookups.
    ///
    /// Example: twiceshy-lab bench list --yes 1000000 --no 1000000
    List(bench::list::Options),
    /// Measures other operations of the adaptive quotient filter: building, merging, removing,
    /// growing.
    ///
    /// Example: twiceshy-lab bench aqf-ops --log2-slots 22
    AqfOps(bench::measure::Common),
    /// Measures stores on disk with and without our filter, in normal use and under attack.
    ///
    /// Example: twiceshy-lab bench store --pairs 1000000
    Store(bench::store::Options),
    /// Measures range stores on disk with different range filters, in normal use and under attack.
    ///
    /// Example: twiceshy-lab bench range-store --range 32
    RangeStore(bench::range_store::Options),
    /// Measures a store that grows, shrinks, is flooded with queries, is restarted and crashes.
    ///
    /// Example: twiceshy-lab bench life --members 1000000 --queries-per-member 1000
    Life(bench::life::Options),
    /// Counts the entries and pages that are accessed to maintain a reverse map. Compares our map
    /// with the papers' maps.
    ///
    /// Example: twiceshy-lab bench reverse-map --log2-slots 20
    ReverseMap(bench::reverse_map::Options),
}

fn main() -> ExitCode {
    run(Arguments::parse_from(arguments())).err().unwrap_or(ExitCode::SUCCESS)
}

/// Returns the arguments of the lab, after the name of the program.
#[cfg(not(test))]
fn arguments() -> Vec<String> {
    std::env::args().collect()
}

#[cfg(test)]
use tests::arguments;

fn run(arguments: Arguments) -> Result<(), ExitCode> {
    match arguments.command {
        Command::Bench(Bench::Point(options)) => bench::point::run(&options),
        Command::Bench(Bench::Range(options)) => bench::range::run(&options),
        Command::Bench(Bench::List(options)) => bench::list::run(&options),
        Command::Bench(Bench::AqfOps(options)) => bench::aqf_ops::run(&options),
        Command::Bench(Bench::Store(options)) => bench::store::run(&options),
        Command::Bench(Bench::RangeStore(options)) => bench::range_store::run(&options),
        Command::Bench(Bench::Life(options)) => bench::life::run(&options),
        Command::Bench(Bench::ReverseMap(options)) => bench::reverse_map::run(&options),
        Command::Run(options) => experiment::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Results(options) => results::run(&options),
    }
}
