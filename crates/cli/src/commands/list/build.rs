//! `twiceshy list build`.

use super::directory::existing;
use crate::commands::closing::closed;
use crate::commands::members::{KeysOfLine, Members};
use crate::exit::Answer;
use crate::input::{Encoding, Lines, check_stdin_once, is_stdin};
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use twiceshy::KeyedSnapshot;
use twiceshy::{
    Hash, Keyed, Matching, MatchingFilter, Secret, SecretMode, YesNoFilter, hash::KeyedHasher,
    list::ListError,
};

const HELP: &str = "\
Examples:
  twiceshy list build --yes blocked.txt --no popular.txt -o blocked.list
  twiceshy list build --yes hosts.txt --no origins.txt.gz --match host --prefer yes -o hosts.list
  twiceshy list build --yes tuesday.txt --no popular.txt --like monday.list -o tuesday.list
  twiceshy list build --from blocked.lists -o blocked.list    # see `twiceshy list add`

Matching:
  line  The whole line is the key.
  host  The key is the host name. A line can be a host or a URL; everything else in a URL is ignored,
        and so are a leading `*.`, brackets and a trailing dot. Names become lower case and ASCII
        (`bücher.com` becomes `xn--bcher-kva.com`), and IP addresses are normalised. Names
        without an ASCII form are not changed. Lines without a host, such as empty lines and lines
        that begin with `#` or `/`, are skipped. A host on the yes list matches itself and all of its
        subdomains: `example.com` matches `www.example.com`, but not `badexample.com`. IP addresses,
        and names of more than 253 bytes, match only themselves.
  url   The key is the host name with the path and the query (`?…`), without the fragment (`#…`) and
        without trailing slashes. `.` and `..` are resolved, and characters are percent-encoded, as
        in browsers. `example.com/a` matches itself, `example.com/a/b`, `example.com/a?b`, and the
        same paths below `www.example.com`, but not `example.com/ab`. A key with more than 15 slashes
        matches only itself.
  For hosts and URLs, a check looks up every key that would match, and answers yes if one of them is
  found. --rate is the false-positive rate of each of these lookups. A yes-list key that matches a
  no-list key, for example as its parent domain, counts as a key on both lists (see --prefer).

Updates:
  --like reuses the secret of an older list. It also reuses the rate, unless --rate is given, and the
  size, if the lists still fit. Then `twiceshy list diff` makes a small delta. --room leaves room for
  lists that grow.

The secret that keys are hashed with is in the list. Anyone who has the list can test any key, and
search for keys that wrongly get the answer yes. Building takes 48 bytes of memory per key.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list build --help` for examples, and for how keys are matched.")]
pub(crate) struct Build {
    /// A file of keys for the yes list, one per line; can be given several times
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    yes: Vec<PathBuf>,
    /// A file of keys for the no list, one per line; can be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// Take the yes list and the no list from this directory, made by `twiceshy list add`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["yes", "no", "matching", "prefer"])]
    from: Option<PathBuf>,
    /// Where to write the list; an existing file is replaced
    #[arg(short, long, value_name = "LIST")]
    output: PathBuf,
    /// False-positive rate for keys on neither list [default: 0.001]
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// How to match keys [default: line]
    #[arg(long = "match", value_name = "HOW", conflicts_with = "like", value_parser = matching())]
    matching: Option<Matching>,
    /// Which answer to give for keys on both lists; without this option, such a key is an error
    #[arg(long, value_name = "ANSWER")]
    prefer: Option<Prefer>,
    /// Use the same secret and size as this older list, so that a delta between the two is small
    #[arg(long, value_name = "LIST")]
    like: Option<PathBuf>,
    /// Leave room for the lists to grow by this share, for example 0.1 for 10 %
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    room: f64,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

/// Parses `--match`.
fn matching() -> impl TypedValueParser<Value = Matching> {
    let value =
        |matching: Matching, help: &'static str| PossibleValue::new(matching.name()).help(help);
    let values = PossibleValuesParser::new([
        value(Matching::Line, "Match whole lines"),
        value(Matching::Host, "Match hosts and their subdomains"),
        value(Matching::Url, "Match a host and path, also with longer paths and on subdomains"),
    ]);
    values.try_map(|name| name.parse())
}

/// Turns a line of the yes list into its key.
#[derive(Clone, Copy)]
struct Listed(Matching);

impl KeysOfLine for Listed {
    #[inline]
    fn each(self, line: &[u8], mut key: impl FnMut(&[u8])) {
        if let Some(listed) = self.0.listed(line) {
            key(&listed);
        }
    }
}

/// Turns a line of the no list into all keys that would match this line.
#[derive(Clone, Copy)]
struct Asked(Matching);

impl KeysOfLine for Asked {
    #[inline]
    fn each(self, line: &[u8], key: impl FnMut(&[u8])) {
        self.0.each_asked(line, key);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prefer {
    /// Answer yes
    Yes,
    /// Answer no
    No,
}

/// The shares that `--room` accepts.
const ROOM: RangeInclusive<f64> = 0.0..=10.0;

impl Build {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let target = Target::new(&self.output)?;
        let inputs: Vec<PathBuf> = self.yes.iter().chain(&self.no).cloned().collect();
        let mut files = inputs.iter().filter(|path| !is_stdin(path));
        files.try_for_each(|path| target.keep_off(path, "an input"))?;
        check_stdin_once(&inputs)?;
        let like = self.like.as_deref().map(MatchingFilter::open).transpose()?;
        let matching = match &like {
            Some(list) => list.matching(),
            None => self.matching.unwrap_or(Matching::Line),
        };
        if !ROOM.contains(&self.room) {
            bail!("--room {} is impossible; choose a share from 0 to 10", self.room);
        }
        let builder = YesNoFilter::builder().label(matching.label());
        let builder = match self.rate {
            None => builder,
            Some(rate) => builder.false_positive_rate(rate),
        };
        let builder = match &like {
            Some(list) => builder.like(list.keyed().filter()),
            None => builder,
        };
        // Check the parameters before reading anything.
        builder.build(&[], &[])?;
        let secret = like.as_ref().map(|list| list.keyed().secret().clone());
        let (mut lists, secret) = if let Some(directory) = &self.from {
            Lists::kept(directory, secret.as_ref())?
        } else {
            let secret = secret.map_or_else(Secret::generate, Ok)?;
            (self.read(matching, &KeyedHasher::new(&secret), session)?, secret)
        };
        let progress = session.progress("building", Total::Unknown);
        let on_both = self.prefer.map(|prefer| lists.tell_apart(prefer));
        let [yes, no] = [&lists.yes, &lists.no]
            .map(|list| (list.len() as f64 * (1.0 + self.room)).ceil() as usize);
        let builder = builder.capacity(yes).no_capacity(no);
        let built = builder.build(&lists.yes, &lists.no);
        drop(progress);
        let filter: Keyed<[u8], YesNoFilter> = match built {
            Err(ListError::OnBothLists { hash, .. }) => {
                let hasher = KeyedHasher::new(&secret);
                return Err(self.on_both(hash, matching, &hasher, session)?);
            }
            built => Keyed::new(built?, secret),
        };
        let held = target.hold();
        filter.save(target.path(), SecretMode::Include)?;
        drop(held);

        let filter = filter.filter();
        let mut report = Report::new()
            .count("yes-keys", filter.len() as u64)
            .count("no-keys", filter.details().no_keys);
        if let Some(on_both) = on_both {
            report = report.count("on both lists", on_both);
        }
        let report = report
            .bytes("bytes of memory", filter.stats().memory)
            .share("false-positive rate", filter.stats().expected_rate);
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }

    fn read(&self, matching: Matching, hasher: &KeyedHasher, session: &Session) -> Result<Lists> {
        let encoding = Encoding::from_option(self.bytes);
        let yes = Members::read(&self.yes, encoding, Listed(matching), hasher, session)?;
        let no = Members::read(&self.no, encoding, Asked(matching), hasher, session)?;
        Ok(Lists { yes: yes.iter().collect(), no: no.iter().collect() })
    }

    /// Returns an error that names a key that is on both lists. Reads both lists again to find the
    /// key.
    fn on_both(
        &self,
        hash: Hash,
        matching: Matching,
        hasher: &KeyedHasher,
        session: &Session,
    ) -> Result<anyhow::Error> {
        let yes = self.find(&self.yes, Listed(matching), hash, hasher, session)?;
        let no = self.find(&self.no, Asked(matching), hash, hasher, session)?;
        Ok(anyhow!(
            "{yes} and {no}: this key is on both lists; remove it from one of them, or use --prefer"
        ))
    }

    /// Returns a description of the first line that has a key with this hash: the file, the line
    /// number and the line.
    fn find(
        &self,
        paths: &[PathBuf],
        keys: impl KeysOfLine,
        hash: Hash,
        hasher: &KeyedHasher,
        session: &Session,
    ) -> Result<String> {
        // Skip pipes, because they cannot be read again.
        for path in paths.iter().filter(|path| path.is_file()) {
            let mut lines = Lines::open(path, Encoding::from_option(self.bytes), session)?;
            while let Some(block) = lines.next_block()? {
                for (number, line) in block.numbered() {
                    let mut is_found = false;
                    keys.each(line, |key| is_found |= hasher.hash_bytes(key) == hash);
                    if is_found {
                        let line = String::from_utf8_lossy(line);
                        let line = line.escape_debug();
                        return Ok(format!("{}: line {number}, \"{line}\"", path.display()));
                    }
                }
            }
        }
        Ok("a line of standard input or a pipe".into())
    }
}

/// The sorted hashes of the yes list and of the no list.
struct Lists {
    yes: Vec<Hash>,
    no: Vec<Hash>,
}

impl Lists {
    /// Reads the lists in a directory, and the secret that their keys are hashed with. Returns an
    /// error if this is not the `expected` secret.
    fn kept(directory: &Path, expected: Option<&Secret>) -> Result<(Self, Secret)> {
        let lists = existing(directory)?;
        let export = lists.export().with_context(|| directory.display().to_string())?;
        closed(directory, lists.close())?;
        if expected.is_some_and(|expected| expected.expose() != export.secret.expose()) {
            bail!(
                "--like: the list was not built from {}, which has a different secret",
                directory.display()
            );
        }
        let lists = Self { yes: export.yes.iter().collect(), no: export.no.iter().collect() };
        Ok((lists, export.secret))
    }

    /// Removes keys that are on both lists from one of the lists. Returns the number of these keys.
    fn tell_apart(&mut self, prefer: Prefer) -> u64 {
        let (kept, cut) = match prefer {
            Prefer::Yes => (&self.yes, &mut self.no),
            Prefer::No => (&self.no, &mut self.yes),
        };
        let before = cut.len();
        cut.retain(|hash| kept.binary_search(hash).is_err());
        (before - cut.len()) as u64
    }
}
