//! The one constructor: members and mistakes in, a filter without either error out.

use super::builder::check_shape;
use super::entry::{Entry, MOST_MEMBERS, MOST_VALUE_BITS};
use super::{AdaptiveQuotientFilter, Parameters};
use crate::error::BuildError;
use crate::fingerprint::Digits;
use crate::table::{QuotientTable, TableFull, TableWriter};
use crate::{Hash, Member};
use core::iter::Peekable;

impl AdaptiveQuotientFilter {
    /// A filter of exactly these parameters in which every one of `members` is "maybe"
    /// and every one of `mistakes` is "absent", written in one pass. Both come in hash
    /// order.
    ///
    /// A member's fingerprint must be long enough to be no prefix of any mistake; in
    /// hash order, the mistakes that share most with it are the one before and the one
    /// after it, so one look at each is enough.
    ///
    /// [`Builder::build_sorted`](super::Builder::build_sorted) finds the parameters, too.
    ///
    /// # Errors
    /// If a list is out of order, if a hash is on both, or if they don't fit.
    pub fn from_sorted(
        parameters: Parameters,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let mut filter = Self::empty(parameters)?;
        let digits = filter.digits;
        let mut mistakes = Neighbours::new(mistakes.into_iter());
        let entries = in_order(members.into_iter().map(Into::into)).map(|member| {
            let Member { hash, count } = member?;
            let scaled = digits.scale(hash);
            let mut length = 1;
            for mistake in mistakes.around(hash)?.into_iter().flatten() {
                let needed = digits.to_tell_apart(scaled, digits.scale(mistake));
                length =
                    length.max(needed.ok_or(BuildError::MistakeIsMember { hash, position: None })?);
            }
            Ok(Entry::single(digits.fingerprint(scaled, length)).of(count))
        });
        filter.write(entries)?;
        mistakes.finish()?;
        Ok(filter)
    }

    pub(super) fn empty(parameters: Parameters) -> Result<Self, BuildError> {
        parameters.check()?;
        let Parameters { slots, remainder_bits, slot_bits, value_bits, hash } = parameters;
        let table = QuotientTable::new(slots, slot_bits)
            .ok_or(BuildError::Memory { slots, remainder_bits: slot_bits })?;
        let digits = Digits { slots, remainder: remainder_bits, width: slot_bits };
        Ok(Self::from_table(table, digits, value_bits, hash))
    }

    /// Writes entries, in order, into a filter that has none. Those of the same fingerprint
    /// become one. The filter can't be used if this fails.
    pub(super) fn write(
        &mut self,
        entries: impl IntoIterator<Item = Result<Entry, BuildError>>,
    ) -> Result<(), BuildError> {
        let (slots, spelling) = (self.table.slots(), self.spelling());
        let mut writer = TableWriter::new(&mut self.table);
        let (mut len, mut written) = (0, 0);
        let mut push = |entry: Entry| {
            if entry.count > MOST_MEMBERS {
                return Err(BuildError::Uncountable);
            }
            len += entry.count;
            written += 1;
            let pushed = writer.push(entry.fingerprint.quotient(), spelling.slots(entry));
            pushed.map_err(|TableFull| BuildError::Full { slots })
        };
        let mut last: Option<Entry> = None;
        for entry in entries {
            let entry = entry?;
            match &mut last {
                Some(last) if last.fingerprint == entry.fingerprint => {
                    let sum = last.count.checked_add(entry.count);
                    last.count = sum.ok_or(BuildError::Uncountable)?;
                    last.value = last.value.max(entry.value);
                }
                _ => last.replace(entry).map_or(Ok(()), &mut push)?,
            }
        }
        last.map_or(Ok(()), &mut push)?;
        writer.finish();
        self.len = len;
        self.extra_slots = self.table.used() - written;
        Ok(())
    }
}

impl Parameters {
    /// Says what is wrong with parameters that no filter can have.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        check_shape(self.slots, self.slot_bits)?;
        if !(1..=self.slot_bits).contains(&self.remainder_bits) {
            return Err(BuildError::RemainderBits(self.remainder_bits));
        }
        if self.value_bits > MOST_VALUE_BITS {
            return Err(BuildError::ValueBits(self.value_bits));
        }
        Ok(())
    }
}

/// Passes members on as long as none is less than the one before; those that were inserted
/// no times are none.
fn in_order(
    members: impl Iterator<Item = Member>,
) -> impl Iterator<Item = Result<Member, BuildError>> {
    let mut last = Hash::MIN;
    members.filter(|member| member.count > 0).map(move |member| {
        let ordered = member.hash >= last;
        last = member.hash;
        if ordered { Ok(member) } else { Err(BuildError::Unsorted("members")) }
    })
}

/// The mistakes next to each member, in one pass over both.
struct Neighbours<I: Iterator<Item = Hash>> {
    before: Option<Hash>,
    rest: Peekable<I>,
}

impl<I: Iterator<Item = Hash>> Neighbours<I> {
    fn new(mistakes: I) -> Self {
        Self { before: None, rest: mistakes.peekable() }
    }

    /// The last mistake that is not behind `member`, and the first that is.
    fn around(&mut self, member: Hash) -> Result<[Option<Hash>; 2], BuildError> {
        while let Some(mistake) = self.rest.next_if(|&mistake| mistake <= member) {
            self.step(mistake)?;
        }
        Ok([self.before, self.rest.peek().copied()])
    }

    fn step(&mut self, mistake: Hash) -> Result<(), BuildError> {
        if self.before.replace(mistake).is_some_and(|before| before > mistake) {
            return Err(BuildError::Unsorted("mistakes"));
        }
        Ok(())
    }

    /// Looks at the mistakes behind the last member, too.
    fn finish(mut self) -> Result<(), BuildError> {
        while let Some(mistake) = self.rest.next() {
            self.step(mistake)?;
        }
        Ok(())
    }
}
