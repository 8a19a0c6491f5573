//! How large an experiment is.

use crate::contestant::Shape;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;

/// How long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scale {
    /// For a first look, and for tests.
    Seconds,
    /// For figures that mean something.
    Minutes,
    /// As large as the papers' own.
    Paper,
}

#[derive(clap::Args)]
// Its group would be called as that of the options around it.
#[group(skip)]
pub(crate) struct Options {
    /// How large.
    #[arg(long, value_enum, default_value_t = Scale::Seconds)]
    scale: Scale,
    /// What all that is random begins with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A directory of real lists and traces, for the experiments that use them; if it isn't
    /// named, the environment's `TWICESHY_DATA` is.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Options {
    /// Fails if a directory of data is named that isn't there: who names one doesn't want what
    /// needs it skipped.
    pub(crate) fn context(&self) -> Result<Context, String> {
        let named = || std::env::var_os("TWICESHY_DATA").map(PathBuf::from);
        let data = self.data.clone().or_else(named);
        if let Some(missing) = data.as_ref().filter(|data| !data.is_dir()) {
            return Err(format!("there is no directory of data {}", missing.display()));
        }
        Ok(Context { scale: self.scale, seed: self.seed, data })
    }
}

/// What an experiment is given.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// Where real lists and traces are.
    pub(crate) data: Option<PathBuf>,
}

impl Context {
    #[cfg(test)]
    pub(crate) fn smallest() -> Self {
        Self { scale: Scale::Seconds, seed: 1, data: None }
    }

    /// One of three, by scale.
    pub(crate) fn pick<T>(&self, seconds: T, minutes: T, paper: T) -> T {
        match self.scale {
            Scale::Seconds => seconds,
            Scale::Minutes => minutes,
            Scale::Paper => paper,
        }
    }

    /// Filters of the papers' false-positive rate, 2^-9.
    pub(crate) fn shape(&self) -> Shape {
        Shape { slots: 1 << self.pick(14, 20, 26), remainder_bits: 9, seed: self.seed }
    }

    /// What to type to see it again.
    pub(crate) fn command(&self, name: &str, uses_data: bool) -> String {
        let data = if uses_data && self.data.is_some() { " --data DIR" } else { "" };
        format!(
            "cargo run --release -p twiceshy-lab -- run {name} --scale {} --seed {}{data}",
            self.scale_name(),
            self.seed
        )
    }

    /// The scale, as it is typed.
    pub(crate) fn scale_name(&self) -> &'static str {
        self.pick("seconds", "minutes", "paper")
    }
}

/// A bar for so many steps, on a terminal.
pub(crate) fn progress(what: &'static str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:40} {pos}/{len} {eta}");
    let bar = ProgressBar::new(steps as u64).with_message(what);
    bar.with_style(style.expect("a template of known keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_is_named_must_be_there() {
        let here = |data: &str| Options { scale: Scale::Seconds, seed: 1, data: Some(data.into()) };
        assert!(here("src").context().is_ok());
        let context = here("src").context().unwrap();
        assert!(context.command("traces", true).ends_with("--seed 1 --data DIR"));
        assert!(here("no/such").context().unwrap_err().contains("no/such"));
    }
}
