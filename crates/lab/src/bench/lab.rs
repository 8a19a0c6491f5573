//! The lab's own baseline filters in `bench point`. They take keys, not hashes.

use super::adapters::{Adapter, Op, Work};
use crate::contestant::{Contestant, Kind, Shape};
use twiceshy::Hash;

pub(super) struct Baseline {
    name: &'static str,
    kind: Kind,
    filter: Box<dyn Contestant>,
}

impl Baseline {
    pub(super) fn new(name: &'static str, kind: Kind, work: &Work) -> Self {
        Self { name, kind, filter: Self::empty(kind, work) }
    }

    fn empty(kind: Kind, work: &Work) -> Box<dyn Contestant> {
        let Work { slots, remainder_bits, .. } = *work;
        kind.build(&Shape { slots, remainder_bits, seed: 7 })
    }
}

impl Adapter for Baseline {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bytes(&self) -> u64 {
        self.filter.bits() / 8
    }

    fn can(&self, op: Op) -> bool {
        let is_one = Op::Insert { many: false, prehashed: false };
        op == is_one || matches!(op, Op::Lookup { many: false, prehashed: false, .. })
    }

    fn reset(&mut self, work: &Work) {
        self.filter = Self::empty(self.kind, work);
    }

    fn run(&mut self, op: Op, work: &Work) -> usize {
        if let Op::Lookup { positive, .. } = op {
            return self.filter.count(work.queries(positive).0);
        }
        self.filter.insert_each(&work.members);
        work.members.len()
    }

    fn look_up(&self, key: u64, _: Hash, _: bool) -> bool {
        self.filter.contains(key)
    }
}
