//! `twiceshy-lab report`: all experiments on one page.

use crate::experiment::{self, Experiment};
use crate::origin;
use crate::output::{failure, print};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tempfile::NamedTempFile;
use twiceshy_report::Page;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these experiments, separated by commas.
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
        return Err(failure(format_args!(
            "unknown experiment {name:?}; `twiceshy-lab run --list` lists all"
        )));
    }
    let is_wanted = |experiment: &&&Experiment| {
        options.only.is_empty() || options.only.iter().any(|name| name == experiment.name)
    };
    let context = options.context.context().map_err(failure)?;
    let unwritten = |error: io::Error| {
        failure(format_args!("could not write {}: {error}", options.out.display()))
    };
    // Create the file now, so that an unwritable path fails before hours of experiments.
    let mut file = temporary_beside(&options.out).map_err(unwritten)?;
    let mut page = Page::new("Twiceshy: what adaptive filters are worth").lead(
        "Each experiment tests a claim of a paper, and shows what we measured on this machine, also \
         where we lose. The command below each experiment reproduces it: `run` prints only the tables, \
         `report` also draws the plots.",
    );
    for (name, value) in origin::facts() {
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

/// Creates a temporary file in the folder of the page. It will be renamed to the page atomically.
fn temporary_beside(out: &Path) -> io::Result<NamedTempFile> {
    if out.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // Give the page the usual permissions. Other temporary files can be read only by their
        // owner.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(directory.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_page_is_an_error_before_any_experiment_runs() {
        let directory = tempfile::tempdir().unwrap();
        assert!(temporary_beside(&directory.path().join("page.html")).is_ok());
        assert!(temporary_beside(&directory.path().join("no/page.html")).is_err());
        assert!(temporary_beside(directory.path()).is_err());
    }
}
