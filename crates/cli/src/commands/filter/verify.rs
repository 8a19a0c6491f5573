//! `twiceshy filter verify`.

use super::file::{load, load_unasked};
use super::secret::SecretArgs;
use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::Report;
use crate::progress::Total;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Examples:
  twiceshy filter verify blocked.filter
  twiceshy filter verify blocked.filter --keys blocked.txt

Reads the whole filter, and checks its checksums and every invariant. If the filter is damaged, the
exit code is 2. With --keys, also checks that the answer for each key is \"maybe\". If an answer is
\"absent\", the exit code is 1.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy filter verify --help` for examples.")]
pub(crate) struct Verify {
    /// The filter
    filter: PathBuf,
    /// A file of keys that must be in the filter, one per line
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretArgs,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Verify {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match &self.keys {
            Some(keys) => self.with_keys(keys, session),
            None => self.alone(session),
        }
    }

    fn alone(&self, session: &mut Session) -> Result<Answer> {
        let progress = session.progress("verifying", Total::Unknown);
        let members = if self.secret.is_apart() {
            load(&self.filter, &self.secret)?.len()
        } else {
            load_unasked(&self.filter)?.0.len()
        };
        drop(progress);
        let report = Report::new().yes("valid", true).count("members", members as u64);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }

    fn with_keys(&self, keys: &Path, session: &mut Session) -> Result<Answer> {
        let progress = session.progress("verifying", Total::Unknown);
        let filter = load(&self.filter, &self.secret)?;
        drop(progress);
        let mut lines = Lines::open(keys, Encoding::from_option(self.bytes), session)?;
        let (mut checked, mut missing) = (0, 0);
        let mut answers = Vec::new();
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            filter.contains_many(&keys, &mut answers);
            checked += keys.len() as u64;
            missing += answers.iter().filter(|&&maybe| !maybe).count() as u64;
            drop(keys);
            lines.reuse(block);
        }
        let report = Report::new()
            .yes("valid", true)
            .count("members", filter.len() as u64)
            .count("checked", checked)
            .count("missing", missing);
        session.output.report(&report)?;
        Ok(Answer::of(missing == 0))
    }
}
