//! `twiceshy store check`.

use super::open::{Filter, close, existing};
use crate::exit::Answer;
use crate::input::{Encoding, Lines};
use crate::output::{Output, Report};
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "\
Examples:
  twiceshy store check users.store logins.txt
  twiceshy store check users.store logins.txt --missing > unknown.txt
  twiceshy store check users.store logins.txt.gz --json

Prints how many keys are present and missing, how many lookups the filter answered without a disk read,
and how many absent keys the filter mistook for members. Each mistake costs a disk read. The exit code is
0 if all keys are present, otherwise 1.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy store check --help` for examples.")]
pub(crate) struct Check {
    /// The directory of the store
    store: PathBuf,
    /// A file of keys, one per line
    #[arg(default_value = "-")]
    keys: PathBuf,
    /// Print only the missing keys
    #[arg(long, conflicts_with = "present")]
    missing: bool,
    /// Print only the present keys
    #[arg(long)]
    present: bool,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

/// The number of keys per batch. The values of a batch must fit into memory.
const BATCH: usize = 1 << 8;

impl Check {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let before = store.stats();
        let mut lines = Lines::open(&self.keys, Encoding::from_option(self.bytes), session)?;
        let (mut checked, mut present) = (0, 0);
        while let Some(block) = lines.next_block()? {
            let keys: Vec<&[u8]> = block.lines().collect();
            for keys in keys.chunks(BATCH) {
                let values = store.get_many(keys);
                let values = values.with_context(|| self.store.display().to_string())?;
                for (key, value) in keys.iter().zip(&values) {
                    checked += 1;
                    present += u64::from(value.is_some());
                    self.write(&mut session.output, key, value.is_some())?;
                }
            }
            drop(keys);
            lines.reuse(block);
        }
        drop(lines);
        let stats = store.stats();
        if !self.missing && !self.present {
            let report = Report::new()
                .count("checked", checked)
                .count("present", present)
                .count("missing", checked - present)
                .count(
                    "answered by filter",
                    stats.answered_from_memory - before.answered_from_memory,
                )
                .count("mistakes", stats.false_positives - before.false_positives)
                .count("repairs", stats.repairs - before.repairs)
                .count("disk reads", stats.backend_gets - before.backend_gets);
            session.output.report(&report)?;
        }
        close(store, &self.store, session)?;
        Ok(Answer::of(present == checked))
    }

    fn write(&self, output: &mut Output, key: &[u8], is_present: bool) -> Result<()> {
        let is_wanted = if is_present { self.present } else { self.missing };
        match is_wanted {
            false => {}
            true if output.is_json() => {
                output.json(&Report::new().key("key", key).yes("present", is_present))?;
            }
            true => output.line(&[key])?,
        }
        Ok(())
    }
}
