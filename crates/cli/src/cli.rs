//! The arguments and help of the command line.

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
  Input files can be plain text, or compressed with gzip or zstd; the format is detected.
  `-` is standard input. A key is a line without its line ending, and may be empty. Lines must
  be UTF-8 unless --bytes is given. A byte order mark at the start is skipped.

JSON:
  With --json, each report or answer is one line of JSON. Bytes that are not UTF-8 are written
  as {\"hex\": \"…\"}.

Exit codes:
  0    success, or the answer is yes
  1    the answer is no: a key is absent, or a check failed
  2    the command failed; one line on standard error says why
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; unfinished work is removed, but changes to existing
       stores and lists stay

If a filter cannot be saved, for example on a full disk, a warning appears on standard error.
The command has succeeded, all data is safe, and the next command builds the filter again.";

const STORE: &str = "\
Examples:
  twiceshy store import users.store users.tsv
  twiceshy store put users.store alice 'likes cheese'
  twiceshy store get users.store alice
  twiceshy store check users.store logins.txt --missing
  twiceshy store export users.store -o users.tsv

A store is a directory; `import` and `put` create it. Looking up an absent key usually reads nothing
from disk. If the filter mistakes an absent key for a member, the lookup reads the disk. The store then
repairs the filter, so that the next lookup of the same key needs no disk read.";

const FILTER: &str = "\
Examples:
  twiceshy filter build blocked.txt -o blocked.filter
  twiceshy filter check blocked.filter requests.txt --only maybe
  twiceshy filter verify blocked.filter --keys blocked.txt

A filter is a file of about 2 bytes per key. It answers \"absent\", which is always right, or \"maybe\",
which can be wrong.";

const LIST: &str = "\
Examples:
  twiceshy list build --yes blocked.txt --no popular.txt -o blocked.list
  twiceshy list check blocked.list requests.txt --only yes
  twiceshy list build --yes tuesday.txt --no popular.txt --like blocked.list -o tuesday.list
  twiceshy list diff blocked.list tuesday.list -o tuesday.delta
  twiceshy list apply blocked.list tuesday.delta -o tuesday.list
  twiceshy list add blocked.lists --yes blocked.txt --no popular.txt

A list is a file. At the default rate, it takes about 12 bits for each key on the yes list. It
answers yes for every key on the yes list, and no for every key on the no list. For a key on neither
list, the probability of a wrong yes is --rate.
To change the lists later, keep them in a directory. `add` creates the directory, and `build --from`
builds a list file from it.";

/// Filter files, block lists, and key-value stores whose filters repair their mistakes
///
/// A filter answers "absent", which is always right, or "maybe", which can be wrong. A store asks
/// its filter before it reads the disk. When a "maybe" turns out to be wrong, the store repairs the
/// filter, so that the next lookup of the same key needs no disk read.
#[derive(Parser)]
#[command(name = "twiceshy", version, verbatim_doc_comment, after_long_help = EXAMPLES)]
#[command(after_help = "Try `twiceshy --help` for examples and exit codes.")]
// Do not wrap help text, because its lines are broken by hand.
#[command(term_width = 0)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON instead of text, one value per line
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Hide progress bars
    #[arg(short, long, global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compare a store that repairs its filter with one that does not (takes 30 seconds)
    Demo(Demo),
    /// Create and query key-value stores that ask a filter before they read the disk
    #[command(subcommand, after_help = STORE)]
    Store(StoreCommand),
    /// Build, check and merge filter files
    #[command(subcommand, after_help = FILTER)]
    Filter(FilterCommand),
    /// Build and check block lists that are always right about the keys they were built from
    #[command(subcommand, after_help = LIST)]
    List(ListCommand),
    /// Print shell completions
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
