//! `twiceshy filter build`.

use super::file::{LineFilter, load, save};
use super::secret::{Planned, SecretArgs};
use crate::commands::members::{Members, WholeLine};
use crate::exit::Answer;
use crate::input::{Encoding, is_stdin};
use crate::output::{Report, Target};
use crate::progress::Total;
use crate::session::Session;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use twiceshy::{
    Keyed, QuotientFilter, Secret, builder::Builder, error::BuildError, hash::KeyedHasher,
    quotient::Parameters,
};

const HELP: &str = "\
Examples:
  twiceshy filter build blocked.txt -o blocked.filter
  zcat logs/*.gz | cut -d' ' -f1 | twiceshy filter build --rate 0.0001 -o seen.filter
  twiceshy filter build tuesday.txt --like monday.filter -o tuesday.filter   # for `merge`

The secret:
  Keys are hashed with a random secret, so that nobody can compute false positives in advance. By
  default, the secret is saved in the filter. The filter file is then readable only by its owner,
  because anyone who has it can test which keys are in the filter. To publish a filter that reveals
  only how many keys it has, use --secret-file. The secret is then read from that file, or written
  to it if the file does not exist. Checking keys then needs both files.

A key that occurs several times counts once. Building takes 16 to 32 bytes of memory per line.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy filter build --help` for examples.")]
pub(crate) struct Build {
    /// Files of keys, one per line
    #[arg(default_value = "-", value_name = "KEYS")]
    keys: Vec<PathBuf>,
    /// Where to write the filter; an existing file is replaced
    #[arg(short, long, value_name = "FILTER")]
    output: PathBuf,
    /// False-positive rate: the share of absent keys that get the answer "maybe" [default: 0.001]
    #[arg(long, conflicts_with = "like", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Size the filter for at least KEYS keys
    #[arg(long, value_name = "KEYS", conflicts_with = "like", allow_negative_numbers = true)]
    capacity: Option<usize>,
    /// Use the same secret and size as this filter, so that the two filters can be merged
    #[arg(long, value_name = "FILTER")]
    like: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretArgs,
    /// Accept lines that are not UTF-8
    #[arg(long)]
    bytes: bool,
}

impl Build {
    pub(crate) fn run(&self, session: &mut Session) -> Result<Answer> {
        let size = self.size()?;
        let target = Target::new(&self.output)?;
        let mut files = self.keys.iter().filter(|path| !is_stdin(path));
        files.try_for_each(|path| target.keep_off(path, "an input"))?;
        self.secret.keep_off(&target)?;
        let planned = match &size {
            Size::Like { .. } => Planned::InFilter,
            Size::Planned(_) => self.secret.read_or_plan()?,
        };
        let secret = match (&size, &planned) {
            (Size::Like { secret, .. }, _) | (_, Planned::Existing(secret)) => secret.clone(),
            _ => Secret::generate()?,
        };
        let hasher = KeyedHasher::new(&secret);
        let encoding = Encoding::from_option(self.bytes);
        let members = Members::read(&self.keys, encoding, WholeLine, &hasher, session)?;

        let progress = session.progress("building", Total::Unknown);
        let filter: LineFilter = Keyed::new(size.build(&members)?, secret);
        let with_secret = !self.secret.is_apart();
        let held = target.hold();
        planned.keep(filter.secret(), || save(&filter, &target, with_secret))?;
        drop(held);
        drop(progress);

        let statistics = filter.filter().stats();
        let report = Report::new()
            .count("lines", members.keys)
            .count("members", statistics.members as u64)
            .bytes("bytes of memory", statistics.memory)
            .share("false-positive rate", statistics.expected_rate);
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }

    /// Returns the size that the options ask for. Checks the options before anything is read.
    fn size(&self) -> Result<Size> {
        if let Some(like) = &self.like {
            let filter = load(like, &self.secret)?;
            let (parameters, secret) = (filter.filter().parameters(), filter.secret().clone());
            return Ok(Size::Like { parameters, secret });
        }
        let builder = QuotientFilter::builder().capacity(self.capacity.unwrap_or(1));
        let builder = match self.rate {
            Some(rate) => builder.false_positive_rate(rate),
            None => builder,
        };
        builder.plan()?;
        Ok(Size::Planned(builder))
    }
}

/// The size of the filter.
enum Size {
    /// The planned size, or a larger one if there are more keys.
    Planned(Builder<QuotientFilter>),
    /// The size of another filter times a power of two, so that the two filters can be merged.
    Like { parameters: Parameters, secret: Secret },
}

impl Size {
    fn build(&self, members: &Members) -> Result<QuotientFilter> {
        match self {
            Self::Planned(builder) => {
                let capacity = builder.plan()?.capacity.max(members.len());
                let builder = builder.clone().capacity(capacity);
                Ok(builder.build_sorted(|| members.iter(), std::iter::empty)?)
            }
            Self::Like { parameters, .. } => {
                // Start with the size before any doubling. Each doubling took a bit of each
                // remainder, but kept the width of the slots.
                let bits = parameters.slot_bits;
                let mut slots = parameters.slots >> (bits - parameters.remainder_bits);
                loop {
                    let built = exactly(slots, bits, members);
                    let is_crowded = match &built {
                        Ok(filter) => filter.stats().load > MOST_LOAD,
                        Err(error) => matches!(error, BuildError::Full { .. }),
                    };
                    if !is_crowded {
                        return Ok(built?);
                    }
                    slots = slots.checked_mul(2).context("too many keys for a filter")?;
                }
            }
        }
    }
}

/// The load up to which a filter keeps its planned speed.
const MOST_LOAD: f64 = 0.95;

fn exactly(
    slots: u64,
    remainder_bits: u32,
    members: &Members,
) -> Result<QuotientFilter, BuildError> {
    let builder = QuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.build_sorted(|| members.iter(), std::iter::empty)
}
