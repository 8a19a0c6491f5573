//! The one constructor: members and mistakes in, a filter without either error out.

use super::builder::check_shape;
use super::{AdaptiveQuotientFilter, Parameters, slots_of};
use crate::Hash;
use crate::error::BuildError;
use crate::fingerprint::Digits;
use crate::table::{QuotientTable, TableFull, TableWriter};
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
        members: impl IntoIterator<Item = Hash>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let Parameters { slots, remainder_bits, hash } = parameters;
        check_shape(slots, remainder_bits)?;
        let mut table = QuotientTable::new(slots, remainder_bits)
            .ok_or(BuildError::Memory { slots, remainder_bits })?;
        let digits = Digits { slots, width: remainder_bits };
        let mut writer = TableWriter::new(&mut table);
        let mut len = 0;
        let mut mistakes = Neighbours::new(mistakes.into_iter());
        for member in in_order(members.into_iter(), "members") {
            let member = member?;
            let scaled = digits.scale(member);
            let mut count = 1;
            for mistake in mistakes.around(member)?.into_iter().flatten() {
                let needed = digits.to_tell_apart(scaled, digits.scale(mistake));
                count = count.max(
                    needed.ok_or(BuildError::MistakeIsMember { hash: member, position: None })?,
                );
            }
            writer
                .push(scaled.quotient, slots_of(digits, digits.fingerprint(scaled, count)))
                .map_err(|TableFull| BuildError::Full { slots })?;
            len += 1;
        }
        mistakes.finish()?;
        writer.finish();
        Ok(Self::from_table(table, hash, len))
    }
}

/// Passes hashes on as long as none is less than the one before.
fn in_order(
    hashes: impl Iterator<Item = Hash>,
    what: &'static str,
) -> impl Iterator<Item = Result<Hash, BuildError>> {
    let mut last = Hash::MIN;
    hashes.map(move |hash| {
        let ordered = hash >= last;
        last = hash;
        if ordered { Ok(hash) } else { Err(BuildError::Unsorted(what)) }
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
