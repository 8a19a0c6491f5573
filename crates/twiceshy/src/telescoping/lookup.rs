//! Lookups of single hashes and of batches.
//!
//! The value and the symbol of an entry decide whether it covers a hash. Decoding symbols is slow,
//! but two cases don't need it. If a code is 0, all its symbols are 0. And if the hash doesn't have
//! an entry's value at any level, the entry doesn't cover it. A lookup decodes symbols only in the
//! other cases.

use super::iter::run;
use super::scheme::{CodedScheme, FewDigits, Scheme};
use super::{CodedFilter, Shared};
use crate::batch::{self, Lookup};
use crate::bits::machine::{Machine, dispatched, kept};
use crate::claim::Cells;
use crate::fingerprint::Digits;
use crate::hash::Scaled;
use crate::table::{Equal, Evidence, Place, Scan, Shape, Wanted};
use crate::{Answer, Claim, Hash};
use core::ops::RangeInclusive;

impl<S: Scheme> CodedFilter<S> {
    /// Returns whether a key with this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.shared.contains(hash)
    }

    /// Looks up many hashes; see [`Filter::contains_many`](crate::Filter::contains_many).
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        batch::fill_answers(maybe, hashes.len(), |maybe| {
            (self.shared.lookups.contains_many)(&self.shared, hashes, maybe);
        });
    }

    pub(super) fn claim_block(&self, query: Hash) -> Claim {
        self.claim_cells(query, self.cells_of_block(self.home_of(query)))
    }

    /// Returns whether inserting `member` may turn `query` into a mistake. It may if both are in
    /// the same block: either they share quotient and remainder, or the insert makes the filter
    /// forget the repair of the query.
    pub(crate) fn may_confuse(&self, member: Hash, query: Hash) -> bool {
        self.home_of(member).block() == self.home_of(query).block()
    }

    fn claim_cells(&self, query: Hash, cells: Cells) -> Claim {
        let version = self.versions.at(self.home(cells.first).block() as u64);
        Claim { query, cells, version }
    }
}

impl<S: CodedScheme> CodedFilter<S> {
    /// Looks up a hash like [`contains`](Self::contains), but returns "maybe" together with a
    /// claim, which lets the filter repair itself if the answer was a mistake.
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    /// Returns the interval of hashes that a claim of this query would name. It is that of the
    /// query's quotient, or that of the whole block if the block's code was too full for the last
    /// repair.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim(query).suspects()
    }

    /// Returns a claim that names all members of the query's block, because an insert or a repair
    /// of this hash may affect any of them.
    pub fn claim_near(&self, query: Hash) -> Claim {
        self.claim_block(query)
    }

    fn claim(&self, query: Hash) -> Claim {
        let quotient = self.shared.coding.digits.scale(query).quotient;
        let block = self.home(quotient).block();
        if S::MEMBERS_TO_FORGET && self.crowded[block / 64] >> (block % 64) & 1 == 1 {
            return self.claim_block(query);
        }
        self.claim_cells(query, self.cell(quotient))
    }
}

impl<S: Scheme> Shared<S> {
    /// Looks up a hash; see [`CodedFilter::contains`].
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.lookups.contains.run(Contains(self), hash)
    }

    /// Returns how hashes are split into digits. The width of a digit is known at compile time
    /// unless `SHAPE` is 0.
    #[inline(always)]
    pub(super) fn digits_of<const SHAPE: u32>(&self) -> Digits {
        let mut digits = self.coding.digits;
        if let Some(width) = const { Shape::width_of(SHAPE) } {
            (digits.remainder, digits.width) = (width, width);
        }
        digits
    }

    /// Scans the line of a place for entries that may cover a hash. With `ACROSS`, also scans the
    /// next line.
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
            let evidence = self.scan::<M, SHAPE, ACROSS>(machine, place, first);
            return evidence.doubted(true).ruled_out_only_if(suffice);
        }
        // Digit 0 is enough: either all entries have level 0, or the level of an entry doesn't
        // change its slot.
        let first = Equal(digits.digit(fraction, 0));
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
            self.table.scan_for::<M, SHAPE>(machine, place, wanted, false)
        }
    }

    #[inline(always)]
    fn begin<const SHAPE: u32>(&self, hash: Hash) -> Begun {
        let Scaled { quotient, fraction } = self.coding.digits.scale(hash);
        Begun { place: self.table.home::<SHAPE>(quotient), fraction }
    }

    /// Returns whether an entry covers a hash. Calls are rare, so this can afford to look up the
    /// machine and the slot width again.
    #[cold]
    fn find(&self, hash: Hash) -> bool {
        let scaled = self.coding.digits.scale(hash);
        let (table, (run, ordinal)) = (&self.table, run(&self.table, scaled.quotient));
        let home = table.home::<0>(scaled.quotient);
        let code = (table.code::<0>(home), table.code_bits());
        self.coding.any_covers(code, ordinal, run.map(|position| table.value(position)), scaled)
    }
}

/// The place and fraction of a hash whose line was prefetched.
#[derive(Clone, Copy, Default)]
struct Begun {
    place: Place,
    fraction: u128,
}

kept! {
    /// Looks up a hash in one line, and falls back to [`LookClosely`] if that is inconclusive. The
    /// variant with `CODED` handles lines whose repairs changed slots. The variant without `CODED`
    /// calls it for such lines, so that its own code stays short.
    pub(super) struct Contains<'a, S: Scheme; const CODED: bool>(shared: &'a Shared<S>);

    fn run(hash: Hash) -> bool => S::Shapes, |machine| {
        let unmixed = shared.coding.digits.multiply(hash);
        let place = shared.table.home::<SHAPE>(unmixed.quotient());
        if CODED {
            // If levels are high, only an unoccupied quotient proves absence quickly.
            if !shared.table.is_occupied_at::<SHAPE>(place) {
                return false;
            }
        } else {
            shared.table.prefetch_across::<SHAPE>(place);
            if S::MEMBERS_TO_FORGET && shared.table.code::<SHAPE>(place) != 0 {
                return shared.lookups.contains_coded.run(Contains(shared), hash);
            }
        }
        let begun = Begun { place, fraction: shared.coding.digits.mix(unmixed).fraction };
        match shared.evidence::<M, SHAPE, false>(machine, begun).scan() {
            Scan::Absent => false,
            Scan::Present if !CODED => true,
            _ => shared.lookups.look_closely.run(LookClosely(shared), hash),
        }
    }
}

kept! {
    /// Looks up a hash if one line was inconclusive. If the whole run is in the line of its home,
    /// decodes the code. Otherwise looks at two lines, and walks through the run if that is not
    /// enough.
    pub(super) struct LookClosely<'a, S: Scheme>(shared: &'a Shared<S>);

    fn run(hash: Hash) -> bool => S::Shapes, |machine| {
        let (table, coding, begun) = (&shared.table, &shared.coding, shared.begin::<SHAPE>(hash));
        let code = table.code::<SHAPE>(begun.place);
        if code != 0
            && let Some((lanes, ordinal)) = table.run_at_home::<M, SHAPE>(machine, begun.place)
        {
            let value = |lane| table.value_at::<SHAPE>(Place::new(begun.place.block(), lane));
            let (code, scaled) = ((code, table.code_bits_of::<SHAPE>()), coding.digits.scale(hash));
            return coding.any_covers(code, ordinal, lanes.map(value), scaled);
        }
        match shared.evidence::<M, SHAPE, true>(machine, begun).scan() {
            Scan::Absent => false,
            Scan::Present => true,
            Scan::Unsure => shared.find(hash),
        }
    }
}

dispatched! {
    /// Answers many lookups. All of `maybe` must be false at first.
    pub(super) fn contains_many<'a, S: Scheme>(
        shared: &'a Shared<S>,
        hashes: &'a [Hash],
        maybe: &'a mut [bool],
    ) -> () => shared.table.target(), S::Shapes, |machine| {
        batch::answer(&Steps::<_, _, SHAPE> { machine, shared }, hashes, maybe);
    }
}

struct Steps<'a, M, S: Scheme, const SHAPE: u32> {
    machine: M,
    shared: &'a Shared<S>,
}

impl<M: Machine, S: Scheme, const SHAPE: u32> Lookup<Hash> for Steps<'_, M, S, SHAPE> {
    type Begun = Begun;

    #[inline(always)]
    fn begin(&self, &hash: &Hash) -> Begun {
        let begun = self.shared.begin::<SHAPE>(hash);
        self.shared.table.prefetch(begun.place);
        begun
    }

    #[inline(always)]
    fn is_candidate(&self, begun: &Begun) -> bool {
        self.shared.table.is_occupied_at::<SHAPE>(begun.place)
    }

    #[inline(always)]
    fn scan(&self, begun: &Begun) -> (bool, bool) {
        self.shared.evidence::<M, SHAPE, false>(self.machine, *begun).flags()
    }

    #[inline(always)]
    fn defer(&self, &hash: &Hash) {
        self.shared.table.prefetch(self.shared.begin::<SHAPE>(hash).place.next_block());
    }

    #[inline(always)]
    fn resolve(&self, &hash: &Hash) -> bool {
        self.shared.lookups.look_closely.run(LookClosely(self.shared), hash)
    }

    #[inline(always)]
    fn contains(&self, &hash: &Hash) -> bool {
        self.shared.contains(hash)
    }
}
