//! Grows a filter, using only its fingerprints.
//!
//! Doubling the slots moves the highest bit of each remainder to its quotient, so remainders must
//! be plain. The slots keep their width, so the digits of the extensions stay as they are, and
//! every repair is kept. After a doubling, one more bit in the first slot of each entry is unused.

use super::edit::Refused;
use super::{MergeError, QuotientFilter};
use crate::error::GrowError;

/// Approximate maximum number of slots that one entry can take. One insert or edit may need as
/// many.
pub(super) const MOST_SLOTS: u64 = 128;

impl QuotientFilter {
    /// Returns this filter with twice the slots, and remainders that are one bit shorter. This
    /// needs no members. The answers are exactly the same, and every repair is kept.
    ///
    /// Once the new filter is as full as the old one was, it has twice the members and twice the
    /// false-positive rate. To restore the lost bits, pass the members to
    /// [`rebuilt`](Self::rebuilt).
    ///
    /// ```
    /// # use twiceshy::{QuotientFilter, Hash};
    /// let mut filter = QuotientFilter::builder().slots(100).remainder_bits(10).build()?;
    /// filter.insert(Hash::from_u128(7 << 120))?;
    /// let doubled = filter.doubled()?;
    /// assert_eq!((doubled.parameters().slots, doubled.parameters().remainder_bits), (200, 9));
    /// assert!(doubled.contains(Hash::from_u128(7 << 120)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`GrowError`] if no remainder bit is left to move, if remainders aren't
    /// [plain](super::Remainders::PLAIN), or if there is no memory.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        let mut parameters = self.parameters();
        if !parameters.remainders.is_plain() {
            return Err(GrowError::FreshRemainders);
        }
        if parameters.remainder_bits == 1 {
            return Err(GrowError::NoRemainder);
        }
        parameters.slots *= 2;
        parameters.remainder_bits -= 1;
        Self::merge_into(parameters, &[self]).map_err(|error| match error {
            MergeError::Build(error) => GrowError::Build(error),
            error => unreachable!("{error}"),
        })
    }

    /// Takes over the growth setting and the number of repairs of the filter that this one
    /// replaces.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.succeed_all(&[before]);
    }

    /// Takes over the numbers of repairs of the filters that this one replaces, and the lowest load
    /// at which one of them grows.
    pub(super) fn succeed_all(&mut self, before: &[&Self]) {
        let repairs = before.iter().map(|filter| filter.tally.adaptations);
        self.tally.adaptations = repairs.fold(0, u64::saturating_add);
        let loads = before.iter().filter_map(|filter| filter.tally.growth);
        self.set_growth(loads.reduce(f64::min));
    }

    /// Sets the load at which the filter [doubles](Self::doubled), unless it can't be doubled. If
    /// the filter is fuller already, the slots in use stay usable, because undoing an operation may
    /// need them.
    pub(crate) fn set_growth(&mut self, load: Option<f64>) {
        self.tally.growth = load;
        self.usage.limit = self.growth_limit().max(self.usage.used);
    }

    fn growth_limit(&self) -> u64 {
        let slots = self.shared.table.slots();
        self.tally.growth.map_or(slots, |load| ((slots as f64 * load) as u64).clamp(1, slots))
    }

    /// Runs `act`, which may need `more` slots. If there is no room and the filter grows
    /// automatically, runs `act` in a larger filter, which replaces this one if `act` succeeds.
    /// Claims made before the replacement are then stale.
    ///
    /// # Errors
    /// Returns the errors of `act`, which must change nothing if it fails. This filter is unchanged
    /// in that case.
    pub(super) fn with_room<T, E>(
        &mut self,
        more: u64,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused<E>>,
    ) -> Result<T, Refused<E>> {
        let done = act(self);
        if self.tally.growth.is_none() || !matches!(done, Err(Refused::Full)) {
            return done;
        }
        let mut larger: Option<Self> = None;
        loop {
            let filter = larger.as_ref().unwrap_or(self);
            // If a filter that is half empty has no room, its hashes are so uneven that doubling
            // would help little and cost much.
            if (filter.usage.used + more) * 2 < filter.growth_limit() {
                break;
            }
            let Ok(mut doubled) = filter.doubled() else { break };
            match act(&mut doubled) {
                Ok(done) => {
                    *self = doubled;
                    return Ok(done);
                }
                Err(Refused::Full) => larger = Some(doubled),
                refused => return refused,
            }
        }
        if let Some(mut larger) = larger
            && let Ok(done) = larger.with_all_slots(&mut act)
        {
            *self = larger;
            return Ok(done);
        }
        self.with_all_slots(act)
    }

    /// Runs `act` again after there was no room for it, and lets it use all slots. If it succeeds,
    /// all slots stay usable.
    fn with_all_slots<T, E>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused<E>>,
    ) -> Result<T, Refused<E>> {
        let slots = self.shared.table.slots();
        let limit = core::mem::replace(&mut self.usage.limit, slots);
        let done = if limit < slots { act(self) } else { Err(Refused::Full) };
        if done.is_err() {
            self.usage.limit = limit;
        }
        done
    }
}
