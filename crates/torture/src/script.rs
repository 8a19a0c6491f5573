//! Generates random sequences of public operations.

use crate::plan::StoreKind;
use crate::random::Random;
use std::collections::BTreeSet;

/// A key. There are few keys, so that operations often use the same ones.
pub(crate) type Key = u8;
/// A number that determines the bytes of a value. For lists, it is the list: [`YES`] or [`NO`].
pub(crate) type Value = u8;

pub(crate) const KEYS: Key = 48;
pub(crate) const NO: Value = 0;
pub(crate) const YES: Value = 1;

/// Why shards are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Upkeep {
    Growth,
    Shrinking,
    Rotation,
}

impl Upkeep {
    pub(crate) const ALL: [Self; 3] = [Self::Growth, Self::Shrinking, Self::Rotation];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Growth => "tend (growth)",
            Self::Shrinking => "tend (shrinking)",
            Self::Rotation => "tend (rotation)",
        }
    }

    /// Returns whether the shards of a store are rebuilt for this reason. Lists repair no mistakes that
    /// lookups find, repairs of telescoping filters take no slots, and a range store has no `tend`.
    pub(crate) fn is_of(self, store: StoreKind) -> bool {
        match store {
            StoreKind::Ranges => false,
            StoreKind::Lists | StoreKind::Coded => self != Self::Rotation,
            _ => true,
        }
    }
}

/// A public operation. Some stores lack some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    Close,
    Drop,
    /// The process ends, and nothing more is written. This is not an operation of the store.
    Crash,
    Ready,
    Get(Key),
    GetMany(Vec<Key>),
    Contains(Key),
    ListOf(Key),
    Put(Key, Value),
    PutMany(Vec<Key>, Value),
    Import(Vec<Key>, Value),
    /// Deletes a key. For lists, the value is the list.
    Delete(Key, Value),
    Iter,
    Entries(Value),
    Export,
    Range(Key, Key),
    IsEmpty(Key, Key),
    Prefix(u8),
    Stats,
    Rebuild,
    /// Looks up many keys that are never written, so that repairs fill the filter.
    Flood,
    /// Rebuilds the shards that are due, after operations that make them due.
    Tend(Upkeep),
    SaveFilter,
    Settle(Key),
    SettleAll,
    Validate,
    Measure,
    Sync,
    Flush,
    Compact,
    Backup,
}

/// Keys share their first byte in groups of this size.
pub(crate) const GROUP: u8 = 16;

impl Op {
    /// Returns the name of the public function.
    pub(crate) fn name(&self, store: StoreKind) -> &'static str {
        let (lists, guard) = (store == StoreKind::Lists, store == StoreKind::Guard);
        match self {
            Self::Open if guard => "build",
            Self::Open => "open",
            Self::Close if guard => "into_database",
            Self::Close => "close",
            Self::Drop => "drop",
            Self::Crash => "crash",
            Self::Ready => "wait_until_ready",
            Self::Get(_) => "get",
            Self::GetMany(_) if lists => "contains_many",
            Self::GetMany(_) => "get_many",
            Self::Contains(_) => "contains",
            Self::ListOf(_) => "list_of",
            Self::Put(_, NO) if lists => "add_no",
            Self::Put(..) if lists => "add_yes",
            Self::Put(..) if guard => "insert",
            Self::Put(..) => "put",
            Self::PutMany(..) if lists => "add_many",
            Self::PutMany(..) if guard => "insert_many",
            Self::PutMany(..) => "put_many",
            Self::Import(..) => "import",
            Self::Delete(_, NO) if lists => "remove_no",
            Self::Delete(..) if lists => "remove_yes",
            Self::Delete(..) if guard => "remove",
            Self::Delete(..) => "delete",
            Self::Iter => "iter",
            Self::Entries(_) => "entries",
            Self::Export => "export",
            Self::Range(..) => "range",
            Self::IsEmpty(..) => "range_is_empty",
            Self::Prefix(_) => "prefix",
            Self::Stats => "stats",
            Self::Rebuild => "rebuild",
            Self::Flood => "get (absent)",
            Self::Tend(upkeep) => upkeep.name(),
            Self::SaveFilter => "save_filter",
            Self::Settle(_) => "settle",
            Self::SettleAll => "settle_all",
            Self::Validate => "validate",
            Self::Measure => "bytes_on_disk",
            Self::Sync => "sync",
            Self::Flush => "flush",
            Self::Compact => "compact",
            Self::Backup => "backup",
        }
    }

    /// Returns the keys that the operation changes, and their new values.
    pub(crate) fn changes(&self) -> (&[Key], Option<Value>) {
        match self {
            Self::Put(key, value) => (std::slice::from_ref(key), Some(*value)),
            Self::PutMany(keys, value) | Self::Import(keys, value) => (keys, Some(*value)),
            Self::Delete(key, _) => (std::slice::from_ref(key), None),
            _ => (&[], None),
        }
    }

    /// Returns the keys that the operation uses.
    fn keys(&self) -> &[Key] {
        match self {
            Self::Get(key) | Self::Contains(key) | Self::ListOf(key) | Self::Settle(key) => {
                std::slice::from_ref(key)
            }
            Self::GetMany(keys) => keys,
            Self::Range(first, _) | Self::IsEmpty(first, _) => std::slice::from_ref(first),
            _ => self.changes().0,
        }
    }
}

/// Generates operations of a store.
struct Source {
    store: StoreKind,
    random: Random,
    /// Keys of recent operations, to use again.
    recent: Vec<Key>,
}

impl Source {
    fn key(&mut self) -> Key {
        if !self.recent.is_empty() && !self.random.one_in(3) {
            return *self.random.choose(&self.recent);
        }
        let key = self.random.below(KEYS.into()) as Key;
        self.recent.push(key);
        if self.recent.len() > 6 {
            self.recent.remove(0);
        }
        key
    }

    fn many(&mut self) -> Vec<Key> {
        (0..2 + self.random.below(7)).map(|_| self.key()).collect()
    }

    fn value(&mut self) -> Value {
        let values = if self.store == StoreKind::Lists { 2 } else { 256 };
        self.random.below(values) as Value
    }

    fn range(&mut self) -> (Key, Key) {
        let first = self.key();
        (first, (first + self.random.below(6) as u8).min(KEYS - 1))
    }

    /// Returns one operation of each kind that the store has, except opening and closing.
    fn each(&mut self) -> Vec<Op> {
        let store = self.store;
        let mut ops = vec![
            Op::Get(self.key()),
            Op::Put(self.key(), self.value()),
            Op::PutMany(self.many(), self.value()),
            Op::Delete(self.key(), self.value()),
            Op::Rebuild,
            Op::Validate,
            Op::Stats,
        ];
        if store == StoreKind::Guard {
            ops.extend([Op::Settle(self.key()), Op::SettleAll]);
            return ops;
        }
        ops.extend([
            Op::Contains(self.key()),
            Op::Measure,
            Op::Sync,
            Op::Flush,
            Op::Compact,
            Op::Backup,
        ]);
        if store.is_points() {
            ops.extend([
                Op::GetMany(self.many()),
                Op::Import(self.many(), self.value()),
                Op::Ready,
                Op::SaveFilter,
                Op::Iter,
            ]);
        }
        match store {
            StoreKind::Split => {
                let (first, last) = self.range();
                ops.extend([Op::Range(first, last), Op::Prefix(self.key() / GROUP)]);
            }
            StoreKind::Ranges => {
                let (first, last) = self.range();
                ops.extend([Op::Range(first, last), Op::Iter]);
                let (first, last) = self.range();
                ops.push(Op::IsEmpty(first, last));
            }
            StoreKind::Lists => {
                ops.retain(|op| !matches!(op, Op::Get(_)));
                for list in [YES, NO] {
                    ops.extend([Op::Put(self.key(), list), Op::Delete(self.key(), list)]);
                    ops.push(Op::Entries(list));
                }
                ops.extend([Op::GetMany(self.many()), Op::ListOf(self.key())]);
                ops.push(Op::Export);
            }
            _ => {}
        }
        ops
    }

    /// Returns operations that make shards due in each way, and then have them rebuilt.
    fn upkeep(&mut self) -> Vec<Vec<Op>> {
        if self.store == StoreKind::Ranges {
            return Vec::new();
        }
        let value = if self.store == StoreKind::Lists { YES } else { self.value() };
        let mut deletes: Vec<Op> = (0..KEYS).map(|key| Op::Delete(key, value)).collect();
        self.random.shuffle(&mut deletes);
        deletes.truncate(usize::from(KEYS) * 3 / 4);
        deletes.push(Op::Tend(Upkeep::Shrinking));
        let many = (0..KEYS).filter(|_| !self.random.one_in(4)).collect();
        let mut upkeep = vec![vec![Op::PutMany(many, value), Op::Tend(Upkeep::Growth)], deletes];
        if self.store != StoreKind::Lists {
            upkeep.push(vec![Op::Flood, Op::Tend(Upkeep::Rotation)]);
        }
        upkeep
    }

    /// Returns an operation that changes something or looks something up.
    fn usual(&mut self) -> Op {
        let key = self.key();
        match self.random.below(7) {
            0 | 1 => Op::Put(key, self.value()),
            2 | 3 => Op::Delete(key, self.value()),
            4 => Op::PutMany(self.many(), self.value()),
            5 if self.store == StoreKind::Ranges => {
                let (first, last) = self.range();
                Op::IsEmpty(first, last)
            }
            _ if self.store == StoreKind::Lists => Op::ListOf(key),
            _ => Op::Get(key),
        }
    }
}

/// Returns the script of a seed, which opens the store and calls every operation at least once.
pub(crate) fn script(store: StoreKind, seed: u64) -> Vec<Op> {
    let mut source = Source { store, random: Random::new(seed), recent: Vec::new() };
    let mut middle: Vec<Vec<Op>> = source.each().into_iter().map(|op| vec![op]).collect();
    middle.extend((0..14).map(|_| vec![source.usual()]));
    middle.extend(source.upkeep());
    middle.extend([Op::Close, Op::Drop, Op::Crash].map(|end| vec![end, Op::Open]));
    source.random.shuffle(&mut middle);
    let mut script = vec![Op::Open];
    for _ in 0..2 {
        let keys = (0..10).map(|_| source.random.below(KEYS.into()) as Key).collect();
        script.push(Op::PutMany(keys, source.value()));
    }
    // Provoke mistakes and repairs.
    script.extend((0..6).map(|_| match store {
        StoreKind::Lists => Op::ListOf(source.random.below(KEYS.into()) as Key),
        _ => Op::Get(source.random.below(KEYS.into()) as Key),
    }));
    script.extend(middle.into_iter().flatten());
    script.extend([Op::Close, Op::Open, Op::Drop]);
    script
}

/// The name under which removals of a key in doubt are counted.
pub(crate) const REMOVE_IN_DOUBT: &str = "remove in doubt";

/// Returns the names of all operations of a store.
pub(crate) fn names(store: StoreKind) -> BTreeSet<&'static str> {
    let script = script(store, 0);
    let ops = script.iter().filter(|op| **op != Op::Crash);
    let in_doubt = (store == StoreKind::Guard).then_some(REMOVE_IN_DOUBT);
    ops.map(|op| op.name(store)).chain(in_doubt).collect()
}

/// Returns operations to run before the failed writes of a guard arrive. They use keys in doubt and
/// other keys, some of which are near them in the filter.
pub(crate) fn before_arrival(random: &mut Random, doubts: &[Key]) -> Vec<Op> {
    let mut ops = vec![Op::Rebuild];
    for _ in 0..3 {
        let mut key = || random.below(KEYS.into()) as Key;
        ops.extend([Op::Put(key(), key()), Op::Delete(key(), 0)]);
        ops.push(Op::Delete(*random.choose(doubts), 0));
    }
    ops.push(Op::Put(*random.choose(doubts), 0));
    random.shuffle(&mut ops);
    ops
}

/// Returns operations to run after the step that failed, mostly with the same keys.
pub(crate) fn aftermath(store: StoreKind, seed: u64, step: usize, failed: &Op) -> Vec<Op> {
    let random = Random::new(seed ^ (step as u64) << 32);
    let mut source = Source { store, random, recent: failed.keys().to_vec() };
    let mut ops: Vec<Op> = (0..3).map(|_| source.usual()).collect();
    if source.random.one_in(2) {
        let mut each = source.each();
        // Don't settle doubts yet, because writes can still arrive.
        each.retain(|op| !matches!(op, Op::Settle(_) | Op::SettleAll));
        ops.push(source.random.choose(&each).clone());
    }
    if store == StoreKind::Lists {
        // Entries that a failed addition left in the filter must not change the answers for these
        // keys.
        ops.extend((0..8).map(|_| Op::Put(source.random.below(KEYS.into()) as Key, NO)));
    }
    ops
}
