//! Growing, from the fingerprints alone.
//!
//! Doubling the slots moves the highest bit of each remainder to its quotient. The slots
//! stay as wide as they are, so that the digits of extensions, and with them every repair,
//! stay as they are, too; a bit of the first slot of each entry is unused from then on.

use super::insert::Refused;
use super::{AdaptiveQuotientFilter, Parameters};
use crate::error::{BuildError, GrowError, MergeError};
use crate::{Hash, Member};

/// About as many slots as one entry can take: a filter that has room for fewer grows.
pub(super) const MOST_SLOTS: u64 = 128;

impl AdaptiveQuotientFilter {
    /// The same filter with twice the slots, and remainders of one bit less. No member is
    /// needed: what it answers is exactly the same, and every repair is kept.
    ///
    /// So is the rate of false positives, for the members that it has. But when it is as
    /// full again as it was, there are twice as many, and a random query is a false positive
    /// twice as often: [`Statistics::expected_rate`](super::Statistics::expected_rate)
    /// says how often. [`resized`](Self::resized), with the members, gives the lost bits
    /// back.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let mut filter = AdaptiveQuotientFilter::builder().slots(100).remainder_bits(10).build()?;
    /// filter.insert(Hash::from_u128(7 << 120))?;
    /// let doubled = filter.doubled()?;
    /// assert_eq!((doubled.parameters().slots, doubled.parameters().remainder_bits), (200, 9));
    /// assert!(doubled.contains(Hash::from_u128(7 << 120)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`GrowError`] if there is no bit left to be moved, or no memory.
    pub fn doubled(&self) -> Result<Self, GrowError> {
        let Parameters { slots, remainder_bits, .. } = self.parameters();
        if remainder_bits == 1 {
            return Err(GrowError::NoRemainder);
        }
        let parameters = Parameters {
            slots: 2 * slots,
            remainder_bits: remainder_bits - 1,
            ..self.parameters()
        };
        let merged = Self::merge_into(parameters, &[self]).map_err(|error| match error {
            MergeError::Build(error) => GrowError::Build(error),
            error => unreachable!("{error}"),
        });
        let mut doubled = merged?;
        doubled.set_growth(self.growth);
        Ok(doubled)
    }

    /// The same members in any number of slots, more or fewer; all of them, and mistakes to
    /// be repaired in the same pass, in hash order. Remainders have all bits of a slot again.
    /// See [`rebuilt`](Self::rebuilt).
    ///
    /// # Errors
    /// As [`rebuilt`](Self::rebuilt).
    pub fn resized(
        &self,
        slots: u64,
        members: impl IntoIterator<Item: Into<Member>>,
        mistakes: impl IntoIterator<Item = Hash>,
    ) -> Result<Self, BuildError> {
        let parameters = self.parameters();
        let remainder_bits = parameters.slot_bits;
        let parameters = Parameters { slots, remainder_bits, ..parameters };
        let mut resized = Self::rebuilt(parameters, &[self], members, mistakes)?;
        resized.succeed(self);
        Ok(resized)
    }

    /// Takes the place of a filter of the same members: grows as it did, and counts on.
    pub(crate) fn succeed(&mut self, before: &Self) {
        self.adaptations = before.adaptations;
        self.set_growth(before.growth);
    }

    /// From now on, the filter is full at that load, and [doubles](Self::doubled) then, as
    /// long as it can. If it is fuller already, it may stay so: what is tried and undone must
    /// have its room back.
    pub(super) fn set_growth(&mut self, load: Option<f64>) {
        self.growth = load;
        let limit = self.growth_limit().max(self.table.used());
        self.table.set_limit(limit);
    }

    fn growth_limit(&self) -> u64 {
        let slots = self.table.slots();
        self.growth.map_or(slots, |load| ((slots as f64 * load) as u64).clamp(1, slots))
    }

    /// Runs `act`, which may need `more` slots. If there is no room and the filter grows by
    /// itself, runs it in a larger filter, which replaces this one if `act` succeeds. Claims
    /// that were made before are stale then.
    ///
    /// # Errors
    /// As `act`, which must change nothing if it fails. Then this filter is as it was.
    #[inline]
    pub(super) fn with_room<T>(
        &mut self,
        more: u64,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match act(self) {
            Err(Refused::Full) => self.with_more_room(more, act),
            done => done,
        }
    }

    /// As [`with_room`](Self::with_room), for what this filter has no room for.
    #[cold]
    pub(super) fn with_more_room<T>(
        &mut self,
        more: u64,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut larger: Option<Self> = None;
        while let Some(mut doubled) = larger.as_ref().unwrap_or(self).doubled_for(more) {
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

    /// Runs `act`, which had no room in this filter, with all slots allowed. They stay allowed
    /// if it succeeds.
    fn with_all_slots<T>(
        &mut self,
        mut act: impl FnMut(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let slots = self.table.slots();
        let limit = self.table.set_limit(slots);
        let done = if limit < slots { act(self) } else { Err(Refused::Full) };
        if done.is_err() {
            self.table.set_limit(limit);
        }
        done
    }

    /// Grows for a repair or a removal that has no room; whether it is worth trying again.
    /// Claims that were made before are stale if it was doubled.
    #[cold]
    pub(super) fn grow(&mut self) -> bool {
        if let Some(doubled) = self.doubled_for(MOST_SLOTS) {
            *self = doubled;
            return true;
        }
        let slots = self.table.slots();
        self.growth.is_some() && self.table.set_limit(slots) < slots
    }

    /// The doubled filter, if this one grows by itself, and doubling helps to find room for
    /// `more` slots. Where hashes lie so unevenly that there is no room in a filter that is
    /// half empty, doubling would help little, and cost much.
    fn doubled_for(&self, more: u64) -> Option<Self> {
        let is_half_full = (self.table.used() + more) * 2 >= self.growth_limit();
        if self.growth.is_some() && is_half_full { self.doubled().ok() } else { None }
    }
}
