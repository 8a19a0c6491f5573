//! Runs the torture tests on a `ListStore`.

use super::{Answered, Failure, Style, Target, key_bytes, read_key, run_upkeep};
use crate::model::Answer;
use crate::script::{KEYS, Key, NO, Op, Value, YES};
use twiceshy::{Hash, hash::KeyedHasher, members::OrderedHashes};
use twiceshy_store::{Backend, List, ListStore, Stats, StoreError};

struct Lists<B: Backend> {
    store: ListStore<B>,
    style: Style,
}

pub(super) fn opened<B: Backend>(store: ListStore<B>, style: &Style) -> Box<dyn Target> {
    Box::new(Lists { store, style: style.clone() })
}

impl<B: Backend> Target for Lists<B> {
    fn run(&mut self, op: &Op) -> Answered {
        let store = &self.store;
        Ok(match op {
            Op::Contains(key) => Answer::Flag(store.contains(&key_bytes(*key))),
            Op::GetMany(keys) => {
                let keys: Vec<_> = keys.iter().map(|&key| key_bytes(key)).collect();
                let mut answers = Vec::new();
                store.contains_many(&keys, &mut answers);
                Answer::Flags(answers)
            }
            Op::ListOf(key) => Answer::Value(store.list_of(&key_bytes(*key))?.map(value)),
            Op::Put(key, NO) => added(store.add_no(&key_bytes(*key)).map(u64::from))?,
            Op::Put(key, _) => added(store.add_yes(&key_bytes(*key)).map(u64::from))?,
            Op::PutMany(keys, value) => {
                added(store.add_many(list(*value), keys.iter().map(|&key| key_bytes(key))))?
            }
            Op::Delete(key, NO) => Answer::Flag(store.remove_no(&key_bytes(*key))?),
            Op::Delete(key, _) => Answer::Flag(store.remove_yes(&key_bytes(*key))?),
            Op::Entries(value) => {
                let entries = store.entries(list(*value));
                let keys = entries.map(|entry| Ok((read_key(&entry?.1), *value)));
                Answer::Pairs(keys.collect::<Result<_, StoreError>>()?)
            }
            Op::Export => {
                let export = store.export()?;
                let hasher = KeyedHasher::new(&export.secret);
                let keys = |hashes: &OrderedHashes, value| -> Vec<(Key, Value)> {
                    hashes.iter().map(|hash| (key_of(hash, &hasher), value)).collect()
                };
                Answer::Pairs([keys(&export.yes, YES), keys(&export.no, NO)].concat())
            }
            Op::Stats => {
                let _ = store.stats();
                Answer::Lengths(store.len(List::Yes), store.len(List::No))
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

fn list(value: Value) -> List {
    if value == NO { List::No } else { List::Yes }
}

fn value(list: List) -> Value {
    match list {
        List::Yes => YES,
        List::No => NO,
    }
}

fn key_of(hash: Hash, hasher: &KeyedHasher) -> Key {
    (0..KEYS).find(|&key| hasher.hash_bytes(&key_bytes(key)) == hash).unwrap_or(Key::MAX)
}

fn added(count: Result<u64, StoreError>) -> Answered {
    match count {
        Ok(count) => Ok(Answer::Count(count)),
        Err(StoreError::OnOtherList { .. }) => Ok(Answer::Refused),
        Err(error) => Err(error.into()),
    }
}
