//! Plots and a table of the measurements.

use super::growing::{LENGTH, Setting, Way};
use super::{DOUBLINGS, SETTINGS, Seen, WAYS};
use crate::experiment::summary::spread;
use twiceshy_report::{Axis, Best, Column, Plot, Point, Series, Table};

pub(super) fn time_plot(setting: &Setting, seen: &[Seen]) -> Plot {
    let mut plot = Plot::lines(
        format!("Time to double ({})", setting.name()),
        Axis::linear("doubling", "").whole(),
        Axis::log10("time", "s"),
    );
    for (way, seen) in Way::ALL.iter().zip(seen) {
        let points = seen.seconds.iter().enumerate();
        let points = points.map(|(at, &seconds)| Point::new((at + 1) as f64, seconds));
        plot = plot.series(Series::new(way.name()).points(points));
    }
    plot
}

pub(super) fn rate_plot(setting: &Setting, seen: &[Seen]) -> Plot {
    let mut plot = Plot::lines(
        format!("False positives of a growing filter ({})", setting.name()),
        Axis::linear("doublings", "").whole(),
        Axis::log10("false-positive rate", ""),
    )
    .reference("planned", setting.rate())
    .note(format!(
        "Ranges of {LENGTH} keys anywhere, measured whenever the filter is full, which is the \
         worst time. A filter that reads nothing ends when the first members have no bits left."
    ));
    for (way, seen) in Way::ALL.iter().zip(seen) {
        let points = seen.rates.iter().enumerate().map(|(at, &rate)| Point::new(at as f64, rate));
        plot = plot.series(Series::new(way.name()).points(points));
    }
    plot
}

pub(super) fn table(seen: &[Seen]) -> Table {
    let mut table = Table::new(format!("{DOUBLINGS} doublings"))
        .columns([
            Column::text("planned rate, bits"),
            Column::text("filter"),
            Column::decimals("doublings", "", 0),
            Column::decimals("total", "ms", 2),
            Column::decimals("slowest", "ms", 2),
            Column::decimals("read", "MB", 2),
            Column::decimals("worst rate", "%", 3),
            Column::decimals("ratio to planned", "", 2),
            Column::decimals("space", "bits/member", 2),
        ])
        .note("Rate and space are those of full filters.");
    for (setting, seen) in SETTINGS.iter().zip(seen.chunks(WAYS)) {
        for (way, seen) in Way::ALL.iter().zip(seen) {
            table = table.row([
                setting.name().into(),
                way.name().into(),
                (seen.seconds.len() as u64).into(),
                (seen.total() * 1e3).into(),
                (spread(&seen.seconds).1 * 1e3).into(),
                (seen.read as f64 / 1e6).into(),
                (seen.worst_rate() * 100.0).into(),
                (seen.worst_rate() / setting.rate()).into(),
                seen.bits.last().copied().into(),
            ]);
        }
    }
    table.highlight(3, Best::Least)
}
