//! `twiceshy-lab report`: all experiments on one page.

use crate::experiment::{self, Experiment};
use crate::output::{failure, print};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use tempfile::NamedTempFile;
use twiceshy_report::Page;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these experiments, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    context: experiment::ScaleOptions,
    /// Where to write the page.
    #[arg(long, short, default_value = "twiceshy-report.html")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<(), ExitCode> {
    let unknown = |name: &&String| experiment::ALL.iter().all(|known| known.name != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        return Err(failure(format_args!("there is no experiment {name:?}; see `run --list`")));
    }
    let is_wanted = |experiment: &&&Experiment| {
        options.only.is_empty() || options.only.iter().any(|name| name == experiment.name)
    };
    let context = options.context.context().map_err(failure)?;
    let unwritten = |error: io::Error| {
        failure(format_args!("could not write {}: {error}", options.out.display()))
    };
    // Before hours of experiments whose page nobody would see.
    let mut file = beside(&options.out).map_err(unwritten)?;
    let mut page = Page::new("Twiceshy: what adaptive filters are worth").lead(
        "Each experiment asks what a paper claims, and shows what we see on this machine, also \
         where we lose. Every figure can be had again by the command below it: `run` prints the \
         tables, `report` the plots, too.",
    );
    for (name, value) in facts() {
        page = page.fact(name, value);
    }
    page = page.fact("scale", context.scale_name()).fact("seed", context.seed.to_string());
    let wanted: Vec<_> = experiment::ALL.iter().filter(is_wanted).collect();
    for (number, experiment) in (1..).zip(&wanted) {
        eprintln!("{number} of {}: {}", wanted.len(), experiment.name);
        let start = Instant::now();
        page = page.section(experiment.section(&context));
        eprintln!("    took {:.1} s", start.elapsed().as_secs_f64());
    }
    file.write_all(page.to_html().as_bytes()).map_err(unwritten)?;
    file.persist(&options.out).map_err(|error| unwritten(error.error))?;
    print(options.out.display())
}

/// A file that becomes the page at once or not at all.
fn beside(out: &Path) -> io::Result<NamedTempFile> {
    if out.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // A page is for all whom the user lets read files.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory.unwrap_or(Path::new(".")))
}

/// What the results depend on, as far as the machine tells, and what was built.
fn facts() -> Vec<(&'static str, String)> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(": ").map(|(_, name)| name.to_owned())
    });
    let cores = std::thread::available_parallelism().map(|cores| cores.to_string()).ok();
    let facts = [
        ("processor", cpu),
        ("cores", cores),
        ("compiler", Some(env!("TWICESHY_COMPILER").to_owned())),
        ("commit", Some(env!("TWICESHY_COMMIT").to_owned())),
        ("date", today()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn today() -> Option<String> {
    let output = Command::new("date").args(["--utc", "+%Y-%m-%d"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_written_is_noticed_before_the_experiments() {
        let directory = tempfile::tempdir().unwrap();
        assert!(beside(&directory.path().join("page.html")).is_ok());
        assert!(beside(&directory.path().join("no/page.html")).is_err());
        assert!(beside(directory.path()).is_err());
    }
}
