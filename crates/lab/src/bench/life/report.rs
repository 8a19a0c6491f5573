//! The printed results, and the targets.

use super::RATE;
use super::grow::PLANNED;
use super::rows::{
    Flood, Grow, GrowTotal, Latencies, Outrun, Planned, Recovery, Remainders, Row, Shrink, Size,
};
use crate::bench::target::Target;
use crate::output::{WIDTH, print};
use std::process::ExitCode;
use twiceshy_report::{Cell, Column, Table};

/// The rows of each phase.
#[derive(Default)]
struct Phases<'a> {
    grow: Vec<&'a Grow>,
    grow_sizes: Vec<&'a Size>,
    total: Option<&'a GrowTotal>,
    outrun: Vec<&'a Outrun>,
    shrink: Vec<&'a Shrink>,
    shrink_sizes: Vec<&'a Size>,
    planned: Vec<&'a Planned>,
    flood: Vec<&'a Flood>,
    restart: Vec<&'a Recovery>,
    crash: Vec<&'a Recovery>,
    targets: Vec<&'a Target>,
}

impl<'a> Phases<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let mut phases = Self::default();
        for row in rows {
            match row {
                Row::Grow(row) => phases.grow.push(row),
                Row::GrowSize(row) => phases.grow_sizes.push(row),
                Row::Outrun(row) => phases.outrun.push(row),
                Row::ShrinkSize(row) => phases.shrink_sizes.push(row),
                Row::GrowTotal(row) => phases.total = Some(row),
                Row::Shrink(row) => phases.shrink.push(row),
                Row::Planned(row) => phases.planned.push(row),
                Row::Flood(row) => phases.flood.push(row),
                Row::Restart(row) => phases.restart.push(row),
                Row::Crash(row) => phases.crash.push(row),
                Row::Target(row) => phases.targets.push(row),
            }
        }
        phases
    }

    /// Returns all measured sizes of the growing store, and of the shrinking store.
    fn sizes(&self) -> [Vec<&'a Size>; 2] {
        let grow = self.grow.iter().map(|row| &row.size);
        let shrink = self.shrink.iter().map(|row| &row.size);
        [
            grow.chain(self.grow_sizes.iter().copied()).collect(),
            shrink.chain(self.shrink_sizes.iter().copied()).collect(),
        ]
    }

    /// Returns the largest ratio of a measured rate to the requested one.
    fn worst_rate(&self) -> Option<f64> {
        let grow = self.grow.iter().map(|row| row.rate);
        let shrink = self.shrink.iter().map(|row| row.rate);
        let planned = self.planned.iter().map(|row| row.rate);
        let outrun = self.outrun.iter().map(|row| row.rate);
        worst(grow.chain(shrink).chain(planned).chain(outrun).map(|rate| rate / RATE))
    }

    /// Returns the largest ratio of a rate that the statistics report to the requested one.
    fn worst_expected_rate(&self) -> Option<f64> {
        let [grow, shrink] = self.sizes();
        let planned = self.planned.iter().map(|row| &row.size);
        let outrun = self.outrun.iter().map(|row| &row.size);
        let sizes = grow.into_iter().chain(shrink).chain(planned).chain(outrun);
        worst(sizes.map(|size| size.expected_rate / RATE))
    }

    /// Returns the largest number of remainder bits beyond the planned ones.
    fn wider_remainders(&self) -> Option<f64> {
        let grow = self.grow.iter().map(|row| row.remainders);
        let shrink = self.shrink.iter().map(|row| row.remainders);
        let planned = self.planned.iter().map(|row| row.remainders);
        let wider = |Remainders { remainder_bits, remainder_bits_of_plan }| {
            f64::from(remainder_bits) - f64::from(remainder_bits_of_plan)
        };
        worst(grow.chain(shrink).chain(planned).map(wider))
    }
}

fn worst(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

/// The memory that a store may use in addition to its bits per member.
const BASE_BYTES: u64 = 64 << 10;

/// Returns the memory beyond [`BASE_BYTES`], in bits per member.
fn bits_beyond_base(memory: u64, members: u64) -> f64 {
    memory.saturating_sub(BASE_BYTES) as f64 * 8.0 / members as f64
}

impl Size {
    fn bits_beyond_base(&self) -> f64 {
        bits_beyond_base(self.memory_bytes, self.members)
    }
}

/// The number of queries per member after which the number of kept mistakes should no longer rise.
/// By then, a store with a rate of 0.002 has made about two mistakes per five members, more than it
/// has room to repair.
const LONG_FLOOD: u64 = 200;

/// Returns the factor by which a figure rises at the end of a long flood.
fn growth(flood: &[&Flood], figure: impl Fn(&Flood) -> u64) -> Option<f64> {
    let [.., before, last] = flood else { return None };
    let is_long = before.queries_per_member >= LONG_FLOOD;
    is_long.then(|| figure(last) as f64 / (figure(before) as f64).max(1.0))
}

/// Compares rows with the targets, which are meant for the memory backend.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let phases = Phases::of(rows);
    let Phases { total, outrun, planned, flood, crash, .. } = &phases;
    let [growing, shrinking] =
        phases.sizes().map(|sizes| worst(sizes.into_iter().map(Size::bits_beyond_base)));
    let planned_bits = || {
        let sizes = planned.iter().map(|row| &row.size).filter(|size| size.members >= PLANNED);
        worst(sizes.map(|size| size.memory_bits_per_member))
    };
    let latencies = total.map(|row| row.latencies);
    let mut targets = vec![
        Target::at_most(
            "rate at every size, relative to the requested one",
            "",
            1.1,
            phases.worst_rate(),
        ),
        Target::at_most(
            "expected rate at every size, relative to the requested one",
            "",
            1.1,
            phases.worst_expected_rate(),
        ),
        Target::at_most("remainders wider than planned by", "bits", 0.0, phases.wider_remainders()),
        Target::at_most(
            "memory at the planned size, from 2^20 members",
            "bits/member",
            14.0,
            planned_bits(),
        ),
        Target::at_most("memory beyond 64 KiB while growing", "bits/member", 16.0, growing),
        Target::at_most("memory beyond 64 KiB while shrinking", "bits/member", 16.0, shrinking),
        Target::at_most(
            "get p99.99 while growing",
            "µs",
            50.0,
            latencies.map(|row| row.get_p9999_us),
        ),
        Target::at_most(
            "get p99.999 while growing",
            "µs",
            5000.0,
            latencies.map(|row| row.get_p99999_us),
        ),
        Target::at_most(
            "put p99.999 while growing",
            "µs",
            10_000.0,
            latencies.map(|row| row.puts.p99999),
        ),
        Target::at_most(
            "stalled writes while growing",
            "",
            0.0,
            total.map(|row| row.stalled_writes as f64),
        ),
        Target::at_most(
            "writers outrun background work: failed calls",
            "",
            0.0,
            worst(outrun.iter().map(|row| row.failed_puts as f64)),
        ),
        Target::at_most(
            "writers outrun background work: stalled calls",
            "",
            0.0,
            worst(outrun.iter().map(|row| row.stalled_writes as f64)),
        ),
        Target::at_most(
            "writers outrun background work: memory beyond 64 KiB",
            "bits/member",
            16.0,
            worst(outrun.iter().map(|row| row.size.bits_beyond_base())),
        ),
    ];
    targets.extend(flood_targets(flood));
    targets.extend(crash.iter().flat_map(|row| crash_targets(row)));
    targets
}

fn flood_targets(flood: &[&Flood]) -> Vec<Target> {
    vec![
        Target::at_most(
            "flood: mistakes, relative to those allowed",
            "",
            1.0,
            worst(flood.iter().map(|row| row.mistakes as f64 / row.allowed_mistakes)),
        ),
        Target::at_most(
            "flood: memory beyond 64 KiB",
            "bits/member",
            16.0,
            worst(flood.iter().map(|row| bits_beyond_base(row.memory_bytes, row.members))),
        ),
        Target::at_most(
            "flood: kept mistakes, last row relative to the row before",
            "",
            1.1,
            growth(flood, |row| row.kept_mistakes),
        ),
        Target::at_most(
            "flood: data on disk, last row relative to the row before",
            "",
            1.1,
            growth(flood, |row| row.disk_bytes),
        ),
        Target::at_most(
            "flood: skipped repairs per mistake",
            "",
            0.01,
            flood.last().map(|row| row.skipped_repairs as f64 / (row.mistakes as f64).max(1.0)),
        ),
    ]
}

fn crash_targets(row: &Recovery) -> [Target; 2] {
    let name = |what: &str| format!("crash, {}: {what}", row.backend);
    // In a small store, starting threads takes longer than reading members, so don't judge the
    // speed.
    let millions = (row.members >= PLANNED).then(|| row.members_per_second / 1e6);
    [
        Target::at_most(name("first answer"), "ms", 10.0, Some(row.first_answer_ms)),
        Target::at_least(name("speed of recovery"), "M members/s", 5.0, millions),
    ]
}

/// Prints a table for each phase, and a line for each target.
pub(super) fn show(rows: &[Row]) -> Result<(), ExitCode> {
    let phases = Phases::of(rows);
    let tables = [
        size_table(rows),
        latency_table(&phases),
        outrun_table(&phases.outrun),
        shrink_table(rows),
        memory_table(&phases),
        planned_table(&phases.planned),
        flood_table(rows),
        recovery_table(&phases),
    ];
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        print(table.to_text(WIDTH))?;
    }
    print("Targets for the memory backend:")?;
    phases.targets.iter().try_for_each(|target| print(target.line()))
}

/// Returns the sizes and speeds of a growing store.
pub(crate) fn size_table(rows: &[Row]) -> Table {
    let table = Table::new("Growing").columns([
        Column::decimals("members", "", 0),
        Column::percent("rate", 3),
        Column::percent("expected", 3),
        Column::decimals("filter", "bits/member", 2),
        Column::decimals("memory", "bits/member", 2),
        Column::decimals("rebuild", "KiB", 0),
        Column::decimals("puts", "k/s", 0),
        Column::decimals("gets", "k/s", 0),
        Column::decimals("listed", "per put", 2),
        Column::decimals("rebuilds", "", 0),
        Column::decimals("delayed", "puts", 0),
        Column::decimals("catch-up", "ms", 1),
    ]);
    Phases::of(rows).grow.iter().fold(table, |table, row| {
        table.row([
            row.size.members.into(),
            row.rate.into(),
            row.size.expected_rate.into(),
            row.size.filter_bits_per_member.into(),
            row.size.memory_bits_per_member.into(),
            kib(row.rebuild_bytes),
            (row.puts_per_second / 1e3).into(),
            (row.gets_per_second / 1e3).into(),
            row.members_listed_per_put.into(),
            row.rebuilds.into(),
            row.delayed_writes.into(),
            row.catch_up_ms.into(),
        ])
    })
}

fn kib(bytes: u64) -> Cell {
    (bytes as f64 / 1024.0).into()
}

fn latency_table(phases: &Phases<'_>) -> Table {
    let table = Table::new("Latencies while growing, in µs")
        .columns([
        Column::text("members"),
        Column::decimals("put 99.99 %", "", 1),
        Column::decimals("99.999 %", "", 1),
        Column::decimals("max", "", 1),
        Column::decimals("get 99.99 %", "", 1),
        Column::decimals("99.999 %", "", 1),
        Column::decimals("max", "", 1),
        Column::decimals("control 99.99 %", "", 1),
        Column::decimals("99.999 %", "", 1),
        Column::decimals("max", "", 1),
    ])
    .note(
        "The control is a short computation by the thread that gets keys. Its latencies show what \
         the machine alone causes.",
    );
    let rows = phases.grow.iter().map(|row| (row.size.members.to_string(), row.latencies));
    let total = phases.total.iter().map(|row| ("all".to_owned(), row.latencies));
    rows.chain(total).fold(table, |table, (members, latencies)| {
        let Latencies { puts, .. } = latencies;
        table.row([
            members.into(),
            puts.p9999.into(),
            puts.p99999.into(),
            puts.max.into(),
            latencies.get_p9999_us.into(),
            latencies.get_p99999_us.into(),
            latencies.get_max_us.into(),
            latencies.control_p9999_us.into(),
            latencies.control_p99999_us.into(),
            latencies.control_max_us.into(),
        ])
    })
}

fn outrun_table(rows: &[&Outrun]) -> Table {
    let table = Table::new("Writers that outrun the background work")
        .columns([
            Column::decimals("members", "put", 0),
            Column::decimals("writers", "", 0),
            Column::percent("background", 0),
            Column::decimals("puts", "k/s", 0),
            Column::decimals("call 99.99 %", "µs", 1),
            Column::decimals("99.999 %", "µs", 1),
            Column::decimals("max", "µs", 1),
            Column::decimals("delayed", "calls", 0),
            Column::decimals("stalled", "calls", 0),
            Column::decimals("failed", "calls", 0),
            Column::decimals("rebuilds", "", 0),
            Column::decimals("due at the end", "shards", 0),
            Column::percent("rate", 3),
            Column::decimals("memory", "bits/member", 2),
        ])
        .note(
            "Each call puts 16 members. The rate and the memory are measured after all due shards \
             were rebuilt.",
        );
    rows.iter().fold(table, |table, row| {
        table.row([
            row.puts.into(),
            row.writers.into(),
            row.background_share.into(),
            (row.puts_per_second / 1e3).into(),
            row.latencies.p9999.into(),
            row.latencies.p99999.into(),
            row.latencies.max.into(),
            row.delayed_writes.into(),
            row.stalled_writes.into(),
            row.failed_puts.into(),
            row.rebuilds.into(),
            row.shards_due.into(),
            row.rate.into(),
            row.size.memory_bits_per_member.into(),
        ])
    })
}

/// Returns the memory at the sizes between those of the other tables.
fn memory_table(phases: &Phases<'_>) -> Table {
    let table = Table::new("Memory at sizes in between").columns([
        Column::text("while"),
        Column::decimals("members", "", 0),
        Column::percent("expected rate", 3),
        Column::decimals("filter", "bits/member", 2),
        Column::decimals("memory", "bits/member", 2),
        Column::decimals("beyond 64 KiB", "bits/member", 2),
    ]);
    let grow = phases.grow_sizes.iter().map(|row| ("growing", row));
    let shrink = phases.shrink_sizes.iter().map(|row| ("shrinking", row));
    grow.chain(shrink).fold(table, |table, (name, row)| {
        table.row([
            name.into(),
            row.members.into(),
            row.expected_rate.into(),
            row.filter_bits_per_member.into(),
            row.memory_bits_per_member.into(),
            row.bits_beyond_base().into(),
        ])
    })
}

/// Returns the sizes and speeds of a shrinking store.
pub(crate) fn shrink_table(rows: &[Row]) -> Table {
    let table = Table::new("Shrinking").columns([
        Column::decimals("members", "", 0),
        Column::percent("rate", 3),
        Column::percent("expected", 3),
        Column::decimals("filter", "bits/member", 2),
        Column::decimals("memory", "bits/member", 2),
        Column::decimals("deletes", "k/s", 0),
        Column::decimals("listed", "per delete", 2),
        Column::decimals("rebuilds", "", 0),
        Column::decimals("catch-up", "ms", 1),
    ]);
    Phases::of(rows).shrink.iter().fold(table, |table, row| {
        table.row([
            row.size.members.into(),
            row.rate.into(),
            row.size.expected_rate.into(),
            row.size.filter_bits_per_member.into(),
            row.size.memory_bits_per_member.into(),
            (row.deletes_per_second / 1e3).into(),
            row.members_listed_per_delete.into(),
            row.rebuilds.into(),
            row.catch_up_ms.into(),
        ])
    })
}

fn planned_table(rows: &[&Planned]) -> Table {
    let table = Table::new("Filled to the plan").columns([
        Column::decimals("members", "", 0),
        Column::percent("rate", 3),
        Column::percent("expected", 3),
        Column::decimals("filter", "bits/member", 2),
        Column::decimals("memory", "bits/member", 2),
        Column::decimals("remainders", "bits", 0),
        Column::decimals("planned", "bits", 0),
        Column::decimals("rebuilds", "", 0),
    ]);
    rows.iter().fold(table, |table, row| {
        table.row([
            row.size.members.into(),
            row.rate.into(),
            row.size.expected_rate.into(),
            row.size.filter_bits_per_member.into(),
            row.size.memory_bits_per_member.into(),
            u64::from(row.remainders.remainder_bits).into(),
            u64::from(row.remainders.remainder_bits_of_plan).into(),
            row.rebuilds.into(),
        ])
    })
}

/// Returns the mistakes, the memory and the data of a flooded store.
pub(crate) fn flood_table(rows: &[Row]) -> Table {
    let flood = Phases::of(rows).flood;
    let members = flood.first().map_or(0, |row| row.members);
    let table = Table::new(format!("Flooded with different absent keys, {members} members"))
        .columns([
            Column::decimals("queries", "per member", 0),
            Column::decimals("speed", "k/s", 0),
            Column::decimals("mistakes", "per million", 0),
            Column::decimals("mistakes", "in all", 0),
            Column::decimals("allowed", "", 0),
            Column::decimals("memory", "KiB", 0),
            Column::decimals("peak", "KiB", 0),
            Column::decimals("data", "KiB", 0),
            Column::decimals("kept", "mistakes", 0),
            Column::decimals("rotations", "", 0),
            Column::decimals("failed", "repairs", 0),
            Column::decimals("skipped", "repairs", 0),
            Column::decimals("members read", "per repair", 1),
            Column::decimals("by repairs", "per repair", 1),
        ])
        .note(
            "Mistakes per million are those since the row before; all other counts are totals. The \
             members that rotations read are included in the members read per repair.",
        );
    flood.iter().fold(table, |table, row| {
        table.row([
            row.queries_per_member.into(),
            (row.queries_per_second / 1e3).into(),
            row.mistakes_per_million.into(),
            row.mistakes.into(),
            row.allowed_mistakes.into(),
            kib(row.memory_bytes),
            kib(row.peak_memory_bytes),
            kib(row.disk_bytes),
            row.kept_mistakes.into(),
            row.rotations.into(),
            row.failed_repairs.into(),
            row.skipped_repairs.into(),
            row.members_read_per_repair.into(),
            row.suspects_read_per_repair.into(),
        ])
    })
}

fn recovery_table(phases: &Phases<'_>) -> Table {
    let table = Table::new("Opened again").columns([
        Column::text("after"),
        Column::text("backend"),
        Column::decimals("members", "", 0),
        Column::decimals("kept", "mistakes", 0),
        Column::decimals("backend opened", "ms", 1),
        Column::decimals("first answer", "ms", 2),
        Column::decimals("full speed", "ms", 1),
        Column::decimals("speed", "M members/s", 2),
        Column::decimals("members read", "", 0),
    ]);
    let restart = phases.restart.iter().map(|row| ("a close", row));
    let crash = phases.crash.iter().map(|row| ("a crash", row));
    restart.chain(crash).fold(table, |table, (after, row)| {
        table.row([
            after.into(),
            row.backend.into(),
            row.members.into(),
            row.kept_mistakes.into(),
            row.backend_ms.into(),
            row.first_answer_ms.into(),
            row.full_speed_ms.into(),
            (row.members_per_second / 1e6).into(),
            row.members_listed.into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::target::Judged;

    fn flooded(queries_per_member: u64, mistakes: u64, kept_mistakes: u64) -> Row {
        Row::Flood(Flood {
            backend: "memory",
            members: 1 << 16,
            queries_per_member,
            queries: queries_per_member << 16,
            queries_per_second: 1e7,
            mistakes_per_million: 2000.0,
            mistakes,
            allowed_mistakes: super::super::flood::allowed_mistakes(queries_per_member << 16),
            memory_bytes: 64 << 10 | 16 << 13,
            peak_memory_bytes: 1 << 20,
            disk_bytes: 1 << 20,
            kept_mistakes,
            rotations: 1,
            repairs: mistakes,
            failed_repairs: 0,
            skipped_repairs: mistakes / 50,
            members_read_per_repair: 9.0,
            suspects_read_per_repair: 2.0,
        })
    }

    fn verdict(targets: &[Target], name: &str) -> Judged {
        targets.iter().find(|target| target.name.starts_with(name)).expect(name).verdict
    }

    #[test]
    fn targets_without_rows_are_reported_as_not_measured() {
        let targets = targets(&[]);
        assert_eq!(targets.len(), 18);
        for target in targets {
            assert_eq!(target.verdict, Judged::NotMeasured, "{}", target.name);
            assert!(target.line().ends_with(": not measured"));
        }
    }

    #[test]
    fn flood_targets_fail_if_a_bound_is_exceeded() {
        let rows = [flooded(1000, 131_000, 20_000), flooded(10_000, 1_310_000, 22_000)];
        let met = targets(&rows);
        assert_eq!(verdict(&met, "flood: mistakes"), Judged::Met);
        assert_eq!(verdict(&met, "flood: memory"), Judged::Met);
        assert_eq!(verdict(&met, "flood: kept"), Judged::Met);
        assert_eq!(verdict(&met, "flood: skipped"), Judged::Missed);
        let rows = [flooded(1000, 140_000, 20_000), flooded(10_000, 1_310_000, 22_001)];
        let missed = targets(&rows);
        assert_eq!(verdict(&missed, "flood: mistakes"), Judged::Missed);
        assert_eq!(verdict(&missed, "flood: kept"), Judged::Missed);
        assert_eq!(verdict(&missed, "flood: data on disk"), Judged::Met);
        let short = [flooded(10, 1, 20), flooded(100, 10, 200)];
        assert_eq!(verdict(&targets(&short), "flood: kept"), Judged::NotMeasured);
    }

    #[test]
    fn memory_targets_apply_to_rows_about_growing_and_shrinking() {
        let size = |bits: u64| Size {
            backend: "memory",
            members: 1 << 16,
            expected_rate: RATE,
            filter_bits_per_member: 13.0,
            memory_bits_per_member: 15.0,
            memory_bytes: 64 << 10 | bits << 13,
        };
        let rows = [Row::GrowSize(size(16)), Row::ShrinkSize(size(17))];
        let targets = targets(&rows);
        assert_eq!(verdict(&targets, "memory beyond 64 KiB while growing"), Judged::Met);
        assert_eq!(verdict(&targets, "memory beyond 64 KiB while shrinking"), Judged::Missed);
    }

    #[test]
    fn crash_targets_are_judged_for_each_backend() {
        let row = |backend, members_per_second| {
            Row::Crash(Recovery {
                backend,
                members: PLANNED,
                kept_mistakes: 8192,
                backend_ms: 1.0,
                first_answer_ms: 2.0,
                full_speed_ms: 3.0,
                members_per_second,
                members_listed: 1000,
            })
        };
        let targets = targets(&[row("memory", 5.0e6), row("fjall", 4.9e6)]);
        assert_eq!(verdict(&targets, "crash, memory: speed"), Judged::Met);
        assert_eq!(verdict(&targets, "crash, fjall: speed"), Judged::Missed);
        assert_eq!(verdict(&targets, "crash, fjall: first"), Judged::Met);
        let line = targets.last().unwrap().line();
        assert!(line.ends_with(" ≥ 5 M members/s, measured 4.900: missed"), "{line}");
    }
}
