//! The invariants of a filter, all checked.

use super::boxes::{Boxes, Label};
use super::{AdaptiveRangeFilter, RangeFilter, RangeKey};
use crate::error::Invalid;
use crate::table::Kind;
use core::ops::Range;

impl<K: RangeKey> RangeFilter<K> {
    /// Checks every invariant of the filter and of its table; for tests and after suspicion.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.boxes.validate()
    }
}

impl<K: RangeKey> AdaptiveRangeFilter<K> {
    /// As [`RangeFilter::validate`].
    ///
    /// # Errors
    /// Says which invariant is broken.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.filter.validate()
    }
}

impl Boxes {
    /// In tables that hold anything; boxes are looked at where they are, because who has written
    /// them may have put more mementos into a slot than memory could hold.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let Self { table, spelling, .. } = self;
        let mut members = 0u64;
        // No slot is taken for granted: each may be part of a box. But for zeros, which are one,
        // of a run that has no other.
        let blank = table.validate(0, |run| {
            let mut before = None;
            for slots in table.entries(run.slots) {
                let start = slots.start;
                let label = self.label(run.quotient, slots.clone());
                let count = label.as_ref().and_then(|label| self.count(label, slots.clone()));
                let (Some(Label { fingerprint, age, .. }), Some(count)) = (label, count) else {
                    return Err(Invalid(format!("the box at {start} is not well-formed")));
                };
                if !fingerprint.is_of_a_hash() {
                    return Err(Invalid(format!("{fingerprint:?} is no hash's")));
                }
                if age > self.oldest {
                    return Err(Invalid(format!("{fingerprint:?} is older than all")));
                }
                members = members.saturating_add(count);
                let is = spelling.order(fingerprint, age);
                if let Some(was) = before.replace(is)
                    && (is <= was || is.0 == was.0 && was.1.covers_all(&is.1))
                {
                    return Err(Invalid(format!("{is:?} is behind {was:?}")));
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

    /// How many members a box has; `None` if it isn't written as it should be: each digit of its
    /// fingerprint, then mementos in order, and not a slot more than they take.
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
