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
use std::path::{Path, PathBuf};
use twiceshy::{
    BuildError, Hash, Keyed, KeyedHasher, KeyedSnapshot, Matching, MatchingFilter, Secret,
    SecretMode, YesNoFilter,
};

const HELP: &str = "\
Examples:
  twiceshy list build --yes blocked.txt --no popular.txt -o blocked.list
  twiceshy list build --yes hosts.txt --no origins.txt.gz --match host --prefer yes -o hosts.list
  twiceshy list build --yes tuesday.txt --no popular.txt --like monday.list -o tuesday.list
  twiceshy list build --from blocked.lists -o blocked.list    # see `twiceshy list add`

Matching:
  line  A key is a line as it is.
  host  A line is a host, or a URL, of which only the host counts: what is before `://`, what is
        before `@`, a port, a path, what follows `#`, brackets, a `*.` in front and a dot at the end
        are left out. Letters become lower case, internationalised names become their ASCII form
        (`bücher.com` becomes `xn--bcher-kva.com`), and addresses their usual notation. Names that
        have no such form are kept as they are. Lines without a host, such as empty lines and those
        that begin with `#` or `/`, are skipped. A host on the yes list is answered yes, and so are
        all hosts below it: `example.com` stands for `www.example.com`, but not for
        `badexample.com`. Addresses, and names of more than 253 bytes, stand only for themselves.
  url   As host, but the path counts, too, with what follows `?`; what follows `#` doesn't, nor do
        slashes at the end. `.` and `..` are resolved, and characters are percent-encoded as in
        browsers. `example.com/a` stands for itself, for `example.com/a/b` and `example.com/a?b`,
        and for the same below `www.example.com`, but not for `example.com/ab`. A key with more than
        15 slashes stands only for itself.
  Where several keys stand for what is asked, each is asked for, and one that is wrongly answered
  yes is enough: so --rate is for each of them. A key of the no list is answered no only if nothing
  that stands for it is on the yes list.

Updates:
  --like takes secret, rate and shape of another list, as far as they still do; then `twiceshy list
  diff` is small. --room leaves room for lists that grow.

The secret that keys are hashed with is in the list. Who has it can test any key, and look for
keys that are wrongly answered yes. Takes 48 bytes of memory for each key.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy list build --help` for examples, and for how keys are matched.")]
pub(crate) struct Build {
    /// A file of keys to be answered yes, one a line; may be given several times
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    yes: Vec<PathBuf>,
    /// A file of keys to be answered no, one a line; may be given several times
    #[arg(long, value_name = "FILE")]
    no: Vec<PathBuf>,
    /// A directory with both lists, instead of files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["yes", "no", "matching", "prefer"])]
    from: Option<PathBuf>,
    /// Where to write the list; a file that is there is replaced
    #[arg(short, long, value_name = "LIST")]
    output: PathBuf,
    /// How often a key that is on neither list may be answered yes: 0.001 if nothing is said
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// How keys are matched; as lines, if nothing is said
    #[arg(long = "match", value_name = "HOW", conflicts_with = "like", value_parser = matching())]
    matching: Option<Matching>,
    /// What to answer of keys that are on both lists, which is an error otherwise
    #[arg(long, value_name = "ANSWER")]
    prefer: Option<Prefer>,
    /// A list to be like, so that the difference is small
    #[arg(long, value_name = "LIST")]
    like: Option<PathBuf>,
    /// Room for lists to grow by this share
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    room: f64,
    /// Take lines as they are, not only UTF-8
    #[arg(long)]
    bytes: bool,
}

/// Reads how keys are matched.
fn matching() -> impl TypedValueParser<Value = Matching> {
    let value =
        |matching: Matching, help: &'static str| PossibleValue::new(matching.name()).help(help);
    let values = PossibleValuesParser::new([
        value(Matching::Line, "A key is a line as it is"),
        value(Matching::Host, "A key is a host, and stands for all hosts below it"),
        value(Matching::Url, "A key is a host and a path, and stands for all below either"),
    ]);
    values.try_map(|name| name.parse())
}

/// Makes a line of the yes list one key.
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

/// Makes a line of the no list all keys that would match it.
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
    /// Take them off the no list
    Yes,
    /// Take them off the yes list
    No,
}

/// The rate, if nothing is said.
const RATE: f64 = 0.001;

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
        let builder = YesNoFilter::builder().room(self.room).label(matching.label());
        let builder = match (self.rate, &like) {
            (None, Some(_)) => builder,
            (rate, _) => builder.false_positive_rate(rate.unwrap_or(RATE)),
        };
        let builder = match &like {
            Some(list) => builder.like(list.keyed().filter()),
            None => builder,
        };
        // What is impossible is refused before anything is read.
        builder.clone().build(&[], &[])?;
        let secret = like.as_ref().map(|list| list.keyed().secret().clone());
        let (mut lists, secret) = if let Some(directory) = &self.from {
            Lists::kept(directory, secret.as_ref())?
        } else {
            let secret = secret.map_or_else(Secret::generate, Ok)?;
            (self.read(matching, &KeyedHasher::new(&secret), session)?, secret)
        };
        let progress = session.progress("building", Total::Unknown);
        let on_both = self.prefer.map(|prefer| lists.tell_apart(prefer));
        let built = builder.build(&lists.yes, &lists.no);
        drop(progress);
        let filter: Keyed<[u8], YesNoFilter> = match built {
            Err(BuildError::OnBothLists { hash, .. }) => {
                let hasher = KeyedHasher::new(&secret);
                return Err(self.on_both(hash, matching, &hasher, session)?);
            }
            built => Keyed::new(built?, secret),
        };
        let held = target.hold();
        filter.save(target.path(), SecretMode::Include)?;
        drop(held);

        let filter = filter.filter();
        let mut report =
            Report::new().count("yes-keys", filter.yes_keys()).count("no-keys", filter.no_keys());
        if let Some(on_both) = on_both {
            report = report.count("on both lists", on_both);
        }
        let report = report
            .bytes("bytes of memory", filter.memory_usage())
            .share("false-positive rate", filter.false_positive_rate());
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }

    fn read(&self, matching: Matching, hasher: &KeyedHasher, session: &Session) -> Result<Lists> {
        let encoding = Encoding::from_option(self.bytes);
        let yes = Members::read(&self.yes, encoding, Listed(matching), hasher, session)?;
        let no = Members::read(&self.no, encoding, Asked(matching), hasher, session)?;
        Ok(Lists { yes: yes.iter().collect(), no: no.iter().collect() })
    }

    /// Names a key that is on both lists, by reading them again.
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
            "{yes} and {no}: the key is on both lists; take it off one, or say which with --prefer"
        ))
    }

    /// The first line that has a key of this hash, and where it is.
    fn find(
        &self,
        paths: &[PathBuf],
        keys: impl KeysOfLine,
        hash: Hash,
        hasher: &KeyedHasher,
        session: &Session,
    ) -> Result<String> {
        // What is no file can't be read again.
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
        Ok("a line that can't be read again".into())
    }
}

/// The hashes of both lists, in order.
struct Lists {
    yes: Vec<Hash>,
    no: Vec<Hash>,
}

impl Lists {
    /// Those that are kept in a directory, and the secret that they are hashed with, which must be
    /// this one, if one is expected.
    fn kept(directory: &Path, expected: Option<&Secret>) -> Result<(Self, Secret)> {
        let lists = existing(directory)?;
        let export = lists.export().with_context(|| directory.display().to_string())?;
        closed(directory, lists.close())?;
        if expected.is_some_and(|expected| expected.expose() != export.secret.expose()) {
            bail!(
                "the list to be like has another secret than {}; build it from there",
                directory.display()
            );
        }
        let lists = Self { yes: export.yes.iter().collect(), no: export.no.iter().collect() };
        Ok((lists, export.secret))
    }

    /// Takes keys that are on both off one; how many.
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
