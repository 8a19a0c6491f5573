//! Asking.
//!
//! Whether an entry covers a hash is decided by its value and its symbol. What needs no symbol is
//! decided first: where a code is zero, all symbols are; and a value that no level of the hash
//! has is some other's, whatever its symbol. So only what is left is decoded, up to the entries
//! in question.

use super::scheme::{FirstDigit, Scheme};
use super::{CodedFilter, Spelt};
use crate::bits::list::List;
use crate::bits::machine::{Machine, Operation, Routine};
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Evidence, Place, Scan, Shape, Wanted};
use crate::{Answer, Claim, Fingerprint, Hash};
use core::marker::PhantomData;
use core::ops::{Range, RangeInclusive};

/// How many lookups are begun at once.
const GROUP: usize = 16;

impl<S: Scheme> CodedFilter<S> {
    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.routines.contains.run(self, hash)
    }

    /// As [`contains`](Self::contains), of many: `maybe` is cleared, and then has one answer for
    /// each. Several times as fast where the filter is larger than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        self.routines.contains_many.run((self, hashes, maybe), ());
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used to repair
    /// the filter if it was a mistake.
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    /// The hashes that a claim of this query would name: those of its quotient, or of all
    /// quotients of its block, if its code was too full for the last repair.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim(query).suspects()
    }

    pub(crate) fn claim(&self, query: Hash) -> Claim {
        let scaled = self.scheme.digits().scale(query);
        let home = self.home(scaled.quotient);
        if S::MEMBERS_TO_FORGET && self.crowded.contains(home.block()) {
            return self.claim_block(query, home);
        }
        self.claim_cells(query, scaled.quotient..scaled.quotient + 1)
    }

    /// A claim that names all hashes of the block at a place.
    pub(super) fn claim_block(&self, query: Hash, home: Place) -> Claim {
        self.claim_cells(query, self.table.homes(home))
    }

    fn claim_cells(&self, query: Hash, quotients: Range<u64>) -> Claim {
        let cell =
            |quotient| Fingerprint::of(Scaled { quotient, fraction: 0 }, 0, self.table.slots());
        let version = self.versions.at(self.home(quotients.start).block() as u64);
        let (cell, through) = (cell(quotients.start), cell(quotients.end - 1));
        Claim { query, cell, through, version }
    }
}

impl<S: Scheme> CodedFilter<S> {
    /// Cuts hashes into digits, by way of [`with_shape`](crate::table::with_shape).
    #[inline(always)]
    pub(super) fn digits_of<const SHAPE: u32>(&self) -> Digits {
        let digits = self.scheme.digits();
        const { Shape::width_of(SHAPE) }.map_or(digits, |width| Digits {
            remainder: width,
            width,
            ..digits
        })
    }

    /// What the line of a place tells of a hash; with `ACROSS`, also the next line.
    #[inline(always)]
    fn evidence<M: Machine, const SHAPE: u32, const ACROSS: bool>(
        &self,
        machine: M,
        Begun { place, fraction }: Begun,
    ) -> Evidence {
        let digits = self.digits_of::<SHAPE>();
        let code = self.table.code::<SHAPE>(place);
        if S::MEMBERS_TO_FORGET && code != 0 {
            let quick = self.scheme.quick(digits, fraction);
            let is_quick = self.scheme.is_quick(code, self.table.code_bits_of::<SHAPE>());
            let evidence = self.scan::<M, SHAPE, ACROSS>(machine, place, quick);
            return evidence.doubted(true).ruled_out_only_if(is_quick);
        }
        // Either there is no other level, or levels don't change values.
        let first = FirstDigit(digits.digit(fraction, 0));
        self.scan::<M, SHAPE, ACROSS>(machine, place, first).doubted(code != 0)
    }

    #[inline(always)]
    fn scan<M: Machine, const SHAPE: u32, const ACROSS: bool>(
        &self,
        machine: M,
        place: Place,
        wanted: impl Wanted,
    ) -> Evidence {
        if ACROSS {
            self.table.scan_across_for::<M, SHAPE>(machine, place, wanted)
        } else {
            self.table.scan_for::<M, SHAPE>(machine, place, wanted)
        }
    }

    #[inline(always)]
    fn begin<const SHAPE: u32>(&self, hash: Hash) -> Begun {
        let Scaled { quotient, fraction } = self.scheme.digits().scale(hash);
        Begun { place: self.table.home::<SHAPE>(quotient), fraction }
    }

    /// Whether an entry of a run covers a hash, if there is a code, and the run in its home's line.
    #[inline(always)]
    fn look_at_home<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        begun: Begun,
        hash: Hash,
    ) -> Option<bool> {
        let (table, home) = (&self.table, begun.place);
        let code = table.code::<SHAPE>(home);
        if code == 0 {
            return None;
        }
        let (mut lanes, ordinal) = table.run_at_home::<M, SHAPE>(machine, home)?;
        let scaled = self.scheme.digits().scale(hash);
        let mut is_covered = false;
        self.scheme.decode_from(code, table.code_bits_of::<SHAPE>(), ordinal, |symbol| {
            let Some(lane) = lanes.next() else { return false };
            let value = table.value_at::<SHAPE>(Place::new(home.block(), lane));
            is_covered = self.scheme.covers(Spelt { value, symbol }, scaled);
            !is_covered
        });
        Some(is_covered)
    }

    /// Whether an entry of its run covers a hash; rare enough to be dispatched once more.
    #[cold]
    fn find(&self, hash: Hash) -> bool {
        self.table.level().run(Find { filter: self, scaled: self.scheme.digits().scale(hash) })
    }

    /// Answers the lookups that take more than a line.
    #[inline(always)]
    fn look_closely_at<const SHAPE: u32>(
        &self,
        unsure: &[usize],
        hashes: &[Hash],
        maybe: &mut [bool],
    ) {
        for &index in unsure {
            self.table.prefetch(self.begin::<SHAPE>(hashes[index]).place.next_block());
        }
        for &index in unsure {
            maybe[index] = self.routines.look_closely.run(self, hashes[index]);
        }
    }
}

/// What is known of a hash whose line was asked for.
#[derive(Clone, Copy, Default)]
struct Begun {
    place: Place,
    fraction: u128,
}

/// Looks at one line whose code changes values, and if that doesn't tell, [closely](LookClosely).
pub(super) struct ContainsCoded<S>(PhantomData<S>);

impl<S: Scheme> Routine for ContainsCoded<S> {
    type Subject<'a> = &'a CodedFilter<S>;
    type Argument = Hash;
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(machine: M, filter: &CodedFilter<S>, hash: Hash) -> bool {
        let begun = filter.begin::<SHAPE>(hash);
        // Where levels are high, the line rules out nothing else.
        if !filter.table.is_occupied_at::<SHAPE>(begun.place) {
            return false;
        }
        let evidence = filter.evidence::<M, SHAPE, false>(machine, begun);
        evidence.scan() != Scan::Absent && filter.routines.look_closely.run(filter, hash)
    }
}

/// Looks at one line, and if that doesn't tell, [closely](LookClosely). Where codes change values,
/// and there is one, [another routine](ContainsCoded) goes on: so this one stays short.
pub(super) struct Contains<S>(PhantomData<S>);

impl<S: Scheme> Routine for Contains<S> {
    type Subject<'a> = &'a CodedFilter<S>;
    type Argument = Hash;
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(machine: M, filter: &CodedFilter<S>, hash: Hash) -> bool {
        let begun = filter.begin::<SHAPE>(hash);
        filter.table.prefetch_across::<SHAPE>(begun.place);
        if S::MEMBERS_TO_FORGET && filter.table.code::<SHAPE>(begun.place) != 0 {
            return filter.routines.contains_coded.run(filter, hash);
        }
        match filter.evidence::<M, SHAPE, false>(machine, begun).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.routines.look_closely.run(filter, hash),
        }
    }
}

/// Decodes, if all of the run is in its home's line; else looks at two lines, or else walks through
/// the run.
pub(super) struct LookClosely<S>(PhantomData<S>);

impl<S: Scheme> Routine for LookClosely<S> {
    type Subject<'a> = &'a CodedFilter<S>;
    type Argument = Hash;
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(machine: M, filter: &CodedFilter<S>, hash: Hash) -> bool {
        let begun = filter.begin::<SHAPE>(hash);
        if let Some(is_covered) = filter.look_at_home::<M, SHAPE>(machine, begun, hash) {
            return is_covered;
        }
        match filter.evidence::<M, SHAPE, true>(machine, begun).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => filter.find(hash),
        }
    }
}

/// Looks at one line each, a group at a time, while those of the next group are on their way.
/// What that doesn't tell is put off, until there are enough of them to ask for their next lines
/// together.
pub(super) struct ContainsMany<S>(PhantomData<S>);

impl<S: Scheme> Routine for ContainsMany<S> {
    type Subject<'a> = (&'a CodedFilter<S>, &'a [Hash], &'a mut [bool]);
    type Argument = ();
    type Output = ();

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(
        machine: M,
        (filter, hashes, maybe): Self::Subject<'_>,
        (): (),
    ) {
        let begin = |&hash: &Hash| {
            let begun = filter.begin::<SHAPE>(hash);
            filter.table.prefetch(begun.place);
            begun
        };
        let (groups, rest) = hashes.as_chunks::<GROUP>();
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
                let place = arrived[lane].place;
                occupied.push_if(filter.table.is_occupied_at::<SHAPE>(place), lane);
            }
            for &lane in occupied.drain() {
                let evidence = filter.evidence::<M, SHAPE, false>(machine, arrived[lane % GROUP]);
                let (present, doubtful) = evidence.flags();
                let index = number * GROUP + lane;
                maybe[index] = present;
                unsure.push_if(doubtful, index);
            }
            if unsure.len() >= GROUP {
                filter.look_closely_at::<SHAPE>(unsure.drain(), hashes, maybe);
            }
        }
        filter.look_closely_at::<SHAPE>(unsure.drain(), hashes, maybe);
        for (&hash, maybe) in rest.iter().zip(&mut maybe[groups.len() * GROUP..]) {
            *maybe = filter.contains(hash);
        }
    }
}

struct Find<'a, S: Scheme> {
    filter: &'a CodedFilter<S>,
    scaled: Scaled,
}

impl<S: Scheme> Operation for Find<'_, S> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Self { filter: CodedFilter { table, scheme, .. }, scaled } = self;
        let home = table.home::<0>(scaled.quotient);
        let run = table.run(machine, scaled.quotient);
        if run.is_empty() {
            return false;
        }
        let from = table.ordinal(machine, home, run.start);
        let (mut positions, mut found) = (run, false);
        scheme.decode_from(table.code::<0>(home), table.code_bits(), from, |symbol| {
            let Some(position) = positions.next() else { return false };
            found = scheme.covers(Spelt { value: table.value(position), symbol }, scaled);
            !found
        });
        found
    }
}
