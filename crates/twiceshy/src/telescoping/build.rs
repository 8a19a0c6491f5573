//! Builds filters in one pass from members and mistakes, both in hash order.
//!
//! A code contains only the members of one block, and a block is an interval of hashes, so each
//! block is encoded as soon as its members and mistakes are known. Every member gets the first
//! level at which it covers no mistake of its quotient. If the code has no room for these levels,
//! members are reset to level 0, beginning with those that bring back the fewest mistakes.

use super::scheme::{Coding, Scheme, Spelt, Symbol};
use super::{CodedFilter, Parameters, Shared};
use crate::error::BuildError;
use crate::hash::Scaled;
use crate::quotient::{Remainders, in_order};
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
    /// If a list is not sorted, if a hash is on both lists, or if there are more members than
    /// slots.
    pub fn from_sorted(
        parameters: Parameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut filter = Self::empty(parameters)?;
        let Self { shared: Shared { table, coding, .. }, usage, tally, .. } = &mut filter;
        let mistakes = in_order(mistakes.into_iter(), |mistake| mistake, "mistakes");
        let lanes = u64::from(table.lanes());
        let mut blocks = Blocks {
            coding: *coding,
            end: 0,
            code_bits: table.code_bits(),
            writer: TableWriter::new(table.editor(usage)),
            members: Vec::new(),
            mistakes: mistakes.peekable(),
            unrepaired: 0,
            codes: Vec::new(),
        };
        let mut len = 0;
        let members = members.into_iter().map(Into::into);
        for member in in_order(members, |member: Member| member.hash, "members") {
            let Member { hash, count } = member?;
            if count > parameters.slots - len {
                return Err(BuildError::Full { slots: parameters.slots });
            }
            len += count;
            let member = Placed { hash, scaled: coding.digits.scale(hash), level: 0 };
            if member.scaled.quotient >= blocks.end {
                blocks.write_block()?;
                blocks.end = (member.scaled.quotient / lanes + 1) * lanes;
            }
            blocks.members.extend((0..count).map(|_| member));
        }
        blocks.write_block()?;
        let Blocks { writer, mut mistakes, unrepaired, codes, .. } = blocks;
        writer.finish().map_err(|TableFull| BuildError::Full { slots: parameters.slots })?;
        mistakes.try_for_each(|mistake| mistake.map(drop))?;
        for (quotient, code) in codes {
            let home = table.home::<0>(quotient);
            table.set_code(home, code);
        }
        tally.unrepaired = unrepaired;
        Ok(filter)
    }

    /// Builds a replacement for this filter, with the same size and parameters but fresh
    /// [remainders](Remainders). `members` are the members of this filter, and `mistakes` are
    /// repaired if codes have room; both must be in hash order. Use this when repairs are
    /// forgotten: nobody can predict the new filter's mistakes from those of this one, except that
    /// they share a member's quotient.
    ///
    /// ```
    /// use twiceshy::{Hash, TelescopingFilter};
    ///
    /// let member = Hash::from_u128(7 << 100);
    /// let mut filter = TelescopingFilter::builder().slots(100).build()?;
    /// filter.insert(member)?;
    /// let rotated = filter.rotated([member], [])?;
    /// assert!(rotated.contains(member));
    /// assert_ne!(rotated.parameters().remainders, filter.parameters().remainders);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`from_sorted`](Self::from_sorted), or if the operating system provides no
    /// entropy.
    pub fn rotated(
        &self,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let parameters = Parameters { remainders: Remainders::fresh()?, ..self.parameters() };
        let mut rotated = Self::from_sorted(parameters, members, mistakes)?;
        rotated.succeed(self);
        Ok(rotated)
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

/// Encodes and writes blocks, one after the other.
struct Blocks<'a, S, I: Iterator> {
    coding: Coding<S>,
    /// The first quotient after the current block.
    end: u64,
    code_bits: u32,
    writer: TableWriter<'a>,
    /// The members of the current block.
    members: Vec<Placed>,
    /// The mistakes of the current block and of all later blocks.
    mistakes: Peekable<I>,
    /// Number of mistakes to which the filter still answers "maybe".
    unrepaired: u64,
    /// All codes except 0, each with a quotient of its block.
    codes: Vec<(u64, u128)>,
}

impl<S: Scheme, I: Iterator<Item = Result<Hash, BuildError>>> Blocks<'_, S, I> {
    /// Encodes and writes the members of the current block, and empties the list.
    fn write_block(&mut self) -> Result<(), BuildError> {
        let Some(first) = self.members.first() else { return Ok(()) };
        let (first, end, digits) = (first.scaled.quotient, self.end, self.coding.digits);
        let is_near =
            |next: &I::Item| next.as_ref().map_or(true, |&hash| digits.scale(hash).quotient < end);
        let mut near: Vec<Scaled> = Vec::new();
        while let Some(hash) = self.mistakes.next_if(is_near).transpose()? {
            if self.members.binary_search_by_key(&hash, |member| member.hash).is_ok() {
                return Err(BuildError::MistakeIsMember { hash, position: None });
            }
            let scaled = digits.scale(hash);
            near.extend((scaled.quotient >= first).then_some(scaled));
        }
        for Placed { scaled, level, .. } in &mut self.members {
            *level = self.coding.level_without(*scaled, of(&near, scaled.quotient));
        }
        let code = self.coding.encode_most(&mut self.members, &near, self.code_bits);
        self.codes.extend((code != 0).then_some((first, code)));
        let spell =
            |Placed { scaled, level, .. }| (scaled.quotient, S::spell(&self.coding, scaled, level));
        let entries: Vec<(u64, Spelt)> = self.members.drain(..).map(spell).collect();
        let is_covered = |mistake: &&Scaled| {
            entries.iter().any(|&(quotient, spelt)| {
                quotient == mistake.quotient && self.coding.covers(spelt, **mistake)
            })
        };
        self.unrepaired += near.iter().filter(is_covered).count() as u64;
        let values = entries.into_iter().map(|(quotient, spelt)| (quotient, spelt.value));
        let written = self.writer.push_remainders::<0>(values);
        written.map_err(|TableFull| BuildError::Full { slots: digits.slots })
    }
}

impl<S: Scheme> Coding<S> {
    /// Returns the first level at which a member covers none of these mistakes. If there is no such
    /// level, the result depends on the scheme. For extensions, it is the first level at which the
    /// member covers only mistakes that can't be distinguished from it. For selectors, it is 0,
    /// because the highest level is no better than others and takes the most room.
    fn level_without(&self, member: Scaled, mistakes: &[Scaled]) -> u32 {
        let mut level = 0;
        let mut given_up = Vec::new();
        loop {
            let spelt = S::spell(self, member, level);
            let is_covered =
                |mistake: &&Scaled| self.covers(spelt, **mistake) && !given_up.contains(*mistake);
            let Some(&mistake) = mistakes.iter().find(is_covered) else { return level };
            match S::repaired(self, level, member, mistake) {
                Some(higher) => level = higher,
                None if S::MEMBERS_TO_FORGET => return 0,
                None => given_up.push(mistake),
            }
        }
    }

    /// Encodes the members of a block, and resets some of them to level 0 if there is no room.
    fn encode_most(&self, members: &mut [Placed], mistakes: &[Scaled], bits: u32) -> u128 {
        let spell = |member: &Placed| S::spell(self, member.scaled, member.level).symbol;
        let mut symbols: Vec<Symbol> = members.iter().map(spell).collect();
        loop {
            if let Some(code) = self.encode(&symbols, bits) {
                return code;
            }
            let brought_back = |member: &Placed| {
                let back = S::spell(self, member.scaled, 0);
                let near = of(mistakes, member.scaled.quotient);
                near.iter().filter(|&&mistake| self.covers(back, mistake)).count()
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

/// Returns the mistakes that have this quotient, out of the mistakes of a block.
fn of(mistakes: &[Scaled], quotient: u64) -> &[Scaled] {
    let start = mistakes.partition_point(|mistake| mistake.quotient < quotient);
    let end = mistakes.partition_point(|mistake| mistake.quotient <= quotient);
    &mistakes[start..end]
}
