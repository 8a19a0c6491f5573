//! `twiceshy store delete`.

use super::open::{Filter, close, existing};
use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store delete users.store alice
  twiceshy store delete users.store alice bob --json

If a key is missing, the other keys are still deleted, and the exit code is 1.")]
pub(crate) struct Delete {
    /// The directory of the store
    store: PathBuf,
    /// The keys to delete
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
}

impl Delete {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let mut deleted = Vec::new();
        let keys = || self.keys.iter().map(|key| key.as_encoded_bytes());
        let done =
            keys().try_for_each(|key| store.delete(key).map(|was_there| deleted.push(was_there)));
        // Delete all keys before printing anything, because the reader of the output may stop
        // reading.
        for (key, &deleted) in keys().zip(&deleted) {
            let report = Report::new().key("key", key).yes("deleted", deleted);
            session.output.report_if_json(&report)?;
        }
        done.with_context(|| self.store.display().to_string())?;
        close(store, &self.store, session)?;
        Ok(Answer::of(!deleted.contains(&false)))
    }
}
