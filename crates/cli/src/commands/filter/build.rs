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
    AdaptiveQuotientFilter, BuildError, Builder, Keyed, KeyedHasher, Parameters, Secret,
};

const HELP: &str = "\
Examples:
  twiceshy filter build blocked.txt -o blocked.filter
  zcat logs/*.gz | cut -d' ' -f1 | twiceshy filter build --rate 0.0001 -o seen.filter
  twiceshy filter build tuesday.txt --like monday.filter -o tuesday.filter   # can be merged

The secret:
  Keys are hashed with a secret, so that nobody can look for false positives beforehand. It is
  saved in the filter, which only its owner may read then: who has it can test keys, and so
  list likely ones, at home. To hand out a filter that tells nothing of its keys, give
  --secret-file: the secret is read from that file, or written to it if there is none, and the
  filter is of no use without it.

A key that comes twice counts once. Takes 16 to 32 bytes of memory for each line.";

#[derive(Args)]
#[command(after_long_help = HELP, after_help = "\
Try `twiceshy filter build --help` for examples.")]
pub(crate) struct Build {
    /// Files of keys, one a line
    #[arg(default_value = "-", value_name = "KEYS")]
    keys: Vec<PathBuf>,
    /// Where to write the filter; a file that is there is replaced
    #[arg(short, long, value_name = "FILTER")]
    output: PathBuf,
    /// How often an absent key may be answered "maybe": 0.001 if nothing is said
    #[arg(long, conflicts_with = "like", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Room for so many keys, if there are less now
    #[arg(long, value_name = "KEYS", conflicts_with = "like", allow_negative_numbers = true)]
    capacity: Option<usize>,
    /// Take secret and size from this filter, so that both can be merged
    #[arg(long, value_name = "FILTER")]
    like: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretArgs,
    /// Take lines as they are, not only UTF-8
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
            (Size::Like { secret, .. }, _) | (_, Planned::There(secret)) => secret.clone(),
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

        let statistics = filter.filter().statistics();
        let report = Report::new()
            .count("lines", members.keys)
            .count("members", statistics.members as u64)
            .bytes("bytes of memory", statistics.bytes)
            .share("false-positive rate", statistics.expected_rate);
        target.report(&report, &mut session.output)?;
        Ok(Answer::Yes)
    }

    /// Refuses what is impossible before anything is read.
    fn size(&self) -> Result<Size> {
        if let Some(like) = &self.like {
            let filter = load(like, &self.secret)?;
            let (parameters, secret) = (filter.filter().parameters(), filter.secret().clone());
            return Ok(Size::Like { parameters, secret });
        }
        let builder = AdaptiveQuotientFilter::builder().capacity(self.capacity.unwrap_or(1));
        let builder = match self.rate {
            Some(rate) => builder.false_positive_rate(rate),
            None => builder,
        };
        builder.plan()?;
        Ok(Size::Planned(builder))
    }
}

/// How large the filter will be.
enum Size {
    /// As planned, or larger, if there are more keys.
    Planned(Builder),
    /// As large as another, or twice, four times… as large: such filters can be merged.
    Like { parameters: Parameters, secret: Secret },
}

impl Size {
    fn build(&self, members: &Members) -> Result<AdaptiveQuotientFilter> {
        match self {
            Self::Planned(builder) => {
                let capacity = builder.plan()?.capacity.max(members.len());
                let builder = builder.clone().capacity(capacity);
                Ok(builder.build_sorted(|| members.iter(), std::iter::empty)?)
            }
            Self::Like { parameters, .. } => {
                // Each doubling has taken a bit from the remainders, and left the slots as wide.
                let bits = parameters.slot_bits;
                let mut slots = parameters.slots >> (bits - parameters.remainder_bits);
                loop {
                    let built = exactly(slots, bits, members);
                    let is_crowded = match &built {
                        Ok(filter) => filter.load() > MOST_LOAD,
                        Err(error) => matches!(error, BuildError::Full { .. }),
                    };
                    if !is_crowded {
                        return Ok(built?);
                    }
                    slots = slots.checked_mul(2).context("there can't be so many slots")?;
                }
            }
        }
    }
}

/// The load up to which a filter is as fast as it was planned.
const MOST_LOAD: f64 = 0.95;

fn exactly(
    slots: u64,
    remainder_bits: u32,
    members: &Members,
) -> Result<AdaptiveQuotientFilter, BuildError> {
    let builder = AdaptiveQuotientFilter::builder().slots(slots).remainder_bits(remainder_bits);
    builder.build_sorted(|| members.iter(), std::iter::empty)
}
