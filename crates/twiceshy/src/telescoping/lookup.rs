//! Lookups.
//!
//! The value and the symbol of an entry decide whether it covers a hash. A lookup first decides what
//! needs no symbol: if a code is 0, all symbols are 0, and an entry whose value the hash has at no
//! level doesn't cover it. Only for the other entries it decodes the symbols.

use super::CodedFilter;
use super::scheme::{CodedScheme, FewDigits, FirstDigits, Scheme};
use crate::batch::{self, Lookup};
use crate::bits::machine::{Keepable, Machine, Operation};
use crate::claim::Cells;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Evidence, Place, Scan, Shape};
use crate::{Answer, Claim, Hash};
use core::ops::RangeInclusive;

impl<S: Scheme> CodedFilter<S> {
    /// Returns whether a key with this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.routines.contains.run(Contains(self), hash)
    }

    /// Looks up many hashes: clears `maybe`, and then pushes the answer of
    /// [`contains`](Self::contains) for each hash. This is several times as fast as single lookups
    /// if the filter is larger than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        batch::fill_answers(maybe, hashes.len(), |maybe| {
            (self.routines.contains_many)(self, hashes, maybe);
        });
    }

    /// Answers many lookups. All answers must be false at first.
    pub(super) fn answer_many(&self, hashes: &[Hash], maybe: &mut [bool]) {
        self.table.target().run(ContainsMany { filter: self, hashes, maybe });
    }

    pub(super) fn claim_block(&self, query: Hash) -> Claim {
        self.claim_cells(query, self.cells_of_block(self.home_of(query)))
    }

    pub(super) fn cells_of_block(&self, home: Place) -> Cells {
        let homes = self.table.homes(home);
        Cells { first: homes.start, last: homes.end - 1, slots: self.table.slots() }
    }

    /// Returns whether inserting a member may turn a query into a mistake: at once, if they share
    /// quotient and remainder, or by a repair that an insert into their block makes the filter forget.
    pub(crate) fn may_confuse(&self, member: Hash, query: Hash) -> bool {
        self.home_of(member).block() == self.home_of(query).block()
    }

    fn claim_cells(&self, query: Hash, cells: Cells) -> Claim {
        let version = self.versions.at(self.home(cells.first).block() as u64);
        Claim { query, cells, version }
    }
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Looks a hash up as [`contains`](Self::contains) does, but "maybe" carries a claim, which lets
    /// the filter repair itself if it was a mistake.
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    /// Returns the hashes that a claim of this query would name: those of its quotient, or of all
    /// quotients of its block, if its code was too full for the last repair.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim(query).suspects()
    }

    /// Returns a claim that names all members of the query's block: those that an insert or a repair
    /// of this hash may concern.
    pub fn claim_near(&self, query: Hash) -> Claim {
        self.claim_block(query)
    }

    fn claim(&self, query: Hash) -> Claim {
        let quotient = self.coding.digits.scale(query).quotient;
        if S::MEMBERS_TO_FORGET && self.crowded.contains(self.home(quotient).block()) {
            return self.claim_block(query);
        }
        self.claim_cells(query, Cells::one(quotient, self.table.slots()))
    }
}

impl<S: Scheme> CodedFilter<S> {
    /// Returns how hashes are split into digits; their width is known at compile time unless `SHAPE`
    /// is 0.
    #[inline(always)]
    pub(super) fn digits_of<const SHAPE: u32>(&self) -> Digits {
        let digits = self.coding.digits;
        const { Shape::width_of(SHAPE) }.map_or(digits, |width| Digits {
            remainder: width,
            width,
            ..digits
        })
    }

    /// Scans the line of a place for a hash, and with `ACROSS` also the next line.
    #[inline(always)]
    fn evidence<M: Machine, const SHAPE: u32, const ACROSS: bool>(
        &self,
        machine: M,
        Begun { place, fraction }: Begun,
    ) -> Evidence {
        let digits = self.digits_of::<SHAPE>();
        let code = self.table.code::<SHAPE>(place);
        if S::MEMBERS_TO_FORGET && code != 0 {
            let first = FewDigits::new(digits, self.coding.greatest, fraction);
            let suffice = FewDigits::suffice(code, self.table.code_bits_of::<SHAPE>());
            let evidence = self.scan::<M, SHAPE, ACROSS, _>(machine, place, first);
            return evidence.doubted(true).ruled_out_only_if(suffice);
        }
        // Either all entries have level 0, or levels don't change values.
        let first = FirstDigits::<1>::new(digits, 0, fraction);
        self.scan::<M, SHAPE, ACROSS, _>(machine, place, first).doubted(code != 0)
    }

    #[inline(always)]
    fn scan<M: Machine, const SHAPE: u32, const ACROSS: bool, const COUNT: usize>(
        &self,
        machine: M,
        place: Place,
        wanted: FirstDigits<COUNT>,
    ) -> Evidence {
        if ACROSS {
            self.table.scan_across_for::<M, SHAPE>(machine, place, wanted)
        } else {
            self.table.scan_for::<M, SHAPE>(machine, place, wanted, false)
        }
    }

    #[inline(always)]
    fn begin<const SHAPE: u32>(&self, hash: Hash) -> Begun {
        let Scaled { quotient, fraction } = self.coding.digits.scale(hash);
        Begun { place: self.table.home::<SHAPE>(quotient), fraction }
    }

    /// Returns whether an entry covers a hash, if there is a code and the whole run is in its home's
    /// line.
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
        let (lanes, ordinal) = table.run_at_home::<M, SHAPE>(machine, home)?;
        let value = |lane| table.value_at::<SHAPE>(Place::new(home.block(), lane));
        let (code, scaled) =
            ((code, table.code_bits_of::<SHAPE>()), self.coding.digits.scale(hash));
        Some(self.coding.any_covers(code, ordinal, lanes.map(value), scaled))
    }

    /// Returns whether an entry covers a hash. It is rare, so it may dispatch again.
    #[cold]
    fn find(&self, hash: Hash) -> bool {
        let scaled = self.coding.digits.scale(hash);
        let (table, (run, ordinal)) = (&self.table, self.run(scaled.quotient));
        let code = (table.code::<0>(self.home(scaled.quotient)), table.code_bits());
        self.coding.any_covers(code, ordinal, run.map(|position| table.value(position)), scaled)
    }
}

/// The place and fraction of a hash whose line was prefetched.
#[derive(Clone, Copy, Default)]
struct Begun {
    place: Place,
    fraction: u128,
}

/// Looks at one line, and if that doesn't tell, [closely](LookClosely). `CODED` is for lines whose
/// code isn't 0 and changes values. The other routine calls it, and so stays short.
pub(super) struct Contains<'a, S: Scheme, const CODED: bool>(&'a CodedFilter<S>);

impl<S: Scheme, const CODED: bool> Keepable for Contains<'static, S, CODED> {
    type On<'a> = Contains<'a, S, CODED>;
}

impl<S: Scheme, const CODED: bool> Operation for Contains<'_, S, CODED> {
    type Argument = Hash;
    type Output = bool;
    type Shapes = S::Shapes;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> bool {
        let Self(filter) = self;
        let begun = filter.begin::<SHAPE>(hash);
        if CODED {
            // If levels are high, only an unoccupied quotient proves absence quickly.
            if !filter.table.is_occupied_at::<SHAPE>(begun.place) {
                return false;
            }
        } else {
            filter.table.prefetch_across::<SHAPE>(begun.place);
            if S::MEMBERS_TO_FORGET && filter.table.code::<SHAPE>(begun.place) != 0 {
                return filter.routines.contains_coded.run(Contains(filter), hash);
            }
        }
        match filter.evidence::<M, SHAPE, false>(machine, begun).scan() {
            Scan::Absent => false,
            Scan::Present if !CODED => true,
            _ => filter.routines.look_closely.run(LookClosely(filter), hash),
        }
    }
}

/// Decodes, if all of the run is in its home's line; else looks at two lines, or else walks through
/// the run.
pub(super) struct LookClosely<'a, S: Scheme>(&'a CodedFilter<S>);

impl<S: Scheme> Keepable for LookClosely<'static, S> {
    type On<'a> = LookClosely<'a, S>;
}

impl<S: Scheme> Operation for LookClosely<'_, S> {
    type Argument = Hash;
    type Output = bool;
    type Shapes = S::Shapes;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, hash: Hash) -> bool {
        let Self(filter) = self;
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

struct ContainsMany<'a, S: Scheme> {
    filter: &'a CodedFilter<S>,
    hashes: &'a [Hash],
    maybe: &'a mut [bool],
}

impl<S: Scheme> Operation for ContainsMany<'_, S> {
    type Argument = ();
    type Output = ();
    type Shapes = S::Shapes;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, machine: M, (): ()) {
        let Self { filter, hashes, maybe } = self;
        batch::answer(&Steps::<_, _, SHAPE> { machine, filter }, hashes, maybe);
    }
}

struct Steps<'a, M, S: Scheme, const SHAPE: u32> {
    machine: M,
    filter: &'a CodedFilter<S>,
}

impl<M: Machine, S: Scheme, const SHAPE: u32> Lookup<Hash> for Steps<'_, M, S, SHAPE> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> Begun {
        let begun = self.filter.begin::<SHAPE>(hash);
        self.filter.table.prefetch(begun.place);
        begun
    }

    #[inline(always)]
    fn is_candidate(&self, begun: &Begun) -> bool {
        self.filter.table.is_occupied_at::<SHAPE>(begun.place)
    }

    #[inline(always)]
    fn scan(&self, begun: &Begun) -> (bool, bool) {
        self.filter.evidence::<M, SHAPE, false>(self.machine, *begun).flags()
    }

    #[inline(always)]
    fn defer(&self, &hash: &Hash) {
        self.filter.table.prefetch(self.filter.begin::<SHAPE>(hash).place.next_block());
    }

    #[inline(always)]
    fn resolve(&self, &hash: &Hash) -> bool {
        self.filter.routines.look_closely.run(LookClosely(self.filter), hash)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.filter.contains(hash)
    }
}
