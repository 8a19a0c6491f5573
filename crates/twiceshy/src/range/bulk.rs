//! Builds a filter from many members: sorts them, and writes the table in one pass.

use super::boxes::{Boxes, Spot};
use super::grow::BoxWriter;
use super::layout::{RangeBox, Spelling};
use super::{MementoFilter, RangeKey};
use crate::bits::machine::{AnyShape, dispatched};
use crate::builder::{Buildable, Builder};
use crate::error::BuildError;
use crate::sorting::Numbers;
use crate::table::TableFull;

impl<K: RangeKey, const ADAPTIVE: bool> Builder<MementoFilter<K, ADAPTIVE>> {
    /// Builds a filter with these members in one pass, which is several times as fast as inserting
    /// them. The members can be in any order. If no size was given, or if the filter is expandable,
    /// the filter becomes as large as the members need.
    ///
    /// # Errors
    /// The same as for [`build`](Self::build), or if the members don't fit in a size that was
    /// given.
    pub fn build_from(&self, members: &[K]) -> Result<MementoFilter<K, ADAPTIVE>, BuildError> {
        let is_fixed = self.is_sized() && !self.options.expandable;
        let mut builder = self.clone();
        if !self.is_sized() {
            builder.capacity = Some(members.len());
        }
        loop {
            let plan = builder.plan()?;
            let mut filter = MementoFilter::build_planned(&builder, plan)?;
            let MementoFilter { partitions, boxes, .. } = &mut filter;
            if boxes.fill(members, |&key| partitions.spot(key)) {
                return Ok(filter);
            }
            // A box of several members may take more slots than it has members, so try again with
            // more slots.
            let slots = plan.slots;
            if is_fixed {
                return Err(BuildError::Full { slots });
            }
            let more = if self.options.expandable { slots } else { slots / 8 + 1 };
            (builder.capacity, builder.memory, builder.slots) = (None, None, Some(slots + more));
        }
    }
}

impl Boxes {
    /// Inserts members into an empty table. Returns whether there is room for them; if not, the
    /// table is invalid afterwards.
    fn fill<K>(&mut self, keys: &[K], spot: impl Fn(&K) -> Spot) -> bool {
        let Spelling { digits, memento_bits, .. } = self.spelling;
        let filled = Numbers::new(digits, memento_bits)
            .and_then(|numbers| fill_sorted(self, numbers, keys, &spot));
        match filled {
            Some(written) => written.is_ok(),
            // Sorting failed: the numbers don't fit in a word, or there is not enough memory.
            None => keys.iter().all(|key| self.insert(spot(key)).is_ok()),
        }
    }
}

dispatched! {
    /// Sorts members and writes them to an empty table. Returns `None` if they can't be sorted.
    fn fill_sorted<'a, K: Sized, S: Fn(&K) -> Spot>(
        boxes: &'a mut Boxes,
        numbers: Numbers,
        keys: &'a [K],
        spot: &'a S,
    ) -> Option<Result<(), TableFull>> => boxes.table.target(), AnyShape, |_| {
        let parts = |key: &K| {
            let Spot { partition, memento } = spot(key);
            (partition, memento)
        };
        let scattered = numbers.scatter(keys, parts)?;
        let spelling = boxes.spelling;
        let mut writer = BoxWriter::new(boxes);
        // The current box.
        let (mut quotient, mut remainder, mut mementos) = (0, 0, Vec::new());
        let write = |writer: &mut BoxWriter<'_>, quotient, remainder, mementos: &mut Vec<u64>| {
            if let [memento] = mementos[..] {
                mementos.clear();
                return writer.push_single(quotient, spelling.first(remainder, memento));
            }
            let mut mementos = core::mem::take(mementos);
            mementos.sort_unstable();
            let fingerprint = spelling.digits.spell(quotient, core::iter::once(remainder));
            writer.push(&RangeBox { fingerprint, age: 0, mementos })
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
        if written.is_ok() && !mementos.is_empty() {
            written = write(&mut writer, quotient, remainder, &mut mementos);
        }
        Some(written.and_then(|()| writer.finish()))
    }
}
