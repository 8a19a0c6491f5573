//! Checks every invariant of a filter.

use super::boxes::{Boxes, Shared};
use super::{MementoFilter, RangeBox, RangeKey};
use crate::error::Invalid;
use crate::table::Kind;
use core::ops::Range;

impl<K: RangeKey, const ADAPTIVE: bool> MementoFilter<K, ADAPTIVE> {
    /// Checks every invariant of the filter and its table, for tests and for diagnosing suspected
    /// corruption. Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.boxes.validate()
    }
}

impl Boxes {
    /// Checks every invariant, whatever the table contains. Reads boxes in place, because a
    /// malicious table may have boxes with more mementos than fit in memory.
    fn validate(&self) -> Result<(), Invalid> {
        let Shared { table, spelling, .. } = &self.shared;
        let mut members = 0u64;
        // The table checks every slot. It also counts the slots with value 0 that are alone in
        // their run. Each of these is a box with one member.
        let blank = table.validate(self.usage.used, 0, |run| {
            let mut before = None;
            for slots in table.entries(run.slots) {
                let start = slots.start;
                let Some((RangeBox { fingerprint, age, .. }, count)) =
                    self.counted(run.quotient, slots)
                else {
                    return Err(Invalid(format!("the box at {start} is malformed")));
                };
                if !fingerprint.has_some_hash() {
                    return Err(Invalid(format!("no hash has the fingerprint {fingerprint:?}")));
                }
                if age > self.oldest {
                    return Err(Invalid(format!("{fingerprint:?} is older than the oldest box")));
                }
                members = members.saturating_add(count);
                let is = (table.value(start) >> spelling.memento_bits, fingerprint);
                if let Some(was) = before.replace(is)
                    && (is <= was || is.0 == was.0 && was.1.covers_all(&is.1))
                {
                    return Err(Invalid(format!("{is:?} must not follow {was:?}")));
                }
            }
            Ok(())
        })?;
        if spelling.has_ages && blank > 0 {
            return Err(Invalid(format!("{blank} boxes have no age")));
        }
        members = members.saturating_add(blank);
        if members != self.len {
            return Err(Invalid(format!("there are {members} members, not {}", self.len)));
        }
        Ok(())
    }
}

impl Shared {
    /// Returns the box in these slots with only its least memento, and the number of its members.
    /// Returns `None` if it is malformed. A box has each digit of its fingerprint, then sorted
    /// mementos, and no unused slots.
    fn counted(&self, quotient: u64, slots: Range<u64>) -> Option<(RangeBox, u64)> {
        let Self { table, spelling, .. } = self;
        let (range_box, cells) = self.read_first(quotient, slots.clone())?;
        let mut spelt = spelling.digits_at(range_box.age).of(range_box.fingerprint).skip(1);
        let has_digits =
            (slots.start + 1..cells.start).all(|at| spelt.next() == Some(table.value(at)));
        if !has_digits || !cells.clone().all(|at| table.kind(at) == Kind::Counter) {
            return None;
        }
        let mut last = range_box.mementos[0];
        let mut count = 1;
        let mut others = spelling.cells(cells.clone().map(|at| table.value(at)));
        for memento in others.by_ref() {
            if memento < core::mem::replace(&mut last, memento) {
                return None;
            }
            count += 1;
        }
        let is_spelt = spelt.next().is_none()
            && others.ends_blank()
            && spelling.slots_of_cells(count - 1) == cells.end - cells.start;
        is_spelt.then_some((range_box, count))
    }
}
