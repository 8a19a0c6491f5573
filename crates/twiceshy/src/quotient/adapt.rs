//! Repairing a mistake.

use super::{AdaptiveQuotientFilter, slots_of};
use crate::bits::machine::{Machine, Operation};
use crate::error::AdaptError;
use crate::fingerprint::{Digits, Fingerprint};
use crate::hash::Scaled;
use crate::table::{Slot, TableFull};
use crate::{Adaptation, Claim, Hash};
use core::ops::Range;

impl AdaptiveQuotientFilter {
    /// Repairs a mistake: the claim's query is no member, and `members` are the hashes
    /// of *all* members in [`claim.suspects()`](Claim::suspects), in any order, each as
    /// often as it was inserted. All fingerprints that cover the query are repaired at
    /// once. Afterwards the filter answers "absent" to it.
    ///
    /// A mistake that was repaired already is no error.
    ///
    /// The listed hashes must be the members' true ones: numbers and prefixes are
    /// checked, but a fingerprint can't tell its member from another hash that it
    /// covers, and would be lengthened after the wrong one.
    ///
    /// # Errors
    /// An [`AdaptError`], and nothing has changed, if the claim is stale, if `members`
    /// don't match the fingerprints one to one, if the query is one of them, or if
    /// there is no room.
    pub fn adapt(&mut self, claim: &Claim, members: &[Hash]) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Refuse)
    }

    /// As [`adapt`](Self::adapt), but fingerprints that no listed member explains are
    /// dropped: ghosts, left for example by a write that failed after the filter's
    /// insert.
    ///
    /// By calling this you say that `members` is **complete and current**. If it is
    /// not, a member's fingerprint is taken for a ghost, and the member is lost.
    ///
    /// # Errors
    /// As [`adapt`](Self::adapt), but for [`AdaptError::Unlisted`].
    pub fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Hash],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_with(claim, members, Ghosts::Drop)
    }

    fn adapt_with(
        &mut self,
        claim: &Claim,
        members: &[Hash],
        ghosts: Ghosts,
    ) -> Result<Adaptation, AdaptError> {
        let digits = self.digits();
        let mistake = digits.scale(claim.query);
        if claim.version != self.versions.at(mistake.quotient) {
            return Err(AdaptError::Stale);
        }
        if let Some(&member) = members.iter().find(|&&member| !claim.cell.covers(member)) {
            return Err(AdaptError::Outside { member });
        }
        if members.contains(&claim.query) {
            return Err(AdaptError::IsMember);
        }
        let mut members: Vec<Scaled> = members.iter().map(|&hash| digits.scale(hash)).collect();
        members.sort_unstable();

        let minirun = self.find_minirun(mistake);
        let stored: Vec<Fingerprint> = self
            .table
            .entries(minirun.clone())
            .map(|entry| self.fingerprint_at(mistake.quotient, entry))
            .collect();
        let matched = match_members(&stored, &members);
        if matched.surplus > 0 {
            return Err(AdaptError::Surplus { members: matched.surplus });
        }
        if matched.unexplained > 0 && ghosts == Ghosts::Refuse {
            return Err(AdaptError::Unlisted { fingerprints: matched.unexplained });
        }

        let (mut repaired, lengthened) = repair(digits, &matched.pairs, mistake);
        let adaptation = Adaptation { lengthened, ghosts: matched.unexplained };
        if adaptation == (Adaptation { lengthened: 0, ghosts: 0 }) {
            return Ok(adaptation);
        }
        repaired.sort_unstable();
        let slots: Vec<Slot> = repaired.iter().flat_map(|&print| slots_of(digits, print)).collect();
        self.rewrite(mistake.quotient, minirun, &slots)
            .map_err(|TableFull| AdaptError::Full { load: self.load() })?;
        if adaptation.ghosts > 0 {
            self.len -= adaptation.ghosts as u64;
            self.versions.bump(mistake.quotient);
        }
        self.adaptations += 1;
        Ok(adaptation)
    }

    /// As [`minirun`](Self::minirun), on this machine.
    pub(super) fn find_minirun(&self, scaled: Scaled) -> Range<u64> {
        self.table.level().run(FindMinirun { filter: self, scaled })
    }

    /// Replaces whole entries of the run of `quotient`.
    pub(super) fn rewrite(
        &mut self,
        quotient: u64,
        entries: Range<u64>,
        slots: &[Slot],
    ) -> Result<(), TableFull> {
        self.table.level().run(Rewrite { filter: self, quotient, entries, slots })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ghosts {
    Refuse,
    Drop,
}

/// Which fingerprint is whose.
struct Matched {
    pairs: Vec<(Fingerprint, Scaled)>,
    /// Fingerprints that no member explains.
    unexplained: usize,
    /// Members that have no fingerprint.
    surplus: usize,
}

/// Matches fingerprints and members of a minirun, both in order.
///
/// No fingerprint is a proper prefix of another, so their intervals are disjoint or
/// equal, and a member can only have come from the one that covers it: walking both
/// lists side by side finds the exact matching.
fn match_members(stored: &[Fingerprint], members: &[Scaled]) -> Matched {
    let mut matched = Matched { pairs: Vec::new(), unexplained: 0, surplus: 0 };
    let mut members = members.iter().peekable();
    for &fingerprint in stored {
        while members.next_if(|member| member.fraction < fingerprint.prefix()).is_some() {
            matched.surplus += 1;
        }
        match members.next_if(|member| fingerprint.covers_scaled(**member)) {
            Some(&member) => matched.pairs.push((fingerprint, member)),
            None => matched.unexplained += 1,
        }
    }
    matched.surplus += members.count();
    matched
}

/// The fingerprints of the members, lengthened where they cover the mistake, and how
/// many were.
fn repair(
    digits: Digits,
    pairs: &[(Fingerprint, Scaled)],
    mistake: Scaled,
) -> (Vec<Fingerprint>, usize) {
    let mut lengthened = 0;
    let repaired = pairs
        .iter()
        .map(|&(fingerprint, member)| {
            if !fingerprint.covers_scaled(mistake) {
                return fingerprint;
            }
            lengthened += 1;
            let count = digits.to_tell_apart(member, mistake).expect("the mistake is no member");
            digits.fingerprint(member, count)
        })
        .collect();
    (repaired, lengthened)
}

struct FindMinirun<'a> {
    filter: &'a AdaptiveQuotientFilter,
    scaled: Scaled,
}

impl Operation for FindMinirun<'_> {
    type Output = Range<u64>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Range<u64> {
        self.filter.minirun(machine, self.scaled)
    }
}

struct Rewrite<'a> {
    filter: &'a mut AdaptiveQuotientFilter,
    quotient: u64,
    entries: Range<u64>,
    slots: &'a [Slot],
}

impl Operation for Rewrite<'_> {
    type Output = Result<(), TableFull>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        self.filter.table.replace(machine, self.quotient, self.entries, self.slots)
    }
}
