//! The builder that all filters share. It sets a filter's false-positive rate and size.
//!
//! This module holds the options that all filters share, their defaults, and the search for the
//! largest filter that fits a memory budget. Each filter family implements [`Plannable`], which plans
//! a filter of a given capacity or number of slots.

use crate::error::{BuildError, EntropyError, PlanError};
use crate::table::SLOTS;
use crate::{Hash, Secret};
use core::fmt;
use core::ops::RangeInclusive;

/// The default planned load: the share of slots that a filter is planned to use.
pub(crate) const PLANNED_LOAD: f64 = 0.95;

/// The default false-positive rate of a filter.
pub(crate) const DEFAULT_RATE: f64 = 0.001;

/// The loads that a filter can be planned for. Lower loads waste memory; higher loads make inserts
/// slow.
const LOADS: RangeInclusive<f64> = 0.5..=0.99;

/// The default number of members per planned repair.
const MEMBERS_PER_REPAIR: usize = 20;

/// Builds a filter with a given false-positive rate and size.
///
/// Give a false-positive rate or remainder bits, and exactly one of capacity, memory and slots. A
/// filter's builder has only the options that make sense for that filter. For example, the builder
/// of an [`AdaptiveBloomFilter`](crate::AdaptiveBloomFilter) has no `slots`. Some filters have
/// options of their own, such as `grow_at` or `longest_range`.
///
/// # Examples
/// ```
/// use twiceshy::QuotientFilter;
/// let builder = QuotientFilter::builder().false_positive_rate(0.001).memory(1 << 20);
/// let plan = builder.plan()?;
/// assert!(plan.capacity > 550_000 && plan.bytes <= 1 << 20);
/// let filter = builder.build()?;
/// assert_eq!(filter.stats().memory, plan.bytes);
/// # Ok::<(), twiceshy::error::BuildError>(())
/// ```
pub struct Builder<F: Plannable> {
    pub(crate) rate: Option<f64>,
    remainder_bits: Option<u32>,
    pub(crate) capacity: Option<usize>,
    pub(crate) memory: Option<u64>,
    pub(crate) slots: Option<u64>,
    pub(crate) load: Option<f64>,
    pub(crate) adaptations: Option<usize>,
    pub(crate) secret: Option<Secret>,
    pub(crate) shards: Option<usize>,
    pub(crate) options: F::Options,
}

/// A description of the filter that a [`Builder`] would build.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan<D> {
    /// Number of members that the filter is planned for.
    pub capacity: usize,
    /// Number of slots in the table. For a Bloom filter, the number of cells per hash function in
    /// level 0. For a [`YesNoFilter`](crate::YesNoFilter), the number of quotients.
    pub slots: u64,
    /// Bits per remainder; 0 in a Bloom filter.
    pub remainder_bits: u32,
    /// The false-positive rate when the filter is filled to its capacity.
    pub expected_rate: f64,
    /// Bytes of memory that the filter takes.
    pub bytes: u64,
    /// Bits of memory per member when the filter is filled to its capacity.
    pub bits_per_member: f64,
    /// Details that only filters of this family have.
    pub details: D,
}

impl<D> Plan<D> {
    pub(crate) fn new(
        capacity: usize,
        (slots, remainder_bits): (u64, u32),
        expected_rate: f64,
        bytes: u64,
        details: D,
    ) -> Self {
        let bits_per_member = bytes as f64 * 8.0 / capacity.max(1) as f64;
        Self { capacity, slots, remainder_bits, expected_rate, bytes, bits_per_member, details }
    }
}

/// The limits of a filter's parameters.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The lowest false-positive rate.
    pub(crate) least_rate: f64,
    /// The maximum number of bits per remainder.
    pub(crate) most_bits: u32,
}

pub(crate) mod sealed {
    /// Prevents other crates from implementing the traits of this module.
    pub trait Sealed {}
}

/// A filter that a [`Builder`] can plan.
///
/// The trait is sealed, because its methods expose the internals of a filter.
pub trait Plannable: Sized + sealed::Sealed {
    /// The options that only this filter has.
    #[doc(hidden)]
    type Options: Clone + fmt::Debug + Default;

    /// The part of a [`Plan`] that is specific to this filter.
    type Details;

    /// The default capacity, or `None` if the caller must set a size.
    #[doc(hidden)]
    const CAPACITY: Option<usize> = None;

    /// Checks the options that only this filter has, and returns the limits of the shared
    /// parameters.
    #[doc(hidden)]
    fn limits(builder: &Builder<Self>) -> Result<Limits, PlanError>;

    /// Plans a filter with this capacity. Returns `None` if it would be too large.
    #[doc(hidden)]
    fn plan_members(builder: &Builder<Self>, capacity: usize) -> Option<Plan<Self::Details>>;

    /// Plans a filter with `slots` slots, a number in [`SLOTS`]. Returns `None` if they leave no
    /// room for repairs.
    #[doc(hidden)]
    fn plan_slots(_builder: &Builder<Self>, _slots: u64) -> Option<Plan<Self::Details>> {
        None
    }

    /// Checks requirements other than size, for example that hashes have bits left for repairs.
    #[doc(hidden)]
    fn check(_plan: &Plan<Self::Details>) -> Result<(), PlanError> {
        Ok(())
    }
}

/// A filter that a [`Builder`] can build without its members.
pub trait Buildable: Plannable {
    /// Builds an empty filter according to a plan.
    #[doc(hidden)]
    fn build_planned(
        builder: &Builder<Self>,
        plan: Plan<Self::Details>,
    ) -> Result<Self, BuildError>;
}

/// A filter that keeps its members in slots. Its size can be given in slots, and its rate in
/// bits per remainder.
pub trait HasSlots: Plannable {}

/// A filter that can be planned for a number of repairs.
pub trait HasRepairs: Plannable {}

/// A filter that can be built in one step from the hashes of its members and of the mistakes to
/// repair.
pub trait FromMembers: Buildable {
    /// The error when a filter was not built: a [`BuildError`], or a
    /// [`ListError`](crate::list::ListError) for lists.
    type Error: From<BuildError>;

    /// Builds a filter from members and mistakes, both in any order.
    #[doc(hidden)]
    fn from_members(
        builder: &Builder<Self>,
        members: Vec<Hash>,
        mistakes: Vec<Hash>,
    ) -> Result<Self, Self::Error>;

    /// Builds a filter from the hashes of keys. A key that is listed twice counts once.
    #[doc(hidden)]
    fn from_keys(
        builder: &Builder<Self>,
        mut keys: Vec<Hash>,
        mistakes: Vec<Hash>,
    ) -> Result<Self, Self::Error> {
        keys.sort_unstable();
        keys.dedup();
        Self::from_members(builder, keys, mistakes)
    }

    /// If the error is that a listed mistake is a member, adds the position of that mistake in the
    /// list.
    #[doc(hidden)]
    fn with_position(
        error: Self::Error,
        _position: impl FnOnce(Hash) -> Option<usize>,
    ) -> Self::Error {
        error
    }
}

impl<F: Plannable> Builder<F> {
    /// Sets the highest false-positive rate that the filter may have while it holds no more members
    /// than planned; 0.001 by default. The rate is the probability that the filter answers "maybe"
    /// to an absent key.
    #[must_use]
    pub fn false_positive_rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the number of members that the filter is planned for.
    #[must_use]
    pub fn capacity(mut self, members: usize) -> Self {
        self.capacity = Some(members);
        self
    }

    /// Sets the maximum number of bytes that the filter may take. The filter is planned for as many
    /// members as fit; [`plan`](Self::plan) returns how many. A filter that grows by itself may take
    /// more later.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the secret that keys are hashed with; by default, a fresh one. To rebuild a filter from
    /// stored hashes, set the secret that they were made with.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Returns a description of the filter that [`build`](Self::build) would build.
    ///
    /// # Errors
    /// If the options contradict each other, or if no filter can meet them.
    pub fn plan(&self) -> Result<Plan<F::Details>, PlanError> {
        self.check_options()?;
        let capacity = if self.is_sized() { self.capacity } else { F::CAPACITY };
        let plan = match (capacity, self.memory, self.slots) {
            (Some(capacity), None, None) => {
                let plan = |builder: &Self| F::plan_members(builder, capacity);
                self.planned(plan, PlanError::Capacity(capacity))
            }
            (None, Some(bytes), None) => {
                self.planned(|builder| builder.plan_memory(bytes), PlanError::Budget(bytes))
            }
            (None, None, Some(slots)) if SLOTS.contains(&slots) => {
                self.planned(|builder| F::plan_slots(builder, slots), PlanError::Slots(slots))
            }
            (None, None, Some(slots)) => Err(PlanError::Slots(slots)),
            _ => Err(PlanError::Size),
        }?;
        F::check(&plan)?;
        Ok(plan)
    }

    /// Checks all options except the size.
    pub(crate) fn check_options(&self) -> Result<(), PlanError> {
        if self.rate.is_some() && self.remainder_bits.is_some() {
            return Err(PlanError::RateAndRemainderBits);
        }
        if let Some(load) = self.load.filter(|load| !LOADS.contains(load)) {
            return Err(PlanError::Load(load));
        }
        let Limits { least_rate: least, most_bits: most } = F::limits(self)?;
        if let Some(rate) = self.rate().filter(|&rate| !(rate >= least && rate < 1.0)) {
            return Err(PlanError::Rate { rate, least });
        }
        match self.remainder_bits {
            Some(bits) if !(1..=most).contains(&bits) => {
                Err(PlanError::RemainderBits { bits, most })
            }
            _ => Ok(()),
        }
    }

    /// Returns the plan that `plan` makes. If `plan` makes none, the error is
    /// [`PlanError::Adaptations`] if there is a plan without repairs, and `otherwise` if there is
    /// none either.
    fn planned(
        &self,
        plan: impl Fn(&Self) -> Option<Plan<F::Details>>,
        otherwise: PlanError,
    ) -> Result<Plan<F::Details>, PlanError> {
        plan(self).ok_or_else(|| match self.adaptations {
            Some(count) if plan(&Self { adaptations: Some(0), ..self.clone() }).is_some() => {
                PlanError::Adaptations(count)
            }
            _ => otherwise,
        })
    }

    /// Plans the filter with the largest capacity that fits in `bytes` bytes.
    fn plan_memory(&self, bytes: u64) -> Option<Plan<F::Details>> {
        let fits = |capacity: u64| {
            let plan = F::plan_members(self, usize::try_from(capacity).ok()?);
            plan.filter(|plan| plan.bytes <= bytes)
        };
        // Search up to 2^10 members per byte: at very high false-positive rates, one bit is enough
        // for many members.
        let (mut low, mut high) = (0, bytes.saturating_mul(1 << 10).min(1 << 48) + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        fits(low).filter(|plan| plan.capacity > 0)
    }

    /// Returns the false-positive rate, or `None` if the bits per remainder are given instead.
    pub(crate) fn rate(&self) -> Option<f64> {
        match self.remainder_bits {
            Some(_) => None,
            None => Some(self.rate.unwrap_or(DEFAULT_RATE)),
        }
    }

    /// Returns the allowed remainder widths: the width that was set, or else 1 to `most` bits.
    pub(crate) fn widths(&self, most: u32) -> RangeInclusive<u32> {
        self.remainder_bits.map_or(1..=most, |bits| bits..=bits)
    }

    /// Returns the share of slots that the filter is planned to use.
    pub(crate) fn load(&self) -> f64 {
        self.load.unwrap_or(PLANNED_LOAD)
    }

    /// Returns the number of repairs that a filter of this capacity is planned for.
    pub(crate) fn repairs(&self, capacity: usize) -> usize {
        self.adaptations.unwrap_or_else(|| capacity.div_ceil(MEMBERS_PER_REPAIR))
    }

    /// Returns whether a size was given.
    pub(crate) fn is_sized(&self) -> bool {
        self.capacity.is_some() || self.memory.is_some() || self.slots.is_some()
    }

    pub(crate) fn secret_or_fresh(&self) -> Result<Secret, EntropyError> {
        self.secret.clone().map_or_else(Secret::generate, Ok)
    }
}

impl<F: Buildable> Builder<F> {
    /// Builds an empty filter.
    ///
    /// # Errors
    /// Returns the same errors as [`plan`](Self::plan), or an error if there is not enough memory
    /// or no entropy.
    pub fn build(&self) -> Result<F, BuildError> {
        F::build_planned(self, self.plan()?)
    }
}

impl<F: HasSlots> Builder<F> {
    /// Sets the number of bits per remainder, instead of the false-positive rate. A rate needs
    /// about log₂(1/rate) bits.
    #[must_use]
    pub fn remainder_bits(mut self, bits: u32) -> Self {
        self.remainder_bits = Some(bits);
        self
    }

    /// Sets the number of slots, which need not be a power of two. Each member takes at least one
    /// slot, and by default the filter is planned to use 95 % of its slots.
    #[must_use]
    pub fn slots(mut self, slots: u64) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Sets the share of slots that the filter is planned to use, from 0.5 to 0.99. The default is
    /// 0.95.
    ///
    /// A higher load makes the filter smaller but slower. Above 0.95, most lookups read more than
    /// one cache line, and inserts move many more entries.
    #[must_use]
    pub fn planned_load(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }
}

impl<F: HasRepairs> Builder<F> {
    /// Sets the number of mistakes that the filter has room to repair when it is full; by default,
    /// a twentieth of the capacity.
    ///
    /// In an [`AdaptiveBloomFilter`](crate::AdaptiveBloomFilter) the default is the capacity times
    /// the rate, because members cannot use its deeper levels.
    ///
    /// In a table of slots, members can also use the room for repairs. However, more members than
    /// the capacity make the false-positive rate higher than planned.
    #[must_use]
    pub fn adaptations(mut self, mistakes: usize) -> Self {
        self.adaptations = Some(mistakes);
        self
    }
}

impl<F: FromMembers> Builder<F> {
    /// Builds a filter that holds these members and answers "absent" to these mistakes. Both lists
    /// may be in any order. If no size was given, the filter is sized for exactly these members.
    ///
    /// A telescoping or extension filter repairs as many of the mistakes as its codes have room
    /// for; the other filters repair all of them.
    ///
    /// # Errors
    /// Returns the same errors as [`build`](Self::build), or an error if a hash is on both lists,
    /// or if the lists don't fit in a size that was given.
    pub fn build_from(&self, members: Vec<Hash>, mistakes: Vec<Hash>) -> Result<F, F::Error> {
        F::from_members(self, members, mistakes)
    }
}

impl<F: Plannable> Default for Builder<F> {
    fn default() -> Self {
        Self {
            rate: None,
            remainder_bits: None,
            capacity: None,
            memory: None,
            slots: None,
            load: None,
            adaptations: None,
            secret: None,
            shards: None,
            options: F::Options::default(),
        }
    }
}

impl<F: Plannable> Clone for Builder<F> {
    fn clone(&self) -> Self {
        Self { secret: self.secret.clone(), options: self.options.clone(), ..*self }
    }
}

impl<F: Plannable> fmt::Debug for Builder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("false_positive_rate", &self.rate)
            .field("remainder_bits", &self.remainder_bits)
            .field("capacity", &self.capacity)
            .field("memory", &self.memory)
            .field("slots", &self.slots)
            .field("planned_load", &self.load)
            .field("adaptations", &self.adaptations)
            .field("secret", &self.secret)
            .field("shards", &self.shards)
            .field("options", &self.options)
            .finish()
    }
}
