//! `twiceshy store import`.

use super::form::{Form, FormArgs};
use super::open::{Origin, Store, in_new_or_existing, is_there};
use super::pairs::Pairs;
use super::shape::ShapeArgs;
use crate::exit::Answer;
use crate::input::{Encoding, Lines, check_stdin_once, is_stdin};
use crate::output::Report;
use crate::session::Session;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};
use twiceshy_store::{Layout, OpenOptions};

const HELP: &str = "\
Examples:
  twiceshy store import users.store users.tsv
  zstdcat users.csv.zst | twiceshy store import users.store - --separator ,
  twiceshy store import seen.store urls.txt.gz --keys-only --capacity 50000000
  twiceshy store import new.store exported.tsv --escaped --layout split

A line is a key, a tab, and a value; the value may contain more tabs. With --keys-only, a line is a key,
and its value is empty. If a key occurs several times, its last value wins.

With --escaped, \\\\, \\t, \\n, \\r and \\xNN stand for a backslash, a tab, a line feed, a carriage return and
any other byte, as `twiceshy store export --escaped` writes them.

If the store does not exist, it is created with --capacity, --rate and --layout. If the import then
fails or is interrupted, the new store is removed again. An existing store keeps its layout. To
change its filter, use `twiceshy store rebuild`. If an import into an existing store is interrupted,
the pairs written so far stay.

Files are read twice. The first pass finds bad lines, such as lines without a separator, before
anything is written. Standard input can be read only once. If it has a bad line, and the store
already exists, the pairs before that line are imported.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy store import --help` for examples.")]
pub(crate) struct Import {
    /// The directory of the store
    store: PathBuf,
    /// Files with one pair per line: a key, a separator and a value
    #[arg(default_value = "-", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    shape: ShapeArgs,
    /// How to store pairs [default: merged]
    #[arg(long)]
    layout: Option<LayoutArg>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// In hash order, with one write per put
    Merged,
    /// In key order, with a separate index of hashes
    Split,
}

impl Import {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let options = self.options()?;
        if self.shape.is_given() && is_there(&self.store) {
            let name = self.store.display();
            bail!("{name}: --capacity and --rate are for new stores; use `twiceshy store rebuild`");
        }
        let form = self.form.form()?;
        check_stdin_once(&self.files)?;
        self.files.iter().try_for_each(|file| self.check(file, &form, session))?;
        let (imported, members) =
            in_new_or_existing(&self.store, &options, session, |store, origin| {
                let import = |file: &PathBuf| self.import(file, &form, store, origin, session);
                let imported = self.files.iter().map(import).sum::<Result<u64>>()?;
                Ok((imported, store.stats().members))
            })?;
        let report = Report::new().count("imported", imported).count("members", members);
        session.output.report(&report)?;
        Ok(Answer::Yes)
    }

    fn options(&self) -> Result<OpenOptions> {
        let options = self.shape.options()?;
        Ok(match self.layout {
            Some(LayoutArg::Merged) => options.layout(Layout::Merged),
            Some(LayoutArg::Split) => options.layout(Layout::Split),
            None => options,
        })
    }

    fn lines(&self, file: &Path, session: &Session) -> Result<Lines> {
        Lines::open(file, Encoding::from_option(self.bytes), session)
    }

    /// Checks all lines of a file. Other inputs can be read only once, so only checks that they
    /// exist.
    fn check(&self, file: &Path, form: &Form, session: &Session) -> Result<()> {
        if is_stdin(file) {
            return Ok(());
        }
        let metadata = fs::metadata(file).with_context(|| file.display().to_string())?;
        if metadata.is_file() || metadata.is_dir() {
            form.check(self.lines(file, session)?)?;
        }
        Ok(())
    }

    fn import(
        &self,
        file: &Path,
        form: &Form,
        store: &Store,
        origin: Origin,
        session: &Session,
    ) -> Result<u64> {
        let mut pairs = Pairs::new(self.lines(file, session)?, form);
        let imported =
            store.import(&mut pairs).with_context(|| self.store.display().to_string())?;
        match pairs.error.take() {
            None => Ok(imported),
            Some(error) if origin == Origin::New => Err(error),
            Some(error) => {
                Err(error.context(format!("imported {imported} pairs before this error")))
            }
        }
    }
}
