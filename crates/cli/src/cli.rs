//! What can be typed.

use crate::commands::completions::Completions;
use crate::commands::demo::Demo;
use crate::commands::filter::FilterCommand;
use crate::commands::list::ListCommand;
use crate::commands::store::StoreCommand;
use crate::exit::Answer;
use crate::session::Session;
use anyhow::Result;
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  twiceshy demo
  twiceshy filter build blocked.txt -o blocked.filter
  zcat access.log.gz | cut -d' ' -f1 | twiceshy filter check blocked.filter - --only maybe
  twiceshy list build --yes blocked.txt --no popular.txt -o blocked.list
  twiceshy store import users.store users.tsv.zst
  twiceshy store get users.store alice

Lines:
  Files of lines are plain or compressed by gzip or zstd, which is seen from their first
  bytes; `-` is the standard input. A key is a line without its line ending, also an empty
  one, and must be UTF-8 unless --bytes is given; a byte order mark before the first is skipped.

JSON:
  With --json, each report or answer is one line of JSON. What is no UTF-8 is written as
  {\"hex\": \"…\"}.

Exit codes:
  0    yes: it is done, it is there, all is well
  1    no: a key is absent, a check has found something missing
  2    it could not be done; one line on the standard error says why
  130  it was interrupted by Ctrl-C, SIGTERM or SIGHUP; what was half done is undone, except that
       changes to existing stores and lists stay

A warning on the standard error says that a filter could not be saved, for example on a full disk.
The command was carried out, all data is safe, and the next command builds the filter again.";

const STORE: &str = "\
Examples:
  twiceshy store import users.store users.tsv
  twiceshy store put users.store alice 'likes cheese'
  twiceshy store get users.store alice
  twiceshy store check users.store logins.txt --missing

A store is a directory; `import` and `put` make it. What isn't in it costs no visit to the disk,
and what its filter takes for a member by mistake costs one, once.";

const FILTER: &str = "\
Examples:
  twiceshy filter build blocked.txt -o blocked.filter
  twiceshy filter check blocked.filter requests.txt --only maybe
  twiceshy filter verify blocked.filter --keys blocked.txt

A filter is a file of some 2 bytes a key. It answers \"absent\" for certain, or \"maybe\".";

const LIST: &str = "\
Examples:
  twiceshy list build --yes blocked.txt --no popular.txt -o blocked.list
  twiceshy list check blocked.list requests.txt --only yes
  twiceshy list build --yes tuesday.txt --no popular.txt --like blocked.list -o tuesday.list
  twiceshy list diff blocked.list tuesday.list -o tuesday.delta
  twiceshy list apply blocked.list tuesday.delta -o tuesday.list
  twiceshy list add blocked.lists --yes blocked.txt --no popular.txt

A list is a file of some 10 bits for each key of the yes list. It answers yes for each of them,
no for each key of the no list, and yes for any other key as often as --rate allows. Lists that
change are kept in a directory, from which such files are built.";

/// Filters that never make the same mistake twice, and stores behind them
///
/// A filter answers "absent" for certain, or "maybe". A guarded store asks its filter before
/// the disk; a "maybe" that turns out wrong is repaired, and never goes to the disk again.
#[derive(Parser)]
#[command(name = "twiceshy", version, verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(after_help = "Try `twiceshy --help` for examples and exit codes.")]
// Lines are broken where they are written, whatever the terminal is.
#[command(term_width = 0)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Write JSON, one value a line, instead of text
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Show no progress bars, not even on a terminal
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// See what adapting is worth, in half a minute
    Demo(Demo),
    /// Key-value stores on a disk, each with a filter in front
    #[command(subcommand, after_help = STORE)]
    Store(StoreCommand),
    /// Filters as files, built from keys
    #[command(subcommand, after_help = FILTER)]
    Filter(FilterCommand),
    /// Lists that are never wrong: yes for one list, no for another
    #[command(subcommand, after_help = LIST)]
    List(ListCommand),
    /// Print completions for a shell
    Completions(Completions),
}

impl Command {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        match self {
            Self::Demo(command) => command.run(session),
            Self::Store(command) => command.run(session),
            Self::Filter(command) => command.run(session),
            Self::List(command) => command.run(session),
            Self::Completions(command) => command.run(session),
        }
    }
}
