//! Bulk inserts into an empty filter: members are sorted, then written in one pass.

use super::QuotientFilter;
use super::construct::{EntryWriter, Written};
use super::edit::Refused;
use super::entry::Entry;
use crate::Hash;
use crate::bits::machine::{AnyShape, Machine, Operation};
use crate::error::BuildError;
use crate::fingerprint::Digits;
use crate::sorting::Numbers;

impl QuotientFilter {
    /// Inserts members into an empty filter, in hash order. Returns `None`, and changes nothing, if
    /// the members' numbers don't fit in 64 bits, or if there is no memory to sort them.
    pub(super) fn fill(&mut self, hashes: &[Hash]) -> Option<Result<(), Refused>> {
        let written = self.table.target().run(Fill { filter: self, hashes })?;
        Some(if let Ok(written) = written {
            self.count_written(written);
            Ok(())
        } else {
            self.table.clear();
            Err(Refused::Full)
        })
    }
}

struct Fill<'a> {
    filter: &'a mut QuotientFilter,
    hashes: &'a [Hash],
}

impl Operation for Fill<'_> {
    type Argument = ();
    type Output = Option<Result<Written, BuildError>>;
    type Shapes = AnyShape;

    #[inline(always)]
    fn run<M: Machine, const SHAPE: u32>(self, _: M, (): ()) -> Self::Output {
        let Self { filter, hashes } = self;
        let digits = filter.digits;
        let numbers = Numbers::new(digits, 0)?;
        let scattered = numbers.scatter(hashes, |&hash| (hash, 0))?;
        let mut writer = filter.writer();
        let mut tally = Tally { digits, numbers, at_hand: 0, times: 0 };
        let written = scattered.in_order(|number| {
            if number != tally.at_hand {
                tally.write(&mut writer)?;
                tally.times = 0;
            }
            tally.at_hand = number;
            tally.times += 1;
            Ok(())
        });
        let written = written.and_then(|()| tally.write(&mut writer));
        Some(written.and_then(|()| writer.finish()))
    }
}

/// How often the current number has come so far.
struct Tally {
    digits: Digits,
    numbers: Numbers,
    at_hand: u64,
    times: u64,
}

impl Tally {
    #[inline(always)]
    fn write(&self, writer: &mut EntryWriter<'_>) -> Result<(), BuildError> {
        let (quotient, remainder, _) = self.numbers.parts(self.at_hand);
        match self.times {
            0 => Ok(()),
            1 => writer.write_single((quotient, remainder)),
            _ => {
                let fingerprint = self.digits.spell(quotient, core::iter::once(remainder));
                writer.write(Entry::single(fingerprint).of(self.times))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_many_supports_numbers_wider_than_a_word() {
        let mut filter = QuotientFilter::builder().remainder_bits(56).slots(3000).build().unwrap();
        let hash = |index: u128| Hash::from_u128(index.wrapping_mul(u128::MAX / 2000));
        let hashes: Vec<Hash> = (0..2000).map(hash).collect();
        filter.insert_many(&hashes).unwrap();
        assert!(filter.validate().is_ok() && hashes.iter().all(|&hash| filter.contains(hash)));
    }
}
