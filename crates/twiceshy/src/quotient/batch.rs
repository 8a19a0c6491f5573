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
        self.contains_each(hashes, |&hash| hash, maybe);
    }

    /// Answers many lookups of keys. Hashes each key when its hash is needed, which is twice if the
    /// lookup is deferred.
    #[inline(always)]
    pub(crate) fn contains_each<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut Vec<bool>,
    ) {
        batch::fill_answers(maybe, keys.len(), |maybe| {
            self.target().run(ContainsEach { filter: self, keys, hash, maybe });
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

struct ContainsEach<'a, K, H> {
    filter: &'a QuotientFilter,
    keys: &'a [K],
    hash: H,
    maybe: &'a mut [bool],
}

impl<K, H: Fn(&K) -> Hash> Operation for ContainsEach<'_, K, H> {
    type Argument = ();
    type Output = ();
    type Shapes = Widths;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Self { filter, keys, hash, maybe } = self;
        batch::answer(&Steps::<_, _, SHAPE> { machine, filter, hash }, keys, maybe);
    }
}

struct Steps<'a, M, H, const SHAPE: u32> {
    machine: M,
    filter: &'a QuotientFilter,
    hash: H,
}

impl<K, M: Machine, H: Fn(&K) -> Hash, const SHAPE: u32> Lookup<K> for Steps<'_, M, H, SHAPE> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, key: &K) -> Begun {
        self.filter.begin::<SHAPE>((self.hash)(key))
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
    fn defer(&self, key: &K) {
        let scaled = self.filter.digits.scale((self.hash)(key));
        self.filter.table.prefetch(self.filter.home_of::<SHAPE>(scaled).0.next_block());
    }

    #[inline(always)]
    fn resolve(&self, key: &K) -> bool {
        self.filter.look_closely.run(LookClosely(self.filter), (self.hash)(key))
    }

    #[inline(always)]
    fn contains(&self, key: &K) -> bool {
        self.filter.contains((self.hash)(key))
    }
}
