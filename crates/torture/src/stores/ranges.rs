//! Runs the torture tests on a `RangeStore`.

use super::{Answered, Failure, Style, Target, read_value, run_upkeep, value_bytes};
use crate::model::Answer;
use crate::script::{KEYS, Key, Op};
use twiceshy_store::backend::Bytes;
use twiceshy_store::{Backend, RangeStore, Stats, StoreError};

struct Ranges<B: Backend> {
    store: RangeStore<u64, B>,
    style: Style,
}

/// The number of key 0. The numbers of the other keys follow it.
const BASE: u64 = 1 << 40;

pub(super) fn opened<B: Backend>(store: RangeStore<u64, B>, style: &Style) -> Box<dyn Target> {
    Box::new(Ranges { store, style: style.clone() })
}

impl<B: Backend> Target for Ranges<B> {
    fn run(&mut self, op: &Op) -> Answered {
        let store = &self.store;
        Ok(match op {
            Op::Get(key) => {
                let value = store.get(number(*key))?;
                Answer::Value(value.map(|bytes| read_value(&bytes)).transpose()?)
            }
            Op::Contains(key) => Answer::Flag(store.contains(number(*key))?),
            Op::Put(key, value) => {
                store.put(number(*key), &value_bytes(*value)).map(|()| Answer::Nothing)?
            }
            Op::PutMany(keys, value) => {
                let pairs = keys.iter().map(|&key| (number(key), value_bytes(*value)));
                store.put_many(pairs).map(|()| Answer::Nothing)?
            }
            Op::Delete(key, _) => Answer::Flag(store.delete(number(*key))?),
            Op::Iter => collect(store.iter())?,
            Op::Range(first, last) => collect(store.range(number(*first)..=number(*last))?)?,
            Op::IsEmpty(first, last) => {
                Answer::Flag(store.range_is_empty(number(*first)..=number(*last))?)
            }
            Op::Stats => {
                let _ = (store.stats(), store.longest_range());
                Answer::Nothing
            }
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

fn number(key: Key) -> u64 {
    BASE + u64::from(key)
}

fn collect(
    pairs: impl Iterator<Item = Result<(u64, Bytes), StoreError>>,
) -> Result<Answer, Failure> {
    let pairs = pairs.map(|pair| {
        let (found, value) = pair?;
        let key = (0..KEYS).find(|key| number(*key) == found).unwrap_or(Key::MAX);
        Ok((key, read_value(&value)?))
    });
    Ok(Answer::Pairs(pairs.collect::<Result<_, Failure>>()?))
}
