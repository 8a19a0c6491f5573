//! The exact model: all contents that the store may have.
//!
//! Each possible content is a world. Without failed writes, there is one world. A failed write may
//! have happened, so it splits each world into one with the write and one without it. A world
//! contains all of a batch or nothing of it. If acknowledged writes may be lost, opening the store again
//! adds the worlds before them.

use crate::plan::StoreKind;
use crate::script::{GROUP, KEYS, Key, NO, Op, Value, YES};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The contents of a store.
pub(crate) type World = BTreeMap<Key, Value>;

/// The answer of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    Value(Option<Value>),
    Values(Vec<Option<Value>>),
    Flag(bool),
    Flags(Vec<bool>),
    Pairs(Vec<(Key, Value)>),
    /// The number of keys on the yes list and on the no list.
    Lengths(u64, u64),
    Count(u64),
    /// The keys in doubt, their number, and whether all shards of the filter are ready.
    Doubts(Vec<Key>, u64, bool),
    /// The key is on the other list.
    Refused,
    /// A filter was saved in this file.
    Filter(PathBuf),
    /// A copy was made here.
    Copy(PathBuf),
}

/// The result of a check. The error describes a broken promise, such as an answer that no world explains.
pub(crate) type Checked = Result<(), String>;

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Model {
    store: StoreKind,
    worlds: BTreeSet<World>,
    /// Whether the last acknowledged writes may be lost unless the store is synced or closed.
    pub(crate) loses_writes: bool,
    /// The possible contents of the store before each write that may be lost.
    earlier: BTreeSet<World>,
    /// Whether the store is known to be open. Otherwise, syncing and closing do nothing.
    is_open: bool,
    /// Whether a write has failed since the store was opened.
    pub(crate) has_failed: bool,
    /// The maximum number of keys in doubt that a guard remembers.
    pub(crate) max_doubts: usize,
    /// The keys that a guard may know to be in doubt. The guard knows all of them unless it is crowded.
    pub(crate) doubts: BTreeSet<Key>,
    /// Whether more keys have been in doubt than a guard remembers.
    is_crowded: bool,
}

impl Model {
    pub(crate) fn new(store: StoreKind) -> Self {
        Self {
            store,
            worlds: BTreeSet::from([World::new()]),
            loses_writes: false,
            earlier: BTreeSet::new(),
            is_open: false,
            has_failed: false,
            max_doubts: usize::MAX,
            doubts: BTreeSet::new(),
            is_crowded: false,
        }
    }

    /// Records that an operation was acknowledged.
    pub(crate) fn acknowledged(&mut self, op: &Op) {
        match op {
            // The store may have opened with any of the earlier worlds. The writes in that world
            // are durable from now on.
            Op::Open => {
                self.worlds.append(&mut self.earlier);
                self.is_open = true;
            }
            Op::Sync | Op::Flush | Op::Compact | Op::Close if self.is_open => self.earlier.clear(),
            op if self.loses_writes && !op.changes().0.is_empty() => {
                self.earlier.extend(self.worlds.iter().cloned());
            }
            _ => {}
        }
        self.worlds = self.worlds.iter().map(|world| self.after(world, op)).collect();
        match op {
            Op::Close | Op::Drop | Op::Crash => self.is_open = false,
            Op::Settle(key) => _ = self.doubts.remove(key),
            Op::SettleAll => self.has_no_doubts(),
            _ => {}
        }
    }

    /// Records a write whose outcome a guard does not know.
    pub(crate) fn doubt(&mut self, op: &Op) {
        if self.store == StoreKind::Guard {
            self.doubts.extend(op.changes().0);
            self.is_crowded |= self.doubts.len() > self.max_doubts;
        }
    }

    fn has_no_doubts(&mut self) {
        self.doubts.clear();
        self.is_crowded = false;
    }

    /// Records an operation that failed or never returned, and so may have happened.
    pub(crate) fn in_doubt(&mut self, op: &Op) {
        let mut done: BTreeSet<World> =
            self.worlds.iter().map(|world| self.after(world, op)).collect();
        self.worlds.append(&mut done);
        self.has_failed = true;
        self.is_open &= !matches!(op, Op::Close | Op::Drop | Op::Crash);
    }

    fn after(&self, world: &World, op: &Op) -> World {
        let mut world = world.clone();
        let (keys, value) = op.changes();
        for &key in keys {
            match (op, value) {
                (_, Some(value)) => _ = world.insert(key, value),
                (Op::Delete(_, list), None) if self.store == StoreKind::Lists => {
                    if world.get(&key) == Some(list) {
                        world.remove(&key);
                    }
                }
                _ => _ = world.remove(&key),
            }
        }
        world
    }

    /// Records the contents of a store that was opened again.
    pub(crate) fn settle(&mut self, found: &[(Key, Value)]) -> Checked {
        let found: World = found.iter().copied().collect();
        if !self.worlds.contains(&found) {
            let wrong: Vec<String> = (0..KEYS)
                .filter(|key| !self.may_be(*key, found.get(key).copied()))
                .map(|key| {
                    let possible = self.possible(key);
                    format!("key {key} is {:?}, not one of {possible:?}", found.get(&key))
                })
                .collect();
            if wrong.is_empty() {
                let worlds = &self.worlds;
                return Err(format!(
                    "only a part of a batch is present: {found:?}, not one of {worlds:?}"
                ));
            }
            return Err(wrong.join("; "));
        }
        self.worlds = BTreeSet::from([found]);
        Ok(())
    }

    /// Records the contents of a database in which a failed write has arrived late.
    pub(crate) fn assume(&mut self, found: &[(Key, Value)]) {
        self.worlds = BTreeSet::from([found.iter().copied().collect()]);
    }

    pub(crate) fn reopened(&mut self) {
        self.has_failed = false;
        self.has_no_doubts();
    }

    fn any(&self, holds: impl Fn(&World) -> bool) -> bool {
        self.worlds.iter().any(holds)
    }

    fn possible(&self, key: Key) -> BTreeSet<Option<Value>> {
        self.worlds.iter().map(|world| world.get(&key).copied()).collect()
    }

    fn may_be(&self, key: Key, value: Option<Value>) -> bool {
        self.any(|world| world.get(&key).copied() == value)
    }

    fn value(&self, key: Key, value: Option<Value>) -> Checked {
        if self.may_be(key, value) {
            return Ok(());
        }
        Err(format!("key {key} is {value:?}, not one of {:?}", self.possible(key)))
    }

    /// Checks an answer about the presence of a key. Lists must be right only about listed keys.
    fn flag(&self, key: Key, flag: bool) -> Checked {
        let is_right = self.any(|world| match (self.store, world.get(&key)) {
            (StoreKind::Lists, Some(&list)) => flag == (list == YES),
            (StoreKind::Lists, None) => true,
            (_, found) => flag == found.is_some(),
        });
        if is_right {
            return Ok(());
        }
        Err(format!(
            "presence of key {key} is {flag}; its value is one of {:?}",
            self.possible(key)
        ))
    }

    fn pairs(&self, pairs: &[(Key, Value)], keys: impl Fn(Key) -> bool, op: &Op) -> Checked {
        let is_ordered =
            !matches!(self.store, StoreKind::Merged | StoreKind::Coded | StoreKind::Lists);
        if is_ordered && !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(format!("pairs are out of order: {pairs:?}"));
        }
        let found: World = pairs.iter().copied().collect();
        if found.len() < pairs.len() {
            return Err(format!("a key occurs twice: {pairs:?}"));
        }
        if let Some(other) = found.keys().find(|key| !keys(**key)) {
            return Err(format!("key {other} was not requested"));
        }
        (0..KEYS).filter(|key| keys(*key)).try_for_each(|key| {
            let value = found.get(&key).copied();
            match *op {
                // A key that is not on this list is on the other one or on none.
                Op::Entries(list) if value.is_none() => {
                    if self.any(|world| world.get(&key) != Some(&list)) {
                        return Ok(());
                    }
                    Err(format!("key {key} is missing from list {list}"))
                }
                _ => self.value(key, value),
            }
        })
    }

    /// Checks an answer, before the operation is [acknowledged](Self::acknowledged).
    pub(crate) fn check(&self, op: &Op, answer: &Answer) -> Checked {
        let is_certain = self.worlds.len() == 1 && !self.has_failed;
        let world = self.worlds.first().expect("at least one world");
        match (op, answer) {
            (Op::Get(key) | Op::ListOf(key), Answer::Value(value)) => self.value(*key, *value),
            (Op::GetMany(keys), Answer::Values(values)) => {
                keys.iter().zip(values).try_for_each(|(key, value)| self.value(*key, *value))
            }
            (Op::Contains(key) | Op::Settle(key), Answer::Flag(flag)) => self.flag(*key, *flag),
            (Op::GetMany(keys), Answer::Flags(flags)) => {
                keys.iter().zip(flags).try_for_each(|(key, flag)| self.flag(*key, *flag))
            }
            (Op::Flood, Answer::Flags(found)) if found.contains(&true) => {
                Err("a key that was never written is there".into())
            }
            (Op::Flood, Answer::Flags(_)) => Ok(()),
            (Op::Delete(key, list), Answer::Flag(was)) => {
                let is_there = |found: Option<&Value>| match self.store {
                    StoreKind::Lists => found == Some(list),
                    _ => found.is_some(),
                };
                if self.any(|world| is_there(world.get(key)) == *was) {
                    return Ok(());
                }
                let possible = self.possible(*key);
                Err(format!("the removal of key {key} says {was}; it was one of {possible:?}"))
            }
            (Op::Iter | Op::Export, Answer::Pairs(pairs)) => self.pairs(pairs, |_| true, op),
            (Op::Entries(_), Answer::Pairs(pairs)) => self.pairs(pairs, |_| true, op),
            (Op::Range(first, last), Answer::Pairs(pairs)) => {
                self.pairs(pairs, |key| (*first..=*last).contains(&key), op)
            }
            (Op::Prefix(group), Answer::Pairs(pairs)) => {
                self.pairs(pairs, |key| key / GROUP == *group, op)
            }
            (Op::IsEmpty(first, last), Answer::Flag(is_empty)) => {
                if self.any(|world| world.range(first..=last).next().is_none() == *is_empty) {
                    return Ok(());
                }
                Err(format!("range_is_empty({first}..={last}) is {is_empty}"))
            }
            (Op::Stats, Answer::Lengths(yes, no)) if is_certain => {
                let count = |list| world.values().filter(|value| **value == list).count() as u64;
                if (count(YES), count(NO)) == (*yes, *no) {
                    return Ok(());
                }
                Err(format!("len is {yes} and {no}, not {} and {}", count(YES), count(NO)))
            }
            (Op::Stats, Answer::Doubts(keys, count, is_ready)) => {
                let found: BTreeSet<Key> = keys.iter().copied().collect();
                let is_right = if self.is_crowded {
                    found.is_subset(&self.doubts) && found.len() <= self.max_doubts && !is_ready
                } else {
                    found == self.doubts
                };
                if is_right && *count == keys.len() as u64 && keys.len() == found.len() {
                    return Ok(());
                }
                let Self { doubts, max_doubts, .. } = self;
                Err(format!("{answer:?}, but {doubts:?} are in doubt, of at most {max_doubts}"))
            }
            (Op::Put(..) | Op::PutMany(..), _) if self.store == StoreKind::Lists => {
                self.added(op, answer, is_certain)
            }
            (_, Answer::Nothing | Answer::Lengths(..) | Answer::Copy(_) | Answer::Filter(_)) => {
                Ok(())
            }
            (Op::Import(keys, _), Answer::Count(count)) if *count == keys.len() as u64 => Ok(()),
            (op, answer) => Err(format!("{op:?} answered {answer:?}")),
        }
    }

    /// Checks a filter's answer for each key: it must not miss a key that is certainly present.
    pub(crate) fn check_filter(&self, maybe: &[bool]) -> Checked {
        let is_missed = |key: &Key| {
            let is_there = self.worlds.iter().all(|world| world.contains_key(key));
            is_there && !maybe[usize::from(*key)]
        };
        match (0..KEYS).find(is_missed) {
            Some(key) => Err(format!("the filter misses key {key}")),
            None => Ok(()),
        }
    }

    fn added(&self, op: &Op, answer: &Answer, is_certain: bool) -> Checked {
        let (keys, list) = op.changes();
        let is_on_other = |world: &World| {
            keys.iter().any(|key| world.get(key).is_some_and(|found| Some(*found) != list))
        };
        let new = |world: &World| {
            let new: BTreeSet<&Key> = keys.iter().filter(|key| !world.contains_key(key)).collect();
            new.len() as u64
        };
        let is_right = match answer {
            Answer::Refused => self.any(is_on_other),
            Answer::Count(count) => {
                !is_certain || self.any(|world| !is_on_other(world) && new(world) == *count)
            }
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        let before: Vec<_> = keys.iter().map(|key| (key, self.possible(*key))).collect();
        Err(format!("{op:?} answered {answer:?}; the keys before were {before:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_notices_a_lost_put() {
        let mut model = Model::new(StoreKind::Merged);
        model.acknowledged(&Op::Put(1, 7));
        assert!(model.check(&Op::Get(1), &Answer::Value(Some(7))).is_ok());
        assert!(model.check(&Op::Get(1), &Answer::Value(None)).is_err());
        assert!(model.check(&Op::Get(1), &Answer::Value(Some(8))).is_err());
        assert!(model.settle(&[]).is_err());
    }

    #[test]
    fn failed_put_is_complete_or_absent() {
        let mut model = Model::new(StoreKind::Split);
        model.in_doubt(&Op::PutMany(vec![1, 2], 7));
        assert!(model.check(&Op::Get(1), &Answer::Value(None)).is_ok());
        assert!(model.clone().settle(&[]).is_ok());
        assert!(model.clone().settle(&[(1, 7), (2, 7)]).is_ok());
        assert!(model.settle(&[(1, 7)]).is_err());
    }

    #[test]
    fn acknowledged_delete_removes_a_key_whose_put_failed() {
        let mut model = Model::new(StoreKind::Ranges);
        model.in_doubt(&Op::Put(1, 7));
        assert!(model.check(&Op::Delete(1, 0), &Answer::Flag(false)).is_ok());
        model.acknowledged(&Op::Delete(1, 0));
        assert!(model.settle(&[(1, 7)]).is_err());
    }

    #[test]
    fn model_notices_a_guard_that_forgets_a_key_in_doubt() {
        let mut model = Model::new(StoreKind::Guard);
        model.max_doubts = 1;
        let check = |model: &Model, keys: &[Key], is_ready| {
            let answer = Answer::Doubts(keys.to_vec(), keys.len() as u64, is_ready);
            model.check(&Op::Stats, &answer).is_ok()
        };
        model.doubt(&Op::Put(1, 7));
        assert!(check(&model, &[1], true) && !check(&model, &[], false));
        model.doubt(&Op::Put(2, 7));
        assert!(check(&model, &[1], false) && !check(&model, &[1], true));
        model.acknowledged(&Op::Settle(1));
        assert!(check(&model, &[], false) && !check(&model, &[1], false));
        model.acknowledged(&Op::SettleAll);
        assert!(check(&model, &[], true) && !check(&model, &[2], true));
    }

    #[test]
    fn model_requires_exact_answers_only_for_listed_keys() {
        let mut model = Model::new(StoreKind::Lists);
        model.acknowledged(&Op::Put(1, YES));
        assert!(model.check(&Op::Contains(1), &Answer::Flag(false)).is_err());
        assert!(model.check(&Op::Contains(2), &Answer::Flag(true)).is_ok());
        assert!(model.check(&Op::Put(1, NO), &Answer::Refused).is_ok());
        assert!(model.check(&Op::Put(1, NO), &Answer::Count(1)).is_err());
        model.acknowledged(&Op::Delete(1, NO));
        assert!(model.check(&Op::Contains(1), &Answer::Flag(false)).is_err());
    }
}
