//! Writes a page with all kinds of plots and tables of made-up numbers: `gallery OUT.html`.
//!
//! The browser test looks at this page, so it also contains cases that are hard to draw.

use std::process::ExitCode;

use twiceshy_report::{
    Axis, Best, Cell, Column, Format, Page, Plot, Point, Section, Series, Table, Verdict,
};

const FILTERS: [&str; 6] = ["Twiceshy", "AQF (paper)", "TQF", "ACF", "quotient", "cuckoo"];

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: gallery OUT.html");
        return ExitCode::FAILURE;
    };
    if let Err(error) = std::fs::write(&path, page().to_html()) {
        eprintln!("{path}: {error}");
        return ExitCode::FAILURE;
    }
    println!("{}", space().to_text(80));
    ExitCode::SUCCESS
}

fn page() -> Page {
    Page::new("Gallery of sample plots")
        .lead(
            "Every number on this page is made up. It shows what plots and tables look like; \
             nothing was measured.",
        )
        .fact("CPU", "Sample CPU, 2 cores, 32 MiB of cache")
        .fact("Compiler", "rustc 1.95.0, `-C target-cpu=native`")
        .fact("Commit", "`0123456789ab`")
        .fact("Date", "2000-01-01")
        .section(
            Section::new("fill", "Throughput while a filter fills")
                .question("Do inserts and lookups get slower as the filter fills?")
                .paper("Inserts are as fast as those of a quotient filter, up to 90 % load.")
                .seen("Sample data: they are, within the spread of nine rounds.")
                .verdict(Verdict::Confirmed)
                .command("cargo run --release -p twiceshy-lab -- bench fill --log2-slots 26")
                .block(fill())
                .block(space()),
        )
        .section(
            Section::new("adapt", "The false-positive rate over time")
                .question("How soon is a skewed workload learned, and what does churn undo?")
                .paper("The rate drops immediately, and again after each churn.")
                .seen("Sample data: it drops to zero in some windows, which the foot shows.")
                .verdict(Verdict::Partly)
                .command("cargo run --release -p twiceshy-lab -- bench churn --rounds 9 --zipf 1.5")
                .block(rate_over_time())
                .block(churn()),
        )
        .section(
            Section::new("workloads", "Filters by workload")
                .question("Which filter answers most queries per second?")
                .verdict(Verdict::Refuted)
                .paper("Under attack, adaptive filters are ten times faster.")
                .seen("Sample data: not so.")
                .block(workloads())
                .block(bits()),
        )
        .section(Section::new("threads", "Threads").verdict(Verdict::Open).block(threads()).block(
            "Points have whiskers where the rounds differ.\n\nThis is a second paragraph, \
                 with `code` in it.",
        ))
        .section(
            Section::new("hard", "Hard cases")
                .question("Can a plot handle values that aren't numbers?")
                .block(attack())
                .block(hard())
                .block(log_bars())
                .block(differences())
                .block(one_value())
                .block(Plot::lines("Nothing", Axis::linear("x", ""), Axis::linear("y", "")))
                .block(wide_table()),
        )
}

/// Returns a pseudo-random number between -1 and 1.
fn noise(seed: usize) -> f64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)) >> 40) as f64 / f64::from(1 << 23) - 1.0
}

fn fill() -> Plot {
    let mut plot = Plot::lines(
        "Sample: inserts per second by load factor",
        Axis::linear("load factor", ""),
        Axis::linear("inserts", "op/s").si().from_zero(),
    )
    .note("Bands: minimum and maximum of nine rounds.");
    for (index, name) in FILTERS.into_iter().enumerate() {
        let points = (1..=18).map(|step| {
            let load = f64::from(step) * 0.05;
            let top = 31e6 - 4.1e6 * index as f64;
            let y = top * (1.0 - load.powf(3.0 + index as f64) * 0.6);
            let spread = 0.7e6 * (1.3 + noise(step as usize + 31 * index));
            Point::new(load, y).spread(y - spread, y + spread * 0.7)
        });
        plot = plot.series(Series::new(name).points(points));
    }
    plot
}

fn rate_over_time() -> Plot {
    let mut plot = Plot::steps(
        "Sample: false positives in each hundredth of the queries",
        Axis::linear("queries", "").from_zero(),
        Axis::log10("false-positive rate", ""),
    )
    .reference("target 2⁻⁹", 1.0 / 512.0)
    .note("A rate of zero is drawn at the foot of the axis.");
    for (index, name) in FILTERS.into_iter().enumerate().filter(|(index, _)| index % 2 == 0) {
        let points = (1..=100).map(|step| {
            let floor = [2e-6, 9e-6, 1.0 / 512.0][index / 2];
            let noise = 1.0 + 0.3 * noise(step + 100 * index);
            let rate = (floor + 0.001 / (step * step) as f64) * noise;
            let rate = if index == 0 && step > 60 && step % 9 < 4 { 0.0 } else { rate };
            (step as f64 * 2e6, rate)
        });
        plot = plot.series(Series::new(name).points(points));
    }
    plot
}

fn churn() -> Plot {
    let points = (0..200u32).map(|step| {
        let since = f64::from(step % 20);
        (f64::from(step) / 2.0, 3e-5 + 4e-4 * (-since / 3.0).exp() * f64::from(step / 20 % 3))
    });
    Plot::lines(
        "Sample: a fifth of the members replaced at each tenth",
        Axis::linear("progress", "%"),
        Axis::linear("false-positive rate", "").from_zero(),
    )
    .series(Series::new("Twiceshy").points(points))
}

fn workloads() -> Plot {
    let mut plot = Plot::bars(
        "Sample: lookups per second",
        "workload",
        ["uniform", "Zipf 1.5", "adversary, 10 % of the queries"],
        Axis::linear("lookups", "op/s").si(),
    );
    for (index, name) in FILTERS.into_iter().enumerate() {
        let points = (0..3u32).map(|group| {
            let y = 2.4e6 / (1.0 + f64::from(group) * 0.4 * index as f64) + 1e5;
            Point::new(f64::from(group), y).spread(y * 0.94, y * 1.03)
        });
        plot = plot.series(Series::new(name).points(points));
    }
    plot
}

fn bits() -> Plot {
    Plot::bars("Sample: space", "filter", FILTERS, Axis::linear("space", "bits/key"))
        .series(Series::new("space").bars([12.2, 13.1, 12.9, 14.7, 11.9, 13.4]))
        .reference("information limit", 9.0)
}

fn threads() -> Plot {
    let mut plot = Plot::points(
        "Sample: inserts by threads",
        Axis::log2("threads", ""),
        Axis::log10("inserts", "op/s").si(),
    );
    for (index, name) in FILTERS.into_iter().enumerate() {
        let points = (0..5).map(|power| {
            let threads = f64::from(1 << power);
            let y = threads.powf(0.95 - 0.1 * index as f64) * 3e6 / (1.0 + index as f64);
            Point::new(threads, y).spread(y * 0.9, y * 1.1)
        });
        plot = plot.series(Series::new(name).points(points));
    }
    plot
}

fn attack() -> Plot {
    let mut plot = Plot::lines(
        "Sample: many series with long names, on two logarithmic axes",
        Axis::log2("slots", ""),
        Axis::log10("time of a query", "s").si(),
    );
    for index in 0..10 {
        let name = format!("{} with a cache of 2^{index} entries", FILTERS[index % 6]);
        let points = (10..=26).step_by(2).map(|log2| {
            (f64::from(1u32 << log2), 1e-8 * f64::from(log2).powi(2) * (1.0 + index as f64))
        });
        plot = plot.series(Series::new(name).points(points));
    }
    plot
}

fn hard() -> Plot {
    let values = [1e-12, 3.0, f64::NAN, 1e9, 0.0, -1.0, 1e3, f64::INFINITY, 2.0];
    let points = values.into_iter().enumerate().map(|(x, y)| (x as f64, y));
    Plot::lines("Sample: gaps", Axis::linear("x", ""), Axis::log10("y", ""))
        .series(Series::new("gaps <&> \"quotes\"").points(points))
        .series(Series::new("one point").points([(4.0, 1e-5)]))
        .series(Series::new("empty"))
}

fn log_bars() -> Plot {
    let axis = Axis::log10("false-positive rate", "");
    Plot::bars(
        "Sample: bars on a logarithmic axis, one of them zero",
        "workload",
        ["uniform", "Zipf"],
        axis,
    )
    .series(Series::new("Twiceshy").bars([1.9e-3, 0.0]))
    .series(
        Series::new("a filter with a name that is far too long for its place")
            .bars([1.7e-3, 4.2e-6]),
    )
    .series(Series::new("cuckoo").bars([f64::NAN, 8e-2]))
    .reference("a target that also has a long name", 1.0 / 512.0)
}

fn differences() -> Plot {
    let axis = Axis::linear("difference from the recorded count of instructions", "%");
    let operations = ["negative", "positive", "insert", "adapt"];
    Plot::bars("Sample: bars on both sides", "operation", operations, axis)
        .series(Series::new("difference").bars([-4.2, 0.3, 7.9, -0.01]))
}

fn one_value() -> Plot {
    Plot::lines(
        "Sample: one value, and axes with long labels",
        Axis::log10("how many members were inserted before the measurement began", "keys"),
        Axis::linear("time between the first lookup and the last, in the worst of all rounds", "s"),
    )
    .series(Series::new("Twiceshy").points([(123_456.0, 0.25)]))
    .reference("the same", 0.25)
}

fn space() -> Table {
    let mut table = Table::new("Sample: space and speed").columns([
        Column::text("filter"),
        Column::decimals("space", "bits/key", 2),
        Column::number("wrong", "", Format::Significant(3)),
        Column::decimals("lookups", "op/s", 0),
        Column::percent("of the best", 1),
    ]);
    for (index, name) in FILTERS.into_iter().enumerate() {
        let speed = 31_234_567.0 - 4_100_000.0 * index as f64;
        let cuckoo = name == "cuckoo";
        let wrong =
            if cuckoo { Cell::Empty } else { (0.00195 / (1.0 + 9.0 * index as f64)).into() };
        let space = 12.2 + 0.37 * index as f64;
        table = table.row([
            name.into(),
            space.into(),
            wrong,
            speed.into(),
            (speed / 31_234_567.0).into(),
        ]);
    }
    table
        .highlight(1, Best::Least)
        .highlight(3, Best::Greatest)
        .note("Best in bold, or marked with an asterisk.")
}

fn wide_table() -> Table {
    let columns = (0..12).map(|index| Column::decimals(format!("2^{}", 2 * index), "ns", 1));
    let row = |name: &str, from: usize| {
        let cells = (0..12).map(|index| Cell::Number(9.0 + noise(index + from) + index as f64));
        std::iter::once(name.into()).chain(cells).collect::<Vec<_>>()
    };
    Table::new("Sample: a table that is wider than a phone")
        .columns([Column::text("operation")])
        .columns(columns)
        .row(row("absent", 0))
        .row(row("members", 20))
}
