//! `twiceshy store put`.

use super::open::in_new_or_existing;
use crate::exit::Answer;
use crate::input::is_stdin;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use twiceshy_store::OpenOptions;

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store put users.store alice 'likes cheese'
  twiceshy store put users.store alice --from alice.bin
  date | twiceshy store put users.store today --from -

If the store does not exist, it is created. `twiceshy store import` is much faster for many pairs.")]
pub(crate) struct Put {
    /// The directory of the store
    store: PathBuf,
    /// The key
    key: OsString,
    /// The value
    #[arg(required_unless_present = "from")]
    value: Option<OsString>,
    /// Read the value from this file
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    from: Option<PathBuf>,
}

impl Put {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let (key, value) = (self.key.as_encoded_bytes(), self.value()?);
        in_new_or_existing(&self.store, &OpenOptions::new(), session, |store, _| {
            store.put(key, &value).with_context(|| self.store.display().to_string())
        })?;
        let report = Report::new().key("key", key).count("bytes", value.len() as u64);
        session.output.report_if_json(&report)?;
        Ok(Answer::Yes)
    }

    fn value(&self) -> Result<Vec<u8>> {
        match (&self.from, &self.value) {
            (Some(path), _) if is_stdin(path) => {
                let mut value = Vec::new();
                std::io::stdin().read_to_end(&mut value).context("standard input")?;
                Ok(value)
            }
            (Some(path), _) => std::fs::read(path).with_context(|| path.display().to_string()),
            (None, value) => Ok(value.clone().unwrap_or_default().into_encoded_bytes()),
        }
    }
}
