//! Asking.

use super::scheme::{FirstDigit, Scheme};
use super::{CodedFilter, Spelt};
use crate::bits::machine::{Machine, Operation};
use crate::hash::Scaled;
use crate::table::{Evidence, Place, Scan, Wanted, with_coded_width};
use crate::{Answer, Claim, Fingerprint, Hash};
use core::ops::{Range, RangeInclusive};

/// How many lookups are begun at once.
const GROUP: usize = 16;

impl<S: Scheme> CodedFilter<S> {
    /// Whether a key of this hash may be a member. "No" is certain.
    #[inline]
    pub fn contains(&self, hash: Hash) -> bool {
        self.table.level().run(Contains { filter: self, hash })
    }

    /// As [`contains`](Self::contains), of many: `maybe` is cleared, and then has one answer for
    /// each. Several times as fast where the filter is larger than the cache.
    pub fn contains_many(&self, hashes: &[Hash], maybe: &mut Vec<bool>) {
        maybe.clear();
        maybe.resize(hashes.len(), false);
        self.table.level().run(ContainsMany { filter: self, hashes, maybe });
    }

    /// As [`contains`](Self::contains), but "maybe" carries a claim, which can be used to repair
    /// the filter if it was a mistake.
    pub fn check(&self, hash: Hash) -> Answer {
        if self.contains(hash) { Answer::Maybe(self.claim(hash)) } else { Answer::Absent }
    }

    /// The hashes that a claim of this query would name: those of its quotient, or of all
    /// quotients of its block, if its code is about to be full.
    pub fn suspects(&self, query: Hash) -> RangeInclusive<Hash> {
        self.claim(query).suspects()
    }

    pub(crate) fn claim(&self, query: Hash) -> Claim {
        let scaled = self.scheme.digits().scale(query);
        let home = self.home(scaled.quotient);
        if S::MEMBERS_TO_FORGET && !self.has_room_to_repair(home, scaled) {
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

    /// Whether the code of a block has room for a repair, as far as can be foreseen: one more
    /// level than it is likely to take.
    fn has_room_to_repair(&self, home: Place, query: Scaled) -> bool {
        let mut symbols = self.symbols(home);
        for entry in self.entries(query.quotient..=query.quotient) {
            if self.scheme.covers(entry.spelt, query) {
                let ordinal = entry.ordinal;
                symbols.resize(symbols.len().max(ordinal + 1), 0);
                let level = (S::level(symbols[ordinal]) + 2).min(self.scheme.greatest_level());
                symbols[ordinal] = self.scheme.spell(query, level).symbol;
            }
        }
        self.encode(&symbols).is_some()
    }
}

struct Contains<'a, S> {
    filter: &'a CodedFilter<S>,
    hash: Hash,
}

impl<S: Scheme> Operation for Contains<'_, S> {
    type Output = bool;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        let Self { filter, hash } = self;
        let scaled = filter.scheme.digits().scale(hash);
        with_coded_width!(filter.table.shape(), SHAPE => {
            let place = filter.table.home::<SHAPE>(scaled.quotient);
            filter.ask::<M, SHAPE>(machine, place, scaled)
        })
    }
}

struct ContainsMany<'a, S> {
    filter: &'a CodedFilter<S>,
    hashes: &'a [Hash],
    maybe: &'a mut [bool],
}

impl<S: Scheme> Operation for ContainsMany<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Self { filter, hashes, maybe } = self;
        with_coded_width!(filter.table.shape(), SHAPE => {
            filter.ask_many::<M, SHAPE>(machine, hashes, maybe);
        });
    }
}

impl<S: Scheme> CodedFilter<S> {
    /// One group is asked for while the lines of the next are on their way.
    #[inline(always)]
    fn ask_many<M: Machine, const SHAPE: u32>(
        &self,
        machine: M,
        hashes: &[Hash],
        maybe: &mut [bool],
    ) {
        let digits = self.scheme.digits();
        let begin = |hash: &Hash| {
            let place = self.table.home::<SHAPE>(digits.scale(*hash).quotient);
            self.table.prefetch(place);
            self.table.prefetch_across::<SHAPE>(place);
        };
        hashes.iter().take(GROUP).for_each(begin);
        for (at, hash) in hashes.iter().enumerate() {
            if let Some(coming) = hashes.get(at + GROUP) {
                begin(coming);
            }
            let scaled = digits.scale(*hash);
            let place = self.table.home::<SHAPE>(scaled.quotient);
            maybe[at] = self.ask::<M, SHAPE>(machine, place, scaled);
        }
    }

    #[inline(always)]
    fn ask<M: Machine, const SHAPE: u32>(&self, machine: M, place: Place, scaled: Scaled) -> bool {
        if !S::MEMBERS_TO_FORGET {
            // Levels don't change values, so the code matters only where one is right.
            let scan = self.scan::<M, SHAPE, _>(machine, place, self.scheme.quick(scaled));
            return match scan {
                Scan::Absent => false,
                Scan::Present if self.table.code::<SHAPE>(place) == 0 => true,
                _ => self.look_closely(scaled),
            };
        }
        let code = self.table.code::<SHAPE>(place);
        if code == 0 {
            let first = FirstDigit(self.scheme.digits().digit(scaled.fraction, 0));
            return match self.scan::<M, SHAPE, _>(machine, place, first) {
                Scan::Absent => false,
                Scan::Present => true,
                Scan::Unsure => self.look_closely(scaled),
            };
        }
        let scan = self.scan::<M, SHAPE, _>(machine, place, self.scheme.quick(scaled));
        let is_absent = scan == Scan::Absent && self.scheme.is_quick(code, self.table.code_bits());
        !is_absent && self.look_closely(scaled)
    }

    /// Looks for some values, in one block or two.
    #[inline(always)]
    fn scan<M: Machine, const SHAPE: u32, W: Wanted>(
        &self,
        machine: M,
        place: Place,
        wanted: W,
    ) -> Scan {
        let here: Evidence = self.table.scan_for::<M, SHAPE>(machine, place, wanted);
        match here.scan() {
            Scan::Unsure => {
                self.table.level().run(ScanAcross::<S, W, SHAPE> { filter: self, place, wanted })
            }
            sure => sure,
        }
    }

    #[inline(never)]
    fn look_closely(&self, scaled: Scaled) -> bool {
        self.table.level().run(LookClosely { filter: self, scaled })
    }
}

struct ScanAcross<'a, S, W, const SHAPE: u32> {
    filter: &'a CodedFilter<S>,
    place: Place,
    wanted: W,
}

impl<S: Scheme, W: Wanted, const SHAPE: u32> Operation for ScanAcross<'_, S, W, SHAPE> {
    type Output = Scan;

    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Scan {
        let Self { filter, place, wanted } = self;
        filter.table.scan_across_for::<M, SHAPE>(machine, place, wanted).scan()
    }
}

struct LookClosely<'a, S> {
    filter: &'a CodedFilter<S>,
    scaled: Scaled,
}

impl<S: Scheme> Operation for LookClosely<'_, S> {
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
