//! `twiceshy-lab report`: all experiments on one page.

use crate::experiment::{self, Experiment};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;
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

pub(crate) fn run(options: &Options) -> ExitCode {
    let unknown = |name: &&String| experiment::ALL.iter().all(|known| known.name != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        eprintln!("twiceshy-lab: there is no experiment {name:?}; see `run --list`");
        return ExitCode::from(2);
    }
    let is_wanted = |experiment: &&&Experiment| {
        options.only.is_empty() || options.only.iter().any(|name| name == experiment.name)
    };
    let context = match options.context.context() {
        Ok(context) => context,
        Err(why) => {
            eprintln!("twiceshy-lab: {why}");
            return ExitCode::from(2);
        }
    };
    let mut page = Page::new("Twiceshy: what adaptive filters are worth").lead(
        "Each experiment asks what a paper claims, and shows what we see on this machine, also \
         where we lose. Every figure can be had again by the command below it.",
    );
    for (name, value) in facts() {
        page = page.fact(name, value);
    }
    let wanted: Vec<_> = experiment::ALL.iter().filter(is_wanted).collect();
    for (number, experiment) in (1..).zip(&wanted) {
        eprintln!("{number} of {}: {}", wanted.len(), experiment.name);
        let start = Instant::now();
        page = page.section(experiment.section(&context));
        eprintln!("    took {:.1} s", start.elapsed().as_secs_f64());
    }
    match std::fs::write(&options.out, page.to_html()) {
        Ok(()) => {
            println!("{}", options.out.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("twiceshy-lab: could not write {}: {error}", options.out.display());
            ExitCode::from(2)
        }
    }
}

/// What the results depend on, as far as the machine tells.
fn facts() -> Vec<(&'static str, String)> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(": ").map(|(_, name)| name.to_owned())
    });
    let cores = std::thread::available_parallelism().map(|cores| cores.to_string()).ok();
    let facts = [
        ("processor", cpu),
        ("cores", cores),
        ("compiler", output("rustc", &["--version"])),
        ("commit", output("git", &["describe", "--always", "--dirty"])),
        ("date", output("date", &["--utc", "+%Y-%m-%d"])),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
