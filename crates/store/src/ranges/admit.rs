//! Admitting members.

use super::build::{Room, adapt, insert};
use super::key::Span;
use super::{Mistakes, Number, RangeStore, StoredKey};
use crate::backend::Backend;
use crate::counters::Count;
use crate::error::Result;
use crate::stripes::Locked;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use twiceshy::{Hash, RangeKey};

/// Keys that are in the filter, and are to be written to the backend; nobody else does anything
/// near them meanwhile.
pub(super) struct Admitted<'a> {
    pub(super) locked: Locked<'a, Mistakes>,
    /// Whether each is not in the backend yet.
    pub(super) is_new: Vec<bool>,
    /// New in the filter.
    pub(super) count: u64,
}

/// Mistakes that newcomers may bring back, and all members that can be behind that, the newcomers
/// among them.
struct Threatened<K> {
    suspects: RangeInclusive<Hash>,
    mistakes: Vec<Span>,
    members: Vec<Number<K>>,
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Has the filter take all keys that it doesn't have yet, or none.
    pub(super) fn try_admit(&self, numbers: &[u128]) -> Result<Room<Admitted<'_>>> {
        let locked = self.lock(numbers);
        let mut is_new = vec![false; numbers.len()];
        let mut new = Vec::new();
        let mut seen = HashSet::new();
        for (&number, is_new) in numbers.iter().zip(&mut is_new) {
            if numbers.len() > 1 && !seen.insert(number) {
                continue;
            }
            let maybe = self.filter().filter.contains(Number::new(number));
            *is_new = !maybe || self.look_up(number)?.is_none();
            if *is_new {
                new.push(Number::new(number));
            }
        }
        let threatened = self.threatened(&locked, &new)?;
        Ok(match self.admit(&new, &threatened) {
            Room::Enough(()) => Room::Enough(Admitted { locked, is_new, count: new.len() as u64 }),
            Room::Needed(error) => Room::Needed(error),
        })
    }

    fn threatened(
        &self,
        locked: &Locked<'_, Mistakes>,
        new: &[Number<K>],
    ) -> Result<Vec<Threatened<K>>> {
        let mut threatened: Vec<Threatened<K>> = Vec::new();
        for &newcomer in new {
            let suspects = self.filter().filter.suspects(newcomer);
            if threatened.iter().any(|other| other.suspects == suspects) {
                continue;
            }
            let mistakes = locked.stripes(&suspects).flat_map(|known| known.within(&suspects));
            // What will be left of them.
            let mistakes: Vec<Span> =
                mistakes.flat_map(|mistake| remaining(mistake, new)).collect();
            if mistakes.is_empty() {
                continue;
            }
            let mut members = self.members([suspects.clone()].into_iter())?;
            let is_near = |member: &&Number<K>| suspects.contains(&self.hash(member.number()));
            members.extend(new.iter().filter(is_near));
            threatened.push(Threatened { suspects, mistakes, members });
        }
        Ok(threatened)
    }

    /// Inserts new members into the filter, and repairs the mistakes that they bring back, before
    /// anybody can make them.
    fn admit(&self, new: &[Number<K>], threatened: &[Threatened<K>]) -> Room<()> {
        let filter = &mut self.filter_mut().filter;
        let mut inserted = 0;
        let mut admit = || {
            for &newcomer in new {
                insert(filter, newcomer)?;
                inserted += 1;
            }
            for Threatened { mistakes, members, .. } in threatened {
                for &mistake in mistakes {
                    let is_back = filter.contains_range(mistake.numbers());
                    let ghosts = adapt(filter, mistake, members)?;
                    self.counters.add(Count::GhostsCleared, ghosts);
                    self.counters.add(Count::Repairs, u64::from(is_back));
                }
            }
            Ok(())
        };
        match admit() {
            Ok(()) => Room::Enough(()),
            Err(error) => {
                for &newcomer in &new[..inserted] {
                    // It is there: nobody else may remove it meanwhile.
                    let _ = filter.remove(newcomer);
                }
                Room::Needed(error)
            }
        }
    }
}

/// What is left of a span without some numbers.
fn remaining<K: StoredKey>(span: Span, numbers: &[Number<K>]) -> Vec<Span> {
    let mut parts = vec![span];
    for number in numbers.iter().map(|number| number.number()) {
        if span.contains(number) {
            let cut = |part: Span| {
                let is_cut = part.contains(number);
                let whole = (!is_cut).then_some(part);
                whole.into_iter().chain(part.without(number).filter(move |_| is_cut))
            };
            parts = parts.into_iter().flat_map(cut).collect();
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_beside_the_numbers() {
        let remaining = |numbers: &[u128]| -> Vec<(u128, u128)> {
            let numbers: Vec<Number<u8>> = numbers.iter().map(|&n| Number::new(n)).collect();
            let parts = remaining(Span { first: 3, last: 9 }, &numbers);
            parts.iter().map(|part| (part.first, part.last)).collect()
        };
        assert_eq!(remaining(&[]), [(3, 9)]);
        assert_eq!(remaining(&[1, 10]), [(3, 9)]);
        assert_eq!(remaining(&[5]), [(3, 4), (6, 9)]);
        assert_eq!(remaining(&[9, 4, 3]), [(5, 8)]);
        assert_eq!(remaining(&[3, 4, 5, 6, 7, 8, 9]), []);
    }
}
