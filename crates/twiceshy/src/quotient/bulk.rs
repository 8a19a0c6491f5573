//! Many members into an empty filter: sorted, then written in one pass.

use super::AdaptiveQuotientFilter;
use super::construct::Written;
use super::entry::Entry;
use super::insert::Refused;
use crate::Hash;
use crate::bits::machine::{Machine, Operation};
use crate::error::BuildError;
use crate::sorting::Numbers;

impl AdaptiveQuotientFilter {
    /// Inserts members into an empty filter, in the order of their hashes; or returns `None`,
    /// and does nothing, if their numbers don't fit a word, or memory.
    pub(super) fn fill<K>(
        &mut self,
        keys: &[K],
        hash: impl Fn(&K) -> Hash,
    ) -> Option<Result<(), Refused>> {
        let numbers = Numbers::new(self.digits, 0)?;
        let written = self.table.level().run(Fill { filter: self, numbers, keys, hash })?;
        Some(if let Ok(written) = written {
            self.count_written(written);
            Ok(())
        } else {
            self.table.clear();
            Err(Refused::Full)
        })
    }
}

struct Fill<'a, K, H> {
    filter: &'a mut AdaptiveQuotientFilter,
    numbers: Numbers,
    keys: &'a [K],
    hash: H,
}

impl<K, H: Fn(&K) -> Hash> Operation for Fill<'_, K, H> {
    type Output = Option<Result<Written, BuildError>>;

    #[inline(always)]
    fn run<M: Machine>(self, _: M) -> Self::Output {
        let Self { filter, numbers, keys, hash } = self;
        let (scattered, digits) = (numbers.scatter(keys, |key| (hash(key), 0))?, filter.digits);
        let mut writer = filter.writer();
        let mut write = |number: u64, times: u64| {
            let (quotient, remainder, _) = numbers.parts(number);
            if times == 1 {
                return writer.write_single((quotient, remainder));
            }
            let fingerprint = digits.spell(quotient, core::iter::once(remainder));
            writer.write(Entry::single(fingerprint).of(times))
        };
        let (mut at_hand, mut times) = (0, 0);
        let mut written = scattered.in_order(|number| {
            if number != at_hand && times > 0 {
                write(at_hand, times)?;
                times = 0;
            }
            at_hand = number;
            times += 1;
            Ok(())
        });
        if times > 0 {
            written = written.and_then(|()| write(at_hand, times));
        }
        Some(written.and_then(|()| writer.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_whose_numbers_do_not_fit_a_word_are_inserted() {
        let mut filter =
            AdaptiveQuotientFilter::builder().remainder_bits(56).slots(3000).build().unwrap();
        let hash = |index: u128| Hash::from_u128(index.wrapping_mul(u128::MAX / 2000));
        let hashes: Vec<Hash> = (0..2000).map(hash).collect();
        filter.insert_many(&hashes).unwrap();
        assert!(filter.validate().is_ok() && hashes.iter().all(|&hash| filter.contains(hash)));
    }
}
