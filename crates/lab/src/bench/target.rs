//! Targets of benchmarks, and whether they are met.

use serde::Serialize;
use twiceshy_report::{Column, Table};

/// The minimum duration, in seconds, of a timed measurement that is judged.
pub(crate) const LEAST_SECONDS: f64 = 10.0;

/// A target, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// Whether the measured number must be at least the goal, not at most.
    pub(crate) at_least: bool,
    pub(crate) goal: f64,
    pub(crate) measured: Option<f64>,
    pub(crate) verdict: Judged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judged {
    Met,
    Missed,
    /// The measurement was too short for a verdict.
    #[serde(rename = "too_short_to_judge")]
    TooShort,
    NotMeasured,
}

impl Judged {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TooShort => "too short to judge",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Target {
    pub(crate) fn at_most(
        name: impl Into<String>,
        unit: &'static str,
        goal: f64,
        measured: Option<f64>,
    ) -> Self {
        Self::new(name.into(), unit, false, goal, measured)
    }

    pub(crate) fn at_least(
        name: impl Into<String>,
        unit: &'static str,
        goal: f64,
        measured: Option<f64>,
    ) -> Self {
        Self::new(name.into(), unit, true, goal, measured)
    }

    fn new(
        name: String,
        unit: &'static str,
        at_least: bool,
        goal: f64,
        measured: Option<f64>,
    ) -> Self {
        let is_met = |measured: f64| if at_least { measured >= goal } else { measured <= goal };
        let verdict = match measured.map(is_met) {
            None => Judged::NotMeasured,
            Some(true) => Judged::Met,
            Some(false) => Judged::Missed,
        };
        Self { name, unit, at_least, goal, measured, verdict }
    }

    /// Withdraws the verdict if the measurement took less than [`LEAST_SECONDS`].
    pub(crate) fn measured_for(mut self, seconds: f64) -> Self {
        if seconds < LEAST_SECONDS && self.measured.is_some() {
            self.verdict = Judged::TooShort;
        }
        self
    }

    /// Returns the target and its verdict in one line.
    pub(crate) fn line(&self) -> String {
        let Self { name, unit, at_least, goal, measured, verdict } = self;
        let sign = if *at_least { "≥" } else { "≤" };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let verdict = verdict.word();
        match measured {
            None => format!("{name:<64} {sign} {goal}{unit}: {verdict}"),
            Some(measured) => {
                format!("{name:<64} {sign} {goal}{unit}, measured {measured:.3}: {verdict}")
            }
        }
    }
}

/// Returns targets and their verdicts.
pub(crate) fn target_table<'a>(targets: impl IntoIterator<Item = &'a Target>) -> Table {
    let table = Table::new("Targets").columns([
        Column::text("target"),
        Column::text("unit"),
        Column::text("goal"),
        Column::decimals("measured", "", 3),
        Column::text("verdict"),
    ]);
    targets.into_iter().fold(table, |table, target| {
        let sign = if target.at_least { "at least" } else { "at most" };
        table.row([
            target.name.as_str().into(),
            target.unit.into(),
            format!("{sign} {}", target.goal).into(),
            target.measured.into(),
            target.verdict.word().into(),
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_measurements_are_not_judged() {
        let verdict = |measured, seconds: f64| {
            Target::at_least("speed", "M/s", 5.0, measured).measured_for(seconds).verdict
        };
        assert_eq!(verdict(Some(5.0), 10.0), Judged::Met);
        assert_eq!(verdict(Some(4.9), 10.0), Judged::Missed);
        assert_eq!(verdict(Some(4.9), 9.9), Judged::TooShort);
        assert_eq!(verdict(None, 0.0), Judged::NotMeasured);
        let line = Target::at_most("rate", "", 1.1, Some(1.25)).measured_for(1.0).line();
        assert!(line.ends_with(" ≤ 1.1, measured 1.250: too short to judge"), "{line}");
    }
}
