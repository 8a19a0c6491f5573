//! Builds filters in one pass from members and mistakes, both in hash order.
//!
//! A code contains only members of one block, which is an interval of hashes. So each block is
//! encoded as soon as its members and mistakes are known: every member at the first level at which
//! it covers no mistake of its quotient. If the code has no room for that, the members that bring
//! back the fewest mistakes are reset to level 0.

use super::scheme::{Coding, Scheme, Spelt, Symbol};
use super::{CodedFilter, Parameters};
use crate::error::BuildError;
use crate::hash::Scaled;
use crate::table::{TableFull, TableWriter};
use crate::{Hash, Member};
use core::cmp::Reverse;
use core::iter::Peekable;

impl<S: Scheme> CodedFilter<S> {
    /// Builds a filter with these parameters in one pass from members and mistakes, both in hash
    /// order. It repairs as many mistakes as its codes have room for, and
    /// [counts](super::Details::unrepaired) the others.
    ///
    /// ```
    /// use twiceshy::{ExtensionFilter, Hash};
    ///
    /// let parameters = ExtensionFilter::builder().slots(100).build()?.parameters();
    /// let [member, mistake] = [7u128 << 100, (7 << 100) + 1].map(Hash::from_u128);
    /// let filter = ExtensionFilter::from_sorted(parameters, [member], [mistake])?;
    /// assert!(filter.contains(member));
    /// // They share more bits than an extension can have.
    /// assert!(filter.contains(mistake) && filter.details().unrepaired == 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a list is not sorted, if a hash is on both lists, or if there are more members than slots.
    pub fn from_sorted(
        parameters: Parameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut filter = Self::empty(parameters)?;
        let mut blocks = Blocks {
            coding: filter.coding,
            lanes: filter.table.lanes().into(),
            code_bits: filter.table.code_bits(),
            unrepaired: 0,
            codes: Vec::new(),
        };
        let full = || BuildError::Full { slots: parameters.slots };
        let mut mistakes = Mistakes { last: Hash::MIN, rest: mistakes.into_iter().peekable() };
        let mut writer = TableWriter::new(&mut filter.table);
        let mut members_of_block: Vec<Placed> = Vec::new();
        let mut last = Hash::MIN;
        for member in members {
            let Member { hash, count } = member.into();
            if hash < last {
                return Err(BuildError::Unsorted("members"));
            }
            last = hash;
            if count > parameters.slots - filter.tally.len {
                return Err(full());
            }
            filter.tally.len += count;
            let member = Placed { hash, scaled: filter.coding.digits.scale(hash), level: 0 };
            let block = blocks.block(member.scaled);
            if members_of_block.first().is_some_and(|first| blocks.block(first.scaled) != block) {
                let entries = blocks.spell(&mut members_of_block, &mut mistakes)?;
                writer.push_remainders::<0>(entries.into_iter()).map_err(|TableFull| full())?;
            }
            members_of_block.extend((0..count).map(|_| member));
        }
        let entries = blocks.spell(&mut members_of_block, &mut mistakes)?;
        writer.push_remainders::<0>(entries.into_iter()).map_err(|TableFull| full())?;
        writer.finish().map_err(|TableFull| full())?;
        while mistakes.next_if(|_| true)?.is_some() {}
        for (quotient, code) in blocks.codes {
            let home = filter.home(quotient);
            filter.table.set_code(home, code);
        }
        filter.tally.unrepaired = blocks.unrepaired;
        Ok(filter)
    }

    /// Copies the counters of the filter that this one replaces.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.tally.adaptations = before.tally.adaptations;
        self.tally.forgotten = before.tally.forgotten;
    }
}

/// A member and its level.
#[derive(Clone, Copy)]
struct Placed {
    hash: Hash,
    scaled: Scaled,
    level: u32,
}

/// Encodes blocks, one after the other.
struct Blocks<S> {
    coding: Coding<S>,
    lanes: u64,
    code_bits: u32,
    /// Number of mistakes that are still "maybe".
    unrepaired: u64,
    /// Codes that aren't 0, each with a quotient of its block.
    codes: Vec<(u64, u128)>,
}

impl<S: Scheme> Blocks<S> {
    fn block(&self, scaled: Scaled) -> u64 {
        scaled.quotient / self.lanes
    }

    /// Encodes the members of a block, and empties the list. Returns quotients and values.
    fn spell(
        &mut self,
        members: &mut Vec<Placed>,
        mistakes: &mut Mistakes<impl Iterator<Item = Hash>>,
    ) -> Result<Vec<(u64, u64)>, BuildError> {
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let (first, block) = (first.scaled.quotient, self.block(first.scaled));
        let digits = self.coding.digits;
        let mut near: Vec<Scaled> = Vec::new();
        while let Some(hash) = mistakes.next_if(|hash| self.block(digits.scale(hash)) <= block)? {
            if members.binary_search_by_key(&hash, |member| member.hash).is_ok() {
                return Err(BuildError::MistakeIsMember { hash, position: None });
            }
            let scaled = digits.scale(hash);
            near.extend((scaled.quotient >= first).then_some(scaled));
        }
        for member in &mut *members {
            member.level = self.level_without(member.scaled, of(&near, member.scaled.quotient));
        }
        let code = self.encode_most(members, &near);
        self.codes.extend((code != 0).then_some((first, code)));
        let spell = |member: Placed| {
            (member.scaled.quotient, S::spell(&self.coding, member.scaled, member.level))
        };
        let entries: Vec<(u64, Spelt)> = members.drain(..).map(spell).collect();
        let is_covered = |mistake: &&Scaled| {
            entries.iter().any(|&(quotient, spelt)| {
                quotient == mistake.quotient && self.coding.covers(spelt, **mistake)
            })
        };
        self.unrepaired += near.iter().filter(is_covered).count() as u64;
        Ok(entries.into_iter().map(|(quotient, spelt)| (quotient, spelt.value)).collect())
    }

    /// Returns the first level at which a member covers none of these mistakes. If there is none,
    /// the result for extensions is the first level at which it covers only mistakes that can't be
    /// distinguished from it. For selectors it is 0, because the highest level is no better than
    /// others and takes the most room.
    fn level_without(&self, member: Scaled, mistakes: &[Scaled]) -> u32 {
        let mut level = 0;
        let mut given_up = Vec::new();
        loop {
            let spelt = S::spell(&self.coding, member, level);
            let is_covered = |mistake: &&Scaled| {
                self.coding.covers(spelt, **mistake) && !given_up.contains(*mistake)
            };
            let Some(&mistake) = mistakes.iter().find(is_covered) else { return level };
            match S::repaired(&self.coding, level, member, mistake) {
                Some(higher) => level = higher,
                None if S::MEMBERS_TO_FORGET => return 0,
                None => given_up.push(mistake),
            }
        }
    }

    /// Encodes the members of a block, and resets some of them to level 0 if there is no room.
    fn encode_most(&self, members: &mut [Placed], mistakes: &[Scaled]) -> u128 {
        let spell = |member: &Placed| S::spell(&self.coding, member.scaled, member.level).symbol;
        let mut symbols: Vec<Symbol> = members.iter().map(spell).collect();
        loop {
            if let Some(code) = self.coding.encode(&symbols, self.code_bits) {
                return code;
            }
            let brought_back = |member: &Placed| {
                let back = S::spell(&self.coding, member.scaled, 0);
                let near = of(mistakes, member.scaled.quotient);
                near.iter().filter(|&&mistake| self.coding.covers(back, mistake)).count()
            };
            let repaired = (0..members.len()).filter(|&at| members[at].level > 0);
            // Among equal candidates, choose the one that takes the most room.
            let least =
                repaired.min_by_key(|&at| (brought_back(&members[at]), Reverse(members[at].level)));
            let at = least.expect("a code always has room for entries of level 0");
            // If one copy of a hash brings mistakes back, repairs of the other copies are useless.
            let hash = members[at].hash;
            let first = members.partition_point(|member| member.hash < hash);
            let end = members.partition_point(|member| member.hash <= hash);
            members[first..end].iter_mut().for_each(|member| member.level = 0);
            symbols[first..end].fill(0);
        }
    }
}

/// Returns the mistakes of a quotient among those of a block.
fn of(mistakes: &[Scaled], quotient: u64) -> &[Scaled] {
    let start = mistakes.partition_point(|mistake| mistake.quotient < quotient);
    let end = mistakes.partition_point(|mistake| mistake.quotient <= quotient);
    &mistakes[start..end]
}

/// The mistakes that are not yet used.
struct Mistakes<I: Iterator<Item = Hash>> {
    last: Hash,
    rest: Peekable<I>,
}

impl<I: Iterator<Item = Hash>> Mistakes<I> {
    /// Takes the next mistake if it is wanted.
    fn next_if(&mut self, is_wanted: impl Fn(Hash) -> bool) -> Result<Option<Hash>, BuildError> {
        let next = self.rest.next_if(|&hash| is_wanted(hash));
        if next.is_some_and(|hash| hash < self.last) {
            return Err(BuildError::Unsorted("mistakes"));
        }
        self.last = next.unwrap_or(self.last);
        Ok(next)
    }
}
