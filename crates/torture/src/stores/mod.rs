//! One trait for all stores, so that one script and one model drive them all.

mod guard;
mod lists;
mod points;
mod ranges;

use crate::model::Answer;
use crate::plan::StoreKind;
use crate::random::Random;
use crate::script::{GROUP, KEYS, Key, Op, Value};
use std::fmt;
use std::path::{Path, PathBuf};
use twiceshy::{Secret, TelescopingFilter};
use twiceshy_store::{Backend, Durability, Layout, OpenOptions, Store, StoreError};

/// Why an operation failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The backend failed: what was to be written may have been.
    Backend,
    /// The backend panicked, but not in a write. A write before it may have succeeded.
    Unwound,
    /// The store refused, and changed nothing.
    Refusal,
    /// Something is wrong that no fault excuses.
    Broken,
}

impl Failure {
    pub(crate) fn is_backend(&self) -> bool {
        self.cause == Cause::Backend
    }

    fn broken(text: impl fmt::Display) -> Self {
        Self { cause: Cause::Broken, text: text.to_string() }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let cause = match error {
            StoreError::Backend(_) => Cause::Backend,
            StoreError::Invalid(_)
            | StoreError::Format(_)
            | StoreError::Kind(_)
            | StoreError::Layout { .. }
            | StoreError::Secret
            | StoreError::Foreign { .. }
            | StoreError::Missing => Cause::Broken,
            _ => Cause::Refusal,
        };
        Self { cause, text: full_text(&error) }
    }
}

/// An error and its causes.
fn full_text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) use points::ask_filter;

pub(crate) type Answered = Result<Answer, Failure>;

/// Runs an operation that all stores have under the same name.
macro_rules! run_upkeep {
    ($store:expr, $op:expr, $style:expr) => {{
        let store = $store;
        match $op {
            Op::Rebuild => store.rebuild()?,
            Op::Validate => store.validate()?,
            Op::Measure => store.bytes_on_disk().map(drop)?,
            Op::Sync => store.sync()?,
            Op::Flush => store.flush()?,
            Op::Compact => store.compact()?,
            Op::Backup => {
                let copy = $style.fresh("copy");
                store.backup(&copy)?;
                return Ok(Answer::Copy(copy));
            }
            op => unreachable!("{op:?}"),
        }
        Answer::Nothing
    }};
}
use run_upkeep;

/// A store that is open.
pub(crate) trait Target: Send {
    /// Does anything except for opening and closing.
    fn run(&mut self, op: &Op) -> Answered;

    fn close(self: Box<Self>) -> Result<(), Failure>;
}

pub(crate) type Opened = Result<Box<dyn Target>, Failure>;

/// How a store of a script is opened, each time.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) store: StoreKind,
    secret: Secret,
    durability: Durability,
    mistakes_kept: usize,
    /// How many keys a guard remembers as in doubt.
    pub(crate) max_doubts: usize,
    /// Whether opening waits until the filter is built.
    waits: bool,
    /// Whether each opening asks for another filter than the one before.
    varies: bool,
    rate: f64,
    /// Whether a store is created if there is none.
    creates: bool,
    /// For files that operations write.
    scratch: PathBuf,
}

/// So small and so bad a filter that it grows, and makes mistakes all the time.
const CAPACITY: usize = 16;
const RATES: [f64; 2] = [0.2, 0.06];
const SHARDS: usize = 4;

impl Style {
    pub(crate) fn new(store: StoreKind, seed: u64, scratch: &Path) -> Self {
        let mut random = Random::new(!seed);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&random.next().to_be_bytes());
        Self {
            store,
            secret: Secret::from_bytes(secret),
            durability: *random.choose(&[Durability::Buffered, Durability::Synced]),
            mistakes_kept: *random.choose(&[3, 1000]),
            max_doubts: 1000,
            waits: !random.one_in(3),
            varies: random.one_in(3),
            rate: RATES[0],
            creates: true,
            scratch: scratch.to_owned(),
        }
    }

    /// Returns the style of the next opening, after `openings` of them.
    pub(crate) fn opening(&self, openings: usize) -> Self {
        let rate = RATES[if self.varies { openings % RATES.len() } else { 0 }];
        Self { rate, creates: openings == 0, ..self.clone() }
    }

    /// Returns the options of any store. Each store ignores those of the others.
    fn options(&self) -> OpenOptions {
        let split = self.store == StoreKind::Split;
        OpenOptions::new()
            .capacity(CAPACITY)
            .false_positive_rate(self.rate)
            .create(self.creates)
            .shards(SHARDS)
            .layout(if split { Layout::Split } else { Layout::Merged })
            .longest_range(4)
            .secret(self.secret.clone())
            .durability(self.durability)
            .mistakes_kept(self.mistakes_kept)
    }

    /// Opens a store in a backend.
    pub(crate) fn open_with<B: Backend>(&self, backend: B, directory: Option<&Path>) -> Opened {
        match self.store {
            StoreKind::Merged | StoreKind::Split => {
                let store: Store<B> = self.options().open_with(backend, directory)?;
                Ok(points::opened(store, self))
            }
            StoreKind::Coded => {
                let store: Store<B, TelescopingFilter> =
                    self.options().open_with(backend, directory)?;
                Ok(points::opened(store, self))
            }
            StoreKind::Ranges => {
                Ok(ranges::opened(self.options().open_ranges_with(backend, directory)?, self))
            }
            StoreKind::Lists => {
                Ok(lists::opened(self.options().open_lists_with(backend, directory)?, self))
            }
            StoreKind::Guard => guard::build(backend, self),
        }
    }

    /// Opens a store on the default engine, as most programs do.
    pub(crate) fn open_default(&self, directory: &Path) -> Opened {
        Ok(match self.store {
            StoreKind::Merged | StoreKind::Split => {
                points::opened(self.options().open(directory)?, self)
            }
            StoreKind::Ranges => ranges::opened(self.options().open_ranges(directory)?, self),
            StoreKind::Lists => lists::opened(self.options().open_lists(directory)?, self),
            StoreKind::Coded | StoreKind::Guard => unreachable!("not on the default engine"),
        })
    }

    /// A path that nothing is at.
    fn fresh(&self, name: &str) -> PathBuf {
        let mut n = 0;
        loop {
            let path = self.scratch.join(format!("{name}-{n}"));
            if !path.exists() {
                return path;
            }
            n += 1;
        }
    }
}

pub(crate) fn key_bytes(key: Key) -> [u8; 3] {
    [b'a' + key / GROUP, b'-', key]
}

/// The key of such bytes; one that no script has, if they are not a key's.
fn read_key(bytes: &[u8]) -> Key {
    (0..KEYS).find(|key| key_bytes(*key) == bytes).unwrap_or(Key::MAX)
}

/// Of different lengths, some longer than a page.
pub(crate) fn value_bytes(value: Value) -> Vec<u8> {
    let length = if value % 16 == 15 { 5000 } else { usize::from(value % 5) * 37 + 1 };
    vec![value; length]
}

/// The value of such bytes, unless they are torn.
fn read_value(bytes: &[u8]) -> Result<Value, Failure> {
    let value = bytes.first().copied().unwrap_or_default();
    if value_bytes(value) == bytes {
        return Ok(value);
    }
    Err(Failure::broken(format!("a value is torn: {} bytes of {value}", bytes.len())))
}
