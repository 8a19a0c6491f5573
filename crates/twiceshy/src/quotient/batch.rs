//! Many lookups at once.
//!
//! A lookup alone waits for its cache line; many overlap their waits. So lines are
//! asked for well ahead of their use, in a pipeline: each step asks for the line of a
//! later hash and answers an earlier one, whose line has come by now. What can't be
//! decided within its line is put off, its next line is asked for, too, and it is
//! looked at closely a little later.

use super::AdaptiveQuotientFilter;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
use crate::table::{Place, Scan, with_width};

/// How many lookups ahead a line is asked for.
const AHEAD: usize = 16;

/// How many lookups can be put off.
const PUT_OFF: usize = 32;

impl AdaptiveQuotientFilter {
    /// Answers many lookups: `maybe` is cleared and then has one answer per hash, as of
    /// [`contains`](Self::contains). Several times as fast where the filter is larger
    /// than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        self.contains_each(hashes.len(), |index| hashes[index], maybe);
    }

    /// As [`contains_many`](Self::contains_many), of `count` hashes that are made when
    /// they are needed: twice, if a lookup is put off.
    #[inline(always)]
    pub(crate) fn contains_each(
        &self,
        count: usize,
        hash: impl Fn(usize) -> Hash,
        maybe: &mut Vec<bool>,
    ) {
        maybe.clear();
        maybe.resize(count, false);
        self.table.level().run(ContainsEach { filter: self, hash, maybe });
    }
}

struct ContainsEach<'a, H> {
    filter: &'a AdaptiveQuotientFilter,
    hash: H,
    maybe: &'a mut [bool],
}

/// What is known of a lookup whose line is on its way.
#[derive(Clone, Copy)]
struct Pending {
    place: Place,
    remainder: u64,
}

impl<H: Fn(usize) -> Hash> ContainsEach<'_, H> {
    /// Begins a lookup.
    #[inline(always)]
    fn begin<const WIDTH: u32>(&self, index: usize) -> Pending {
        let table = &self.filter.table;
        let scaled = self.filter.digits().scale((self.hash)(index));
        let place = table.home::<WIDTH>(scaled.quotient);
        table.prefetch(place.block);
        let width = if WIDTH == 0 { table.width() } else { WIDTH };
        Pending { place, remainder: scaled.leading(width) }
    }

    #[inline(always)]
    fn run_with<M: Machine, const WIDTH: u32>(self, machine: M) {
        let table = &self.filter.table;
        let count = self.maybe.len();
        let nowhere = Pending { place: Place { block: 0, lane: 0 }, remainder: 0 };
        let mut pipeline = [nowhere; AHEAD];
        for (index, pending) in pipeline.iter_mut().enumerate().take(count) {
            *pending = self.begin::<WIDTH>(index);
        }
        let mut put_off = [0; PUT_OFF];
        let mut postponed = 0;
        for index in 0..count {
            let Pending { place, remainder } = pipeline[index % AHEAD];
            if index + AHEAD < count {
                pipeline[index % AHEAD] = self.begin::<WIDTH>(index + AHEAD);
            }
            let scan = table.scan::<M, WIDTH>(machine, place, remainder);
            self.maybe[index] = scan == Scan::Present;
            if scan == Scan::Unsure {
                table.prefetch(place.block + 1);
                let oldest = &mut put_off[postponed % PUT_OFF];
                if postponed >= PUT_OFF {
                    self.maybe[*oldest] = self.filter.look_closely((self.hash)(*oldest));
                }
                *oldest = index;
                postponed += 1;
            }
        }
        for &index in &put_off[..postponed.min(PUT_OFF)] {
            self.maybe[index] = self.filter.look_closely((self.hash)(index));
        }
    }
}

impl<H: Fn(usize) -> Hash> Operation for ContainsEach<'_, H> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine));
    }
}
