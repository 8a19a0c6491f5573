//! Runs the torture tests on a `Guard`. Its database is a backend with an index of hashes.

use super::{
    Answered, Cause, Failure, Opened, Style, Target, absent_keys, key_bytes, read_key, read_value,
    value_bytes,
};
use crate::faulty::is_not_done;
use crate::model::Answer;
use crate::script::{Key, Op};
use std::ops::Bound::{Included, Unbounded};
use std::ops::RangeInclusive;
use twiceshy::{Hash, MemberSource};
use twiceshy_store::backend::BackendError;
use twiceshy_store::{
    Backend, Batch, Bytes, Durability, Guard, GuardError, Guarded, Keyspace, OpenOptions, Stats,
    WriteError,
};

/// A database that holds pairs in key order, and keys in hash order.
struct Database<B>(B);

const PAIRS: Keyspace = Keyspace::Keys;
const INDEX: Keyspace = Keyspace::Members;

fn index_key(hash: Hash, key: &[u8]) -> Vec<u8> {
    [&hash.as_u128().to_be_bytes()[..], key].concat()
}

impl<B: Backend> MemberSource for Database<B> {
    type Member = Vec<u8>;
    type Error = BackendError;

    fn members(&self, hashes: RangeInclusive<Hash>) -> Result<Vec<Vec<u8>>, BackendError> {
        let first = index_key(*hashes.start(), b"");
        let last = index_key(*hashes.end(), &[u8::MAX; 4]);
        let rows = self.0.range(INDEX, (Included(&first), Included(&last)));
        rows.map(|row| Ok(row?.0[16..].to_vec())).collect()
    }
}

impl<B: Backend> Guarded for Database<B> {
    type Key = [u8];
    type Value = Bytes;

    fn look_up(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.0.get(PAIRS, key)
    }
}

impl<B: Backend> Database<B> {
    /// Writes a batch. If that fails, the error says whether the write may still happen.
    fn write(&self, batch: &Batch, durability: Durability) -> Result<(), WriteError<BackendError>> {
        self.0.write(batch, durability).map_err(|error| {
            if is_not_done(&error) {
                WriteError::NotWritten(error)
            } else {
                WriteError::Unknown(error)
            }
        })
    }
}

struct Guarding<B: Backend> {
    guard: Guard<Database<B>>,
    durability: Durability,
}

pub(super) fn build<B: Backend>(backend: B, style: &Style) -> Opened {
    let options = OpenOptions::new()
        .capacity(super::CAPACITY)
        .false_positive_rate(style.rate)
        .shards(style.shards)
        .mistakes_kept(style.mistakes_kept)
        .max_doubts(style.max_doubts)
        .secret(style.secret.clone());
    let guard = if style.waits {
        options.open_guard(Database(backend))?
    } else {
        options.open_guard_unready(Database(backend))?
    };
    Ok(Box::new(Guarding { guard, durability: style.durability }))
}

impl From<GuardError<BackendError>> for Failure {
    fn from(error: GuardError<BackendError>) -> Self {
        let cause = match error {
            GuardError::InDoubt(_) => Cause::Backend,
            GuardError::NoSecret | GuardError::ForeignHash | GuardError::Invalid(_) => {
                Cause::Broken
            }
            _ => Cause::Refusal,
        };
        Self { cause, text: super::full_text(&error) }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self { cause: Cause::Backend, text: super::full_text(&error) }
    }
}

impl<B: Backend> Guarding<B> {
    fn put(&self, keys: &[Key], value: u8) -> Result<(), Failure> {
        let keys: Vec<[u8; 3]> = keys.iter().map(|&key| key_bytes(key)).collect();
        let mut batch = Batch::new();
        for key in &keys {
            batch.insert(PAIRS, key, value_bytes(value));
            batch.insert(INDEX, index_key(self.guard.hash(key), key), b"");
        }
        let write = |database: &Database<B>| database.write(&batch, self.durability);
        if let [key] = &keys[..] {
            return Ok(self.guard.insert(key, write)?);
        }
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        Ok(self.guard.insert_many(&keys, write)?)
    }
}

impl<B: Backend> Target for Guarding<B> {
    fn run(&mut self, op: &Op) -> Answered {
        let guard = &self.guard;
        Ok(match op {
            Op::Get(key) => {
                let value = guard.get(&key_bytes(*key))?;
                Answer::Value(value.map(|bytes| read_value(&bytes)).transpose()?)
            }
            Op::Put(key, value) => self.put(&[*key], *value).map(|()| Answer::Nothing)?,
            Op::PutMany(keys, value) => self.put(keys, *value).map(|()| Answer::Nothing)?,
            Op::Delete(key, _) => {
                let key = key_bytes(*key);
                let mut batch = Batch::new();
                batch.remove(PAIRS, key);
                batch.remove(INDEX, index_key(guard.hash(&key), &key));
                let write = |database: &Database<B>| database.write(&batch, self.durability);
                Answer::Flag(guard.remove(&key, write)?)
            }
            // A guard has no iteration, so this reads the database.
            Op::Iter => {
                let pairs = guard.database().0.range(PAIRS, (Unbounded, Unbounded));
                let pairs = pairs.map(|pair| {
                    let (key, value) = pair?;
                    Ok((read_key(&key), read_value(&value)?))
                });
                Answer::Pairs(pairs.collect::<Result<_, Failure>>()?)
            }
            Op::Settle(key) => Answer::Flag(guard.settle(&key_bytes(*key))?),
            Op::SettleAll => guard.settle_all().map(|()| Answer::Nothing)?,
            Op::Stats => {
                let stats = guard.stats();
                let doubts = guard.doubts().iter().map(|key| read_key(key)).collect();
                Answer::Doubts(doubts, stats.doubts, stats.shards_ready == stats.shards)
            }
            Op::Flood => {
                let found = absent_keys().map(|key| Ok(guard.get(&key)?.is_some()));
                Answer::Flags(found.collect::<Result<_, Failure>>()?)
            }
            Op::Tend(_) => guard.tend().map(|_| Answer::Nothing)?,
            Op::Rebuild => guard.rebuild().map(|()| Answer::Nothing)?,
            Op::Validate => guard.validate().map(|()| Answer::Nothing)?,
            op => unreachable!("{op:?}"),
        })
    }

    fn stats(&self) -> Stats {
        self.guard.stats()
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self.guard.into_database());
        Ok(())
    }
}
