//! Batch lookups.

use super::lookup::LookClosely;
use super::{QuotientFilter, Shared};
use crate::Hash;
use crate::batch::{self, Lookup};
use crate::bits::machine::{Machine, dispatched};
use crate::table::{Equal, Place, Widths};

impl QuotientFilter {
    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        batch::fill_answers(maybe, hashes.len(), |maybe| {
            contains_many(&self.shared, hashes, maybe);
        });
    }
}

impl Shared {
    /// Returns the place of a hash's home slot, and the hash's remainder. Prefetches the cache
    /// line.
    #[inline(always)]
    pub(super) fn begin<const SHAPE: u32>(&self, hash: Hash) -> (Place, u64) {
        let (home, remainder) = self.home_of::<SHAPE>(self.digits.scale(hash));
        self.table.prefetch(home);
        (home, remainder)
    }
}

dispatched! {
    fn contains_many<'a>(
        shared: &'a Shared,
        hashes: &'a [Hash],
        maybe: &'a mut [bool],
    ) -> () => shared.target(), Widths, |machine| {
        batch::answer(&Steps::<_, SHAPE> { machine, shared }, hashes, maybe);
    }
}

struct Steps<'a, M, const SHAPE: u32> {
    machine: M,
    shared: &'a Shared,
}

impl<M: Machine, const SHAPE: u32> Lookup<Hash> for Steps<'_, M, SHAPE> {
    type Begun = (Place, u64);

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> (Place, u64) {
        self.shared.begin::<SHAPE>(hash)
    }

    #[inline(always)]
    fn is_candidate(&self, &(home, _): &(Place, u64)) -> bool {
        self.shared.table.is_occupied_at::<SHAPE>(home)
    }

    #[inline(always)]
    fn scan(&self, &(home, remainder): &(Place, u64)) -> (bool, bool) {
        let table = &self.shared.table;
        table.scan_for::<M, SHAPE>(self.machine, home, Equal(remainder), true).flags()
    }

    #[inline(always)]
    fn defer(&self, &hash: &Hash) {
        let scaled = self.shared.digits.scale(hash);
        self.shared.table.prefetch(self.shared.home_of::<SHAPE>(scaled).0.next_block());
    }

    #[inline(always)]
    fn resolve(&self, &hash: &Hash) -> bool {
        self.shared.look_closely.run(LookClosely(self.shared), hash)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.shared.contains(hash)
    }
}
