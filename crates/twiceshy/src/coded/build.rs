//! Filters from members and mistakes, both in hash order, in one pass.
//!
//! All that a code speaks of are the members of one block, an interval of hashes. So each block
//! is spelt as soon as its members and mistakes are there: every member at the first level at
//! which it covers none of the mistakes of its quotient. If the code has no room for that, those
//! are put back to level 0 that bring back the fewest mistakes.

use super::scheme::{Scheme, Spelt, Symbol};
use super::{CodedBuilder, CodedFilter, CodedParameters};
use crate::error::BuildError;
use crate::hash::Scaled;
use crate::table::{TableFull, TableWriter};
use crate::{Hash, Member};
use core::cmp::Reverse;
use core::iter::Peekable;

impl<S: Scheme> CodedFilter<S> {
    /// A filter of these parameters and members, in which as many of these mistakes are
    /// "absent" as its codes have room for, written in one pass. Both come in hash order.
    ///
    /// How many mistakes are "maybe" all the same is
    /// [counted](super::CodedStatistics::unrepaired).
    ///
    /// ```
    /// use twiceshy::{ExtensionFilter, Hash};
    ///
    /// let parameters = ExtensionFilter::builder().slots(100).build()?.parameters();
    /// let [member, mistake] = [7u128 << 100, (7 << 100) + 1].map(Hash::from_u128);
    /// let filter = ExtensionFilter::from_sorted(parameters, [member], [mistake])?;
    /// assert!(filter.contains(member));
    /// // They share more bits than an extension can have.
    /// assert!(filter.contains(mistake) && filter.statistics().unrepaired == 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a list is out of order, if a hash is on both, or if there are more members than slots.
    pub fn from_sorted(
        parameters: CodedParameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut filter = Self::empty(parameters)?;
        let mut blocks = Blocks {
            scheme: filter.scheme,
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
            if count > parameters.slots - filter.len {
                return Err(full());
            }
            filter.len += count;
            let member = Placed { hash, scaled: filter.scheme.digits().scale(hash), level: 0 };
            let block = blocks.block(member.scaled);
            if members_of_block.first().is_some_and(|first| blocks.block(first.scaled) != block) {
                let entries = blocks.spell(&mut members_of_block, &mut mistakes)?;
                writer.push_remainders(entries.into_iter()).map_err(|TableFull| full())?;
            }
            members_of_block.extend((0..count).map(|_| member));
        }
        let entries = blocks.spell(&mut members_of_block, &mut mistakes)?;
        writer.push_remainders(entries.into_iter()).map_err(|TableFull| full())?;
        writer.finish().map_err(|TableFull| full())?;
        while mistakes.next_if(|_| true)?.is_some() {}
        for (quotient, code) in blocks.codes {
            filter.table.set_code(filter.home(quotient), code);
        }
        filter.unrepaired = blocks.unrepaired;
        Ok(filter)
    }

    /// The same members in any number of slots, more or fewer, and the mistakes repaired, as far
    /// as there is room. All members have to be listed, because entries alone don't tell where
    /// they belong in another table; both lists come in hash order. Statistics go on.
    ///
    /// ```
    /// use twiceshy::{Hash, TelescopingFilter};
    ///
    /// let members = [1u128, 2, 3].map(|member| Hash::from_u128(member << 120));
    /// let mut filter = TelescopingFilter::builder().slots(3).build()?;
    /// members.iter().try_for_each(|&member| filter.insert(member))?;
    /// filter = filter.resized(2 * filter.slots(), members, [])?;
    /// assert!(filter.slots() == 6 && members.iter().all(|&member| filter.contains(member)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_sorted`](Self::from_sorted).
    pub fn resized(
        &self,
        slots: u64,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let parameters = CodedParameters { slots, ..self.parameters() };
        let mut resized = Self::from_sorted(parameters, members, mistakes)?;
        resized.succeed(self);
        Ok(resized)
    }

    /// Takes the place of a filter of the same members, and counts on.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.adaptations = before.adaptations;
        self.forgotten = before.forgotten;
    }

    /// One filter of the members of several, each given with all its members, and the mistakes
    /// repaired, as far as there is room; members and mistakes come in hash order. It has as many
    /// slots as they have together, and remainders and codes as long as the longest of theirs.
    ///
    /// ```
    /// use twiceshy::{ExtensionFilter, Hash};
    ///
    /// let [a, b] = [1u128, 2].map(|member| Hash::from_u128(member << 120));
    /// let builder = ExtensionFilter::builder().slots(10);
    /// let [with_a, with_b] = [a, b].map(|member| builder.clone().build_from(vec![member], vec![]));
    /// let merged = ExtensionFilter::merged([(&with_a?, [a]), (&with_b?, [b])], [])?;
    /// assert!(merged.len() == 2 && merged.contains(a) && merged.contains(b));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_sorted`](Self::from_sorted), or if there are no filters.
    pub fn merged<'a, L: IntoIterator<Item: Into<Member>>>(
        filters: impl IntoIterator<Item = (&'a Self, L)>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut parameters = CodedParameters { slots: 0, remainder_bits: 0, code_bits: 0 };
        let mut lists = Vec::new();
        for (filter, members) in filters {
            let CodedParameters { slots, remainder_bits, code_bits } = filter.parameters();
            parameters.slots = parameters.slots.saturating_add(slots);
            parameters.remainder_bits = parameters.remainder_bits.max(remainder_bits);
            parameters.code_bits = parameters.code_bits.max(code_bits);
            lists.push(members.into_iter().map(Into::into).peekable());
        }
        if lists.is_empty() {
            return Err(BuildError::Size);
        }
        Self::from_sorted(parameters, core::iter::from_fn(|| least(&mut lists)), mistakes)
    }
}

impl<S: Scheme> CodedBuilder<S> {
    /// A filter of these members, in any order, in which as many of these mistakes are "absent"
    /// as its codes have room for; see [`CodedFilter::from_sorted`]. If no size was asked for, it
    /// has the capacity for just them.
    ///
    /// # Errors
    /// As there, or as [`build`](Self::build).
    pub fn build_from(
        self,
        mut members: Vec<Hash>,
        mut mistakes: Vec<Hash>,
    ) -> Result<CodedFilter<S>, BuildError> {
        members.sort_unstable();
        mistakes.sort_unstable();
        let sized = if self.has_size() { self } else { self.capacity(members.len()) };
        CodedFilter::from_sorted(sized.parameters()?, members, mistakes)
    }
}

/// A member, and how it is to be spelt.
#[derive(Clone, Copy)]
struct Placed {
    hash: Hash,
    scaled: Scaled,
    level: u32,
}

/// What spells blocks, one after the other.
struct Blocks<S> {
    scheme: S,
    lanes: u64,
    code_bits: u32,
    /// Mistakes that are "maybe".
    unrepaired: u64,
    /// Codes that aren't 0, and a quotient of the block of each.
    codes: Vec<(u64, u128)>,
}

impl<S: Scheme> Blocks<S> {
    fn block(&self, scaled: Scaled) -> u64 {
        scaled.quotient / self.lanes
    }

    /// Spells the members of a block, of which none are left then: quotients and values.
    fn spell(
        &mut self,
        members: &mut Vec<Placed>,
        mistakes: &mut Mistakes<impl Iterator<Item = Hash>>,
    ) -> Result<Vec<(u64, u64)>, BuildError> {
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let (first, block) = (first.scaled.quotient, self.block(first.scaled));
        let digits = self.scheme.digits();
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
            (member.scaled.quotient, self.scheme.spell(member.scaled, member.level))
        };
        let entries: Vec<(u64, Spelt)> = members.drain(..).map(spell).collect();
        let is_covered = |mistake: &&Scaled| {
            entries.iter().any(|&(quotient, spelt)| {
                quotient == mistake.quotient && self.scheme.covers(spelt, **mistake)
            })
        };
        self.unrepaired += near.iter().filter(is_covered).count() as u64;
        Ok(entries.into_iter().map(|(quotient, spelt)| (quotient, spelt.value)).collect())
    }

    /// The first level at which a member covers none of these mistakes. If there is none: of
    /// extensions, the first at which it covers none but those that can't be told from it; of
    /// selectors, 0, because the highest is no better than others, and takes most room.
    fn level_without(&self, member: Scaled, mistakes: &[Scaled]) -> u32 {
        let mut level = 0;
        let mut given_up = Vec::new();
        loop {
            let spelt = self.scheme.spell(member, level);
            let is_covered = |mistake: &&Scaled| {
                self.scheme.covers(spelt, **mistake) && !given_up.contains(*mistake)
            };
            let Some(&mistake) = mistakes.iter().find(is_covered) else { return level };
            match self.scheme.repaired(level, member, mistake) {
                Some(higher) => level = higher,
                None if S::MEMBERS_TO_FORGET => return 0,
                None => given_up.push(mistake),
            }
        }
    }

    /// The code of a block's members, of which some are put back to level 0 if it has no room.
    fn encode_most(&self, members: &mut [Placed], mistakes: &[Scaled]) -> u128 {
        let spell = |member: &Placed| self.scheme.spell(member.scaled, member.level).symbol;
        let mut symbols: Vec<Symbol> = members.iter().map(spell).collect();
        loop {
            if let Some(code) = self.scheme.encode(&symbols, self.code_bits) {
                return code;
            }
            let brought_back = |member: &Placed| {
                let back = self.scheme.spell(member.scaled, 0);
                let near = of(mistakes, member.scaled.quotient);
                near.iter().filter(|&&mistake| self.scheme.covers(back, mistake)).count()
            };
            let repaired = (0..members.len()).filter(|&at| members[at].level > 0);
            // Of those that are worth the same, the one that takes most room.
            let least =
                repaired.min_by_key(|&at| (brought_back(&members[at]), Reverse(members[at].level)));
            let at = least.expect("nothing always has room");
            // As long as one copy of a hash brings mistakes back, the repairs of others are for nothing.
            let hash = members[at].hash;
            let first = members.partition_point(|member| member.hash < hash);
            let behind = members.partition_point(|member| member.hash <= hash);
            members[first..behind].iter_mut().for_each(|member| member.level = 0);
            symbols[first..behind].fill(0);
        }
    }
}

/// The mistakes of a quotient, of those of a block.
fn of(mistakes: &[Scaled], quotient: u64) -> &[Scaled] {
    let start = mistakes.partition_point(|mistake| mistake.quotient < quotient);
    let end = mistakes.partition_point(|mistake| mistake.quotient <= quotient);
    &mistakes[start..end]
}

/// Mistakes that are still to come.
struct Mistakes<I: Iterator<Item = Hash>> {
    last: Hash,
    rest: Peekable<I>,
}

impl<I: Iterator<Item = Hash>> Mistakes<I> {
    /// The next one, if it is wanted.
    fn next_if(&mut self, is_wanted: impl Fn(Hash) -> bool) -> Result<Option<Hash>, BuildError> {
        let next = self.rest.next_if(|&hash| is_wanted(hash));
        if next.is_some_and(|hash| hash < self.last) {
            return Err(BuildError::Unsorted("mistakes"));
        }
        self.last = next.unwrap_or(self.last);
        Ok(next)
    }
}

/// Takes the least of what comes next from each of several lists.
fn least(lists: &mut [Peekable<impl Iterator<Item = Member>>]) -> Option<Member> {
    let heads = lists.iter_mut().enumerate();
    let heads = heads.filter_map(|(at, list)| list.peek().map(|member| (member.hash, at)));
    let (_, at) = heads.min()?;
    lists[at].next()
}
