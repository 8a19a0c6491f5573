//! Checks every invariant of a filter.

use super::boxes::{Boxes, Label};
use super::{MementoFilter, RangeKey};
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
    /// Works for a table with any contents. Reads boxes in place, because a malicious table may have
    /// boxes with more mementos than fit in memory.
    fn validate(&self) -> Result<(), Invalid> {
        let Self { table, spelling, .. } = self;
        let mut members = 0u64;
        // The table checks every slot, and counts those with value 0 that are alone in their run:
        // each is a box with one member.
        let blank = table.validate(0, |run| {
            let mut before = None;
            for slots in table.entries(run.slots) {
                let start = slots.start;
                let label = self.label(run.quotient, slots.clone());
                let count = label.as_ref().and_then(|label| self.count(label, slots.clone()));
                let (Some(Label { fingerprint, age, .. }), Some(count)) = (label, count) else {
                    return Err(Invalid(format!("the box at {start} is malformed")));
                };
                if !fingerprint.is_of_a_hash() {
                    return Err(Invalid(format!("no hash has the fingerprint {fingerprint:?}")));
                }
                if age > self.oldest {
                    return Err(Invalid(format!("{fingerprint:?} is older than the oldest box")));
                }
                members = members.saturating_add(count);
                let is = spelling.order(fingerprint, age);
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

    /// Returns the number of members in a box, or `None` if it is malformed. A box has each digit of
    /// its fingerprint, then sorted mementos, and no unused slots.
    fn count(&self, label: &Label, slots: Range<u64>) -> Option<u64> {
        let Self { table, spelling, .. } = self;
        let digits = spelling.digits_at(label.age);
        let mut spelt = digits.of(label.fingerprint).skip(1);
        if !(slots.start + 1..label.end).all(|at| spelt.next() == Some(table.value(at))) {
            return None;
        }
        let cells = label.end..slots.end;
        if !cells.clone().all(|at| table.kind(at) == Kind::Counter) {
            return None;
        }
        let mut last = spelling.memento(table.value(slots.start));
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
        is_spelt.then_some(count)
    }
}
