//! Runs the torture tests on a `Store`.

use super::{
    Answered, Failure, Style, Target, absent_keys, key_bytes, read_key, read_value, run_upkeep,
    value_bytes,
};
use crate::model::Answer;
use crate::plan::StoreKind;
use crate::script::{KEYS, Key, Op, Value};
use std::ops::Bound::Included;
use std::path::Path;
use twiceshy::{
    Concurrent, QuotientFilter, Snapshot, TelescopingFilter, concurrent::Shard, hash::KeyedHasher,
};
use twiceshy_store::backend::Bytes;
use twiceshy_store::testing::save_filter;
use twiceshy_store::{Backend, Stats, Store, StoreError};

struct Points<B: Backend, F: Shard> {
    store: Store<B, F>,
    style: Style,
}

pub(super) fn opened<B: Backend, F: Shard>(
    mut store: Store<B, F>,
    style: &Style,
) -> Box<dyn Target> {
    if style.waits {
        // Ignore the error, because the store works without its filter, too.
        let _ = store.wait_until_ready();
    }
    Box::new(Points { store, style: style.clone() })
}

impl<B: Backend, F: Shard> Target for Points<B, F> {
    fn run(&mut self, op: &Op) -> Answered {
        let store = &mut self.store;
        let pairs = |keys: &[Key], value: Value| -> Vec<_> {
            keys.iter().map(|&key| (key_bytes(key), value_bytes(value))).collect()
        };
        Ok(match op {
            Op::Ready => store.wait_until_ready().map(|()| Answer::Nothing)?,
            Op::Get(key) => Answer::Value(read(store.get(&key_bytes(*key))?)?),
            Op::GetMany(keys) => {
                let keys: Vec<_> = keys.iter().map(|&key| key_bytes(key)).collect();
                let values = store.get_many(&keys)?.into_iter().map(read);
                Answer::Values(values.collect::<Result<_, _>>()?)
            }
            Op::Contains(key) => Answer::Flag(store.contains(&key_bytes(*key))?),
            Op::Put(key, value) => {
                store.put(&key_bytes(*key), &value_bytes(*value)).map(|()| Answer::Nothing)?
            }
            Op::PutMany(keys, value) => {
                store.put_many(pairs(keys, *value)).map(|()| Answer::Nothing)?
            }
            Op::Import(keys, value) => Answer::Count(store.import(pairs(keys, *value))?),
            Op::Delete(key, _) => Answer::Flag(store.delete(&key_bytes(*key))?),
            Op::Iter => collect(store.iter())?,
            Op::Range(first, last) => {
                let (first, last) = (key_bytes(*first), key_bytes(*last));
                collect(store.range((Included(&first), Included(&last)))?)?
            }
            Op::Prefix(group) => collect(store.prefix(&[b'a' + group])?)?,
            Op::Stats => {
                let _ = (store.stats(), store.layout());
                Answer::Nothing
            }
            // The filter may not be ready yet.
            Op::Validate if matches!(store.validate(), Err(StoreError::Unready)) => Answer::Nothing,
            Op::SaveFilter => {
                let file = self.style.fresh("filter");
                save_filter(store, &file)?;
                Answer::Filter(file)
            }
            Op::Flood => {
                let found = absent_keys().map(|key| store.contains(&key));
                Answer::Flags(found.collect::<Result<_, _>>()?)
            }
            Op::Tend(_) => store.tend().map(|_| Answer::Nothing)?,
            op => run_upkeep!(store, op, self.style),
        })
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.store.close()?)
    }
}

fn read(value: Option<Bytes>) -> Result<Option<Value>, Failure> {
    value.map(|bytes| read_value(&bytes)).transpose()
}

fn collect(
    pairs: impl Iterator<Item = Result<(Bytes, Bytes), StoreError>>,
) -> Result<Answer, Failure> {
    let pairs = pairs.map(|pair| {
        let (key, value) = pair?;
        Ok((read_key(&key), read_value(&value)?))
    });
    Ok(Answer::Pairs(pairs.collect::<Result<_, Failure>>()?))
}

/// Returns the answer of the filter in a file for each key. The filter must be valid.
pub(crate) fn ask_filter(file: &Path, style: &Style) -> Result<Vec<bool>, Failure> {
    let hasher = KeyedHasher::new(&style.secret);
    let hashes = (0..KEYS).map(|key| hasher.hash_bytes(&key_bytes(key)));
    if style.store == StoreKind::Coded {
        let filter = Concurrent::<TelescopingFilter>::open(file).map_err(Failure::broken)?;
        return Ok(hashes.map(|hash| filter.contains(hash)).collect());
    }
    let filter = Concurrent::<QuotientFilter>::open(file).map_err(Failure::broken)?;
    filter.validate().map_err(Failure::broken)?;
    Ok(hashes.map(|hash| filter.contains(hash)).collect())
}
