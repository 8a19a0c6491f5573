//! The printed results.

use super::per_million;
use super::setup::Kind;
use crate::bench::target::{Judged, Target};
use crate::output::{WIDTH, print, print_json};
use serde::Serialize;
use std::process::ExitCode;
use twiceshy_report::{Cell, Column, Table};

/// One row of the result.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) setup: &'static str,
    pub(super) op: &'static str,
    pub(super) hostile_percent: u32,
    /// The duration in seconds.
    pub(super) seconds: f64,
    /// The number of inserts, queries or pairs.
    pub(super) count: u64,
    /// Thousands of operations per second by the wall clock, in the best round. This includes the
    /// background work of our filter, and writing the last inserts to disk.
    pub(super) kops: f64,
    /// Thousands of operations per second in the median round.
    pub(super) median_kops: f64,
    /// The CPU time of all threads per insert, in microseconds. It includes the work that the
    /// engine's threads do after the wall clock has stopped.
    pub(super) cpu_us: Option<f64>,
    /// The highest memory use after a turn, in bytes: our store, the block cache, and the rest of
    /// the engine.
    pub(super) memory_bytes: u64,
    /// The part of the memory that is the engine's besides its block cache: memtables, and the
    /// filters and indexes that it keeps of its tables.
    pub(super) engine_bytes: u64,
    pub(super) backend_gets: u64,
    pub(super) backend_scans: u64,
    /// The number of distinct absent keys that were looked up in the backend, and the number of
    /// repeated lookups. Unknown for the engine's own filter, and undefined without a filter.
    pub(super) distinct_mistakes: Option<u64>,
    pub(super) repeated_mistakes: Option<u64>,
    pub(super) repeated_per_million: Option<f64>,
    /// The number of mistakes that were not repaired. Undefined without repairs.
    pub(super) skipped_repairs: Option<u64>,
    /// Number of rotations of the shard that was rotated least often.
    pub(super) least_rotations: Option<u64>,
}

/// Summarises rounds that have the same rows. The speeds are those of the best and the median
/// round, the CPU time is the median, and the memory is the most. Durations and counts are those of
/// all rounds together.
pub(super) fn summary(rounds: &[Vec<Row>]) -> Vec<Row> {
    let Some(last) = rounds.last() else { return Vec::new() };
    let mut rows = last.clone();
    for (index, row) in rows.iter_mut().enumerate() {
        let each = || rounds.iter().map(|rows| &rows[index]);
        row.kops = each().map(|row| row.kops).fold(0.0, f64::max);
        row.median_kops = median(each().map(|row| row.kops).collect());
        row.cpu_us = row.cpu_us.map(|_| median(each().filter_map(|row| row.cpu_us).collect()));
        let most = |of: fn(&Row) -> u64| each().map(of).max().unwrap_or_default();
        row.memory_bytes = most(|row| row.memory_bytes);
        row.engine_bytes = most(|row| row.engine_bytes);
        let sum = |of: fn(&Row) -> u64| each().map(of).sum();
        let sum_known = |of: fn(&Row) -> Option<u64>| each().map(of).sum();
        row.seconds = each().map(|row| row.seconds).sum();
        row.count = sum(|row| row.count);
        row.backend_gets = sum(|row| row.backend_gets);
        row.backend_scans = sum(|row| row.backend_scans);
        row.distinct_mistakes = sum_known(|row| row.distinct_mistakes);
        row.repeated_mistakes = sum_known(|row| row.repeated_mistakes);
        row.repeated_per_million = row.repeated_mistakes.map(|all| per_million(all, row.count));
        row.skipped_repairs = sum_known(|row| row.skipped_repairs);
        row.least_rotations = sum_known(|row| row.least_rotations);
    }
    rows
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// A goal for the ratio of two speeds. Some goals can also be reached by a high speed.
struct Goal {
    what: &'static str,
    of: Measured,
    to: Measured,
    at_least: f64,
    /// A speed that reaches the goal regardless of the ratio, in thousands per second.
    or_kops: Option<f64>,
    /// Whether both speeds must be measured for a while to be judged.
    is_long: bool,
}

/// The setup, the operation and the percentage of hostile queries of a row.
type Measured = (Kind, &'static str, u32);

/// The goals. The split setup of the `AdaptiveQF` paper keeps 0.48 of the insert speed. Building a
/// filter should be as fast as one thread reads its members, or reach 2 M members per second. The
/// other costs should hardly be noticeable.
const GOALS: [Goal; 5] = [
    Goal {
        what: "adaptive: 10 % hostile queries / none hostile",
        of: (Kind::Adaptive, "hostile", 10),
        to: (Kind::Adaptive, "hostile", 0),
        at_least: 0.95,
        or_kops: None,
        is_long: true,
    },
    Goal {
        what: "inserts: adaptive / no filter",
        of: (Kind::Adaptive, "insert", 0),
        to: (Kind::Nothing, "insert", 0),
        at_least: 0.8,
        or_kops: None,
        is_long: true,
    },
    Goal {
        what: "inserts: split / no filter",
        of: (Kind::Split, "insert", 0),
        to: (Kind::Nothing, "insert", 0),
        at_least: 0.48,
        or_kops: None,
        is_long: true,
    },
    Goal {
        what: "adaptive: filter rebuilt / members scanned",
        of: (Kind::Adaptive, "rebuild", 0),
        to: (Kind::Adaptive, "scan", 0),
        at_least: 1.0,
        or_kops: Some(2000.0),
        is_long: false,
    },
    Goal {
        what: "split: filter rebuilt / members scanned",
        of: (Kind::Split, "rebuild", 0),
        to: (Kind::Split, "scan", 0),
        at_least: 1.0,
        or_kops: Some(2000.0),
        is_long: false,
    },
];

impl Goal {
    /// Compares the goal with the median of the ratios in all rounds. The two speeds of a round
    /// were measured side by side.
    fn target(&self, rounds: &[Vec<Row>]) -> Target {
        let of = || rounds.iter().map(|rows| found(rows, self.of));
        let to = || rounds.iter().map(|rows| found(rows, self.to));
        let ratio = median(of().zip(to()).map(|(of, to)| of.kops / to.kops).collect());
        let kops = median(of().map(|row| row.kops).collect());
        let name = self.or_kops.map_or_else(
            || self.what.to_owned(),
            |or_kops| format!("{} (or {or_kops:.0} k/s; {kops:.0} k/s measured)", self.what),
        );
        let mut target = Target::at_least(name, "", self.at_least, Some(ratio));
        if self.or_kops.is_some_and(|or_kops| kops >= or_kops) {
            target.verdict = Judged::Met;
        }
        if self.is_long {
            let [of, to]: [f64; 2] =
                [of().map(|row| row.seconds).sum(), to().map(|row| row.seconds).sum()];
            target = target.measured_for(of.min(to));
        }
        target
    }
}

fn found(rows: &[Row], (kind, op, percent): Measured) -> &Row {
    let is_it = |row: &&Row| (row.setup, row.op, row.hostile_percent) == (kind.name(), op, percent);
    rows.iter().find(is_it).expect("all are measured")
}

/// Compares all rounds with the goals.
fn targets(rounds: &[Vec<Row>]) -> Vec<Target> {
    let summary = summary(rounds);
    let mut targets: Vec<Target> = GOALS.iter().map(|goal| goal.target(rounds)).collect();
    for percent in [0, 10] {
        let row = found(&summary, (Kind::Adaptive, "hostile", percent));
        targets.extend(of_repairs(
            &format!("adaptive, {percent} % hostile"),
            row.seconds,
            row.skipped_repairs.unwrap_or_default(),
            row.backend_gets,
            row.least_rotations.unwrap_or_default(),
        ));
    }
    targets
}

/// Returns the targets of a measurement in which mistakes are repaired.
pub(super) fn of_repairs(
    name: &str,
    seconds: f64,
    skipped_repairs: u64,
    mistakes: u64,
    least_rotations: u64,
) -> [Target; 2] {
    /// The largest share of mistakes whose repair may be skipped.
    const MOST_SKIPPED: f64 = 0.01;
    let skipped = skipped_repairs as f64 / (mistakes as f64).max(1.0);
    let name = |what: &str| format!("{name}: {what}");
    [
        Target::at_most(name("skipped repairs / mistakes"), "", MOST_SKIPPED, Some(skipped)),
        Target::at_least(
            name("fewest rotations of a shard"),
            "",
            1.0,
            Some(least_rotations as f64),
        ),
    ]
    .map(|target| target.measured_for(seconds))
}

pub(super) fn show(rounds: &[Vec<Row>], json: bool) -> Result<(), ExitCode> {
    show_rows(&summary(rounds), &targets(rounds), json, table)
}

/// A target as a row of the JSON output.
#[derive(Serialize)]
struct TargetRow<'a> {
    op: &'static str,
    #[serde(flatten)]
    target: &'a Target,
}

/// Prints rows and their targets as a table and lines, or as JSON.
pub(super) fn show_rows<R: Serialize>(
    rows: &[R],
    targets: &[Target],
    json: bool,
    table: impl FnOnce(&[R]) -> Table,
) -> Result<(), ExitCode> {
    if json {
        print_json(rows)?;
        let rows = targets.iter().map(|target| TargetRow { op: "target", target });
        return print_json(&rows.collect::<Vec<_>>());
    }
    print(table(rows).to_text(WIDTH))?;
    targets.iter().try_for_each(|target| print(target.line()))?;
    print("")
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        Column::text("setup"),
        Column::text("op"),
        Column::decimals("hostile", "%", 0),
        Column::decimals("seconds", "", 1),
        Column::decimals("k/s", "", 1),
        Column::decimals("median", "", 1),
        Column::decimals("CPU", "µs", 2),
        Column::decimals("memory", "MiB", 2),
        Column::decimals("of the engine", "MiB", 2),
        Column::decimals("backend gets", "", 0),
        Column::decimals("scans", "", 0),
        Column::decimals("mistakes", "", 0),
        Column::decimals("repeated", "", 0),
        Column::decimals("skipped", "repairs", 0),
        Column::decimals("rotations", "least", 0),
    ];
    let table = Table::default().columns(columns).note(
        "The memory of the engine includes memtables, and the filters and indexes that it keeps of \
         its tables, but not its block cache.",
    );
    rows.iter().fold(table, |table, row| {
        table.row([
            row.setup.into(),
            row.op.into(),
            u64::from(row.hostile_percent).into(),
            row.seconds.into(),
            row.kops.into(),
            row.median_kops.into(),
            row.cpu_us.into(),
            mebibytes(row.memory_bytes),
            mebibytes(row.engine_bytes),
            row.backend_gets.into(),
            row.backend_scans.into(),
            row.distinct_mistakes.into(),
            row.repeated_mistakes.into(),
            row.skipped_repairs.into(),
            row.least_rotations.into(),
        ])
    })
}

pub(super) fn mebibytes(bytes: u64) -> Cell {
    (bytes as f64 / f64::from(1 << 20)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, op: &'static str, kops: f64) -> Row {
        Row {
            setup: kind.name(),
            op,
            hostile_percent: 0,
            seconds: 4.0,
            count: 1000,
            kops,
            median_kops: kops,
            cpu_us: None,
            memory_bytes: 0,
            engine_bytes: 0,
            backend_gets: 100,
            backend_scans: 0,
            distinct_mistakes: None,
            repeated_mistakes: Some(3),
            repeated_per_million: Some(3000.0),
            skipped_repairs: Some(1),
            least_rotations: Some(1),
        }
    }

    /// In a slow round, both speeds are low, but their ratio is the same.
    #[test]
    fn ratios_compare_speeds_of_the_same_round() {
        let round = |speed| {
            vec![row(Kind::Nothing, "insert", speed), row(Kind::Split, "insert", speed / 2.0)]
        };
        let rounds = [round(100.0), round(10.0), round(40.0)];
        let rows = summary(&rounds);
        let target = GOALS[2].target(&rounds);
        let ratio = target.measured.unwrap();
        let found = [rows[0].kops, rows[0].median_kops, rows[1].kops, ratio];
        let wanted = [100.0, 40.0, 50.0, 0.5];
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9));
        assert_eq!(target.verdict, Judged::Met);
    }

    #[test]
    fn durations_and_counts_of_rounds_add_up() {
        let rounds =
            [vec![row(Kind::Adaptive, "insert", 1.0)], vec![row(Kind::Adaptive, "insert", 2.0)]];
        let row = &summary(&rounds)[0];
        assert!((row.seconds - 8.0).abs() < 1e-9);
        assert_eq!((row.count, row.backend_gets, row.skipped_repairs), (2000, 200, Some(2)));
        assert!((row.repeated_per_million.unwrap() - 3000.0).abs() < 1e-9);
    }

    #[test]
    fn short_inserts_are_not_judged() {
        let round = vec![row(Kind::Nothing, "insert", 10.0), row(Kind::Adaptive, "insert", 1.0)];
        let verdict = |rounds: usize| GOALS[1].target(&vec![round.clone(); rounds]).verdict;
        assert_eq!(verdict(2), Judged::TooShort);
        assert_eq!(verdict(3), Judged::Missed);
    }

    #[test]
    fn repairs_are_judged_by_skipped_ones_and_rotations() {
        let verdicts = |skipped, rotations| {
            of_repairs("", 10.0, skipped, 1000, rotations).map(|target| target.verdict)
        };
        assert_eq!(verdicts(10, 1), [Judged::Met, Judged::Met]);
        assert_eq!(verdicts(11, 0), [Judged::Missed, Judged::Missed]);
    }

    #[test]
    fn high_speed_reaches_the_goal_despite_a_low_ratio() {
        let rebuilt = |speed| {
            let rows = [row(Kind::Split, "scan", 4000.0), row(Kind::Split, "rebuild", speed)];
            GOALS[4].target(&[rows.into()])
        };
        let met = rebuilt(2000.0);
        assert!(met.name.ends_with("(or 2000 k/s; 2000 k/s measured)"), "{}", met.name);
        let verdicts = [2000.0, 1999.0, 4000.0].map(|speed| rebuilt(speed).verdict);
        assert_eq!(verdicts, [Judged::Met, Judged::Missed, Judged::Met]);
    }
}
