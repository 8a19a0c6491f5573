//! One trait for all stores, so that one script and one model drive them all.

mod guard;
mod lists;
mod points;
mod ranges;

use crate::model::Answer;
use crate::plan::{Engine, StoreKind};
use crate::random::Random;
use crate::script::{GROUP, KEYS, Key, Op, Value};
use std::fmt;
use std::path::{Path, PathBuf};
use twiceshy::{Secret, TelescopingFilter};
use twiceshy_store::{Backend, Durability, Layout, OpenOptions, Stats, Store, StoreError};

/// Why an operation failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The backend failed, and the write may have happened.
    Backend,
    /// The backend panicked, but not in a write. An earlier write of the operation may have
    /// succeeded.
    Unwound,
    /// The store refused, and changed nothing.
    Refusal,
    /// The store broke a promise; no fault excuses it.
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

/// Joins an error and its causes.
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
    /// Runs any operation except opening and closing.
    fn run(&mut self, op: &Op) -> Answered;

    fn stats(&self) -> Stats;

    fn close(self: Box<Self>) -> Result<(), Failure>;
}

pub(crate) type Opened = Result<Box<dyn Target>, Failure>;

/// How the store of a script is opened. This changes with each opening.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) store: StoreKind,
    secret: Secret,
    durability: Durability,
    mistakes_kept: usize,
    /// The maximum number of keys in doubt that a guard remembers.
    pub(crate) max_doubts: usize,
    /// Whether opening waits until the filter is built.
    waits: bool,
    /// Whether each opening asks for a different filter than the previous one.
    varies: bool,
    rate: f64,
    /// The rates that openings ask for in turn, if they differ.
    rates: [f64; 2],
    /// The share of one core that a background thread may use. 0 if there is no thread.
    background_share: f64,
    shards: usize,
    /// Whether a store is created if there is none.
    creates: bool,
    /// The directory for files that operations write.
    scratch: PathBuf,
}

/// Filters are so small that they grow.
const CAPACITY: usize = 16;

/// The numbers of shards, and the rates, of filters. Most filters are so poor that they make mistakes all the
/// time. A single shard has enough members to grow and shrink step by step. With long remainders, each
/// step changes the bytes that the shard takes.
const FILTERS: [(usize, [f64; 2]); 4] =
    [(4, [0.2, 0.06]), (4, [0.2, 0.06]), (1, [0.2, 0.06]), (1, [1e-4, 1e-3])];

impl Style {
    pub(crate) fn new(store: StoreKind, seed: u64, scratch: &Path) -> Self {
        let mut random = Random::new(!seed);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&random.next().to_be_bytes());
        let (shards, rates) = *random.choose(&FILTERS);
        Self {
            store,
            secret: Secret::from_bytes(secret),
            durability: *random.choose(&[
                Durability::Eventual,
                Durability::Buffered,
                Durability::Synced,
            ]),
            mistakes_kept: *random.choose(&[3, 1000]),
            max_doubts: 1000,
            waits: !random.one_in(3),
            varies: random.one_in(3),
            rate: rates[0],
            rates,
            background_share: *random.choose(&[0.0, 1.0]),
            shards,
            creates: true,
            scratch: scratch.to_owned(),
        }
    }

    /// Returns whether all openings ask for the same filter.
    pub(crate) fn keeps_rate(&self) -> bool {
        !self.varies
    }

    /// Returns whether a crash may lose acknowledged writes. Only redb loses eventual writes.
    pub(crate) fn loses_writes(&self, engine: Engine) -> bool {
        engine == Engine::Redb && self.durability == Durability::Eventual
    }

    /// Returns the style of the next opening, given the number of openings so far.
    pub(crate) fn opening(&self, openings: usize) -> Self {
        let rate = self.rates[if self.varies { openings % 2 } else { 0 }];
        Self { rate, creates: openings == 0, ..self.clone() }
    }

    /// Returns the options of any store. Each store ignores the options of others.
    fn options(&self) -> OpenOptions {
        let split = self.store == StoreKind::Split;
        OpenOptions::new()
            .capacity(CAPACITY)
            .false_positive_rate(self.rate)
            .create(self.creates)
            .shards(self.shards)
            .layout(if split { Layout::Split } else { Layout::Merged })
            .longest_range(4)
            .secret(self.secret.clone())
            .durability(self.durability)
            .mistakes_kept(self.mistakes_kept)
            .background_share(self.background_share)
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

    /// Opens a store on the default engine, with the function that most programs use.
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

    /// Returns a path at which nothing exists.
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

/// Returns the bytes of keys that no script writes.
fn absent_keys() -> impl Iterator<Item = [u8; 3]> {
    (KEYS..u8::MAX).map(key_bytes)
}

/// Returns the key with these bytes. If there is none, returns a key that no script uses.
fn read_key(bytes: &[u8]) -> Key {
    (0..KEYS).find(|key| key_bytes(*key) == bytes).unwrap_or(Key::MAX)
}

/// Returns the bytes of a value. Values have different lengths, and some are longer than a page.
pub(crate) fn value_bytes(value: Value) -> Vec<u8> {
    let length = if value % 16 == 15 { 5000 } else { usize::from(value % 5) * 37 + 1 };
    vec![value; length]
}

/// Returns the value of these bytes, or an error if they are torn.
fn read_value(bytes: &[u8]) -> Result<Value, Failure> {
    let value = bytes.first().copied().unwrap_or_default();
    if value_bytes(value) == bytes {
        return Ok(value);
    }
    Err(Failure::broken(format!("a value is torn: {} bytes of {value}", bytes.len())))
}
