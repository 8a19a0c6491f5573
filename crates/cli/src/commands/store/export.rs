//! `twiceshy store export`.

use super::form::{FormArgs, LineWriter};
use super::open::{Filter, Store, close, existing};
use crate::exit::Answer;
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;

const HELP: &str = r#"Examples:
  twiceshy store export users.store -o users.tsv
  twiceshy store export users.store --escaped | zstd > users.tsv.zst
  twiceshy store export seen.store --keys-only | sort > urls.txt
  twiceshy store export users.store --json | jq .value

A line is a key, a tab, and a value. `twiceshy store import` reads such lines with the same --separator,
--keys-only and --escaped. The lines are in key order if the layout is split, and otherwise in hash
order.

Without --escaped, the export fails if a line could not be imported unchanged: for example, if a key
contains the separator, a value contains a line feed, or the pair is not UTF-8. If the export fails or is
interrupted, -o writes no file. Without -o, standard output has the lines before the error.

With --escaped, any pair can be written. A backslash, a tab, a line feed and a carriage return become
\\, \t, \n and \r. Other control characters, line breaks, byte order marks and bytes that are not UTF-8
become \xNN, and so does the separator's first character in keys.

With --json and without -o, a line is {"key": …, "value": …}, which `store import` does not read."#;

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy store export --help` for examples.")]
pub(crate) struct Export {
    /// The directory of the store
    store: PathBuf,
    /// Where to write the lines; replaces an existing file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
}

impl Export {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let form = self.form.form()?;
        let target = self.output.as_deref().map(Target::new).transpose()?;
        if let Some(target) = &target {
            target.keep_out_of(&self.store, "the store")?;
        }
        // After a crash, do not wait until the filter is built again.
        let store = existing(&self.store, Filter::Later, session)?;
        let progress = session.progress("exporting", total(&store));
        let bar = progress.bar();
        let mut draft = target.as_ref().map(Target::begin).transpose()?;
        let (output, mut lines) = (&mut session.output, LineWriter::new(&form));
        let mut exported = 0;
        let name = || self.store.display().to_string();
        for pair in &store {
            let (key, value) = pair.with_context(name)?;
            if draft.is_none() && output.is_json() {
                let report = Report::new().key("key", &key);
                let has_value = !form.is_keys_only();
                output.json(&if has_value { report.key("value", &value) } else { report })?;
            } else {
                let line = lines.line(&key, &value).with_context(name)?;
                match &mut draft {
                    Some(draft) => draft.write(line)?,
                    None => output.bytes(line)?,
                }
            }
            exported += 1;
            bar.inc(1);
        }
        output.flush()?;
        drop(progress);
        close(store, &self.store, session)?;
        if let Some((draft, target)) = draft.zip(target.as_ref()) {
            draft.finish()?;
            target.report(&Report::new().count("exported", exported), &mut session.output)?;
        }
        Ok(Answer::Yes)
    }
}

/// Returns the number of pairs, which is unknown while the filter is being built.
fn total(store: &Store) -> Total {
    let stats = store.stats();
    let is_known = stats.shards_ready == stats.shards;
    if is_known { Total::Items(stats.members) } else { Total::Unknown }
}
