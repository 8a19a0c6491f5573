//! `twiceshy store stats`.

use super::open::{Filter, close, existing};
use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  twiceshy store stats users.store
  twiceshy store stats users.store --json | jq .members

Mistakes are the absent keys that the filter once took for members, and remembers not to.")]
pub(crate) struct Stats {
    /// The directory of the store
    store: PathBuf,
}

impl Stats {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = existing(&self.store, Filter::Ready, session)?;
        let stats = store.stats();
        let is_ordered = store.prefix(b"").is_ok();
        close(store, &self.store, session)?;
        let on_disk =
            bytes_on_disk(&self.store).with_context(|| self.store.display().to_string())?;
        let report = Report::new()
            .count("members", stats.members)
            .count("mistakes", stats.mistakes)
            .word("layout", if is_ordered { "split" } else { "merged" })
            .bytes("bytes on disk", on_disk)
            .bytes("bytes of filter", stats.filter_bytes)
            .bits("bits per member", stats.bits_per_key())
            .share("load", stats.load)
            .count("shards", stats.shards as u64);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}

/// What the files in a directory take.
fn bytes_on_disk(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // The engine removes files when it likes.
        match entry.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(metadata) if metadata.is_dir() => bytes += bytes_on_disk(&entry.path())?,
            metadata => bytes += occupied(&metadata?),
        }
    }
    Ok(bytes)
}

/// Journals are longer than what is written of them, and the rest takes no room.
fn occupied(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(metadata) * 512;
    #[cfg(not(unix))]
    metadata.len()
}
