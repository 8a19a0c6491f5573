//! `twiceshy store rebuild`.

use super::open::{close, rebuilt};
use super::shape::ShapeArgs;
use crate::exit::Answer;
use crate::output::Report;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

const HELP: &str = "\
Examples:
  twiceshy store rebuild users.store
  twiceshy store rebuild users.store --rate 0.0001 --capacity 5000000

Reads all keys, and builds a filter for the requested size and rate. This also removes ghosts: members of
the filter that are not in the store. Mistakes that the store remembers stay repaired. If it remembers
more than one per 4 keys, it may forget some of them. A store that grew or shrank needs no rebuild: its
filter keeps its rate automatically. If the command is interrupted, nothing is lost, and the next command
builds the filter.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy store rebuild --help` for examples.")]
pub(crate) struct Rebuild {
    /// The directory of the store
    store: PathBuf,
    #[command(flatten)]
    shape: ShapeArgs,
}

impl Rebuild {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let store = rebuilt(&self.store, &self.shape.options()?, session)?;
        let stats = store.stats();
        close(store, &self.store, session)?;
        let report = Report::new()
            .count("members", stats.members)
            .count("mistakes", stats.mistakes)
            .bytes("bytes of filter", stats.filter_bytes)
            .bits("bits per member", stats.bits_per_key())
            .share("load", stats.load);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }
}
