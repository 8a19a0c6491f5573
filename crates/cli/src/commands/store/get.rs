//! `twiceshy store get`.

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
  twiceshy store get users.store alice
  twiceshy store get users.store alice > alice.bin
  twiceshy store get users.store alice --json

Prints the value without a line ending. If the key is absent, prints nothing, and the exit code is 1.")]
pub(crate) struct Get {
    /// The directory of the store
    store: PathBuf,
    /// The key
    key: OsString,
}

impl Get {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let key = self.key.as_encoded_bytes();
        // After a crash, the filter must be built again. Do not wait for it.
        let store = existing(&self.store, Filter::Later, session)?;
        let value = store.get(key).with_context(|| self.store.display().to_string())?;
        if session.output.is_json() {
            let report = Report::new().key("key", key);
            session.output.json(&match &value {
                Some(value) => report.key("value", value),
                None => report.nothing("value"),
            })?;
        } else if let Some(value) = &value {
            session.output.bytes(value)?;
        }
        // Print the answer before closing, which may wait a long time for a filter that is being
        // built.
        session.output.flush()?;
        close(store, &self.store, session)?;
        Ok(Answer::of(value.is_some()))
    }
}
