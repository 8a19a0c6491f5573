//! Many members into an empty filter: sorted, then written in one pass.

use super::boxes::{Boxes, Spot};
use super::grow::BoxWriter;
use super::keepsake::{Keepsake, Spelling};
use super::{AdaptiveRangeFilter, RangeBuilder, RangeFilter, RangeKey};
use crate::bits::machine::{Machine, Operation};
use crate::error::BuildError;
use crate::sorting::Numbers;
use crate::table::TableFull;

impl<K: RangeKey> RangeBuilder<K> {
    /// A filter of these members, in any order; written in one pass, several times as fast as
    /// inserting them. If nothing was said of its size, or if it is expandable, it is what they
    /// need.
    ///
    /// # Errors
    /// If there can't be such a filter, or if they don't fit a size that was asked for.
    pub fn build_from(mut self, members: &[K]) -> Result<RangeFilter<K>, BuildError> {
        let is_fixed = self.is_sized() && !self.is_expandable();
        if !self.is_sized() {
            self = self.capacity(members.len());
        }
        loop {
            let mut filter = self.clone().build()?;
            let RangeFilter { partitions, boxes } = &mut filter;
            let slots = boxes.table.slots();
            if boxes.fill(members, |&key| partitions.spot(key)) {
                return Ok(filter);
            }
            // Boxes that cover several members may take more slots than these are.
            if is_fixed {
                return Err(BuildError::Full { slots });
            }
            let more = if self.is_expandable() { slots } else { slots / 8 + 1 };
            self = self.with_slots(slots + more);
        }
    }

    /// As [`build_from`](Self::build_from), for a filter that adapts.
    ///
    /// # Errors
    /// As there.
    pub fn build_adaptive_from(self, members: &[K]) -> Result<AdaptiveRangeFilter<K>, BuildError> {
        Ok(AdaptiveRangeFilter::new(self.build_from(members)?))
    }
}

impl Boxes {
    /// Inserts members into an empty table; whether there is room for them. Otherwise the table
    /// is none any more.
    fn fill<K>(&mut self, keys: &[K], spot: impl Fn(&K) -> Spot) -> bool {
        let Spelling { digits, memento_bits, .. } = self.spelling;
        let level = self.table.level();
        let filled = Numbers::new(digits, memento_bits)
            .and_then(|numbers| level.run(Fill { boxes: self, numbers, keys, spot: &spot }));
        match filled {
            Some(written) => written.is_ok(),
            // They don't fit a word, or memory.
            None => keys.iter().all(|key| self.insert(spot(key)).is_ok()),
        }
    }
}

struct Fill<'a, K, S> {
    boxes: &'a mut Boxes,
    numbers: Numbers,
    keys: &'a [K],
    spot: &'a S,
}

impl<K, S: Fn(&K) -> Spot> Operation for Fill<'_, K, S> {
    type Output = Option<Result<(), TableFull>>;

    #[inline(always)]
    fn run<M: Machine>(self, _: M) -> Self::Output {
        let Self { boxes, numbers, keys, spot } = self;
        let parts = |key: &K| {
            let Spot { partition, memento } = spot(key);
            (partition, memento)
        };
        let scattered = numbers.scatter(keys, parts)?;
        let spelling = boxes.spelling;
        let mut writer = BoxWriter::new(boxes);
        // The box at hand.
        let (mut quotient, mut remainder, mut mementos) = (0, 0, Vec::new());
        let write = |writer: &mut BoxWriter<'_>, quotient, remainder, mementos: &mut Vec<u64>| {
            if let [memento] = mementos[..] {
                mementos.clear();
                return writer.push_single(quotient, spelling.first(remainder, memento));
            }
            let mut mementos = core::mem::take(mementos);
            mementos.sort_unstable();
            let fingerprint = spelling.digits.spell(quotient, core::iter::once(remainder));
            writer.push(&Keepsake { fingerprint, age: 0, mementos })
        };
        let mut written = scattered.in_order(|number| {
            let (next_quotient, next_remainder, memento) = numbers.parts(number);
            let is_next = (next_quotient, next_remainder) != (quotient, remainder);
            if is_next && !mementos.is_empty() {
                write(&mut writer, quotient, remainder, &mut mementos)?;
            }
            (quotient, remainder) = (next_quotient, next_remainder);
            mementos.push(memento);
            Ok(())
        });
        if !mementos.is_empty() {
            let last = write(&mut writer, quotient, remainder, &mut mementos);
            written = written.and(last);
        }
        Some(written.and_then(|()| writer.finish()))
    }
}
