//! Inserting new members into the filter.

use super::rebuild::{Tried, adapt, insert};
use super::{Mistakes, Number, RangeStore, StoredKey, key::Span};
use crate::backend::Backend;
use crate::error::{Result, StoreError};
use crate::maintained::distinct;
use crate::stats::Count;
use crate::stripes::Locked;
use std::ops::RangeInclusive;
use twiceshy::{Hash, range::RangeKey};

/// Keys that are in the filter and about to be written to the backend. Their stripes are locked.
pub(super) struct Admitted<'a> {
    pub(super) locked: Locked<'a, Mistakes>,
    /// Whether each key is new in the backend.
    pub(super) is_new: Vec<bool>,
    /// The number of keys that are new in the filter.
    pub(super) count: u64,
}

/// Kept mistakes that new members may collide with, and all members that can cause these mistakes,
/// including the new ones.
struct AtRisk<K> {
    suspects: RangeInclusive<Hash>,
    mistakes: Vec<Span>,
    members: Vec<Number<K>>,
}

impl<K: StoredKey, B: Backend> RangeStore<K, B> {
    /// Inserts the new keys among `numbers` into the filter. If there is no room for one of them, inserts
    /// none.
    pub(super) fn try_admit(&self, numbers: &[u128]) -> Tried<Admitted<'_>> {
        let locked = self.lock(numbers);
        let mut is_new = vec![false; numbers.len()];
        let mut new = Vec::new();
        for (at, number) in distinct(numbers) {
            let maybe = self.filter().filter.contains(Number::new(number));
            is_new[at] = !maybe || self.look_up(number)?.is_none();
            if is_new[at] {
                new.push(Number::new(number));
            }
        }
        let at_risk = self.mistakes_at_risk(&locked, &new)?;
        let admitted = self.admit(&new, &at_risk);
        Ok(admitted.map(|()| Admitted { locked, is_new, count: new.len() as u64 }))
    }

    /// Returns the kept mistakes that new members may collide with.
    fn mistakes_at_risk(
        &self,
        locked: &Locked<'_, Mistakes>,
        new: &[Number<K>],
    ) -> Result<Vec<AtRisk<K>>> {
        let mut at_risk: Vec<AtRisk<K>> = Vec::new();
        for &member in new {
            let suspects = self.filter().filter.suspects(member);
            if at_risk.iter().any(|other| other.suspects == suspects) {
                continue;
            }
            let mistakes = locked.stripes(&suspects).flat_map(|known| known.within(&suspects));
            let filter = self.filter();
            let may_be_back = |mistake: &Span| {
                let mistake = Number::new(mistake.first);
                new.iter().any(|&newcomer| filter.filter.may_confuse(newcomer, mistake))
            };
            // Cut the new members out of the mistakes.
            let mistakes: Vec<Span> =
                mistakes.filter(may_be_back).flat_map(|mistake| remaining(mistake, new)).collect();
            drop(filter);
            if mistakes.is_empty() {
                continue;
            }
            let mut members = self.members([suspects.clone()].into_iter())?;
            let is_near = |member: &&Number<K>| suspects.contains(&self.hash(member.number()));
            members.extend(new.iter().filter(is_near));
            at_risk.push(AtRisk { suspects, mistakes, members });
        }
        Ok(at_risk)
    }

    /// Inserts all new members into the filter, or none, and repairs the mistakes that they collide
    /// with. Lookups wait for the inserts and the repairs.
    fn admit(&self, new: &[Number<K>], at_risk: &[AtRisk<K>]) -> Result<()> {
        let filter = &mut self.filter_mut().filter;
        let mut inserted = 0;
        let mut admit = || {
            for &member in new {
                insert(filter, member)?;
                inserted += 1;
            }
            for AtRisk { mistakes, members, .. } in at_risk {
                for &mistake in mistakes {
                    if let Some(ghosts) = adapt(filter, mistake, members)? {
                        self.counters.add(Count::GhostsCleared, ghosts);
                        self.counters.add(Count::Repairs, 1);
                    }
                }
            }
            Ok::<(), StoreError>(())
        };
        let admitted = admit();
        if admitted.is_err() {
            for &member in &new[..inserted] {
                // Ignore the result: the stripe is locked, so the member is still in the filter.
                let _ = filter.remove_trusting(member);
            }
        }
        admitted
    }
}

/// Returns a span without some numbers: its parts before, between and after them.
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
    fn span_without_numbers_is_split_around_them() {
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
