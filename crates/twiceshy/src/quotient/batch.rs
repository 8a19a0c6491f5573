//! Batch lookups.

use super::QuotientFilter;
use super::lookup::LookClosely;
use crate::Hash;
use crate::batch::{self, Lookup};
use crate::bits::machine::{Machine, Operation};
use crate::table::{Equal, Place, Widths};

impl QuotientFilter {
    /// Answers many lookups. Clears `maybe`, then writes one answer per hash, the same that
    /// [`contains`](Self::contains) returns. If the filter is larger than the cache, this is
    /// several times as fast as single lookups.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        batch::fill_answers(maybe, hashes.len(), |maybe| {
            self.target().run(ContainsMany { filter: self, hashes, maybe });
        });
    }

    /// Finds the cache line of a hash, and prefetches it.
    #[inline(always)]
    pub(super) fn begin<const SHAPE: u32>(&self, hash: Hash) -> Begun {
        let (place, remainder) = self.home_of::<SHAPE>(self.digits.scale(hash));
        self.table.prefetch(place);
        Begun { place, remainder }
    }
}

/// The home slot and remainder of a hash whose cache line was prefetched.
#[derive(Clone, Copy, Default)]
pub(super) struct Begun {
    pub(super) place: Place,
    pub(super) remainder: u64,
}

struct ContainsMany<'a> {
    filter: &'a QuotientFilter,
    hashes: &'a [Hash],
    maybe: &'a mut [bool],
}

impl Operation for ContainsMany<'_> {
    type Argument = ();
    type Output = ();
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Self { filter, hashes, maybe } = self;
        batch::answer(&Steps::<_, SHAPE> { machine, filter }, hashes, maybe);
    }
}

struct Steps<'a, M, const SHAPE: u32> {
    machine: M,
    filter: &'a QuotientFilter,
}

impl<M: Machine, const SHAPE: u32> Lookup<Hash> for Steps<'_, M, SHAPE> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> Begun {
        self.filter.begin::<SHAPE>(hash)
    }

    #[inline(always)]
    fn is_candidate(&self, begun: &Begun) -> bool {
        self.filter.table.is_occupied_at::<SHAPE>(begun.place)
    }

    #[inline(always)]
    fn scan(&self, begun: &Begun) -> (bool, bool) {
        let Begun { place, remainder } = *begun;
        let table = &self.filter.table;
        table.scan_for::<M, SHAPE>(self.machine, place, Equal(remainder), true).flags()
    }

    #[inline(always)]
    fn defer(&self, &hash: &Hash) {
        let scaled = self.filter.digits.scale(hash);
        self.filter.table.prefetch(self.filter.home_of::<SHAPE>(scaled).0.next_block());
    }

    #[inline(always)]
    fn resolve(&self, &hash: &Hash) -> bool {
        self.filter.look_closely.run(LookClosely(self.filter), hash)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.filter.contains(hash)
    }
}
