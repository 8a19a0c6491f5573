//! `twiceshy-lab bench life`: a store that grows, shrinks, is flooded with queries, is restarted
//! and crashes.
//!
//! | phase | what happens | what is measured |
//! | --- | --- | --- |
//! | `grow` | one thread puts members, one at a time. Another thread asks for members and absent keys. The store has no planned size. | rate, memory, speed, latencies |
//! | `outrun` | two threads put members in batches, and the store has hardly any time for background work | speed, latencies, delays, stalls, failures, memory |
//! | `shrink` | the members of the grown store are deleted again, one at a time | rate, memory, speed |
//! | `planned` | a store is filled with as many members as it is planned for | memory |
//! | `flood` | absent keys are asked for, each once, up to thousands per member | mistakes, memory, disk, rotations |
//! | `restart` | a store that has repaired mistakes is closed and opened | time to the first answer and to full speed |
//! | `crash` | the same, but there is no saved filter | the same |
//!
//! The memory of a growing or shrinking store is measured at six sizes per doubling (phases
//! `grow_size` and `shrink_size`), and everything else at two of them.
//!
//! Rates and memory are measured at rest, when no shard is being rebuilt or due to be rebuilt. The
//! rate is that of absent keys that were not queried before. These queries are repaired like all
//! others.
//!
//! The reader and the writer each wait for an answer before they ask again, so a pause shows in one
//! latency per thread, however long it is. With fewer cores than threads (there are three: the
//! writer, the reader and the store's own), latencies include the time in which a thread
//! isn't scheduled. As a control, the reader also times a short computation of its own.

mod counting;
mod flood;
mod grow;
mod outrun;
mod recover;
mod report;
mod rows;
mod subject;

pub(crate) use counting::{Counting, least_listings};
pub(crate) use report::{flood_table, shrink_table, size_table};
pub(crate) use rows::Row;
pub(crate) use subject::Engine;

use super::measure::positive_u64;
use crate::experiment::progress;
use crate::output::{print, print_origin};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;

/// The requested false-positive rate.
pub(crate) const RATE: f64 = 0.002;

/// Options of `bench life`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    work: Work,
    /// Print one JSON object per line instead of tables.
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Work {
    /// Measure only these phases, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Phase::ALL)]
    pub(crate) phases: Vec<Phase>,
    /// Backend of the stores. With `memory`, the phases `restart` and `crash` are run a second
    /// time, on fjall. On redb, writes are eventual, because redb syncs each buffered or synced
    /// write separately.
    #[arg(long, value_enum, default_value_t = Engine::Memory)]
    pub(crate) backend: Engine,
    /// Number of members that a store grows to. Keys have 16 bytes, and values are empty.
    #[arg(long, default_value_t = 1 << 22, value_parser = positive_u64)]
    pub(crate) members: u64,
    /// Number of members at which measuring begins while the store grows, and ends while it
    /// shrinks. Each time the number doubles or halves, memory is measured six times, and
    /// everything else twice.
    #[arg(long, default_value_t = 1 << 14, value_parser = positive_u64)]
    pub(crate) start: u64,
    /// Number of members of the store that is flooded.
    #[arg(long, default_value_t = 1 << 16, value_parser = positive_u64)]
    pub(crate) flood_members: u64,
    /// Number of different absent keys that a flood asks for, per member.
    #[arg(long, default_value_t = 10_000, value_parser = positive_u64)]
    pub(crate) queries_per_member: u64,
    /// Number of queries for each measured rate.
    #[arg(long, default_value_t = 200_000, value_parser = positive_u64)]
    pub(crate) rate_queries: u64,
    /// Share of one core that a store may use in the background.
    #[arg(long, default_value_t = 0.5, value_parser = share)]
    pub(crate) background_share: f64,
    /// Seed of the hash. The same seed gives the same hashes [default: random].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Directory for the stores, which are removed afterwards [default: the system's temporary
    /// directory].
    #[arg(long)]
    pub(crate) directory: Option<PathBuf>,
}

/// A part of the life of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Phase {
    Grow,
    Shrink,
    Outrun,
    Planned,
    Flood,
    Restart,
    Crash,
}

impl Phase {
    /// All phases, in the order in which they are measured.
    const ALL: [Self; 7] = [
        Self::Grow,
        Self::Shrink,
        Self::Outrun,
        Self::Planned,
        Self::Flood,
        Self::Restart,
        Self::Crash,
    ];
}

/// Parses a share.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".into())
}

/// A number of members at which a growing or shrinking store is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    members: u64,
    /// Whether everything is measured, not only the memory.
    is_full: bool,
}

/// Receives the rows as they are measured.
type Emit<'a> = dyn FnMut(Row) -> Result<(), ExitCode> + 'a;

/// Progress per put or delete. A query in a batch counts as 1.
const PUT: u64 = 16;

impl Work {
    fn wants(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }

    /// Returns the steps at which a growing store is measured: six per doubling, two of which are
    /// full.
    fn steps(&self) -> Vec<Step> {
        let size = |step: u32| {
            let doubled =
                self.start.saturating_mul(1_u64.checked_shl(step / 6).unwrap_or(u64::MAX));
            (doubled as f64 * (f64::from(step % 6) / 6.0).exp2()) as u64
        };
        let steps = (0..).map(|step| Step { members: size(step), is_full: step % 3 == 0 });
        let mut steps: Vec<Step> = steps.take_while(|step| step.members < self.members).collect();
        // If the start is small, neighbouring steps can have the same number of members.
        steps.dedup_by_key(|step| step.members);
        steps.push(Step { members: self.members, is_full: true });
        steps
    }

    /// Returns an estimate of the work, for the progress bar.
    fn amount(&self) -> u64 {
        let amount = |&phase: &Phase| match phase {
            Phase::Grow | Phase::Shrink => self.members * PUT,
            Phase::Outrun => self.outrun_members() * PUT,
            Phase::Planned => self.planned_sizes().iter().sum::<u64>() * PUT,
            Phase::Flood => self.flood_members * self.queries_per_member,
            Phase::Restart | Phase::Crash => self.recovered().len() as u64 * self.members * PUT,
        };
        Phase::ALL.iter().filter(|&&phase| self.wants(phase)).map(amount).sum()
    }

    /// Measures all phases, and calls `emit` with each row. The targets come last.
    pub(crate) fn run(&self, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
        let bar = progress("life of a store", self.amount() as usize);
        let mut rows = Vec::new();
        let mut keep = |row: Row| {
            rows.push(row.clone());
            bar.suspend(|| emit(row))
        };
        self.measure(&bar, &mut keep)?;
        bar.finish_and_clear();
        report::targets(&rows).into_iter().try_for_each(|target| emit(Row::Target(target)))
    }

    fn measure(&self, bar: &ProgressBar, emit: &mut Emit<'_>) -> Result<(), ExitCode> {
        if self.wants(Phase::Grow) || self.wants(Phase::Shrink) {
            grow::grow_and_shrink(self, bar, emit)?;
        }
        if self.wants(Phase::Outrun) {
            outrun::outrun(self, bar, emit)?;
        }
        if self.wants(Phase::Planned) {
            grow::planned(self, bar, emit)?;
        }
        if self.wants(Phase::Flood) {
            flood::flood(self, bar, emit)?;
        }
        if self.wants(Phase::Restart) || self.wants(Phase::Crash) {
            recover::recover(self, bar, emit)?;
        }
        Ok(())
    }
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    if options.json {
        print_origin()?;
        let to_json = |row: &Row| serde_json::to_string(row).expect("plain data");
        return options.work.run(&mut |row| print(to_json(&row)));
    }
    let mut rows = Vec::new();
    options.work.run(&mut |row| {
        rows.push(row);
        Ok(())
    })?;
    report::show(&rows)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::rows::Planned;
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use twiceshy_deadline::Deadline;

    pub(crate) fn tiny(backend: Engine) -> Work {
        Work {
            phases: Phase::ALL.into(),
            backend,
            members: 3000,
            start: 500,
            flood_members: 500,
            queries_per_member: 300,
            rate_queries: 5000,
            background_share: 0.5,
            seed: Some(1),
            directory: None,
        }
    }

    fn measured(work: &Work) -> Vec<Row> {
        let mut rows = Vec::new();
        let measured = work.run(&mut |row| {
            rows.push(row);
            Ok(())
        });
        assert!(measured.is_ok());
        rows
    }

    #[test]
    fn each_doubling_of_members_takes_six_steps() {
        let steps = |start, members| -> (Vec<u64>, Vec<u64>) {
            let steps = Work { members, start, ..tiny(Engine::Memory) }.steps();
            let full = steps.iter().filter(|step| step.is_full).map(|step| step.members);
            (steps.iter().map(|step| step.members).collect(), full.collect())
        };
        let (all, full) = steps(500, 2000);
        assert_eq!(all[..7], [500, 561, 629, 707, 793, 890, 1000]);
        assert_eq!((all.len(), full), (13, vec![500, 707, 1000, 1414, 2000]));
        assert_eq!(steps(500, 600), (vec![500, 561, 600], vec![500, 600]));
        assert_eq!(steps(500, 20), (vec![20], vec![20]));
        assert_eq!(steps(1, 4).0, [1, 2, 3, 4]);
        let (all, full) = steps(1 << 14, 1 << 22);
        assert_eq!((all.len(), full.len()), (8 * 6 + 1, 8 * 2 + 1));
        assert!((14..=22).all(|exponent| full.contains(&(1 << exponent))));
    }

    #[test]
    fn life_prints_the_rows_of_every_phase_with_all_fields() {
        let _deadline = Deadline::new();
        let rows = measured(&tiny(Engine::Memory));
        let mut by_phase: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in &rows {
            let row = serde_json::to_value(row).unwrap();
            by_phase.entry(row["phase"].as_str().unwrap().to_owned()).or_default().push(row);
        }
        let latencies = [
            "put_p9999_us",
            "put_p99999_us",
            "put_max_us",
            "get_p9999_us",
            "get_p99999_us",
            "get_max_us",
            "control_p9999_us",
            "control_p99999_us",
            "control_max_us",
            "puts_per_second",
            "members_listed_per_put",
            "delayed_writes",
            "rebuilds",
        ];
        let remainders = ["rate", "remainder_bits", "remainder_bits_of_plan"];
        let memory = [
            "members",
            "expected_rate",
            "filter_bits_per_member",
            "memory_bits_per_member",
            "memory_bytes",
        ];
        let outrun = [
            "background_share",
            "puts",
            "puts_per_second",
            "delayed_writes",
            "stalled_writes",
            "failed_puts",
            "put_p9999_us",
            "put_max_us",
            "rate",
        ];
        let sizes = [&memory[..], &remainders].concat();
        let recovery = [
            "kept_mistakes",
            "backend_ms",
            "first_answer_ms",
            "full_speed_ms",
            "members_per_second",
        ];
        let expected: [(&str, usize, Vec<&str>); 11] = [
            ("grow", 7, [&sizes[..], &latencies].concat()),
            ("grow_size", 10, memory.into()),
            ("grow_total", 1, [&latencies[..], &["stalled_writes"]].concat()),
            ("outrun", 1, [&memory[..], &outrun].concat()),
            ("shrink_size", 10, memory.into()),
            ("shrink", 6, [&sizes[..], &["deletes_per_second", "rebuilds"]].concat()),
            ("planned", 1, sizes),
            (
                "flood",
                4,
                vec![
                    "queries_per_member",
                    "mistakes_per_million",
                    "mistakes",
                    "allowed_mistakes",
                    "memory_bytes",
                    "disk_bytes",
                    "rotations",
                    "skipped_repairs",
                    "members_read_per_repair",
                    "suspects_read_per_repair",
                ],
            ),
            ("restart", 2, recovery.into()),
            ("crash", 2, recovery.into()),
            ("target", 22, vec!["goal"]),
        ];
        for (phase, count, fields) in expected {
            let rows = by_phase.remove(phase).unwrap_or_default();
            assert_eq!(rows.len(), count, "{phase}: {rows:?}");
            for (row, field) in rows.iter().flat_map(|row| fields.iter().map(move |f| (row, f))) {
                assert!(row[field].is_number(), "{field} of {row}");
            }
        }
        assert!(by_phase.is_empty(), "{by_phase:?}");
    }

    #[test]
    fn measured_rows_are_plausible_on_every_backend() {
        let _deadline = Deadline::new();
        for backend in [Engine::Memory, Engine::Fjall, Engine::Redb] {
            let work = Work { queries_per_member: 20, ..tiny(backend) };
            let rows = measured(&work);
            let name = backend.name();
            for row in &rows {
                match row {
                    Row::Grow(row) => {
                        let slowest = row.latencies.puts.max;
                        assert!(row.rate < 4.0 * RATE && slowest > 0.0, "{name}: {row:?}");
                    }
                    Row::Shrink(row) => assert!(row.size.memory_bits_per_member > 8.0, "{row:?}"),
                    Row::Planned(Planned { remainders, .. }) => {
                        assert_eq!(remainders.remainder_bits, remainders.remainder_bits_of_plan);
                    }
                    Row::Flood(row) => assert!(row.disk_bytes > 500 * 16, "{name}: {row:?}"),
                    Row::Restart(row) => {
                        assert_eq!(row.members_listed, 0, "{}", row.backend);
                        assert!(row.kept_mistakes > 10, "{row:?}");
                    }
                    Row::Crash(row) => {
                        // The first parts of a small shard's listing look like the scans of repairs.
                        assert!((1000..=3000).contains(&row.members_listed), "{row:?}");
                        assert!(row.kept_mistakes > 10, "{row:?}");
                    }
                    Row::GrowSize(row) | Row::ShrinkSize(row) => {
                        assert!(row.memory_bits_per_member > 8.0, "{row:?}");
                    }
                    Row::Outrun(row) => {
                        assert_eq!((row.puts, row.failed_puts), (3000, 0), "{row:?}");
                        assert!(row.rate < 4.0 * RATE && row.rebuilds > 0, "{name}: {row:?}");
                    }
                    Row::GrowTotal(row) => {
                        assert!(row.members_listed_per_put > 0.1, "{name}: {row:?}");
                        assert_eq!(row.puts, 3000);
                    }
                    Row::Target(_) => {}
                }
            }
        }
    }

    #[test]
    fn shrink_phase_alone_starts_with_all_members() {
        let _deadline = Deadline::new();
        let work = Work { phases: vec![Phase::Shrink], ..tiny(Engine::Memory) };
        let rows = measured(&work);
        let sizes = rows.iter().filter_map(|row| match row {
            Row::Shrink(row) => Some(row.size.members),
            Row::ShrinkSize(_) | Row::Target(_) => None,
            other => panic!("{other:?}"),
        });
        assert_eq!(sizes.collect::<Vec<_>>(), [2828, 2000, 1414, 1000, 707, 500]);
    }
}
