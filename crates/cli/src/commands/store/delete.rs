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

If one of the keys wasn't there, the others are removed all the same, and the exit code is 1.")]
pub(crate) struct Delete {
    /// The directory of the store
    store: PathBuf,
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
}

impl Delete {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let mut all = true;
        for key in &self.keys {
            let key = key.as_encoded_bytes();
            let deleted = store.delete(key).with_context(|| self.store.display().to_string())?;
            all &= deleted;
            let report = Report::new().key("key", key).yes("deleted", deleted);
            session.output.report_if_json(&report)?;
        }
        close(store, &self.store, session)?;
        Ok(Answer::of(all))
    }
}
