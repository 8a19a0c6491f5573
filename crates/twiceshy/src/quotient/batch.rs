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
use crate::table::{Place, with_width};

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
    fn run_with<M: Machine, const WIDTH: u32>(mut self, machine: M) {
        let count = self.maybe.len();
        let nowhere = Pending { place: Place { block: 0, lane: 0 }, remainder: 0 };
        let mut pipeline = [nowhere; AHEAD];
        for (index, pending) in pipeline.iter_mut().enumerate().take(count) {
            *pending = self.begin::<WIDTH>(index);
        }
        let mut put_off = PutOff { indices: [0; PUT_OFF], count: 0 };
        for index in 0..count.saturating_sub(AHEAD) {
            let pending = &mut pipeline[index % AHEAD];
            let now = core::mem::replace(pending, self.begin::<WIDTH>(index + AHEAD));
            self.answer::<M, WIDTH>(machine, index, now, &mut put_off);
        }
        for index in count.saturating_sub(AHEAD)..count {
            self.answer::<M, WIDTH>(machine, index, pipeline[index % AHEAD], &mut put_off);
        }
        self.look_closely(&mut put_off);
    }

    /// Answers a lookup whose line has come, or puts it off; which of them is no branch,
    /// since it can't be foreseen.
    #[inline(always)]
    fn answer<M: Machine, const WIDTH: u32>(
        &mut self,
        machine: M,
        index: usize,
        pending: Pending,
        put_off: &mut PutOff,
    ) {
        let Pending { place, remainder } = pending;
        let table = &self.filter.table;
        let (present, unsure) = table.scan::<M, WIDTH>(machine, place, remainder).flags();
        self.maybe[index] = present;
        table.prefetch(place.block + usize::from(unsure));
        put_off.indices[put_off.count % PUT_OFF] = index;
        put_off.count += usize::from(unsure);
        if put_off.count == PUT_OFF {
            self.look_closely(put_off);
        }
    }

    /// Answers all that was put off.
    #[inline(never)]
    fn look_closely(&mut self, put_off: &mut PutOff) {
        for &index in &put_off.indices[..put_off.count] {
            let hash = (self.hash)(index);
            self.maybe[index] = self.filter.look_closely.run(self.filter, hash);
        }
        put_off.count = 0;
    }
}

/// Lookups that take more than a line.
struct PutOff {
    indices: [usize; PUT_OFF],
    count: usize,
}

impl<H: Fn(usize) -> Hash> Operation for ContainsEach<'_, H> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        with_width!(self.filter.table.width(), WIDTH => self.run_with::<M, WIDTH>(machine));
    }
}
