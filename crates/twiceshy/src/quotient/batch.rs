//! Many lookups at once.
//!
//! A lookup alone waits for its cache line; many overlap their waits. So they go through
//! a pipeline, a group at a time:
//!
//! 1. While the lines of one group are asked for, those of the group before have come.
//! 2. Of these, only the lookups whose quotient has a run are scanned.
//! 3. What can't be decided within its line is put off, until there are enough of them
//!    to ask for their next lines together.
//!
//! What goes on to the next step can't be foreseen, so there is no branch on it: it is
//! written to the end of a list, which grows or doesn't.

use super::AdaptiveQuotientFilter;
use crate::Hash;
use crate::bits::list::List;
use crate::bits::machine::{Machine, Operation};
use crate::table::{Place, with_width};

/// How many lookups are begun at once.
const GROUP: usize = 16;

impl AdaptiveQuotientFilter {
    /// Answers many lookups: `maybe` is cleared and then has one answer per hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger
    /// than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_each(hashes, |&hash| hash, maybe);
    }

    /// As [`contains_many`](Self::contains_many), of keys whose hashes are made when they
    /// are needed: twice, if a lookup is put off.
    #[inline(always)]
    pub(crate) fn contains_each<K>(
        &self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut Vec<bool>,
    ) {
        // Should `hash` panic, no answer is left, rather than a wrong one.
        let mut answers = core::mem::take(maybe);
        answers.clear();
        answers.resize(keys.len(), false);
        self.table.level().run(ContainsEach { filter: self, keys, hash, maybe: &mut answers });
        *maybe = answers;
    }

    #[inline(always)]
    fn answer<M: Machine, const WIDTH: u32, K>(
        &self,
        machine: M,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut [bool],
    ) {
        let table = &self.table;
        let begin = |key: &K| self.begin::<WIDTH>(hash(key));
        let (groups, rest) = keys.as_chunks::<GROUP>();
        let mut begun = [[Begun::default(); GROUP]; 2];
        if let Some(group) = groups.first() {
            begun[0] = group.each_ref().map(begin);
        }
        let mut unsure = List::<{ 2 * GROUP }>::new();
        for number in 0..groups.len() {
            let [even, odd] = &mut begun;
            let (arrived, coming) = if number % 2 == 0 { (even, odd) } else { (odd, even) };
            // Behind the last group, it is begun once more, in vain.
            let next = &groups[usize::min(number + 1, groups.len() - 1)];
            let mut occupied = List::<GROUP>::new();
            for lane in 0..GROUP {
                coming[lane] = begin(&next[lane]);
                occupied.push_if(table.is_occupied_at::<WIDTH>(arrived[lane].place), lane);
            }
            let first = number * GROUP;
            for &lane in occupied.drain() {
                let Begun { place, remainder } = arrived[lane % GROUP];
                let index = first + lane;
                let (present, doubtful) = table.scan::<M, WIDTH>(machine, place, remainder).flags();
                maybe[index] = present;
                unsure.push_if(doubtful, index);
            }
            if unsure.len() >= GROUP {
                self.look_closely_at::<WIDTH, K>(unsure.drain(), keys, &hash, maybe);
            }
        }
        self.look_closely_at::<WIDTH, K>(unsure.drain(), keys, &hash, maybe);
        for (key, maybe) in rest.iter().zip(&mut maybe[groups.len() * GROUP..]) {
            *maybe = self.contains(hash(key));
        }
    }

    /// Finds the line of a hash, and asks for it.
    #[inline(always)]
    pub(super) fn begin<const WIDTH: u32>(&self, hash: Hash) -> Begun {
        let (place, remainder) = self.home_of::<WIDTH>(self.digits.scale(hash));
        self.table.prefetch(place);
        Begun { place, remainder }
    }

    /// Answers the lookups that take more than a line.
    #[inline(always)]
    fn look_closely_at<const WIDTH: u32, K>(
        &self,
        unsure: &[usize],
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
        maybe: &mut [bool],
    ) {
        for &index in unsure {
            let (home, _) = self.home_of::<WIDTH>(self.digits.scale(hash(&keys[index])));
            self.table.prefetch(home.next_block());
        }
        for &index in unsure {
            maybe[index] = self.look_closely.run(self, hash(&keys[index]));
        }
    }
}

/// What is known of a hash whose line was asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Begun {
    pub(super) place: Place,
    pub(super) remainder: u64,
}

struct ContainsEach<'a, K, H> {
    filter: &'a AdaptiveQuotientFilter,
    keys: &'a [K],
    hash: H,
    maybe: &'a mut [bool],
}

impl<K, H: Fn(&K) -> Hash> Operation for ContainsEach<'_, K, H> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Self { filter, keys, hash, maybe } = self;
        with_width!(filter.digits.constant(), WIDTH => {
            filter.answer::<M, WIDTH, K>(machine, keys, hash, maybe);
        });
    }
}
