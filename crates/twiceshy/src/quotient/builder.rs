//! How good and how large a filter should be.

use super::entry::MOST_VALUE_BITS;
use super::{AdaptiveQuotientFilter, Parameters};
use crate::error::BuildError;
use crate::hash::HashScheme;
use crate::table::{SLOTS, WIDTHS};
use crate::{Hash, Member, Secret};
use core::ops::RangeInclusive;

/// The share of slots that a filter is planned to use, members and extensions: above
/// it inserts get slow.
pub(crate) const PLANNED_LOAD: f64 = 0.95;

/// The loads at which a filter can grow: at less, a few members would double it again and
/// again, until there is no memory.
pub(crate) const GROWTH_LOADS: RangeInclusive<f64> = 0.1..=1.0;

/// The rate that is taken if none is asked for.
const DEFAULT_RATE: f64 = 0.001;

/// Extension slots per member above which it isn't the mistakes that need them: members
/// with equal hashes, which no size spreads.
pub(crate) const MOST_EXTENDED: u64 = 64;

/// Builds an [`AdaptiveQuotientFilter`]: say how good it should be, and how large.
///
/// - How good: [`false_positive_rate`](Self::false_positive_rate) (0.1 % if nothing is
///   said) or [`remainder_bits`](Self::remainder_bits).
/// - How large: one of [`capacity`](Self::capacity), [`memory`](Self::memory) and
///   [`slots`](Self::slots).
/// - [`adaptations`](Self::adaptations): how many mistakes it should have room to repair.
///
/// ```
/// use twiceshy::AdaptiveQuotientFilter;
/// let builder = AdaptiveQuotientFilter::builder().false_positive_rate(0.001).memory(1 << 20);
/// let plan = builder.plan()?;
/// assert!(plan.capacity > 550_000 && plan.bytes <= 1 << 20);
/// let filter = builder.build()?;
/// # Ok::<(), twiceshy::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    rate: Option<f64>,
    remainder_bits: Option<u32>,
    pub(crate) capacity: Option<usize>,
    pub(crate) memory: Option<u64>,
    pub(crate) slots: Option<u64>,
    pub(crate) adaptations: Option<usize>,
    value_bits: u32,
    pub(crate) growth: Option<f64>,
    pub(crate) secret: Option<Secret>,
    pub(crate) shards: Option<usize>,
}

/// What a [`Builder`] is going to build.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Parameters of the filter.
    pub parameters: Parameters,
    /// Members that it is planned for.
    pub capacity: usize,
    /// Slots that are kept free for extensions when it holds that many.
    pub extension_slots: u64,
    /// The false-positive rate that it has then.
    pub rate: f64,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

/// The probability that a random query is a false positive, at `density` members per
/// slot.
pub(crate) fn expected_rate(density: f64, remainder_bits: u32) -> f64 {
    -(-density * f64::from(remainder_bits).exp2().recip()).exp_m1()
}

/// The slots that repairing so many mistakes takes: a mistake collides with one or more
/// members, and each needs one or more digits.
fn extension_slots(mistakes: usize, bits: u32) -> u64 {
    let collision = f64::from(bits).exp2().recip();
    let members_each = collision / expected_rate(1.0, bits);
    let digits_each = (1.0 - collision).recip();
    (mistakes as f64 * members_each * digits_each).ceil() as u64
}

impl Builder {
    /// The probability with which an absent key may be answered "maybe", when the
    /// filter holds as many members as it is planned for.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The bits of a remainder, 1 to 56, instead of a rate: about log₂(1/rate).
    #[must_use]
    pub fn remainder_bits(mut self, bits: u32) -> Self {
        self.remainder_bits = Some(bits);
        self
    }

    /// How many members the filter is planned for.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// The bytes that the filter may take; [`plan`](Self::plan) tells for how many
    /// members they are enough.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// The slots of the filter, any number, not only powers of two. At most that many
    /// members and extensions fit; plan to use 95 % of them.
    #[must_use]
    pub fn slots(mut self, slots: u64) -> Self {
        self.slots = Some(slots);
        self
    }

    /// How many mistakes there should be room to repair; a twentieth of the capacity
    /// if nothing is said. Slots are slots: room for repairs can be used by members, too,
    /// but more members than the capacity mean more false positives than were asked for.
    #[must_use]
    pub fn adaptations(mut self, mistakes: usize) -> Self {
        self.adaptations = Some(mistakes);
        self
    }

    /// The bits of a small value that each fingerprint can have, 0 to 16; none if nothing is
    /// said. See [`set_value`](AdaptiveQuotientFilter::set_value).
    #[must_use]
    pub fn value_bits(mut self, bits: u32) -> Self {
        self.value_bits = bits;
        self
    }

    /// The load, from 0.1 to 1, at which the filter [doubles](AdaptiveQuotientFilter::doubled) by
    /// itself, each time with a remainder of one bit less; it never does if nothing is said.
    ///
    /// ```
    /// # use twiceshy::{AdaptiveQuotientFilter, Hash};
    /// let mut filter =
    ///     AdaptiveQuotientFilter::builder().slots(64).remainder_bits(16).grow_at(0.9).build()?;
    /// for key in 0..1000u128 {
    ///     filter.insert(Hash::from_u128(key.wrapping_mul(u128::MAX / 997)))?;
    /// }
    /// assert_eq!(filter.parameters().remainder_bits, 11);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn grow_at(mut self, load: f64) -> Self {
        self.growth = Some(load);
        self
    }

    /// The secret for the keys' hashes, if a filter is to be built again over keys that
    /// are stored by their hashes; a fresh one if nothing is said. For
    /// [`build_keyed`](Self::build_keyed) and
    /// [`build_keyed_from`](Self::build_keyed_from) only.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// What [`build`](Self::build) would build.
    ///
    /// # Errors
    /// If what was asked for is contradictory or impossible.
    pub fn plan(&self) -> Result<Plan, BuildError> {
        self.check_fidelity()?;
        match (self.capacity, self.memory, self.slots) {
            (Some(capacity), None, None) => self.plan_for_members(capacity, 0),
            (None, Some(bytes), None) => self.plan_for_memory(bytes),
            (None, None, Some(slots)) => self.plan_for_slots(slots),
            _ => Err(BuildError::Size),
        }
    }

    fn planned(
        &self,
        capacity: usize,
        extension_slots: u64,
        slots: u64,
        bits: u32,
        bytes: u64,
    ) -> Plan {
        let hash = HashScheme::Aes128SipHash13;
        let parameters = Parameters {
            slots,
            remainder_bits: bits,
            slot_bits: bits,
            value_bits: self.value_bits,
            hash,
        };
        Plan {
            parameters,
            capacity,
            extension_slots,
            rate: expected_rate(capacity as f64 / slots as f64, bits),
            bytes,
        }
    }

    /// Checks what was asked for, except for the size.
    fn check_fidelity(&self) -> Result<(), BuildError> {
        if self.rate.is_some() && self.remainder_bits.is_some() {
            return Err(BuildError::RateAndRemainderBits);
        }
        let best = expected_rate(PLANNED_LOAD, *WIDTHS.end());
        if let Some(rate) = self.rate.filter(|rate| !(*rate >= best && *rate < 1.0)) {
            return Err(BuildError::Rate(rate));
        }
        if let Some(load) = self.growth.filter(|load| !GROWTH_LOADS.contains(load)) {
            return Err(BuildError::Growth(load));
        }
        if self.value_bits > MOST_VALUE_BITS {
            return Err(BuildError::ValueBits(self.value_bits));
        }
        self.remainder_bits.map_or(Ok(()), |bits| check_shape(1, bits))
    }

    /// The smallest of all tables that hold so many members, and so many extension slots
    /// that are used from the beginning: wider remainders need fewer slots to keep the
    /// rate, but never fewer than the load allows.
    fn plan_for_members(&self, capacity: usize, extended: u64) -> Result<Plan, BuildError> {
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let widths = self.remainder_bits.map_or(WIDTHS, |bits| bits..=bits);
        let slots = |bits: u32| {
            let mistakes = self.adaptations.unwrap_or_else(|| capacity.div_ceil(20));
            let extensions = extension_slots(mistakes, bits).saturating_add(extended);
            let by_load = (capacity as f64 + extensions as f64) / PLANNED_LOAD;
            let by_rate = match self.remainder_bits {
                Some(_) => 0.0,
                None => capacity as f64 / f64::from(bits).exp2() / -(-rate).ln_1p(),
            };
            (extensions, by_load.max(by_rate).ceil().max(1.0) as u64)
        };
        let plans = widths.clone().filter_map(|bits| {
            let (extensions, slots) = slots(bits);
            let bytes = AdaptiveQuotientFilter::memory_for(slots, bits)?;
            Some(self.planned(capacity, extensions, slots, bits, bytes))
        });
        plans.min_by_key(|plan| plan.bytes).ok_or(BuildError::Slots(slots(*widths.end()).1))
    }

    /// The most members whose filter fits the budget.
    fn plan_for_memory(&self, bytes: u64) -> Result<Plan, BuildError> {
        let fits = |capacity: u64| {
            let plan = self.plan_for_members(usize::try_from(capacity).ok()?, 0).ok();
            plan.filter(|plan| plan.bytes <= bytes)
        };
        // A member takes more than 4 bits, so `high` members never fit.
        let (mut low, mut high) = (0, bytes.min(1 << 60) * 2 + 2);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        let without_adaptations = Self { adaptations: Some(0), ..self.clone() };
        fits(low).filter(|plan| plan.capacity > 0).ok_or_else(|| match self.adaptations {
            Some(count) if count > 0 && without_adaptations.plan_for_memory(bytes).is_ok() => {
                BuildError::Adaptations(count)
            }
            _ => BuildError::Budget(bytes),
        })
    }

    fn plan_for_slots(&self, slots: u64) -> Result<Plan, BuildError> {
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let sufficient = |bits: &u32| expected_rate(PLANNED_LOAD, *bits) <= rate;
        let bits = self
            .remainder_bits
            .or_else(|| WIDTHS.into_iter().find(sufficient))
            .ok_or(BuildError::Rate(rate))?;
        check_shape(slots, bits)?;
        let bytes = AdaptiveQuotientFilter::memory_for(slots, bits)
            .ok_or(BuildError::Memory { slots, remainder_bits: bits })?;
        let planned = (slots as f64 * PLANNED_LOAD) as u64;
        let extensions = match self.adaptations {
            Some(count) => {
                let needed = extension_slots(count, bits);
                if needed > planned {
                    return Err(BuildError::Adaptations(count));
                }
                needed
            }
            None => planned - planned * 20 / 21,
        };
        let capacity = usize::try_from(planned - extensions).unwrap_or(usize::MAX);
        Ok(self.planned(capacity, extensions, slots, bits, bytes))
    }

    fn with_growth(&self, mut filter: AdaptiveQuotientFilter) -> AdaptiveQuotientFilter {
        filter.set_growth(self.growth);
        filter
    }

    /// An empty filter.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), or if there is no memory for it.
    pub fn build(&self) -> Result<AdaptiveQuotientFilter, BuildError> {
        let parameters = self.plan()?.parameters;
        Ok(self.with_growth(AdaptiveQuotientFilter::empty(parameters)?))
    }

    /// A filter of these members, in which none of these mistakes is "maybe"; both are
    /// streams in hash order, which can be begun again.
    ///
    /// It is written in one pass, after one to count the members if no size was given.
    /// If members and repairs need more than was estimated, it is enlarged, and written
    /// again, so that the rate and the room for later repairs are kept.
    ///
    /// # Errors
    /// As [`build`](Self::build), or if a list is out of order, if a hash is on both,
    /// if they don't fit a size that was asked for in bytes or slots, or if hashes are so
    /// unevenly spread that they fit no reasonable size.
    pub fn build_sorted<I, J>(
        &self,
        members: impl Fn() -> I,
        mistakes: impl Fn() -> J,
    ) -> Result<AdaptiveQuotientFilter, BuildError>
    where
        I: IntoIterator<Item: Into<Member>>,
        J: IntoIterator<Item = Hash>,
    {
        if self.memory.is_some() || self.slots.is_some() {
            let parameters = self.plan()?.parameters;
            let built = AdaptiveQuotientFilter::from_sorted(parameters, members(), mistakes());
            return built.map(|filter| self.with_growth(filter));
        }
        self.check_fidelity()?;
        let count = || members().into_iter().count();
        let mut capacity = self.capacity.unwrap_or_else(count);
        let mut extended = 0;
        loop {
            let plan = self.plan_for_members(capacity, extended)?;
            let mut listed = 0;
            let counted = members().into_iter().inspect(|_| listed += 1);
            match AdaptiveQuotientFilter::from_sorted(plan.parameters, counted, mistakes()) {
                Ok(filter) => {
                    // More members than planned for would break the rate, more
                    // extensions would take the room of later ones. Members that share a
                    // fingerprint leave the slots free that their count takes.
                    let statistics = filter.statistics();
                    let fingerprints = statistics.fingerprints as usize;
                    let shared = listed.min(capacity).saturating_sub(fingerprints) as u64;
                    let used = statistics.extension_slots.saturating_sub(shared);
                    if fingerprints <= capacity && used <= extended {
                        return Ok(self.with_growth(filter));
                    }
                    capacity = capacity.max(fingerprints);
                    extended = extended.max(used + used / 64 + 8);
                }
                Err(BuildError::Full { slots }) => {
                    let count = count();
                    if count <= capacity {
                        if extended > MOST_EXTENDED * (count as u64 + 1) {
                            return Err(BuildError::Full { slots });
                        }
                        extended += extended / 2 + count as u64 / 8 + 64;
                    }
                    capacity = capacity.max(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`build_sorted`](Self::build_sorted), after sorting both lists. Without mistakes,
    /// what is sorted is less, and twice as fast.
    ///
    /// # Errors
    /// As [`build_sorted`](Self::build_sorted).
    pub fn build_from(
        &self,
        mut members: Vec<Hash>,
        mut mistakes: Vec<Hash>,
    ) -> Result<AdaptiveQuotientFilter, BuildError> {
        if mistakes.is_empty() {
            let capacity = self.capacity.unwrap_or(0).max(members.len());
            let asked = self.memory.is_some() || self.slots.is_some();
            let sized = if asked { self.clone() } else { self.clone().capacity(capacity) };
            let mut filter = sized.build()?;
            if filter.insert_many(&members).is_ok() {
                return Ok(filter);
            }
            if asked {
                return Err(BuildError::Full { slots: filter.parameters().slots });
            }
            // Hashes that lie unevenly: it has to be enlarged.
        }
        members.sort_unstable();
        mistakes.sort_unstable();
        self.build_sorted(|| members.iter().copied(), || mistakes.iter().copied())
    }
}

/// Says what is wrong with an impossible shape.
pub(super) fn check_shape(slots: u64, remainder_bits: u32) -> Result<(), BuildError> {
    if !WIDTHS.contains(&remainder_bits) {
        return Err(BuildError::RemainderBits(remainder_bits));
    }
    if !SLOTS.contains(&slots) {
        return Err(BuildError::Slots(slots));
    }
    Ok(())
}
