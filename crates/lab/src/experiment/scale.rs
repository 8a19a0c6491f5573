//! The scale of experiments.

use crate::contestant::Shape;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;

/// How long an experiment may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scale {
    /// A few seconds, for a first look and for tests.
    Seconds,
    /// A few minutes, for meaningful results.
    Minutes,
    /// As large as the papers' own experiments.
    Paper,
}

#[derive(clap::Args)]
// Without this, clap would give this group the same name as the group of the enclosing options.
#[group(skip)]
pub(crate) struct Options {
    /// Size of the experiments.
    #[arg(long, value_enum, default_value_t = Scale::Seconds)]
    scale: Scale,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory of real lists and traces, for the experiments that use them [default: the
    /// environment variable `TWICESHY_DATA`].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Options {
    /// Returns the context, or an error if the given data directory doesn't exist. Without this
    /// error, the experiments that need data would be skipped without a word.
    pub(crate) fn context(&self) -> Result<Context, String> {
        let named = || std::env::var_os("TWICESHY_DATA").map(PathBuf::from);
        let data = self.data.clone().or_else(named);
        if let Some(missing) = data.as_ref().filter(|data| !data.is_dir()) {
            return Err(format!("the data directory {} does not exist", missing.display()));
        }
        Ok(Context { scale: self.scale, seed: self.seed, data })
    }
}

/// The parameters of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// Directory of real lists and traces.
    pub(crate) data: Option<PathBuf>,
}

impl Context {
    #[cfg(test)]
    pub(crate) fn smallest() -> Self {
        Self { scale: Scale::Seconds, seed: 1, data: None }
    }

    /// Returns the one of three values that belongs to the scale.
    pub(crate) fn pick<T>(&self, seconds: T, minutes: T, paper: T) -> T {
        match self.scale {
            Scale::Seconds => seconds,
            Scale::Minutes => minutes,
            Scale::Paper => paper,
        }
    }

    /// Returns the shape of filters with the papers' false-positive rate, 2^-9.
    pub(crate) fn shape(&self) -> Shape {
        Shape { slots: 1 << self.pick(14, 20, 26), remainder_bits: 9, seed: self.seed }
    }

    /// Returns the command that reproduces an experiment.
    pub(crate) fn command(&self, name: &str, uses_data: bool) -> String {
        let data = if uses_data && self.data.is_some() { " --data DIR" } else { "" };
        format!(
            "cargo run --release -p twiceshy-lab -- run {name} --scale {} --seed {}{data}",
            self.scale_name(),
            self.seed
        )
    }

    /// Returns the scale's name on the command line.
    pub(crate) fn scale_name(&self) -> &'static str {
        self.pick("seconds", "minutes", "paper")
    }
}

/// Creates a progress bar. It is shown only on a terminal.
pub(crate) fn progress(what: &'static str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:40} {pos}/{len} {eta}");
    let bar = ProgressBar::new(steps as u64).with_message(what);
    bar.with_style(style.expect("a template of known keys"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_data_directory_must_exist() {
        let here = |data: &str| Options { scale: Scale::Seconds, seed: 1, data: Some(data.into()) };
        assert!(here("src").context().is_ok());
        let context = here("src").context().unwrap();
        assert!(context.command("traces", true).ends_with("--seed 1 --data DIR"));
        assert!(here("no/such").context().unwrap_err().contains("no/such"));
    }
}
