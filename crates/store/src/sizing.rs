//! The size and the false-positive rate of a store's filter.

use twiceshy::{
    Concurrent, Hash,
    builder::Builder,
    concurrent::{Fill, RebuildError, Shard, ShardPlan},
    error::BuildError,
};

/// The capacity of a new filter, unless the options say otherwise. The filter grows with its members.
pub(crate) const DEFAULT_CAPACITY: usize = 1 << 10;

/// The number of slots that are planned for repairs, per member.
const PLANNED_REPAIRS: f64 = 0.035;

/// The share of used slots at which a shard is rebuilt. A shard with all of its planned members,
/// and with the planned repairs, uses this share.
const FULL: f64 = 0.97;

/// The share of slots above which writers are slowed down. By then the shard is due.
///
/// Slowing them down earlier would be of no use. Below the share at which the shard becomes due, which is
/// from 0.955 to 0.97, no rebuild is coming; a shard that was planned for its members may stay there
/// forever. Above 0.97, the delays amount to 15 µs for each slot of the shard until it is full. That is time
/// for many rebuilds of such a shard: listing takes less than 1 µs per member.
pub(crate) const CROWDED: f64 = 0.97;

/// The largest share of slots that are used in a new shard. A new shard is below the share at which
/// a shard is due.
pub(crate) const FRESH: f64 = 0.95;

/// The share of slots that members take in a shard that has just grown.
const BUILT: f64 = 0.81;

/// The share of slots that members take in a shard that has just shrunk. It is larger than `BUILT`,
/// so that the next removals leave the shard dense.
const SHRUNK: f64 = 0.85;

/// The largest share of slots that members may take in a shard that keeps its size when it is
/// rebuilt to make room for repairs.
const KEPT: f64 = 0.94;

/// A shard that is larger than planned shrinks if its members take a smaller share of its slots
/// than this.
const SPARSE: f64 = 0.78;

/// The maximum difference between the loads of shards. They differ so that not all shards are full
/// at the same time.
const STAGGER: f64 = 0.03;

/// The smallest number of slots of a shard that has grown or shrunk.
const LEAST_SLOTS: u64 = 32;

/// Bytes of memory that the lists of a rebuild take per slot, without notes. A member takes 16
/// bytes. A record that is kept takes 24, and 16 more in a copy without the members. A record that
/// is deleted takes 36. There are at most one kept and one deleted record per four members. At most
/// 0.95 of the slots hold members.
const LISTS: u64 = 34;

/// Additional bytes of memory for the lists of a rebuild, because a small shard may have more
/// records per member.
const FEW_LISTED: u64 = 8 << 10;

/// The least value of [`ShardSizes::most_notes`], with and without a memory limit.
const FEW_NOTES: u64 = 1 << 8;
const MANY_NOTES: u64 = 1 << 14;

/// The approximate bytes of memory that a note about a write takes during a rebuild. Tree nodes are about two
/// thirds full.
pub(crate) const NOTE_BYTES: u64 = (size_of::<Hash>() as u64 + 2) * 3 / 2;

/// The size and the false-positive rate of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sizing {
    /// Number of members to plan for.
    pub(crate) capacity: usize,
    pub(crate) false_positive_rate: f64,
    pub(crate) shards: usize,
    /// Bytes of memory that the shards may take in all, or `None` if there is no limit. This isn't
    /// recorded in the store.
    pub(crate) memory: Option<u64>,
}

impl Default for Sizing {
    fn default() -> Self {
        Self { capacity: DEFAULT_CAPACITY, false_positive_rate: 0.001, shards: 64, memory: None }
    }
}

impl Sizing {
    /// Returns the number of shards for `capacity` members: enough that none has more than about 65,536.
    pub(crate) fn shards_for(capacity: usize) -> usize {
        (capacity >> 16).clamp(64, 4096).next_power_of_two()
    }

    /// Builds an empty filter with fresh remainders.
    pub(crate) fn build_empty<F: Shard>(&self) -> Result<Concurrent<F>, BuildError> {
        let filter = self.build_with(self.remainder_bits::<F>()?)?;
        for shard in 0..filter.shards() {
            let plan = ShardPlan::default().fresh();
            filter.rebuild_shard::<Hash>(shard, plan, &[], &[]).map_err(|error| match error {
                RebuildError::Build(error) => error,
                error => unreachable!("no other thread knows the filter: {error}"),
            })?;
        }
        Ok(filter)
    }

    /// Builds an empty filter with remainders of `bits` bits, or less if there is too little memory.
    pub(crate) fn build_with<F: Shard>(&self, bits: u32) -> Result<Concurrent<F>, BuildError> {
        let shards = self.shards.clamp(1, 1 << 20).next_power_of_two();
        let sizes = self.shard_sizes::<F>(shards, bits);
        let slots = sizes.planned.saturating_mul(shards as u64);
        let bits = sizes.remainder_bits::<F>(sizes.planned).unwrap_or(1);
        let builder = Builder::default().remainder_bits(bits).slots(slots);
        builder.shards(self.shards).build_concurrent()
    }

    /// Returns the number of remainder bits that the filter's false-positive rate needs.
    pub(crate) fn remainder_bits<F: Shard>(&self) -> Result<u32, BuildError> {
        let builder = Builder::<F>::default().false_positive_rate(self.false_positive_rate);
        Ok(builder.slots(1 << 10).plan()?.remainder_bits)
    }

    /// Returns the sizes of a filter's shards.
    pub(crate) fn shard_sizes<F: Shard>(&self, shards: usize, bits: u32) -> ShardSizes {
        let mut sizes = ShardSizes::new(self.capacity, shards, bits, self.memory);
        if sizes.remainder_bits::<F>(sizes.planned).is_err() {
            // The planned size doesn't fit into memory. Plan the smallest one, and let shards grow
            // as far as they can.
            sizes.planned = 1;
        }
        sizes
    }
}

/// The sizes of a filter's shards, and when they change.
///
/// A shard that has at most the members that it was planned for has its planned size. A shard with more
/// members is built with room for a fifth more of them, and rebuilt when that is used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardSizes {
    shards: usize,
    /// Number of slots that each shard is planned with. No shard has fewer.
    planned: u64,
    /// Number of bits per remainder, if the memory suffices.
    bits: u32,
    /// Bytes of memory that all shards and a rebuild may take.
    memory: u64,
}

/// The reason why a shard is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its members have outgrown it.
    Growth,
    /// It has more room than its members need.
    Shrinking,
    /// Its room for repairs is used up.
    Rotation,
    /// Its remainders have fewer or more bits than the rate and the memory ask for.
    Renewal,
}

impl ShardSizes {
    /// Plans for `capacity` members and `memory` bytes in all. Some shards get more than their share by
    /// chance, so each has room for a standard deviation more.
    fn new(capacity: usize, shards: usize, bits: u32, memory: Option<u64>) -> Self {
        let mean = capacity as f64 / shards as f64;
        let members = mean + mean.sqrt();
        let planned = (members * (1.0 + PLANNED_REPAIRS) / FULL).ceil().max(1.0) as u64;
        Self { shards, planned, bits, memory: memory.unwrap_or(u64::MAX) }
    }

    /// Returns the number of remainder bits to build a shard with.
    ///
    /// # Errors
    /// If there is too little memory for even one bit.
    pub(crate) fn remainder_bits<F: Shard>(&self, slots: u64) -> Result<u32, BuildError> {
        if self.memory == u64::MAX {
            return Ok(self.bits);
        }
        let mut needed = u64::MAX;
        for bits in (1..=self.bits).rev() {
            let plan = Builder::<F>::default().slots(slots).remainder_bits(bits).plan();
            let Ok(plan) = plan else { continue };
            // A rebuild also needs memory for the new shard, and for its lists.
            let lists = slots.saturating_mul(LISTS).saturating_add(FEW_LISTED);
            let notes = self.most_notes(slots).saturating_mul(NOTE_BYTES);
            needed = plan.bytes.saturating_mul(self.shards as u64 + 1);
            needed = needed.saturating_add(lists).saturating_add(notes);
            if needed <= self.memory {
                return Ok(bits);
            }
        }
        Err(BuildError::Memory { bytes: needed })
    }

    /// Returns how many notes about writes a rebuild may take at a time, for a shard with this many
    /// slots.
    pub(crate) fn most_notes(&self, slots: u64) -> u64 {
        (slots / 4).max(if self.is_limited() { FEW_NOTES } else { MANY_NOTES })
    }

    /// Returns the number of slots to give a shard when it is rebuilt. The shard has `slots` slots
    /// now, and needs room for `members` members and repairs. If memory is limited, this may be the
    /// smallest possible number, or `None` if even that doesn't fit.
    pub(crate) fn fitting<F: Shard>(&self, shard: usize, slots: u64, members: u64) -> Option<u64> {
        let least = (members as f64 / FRESH).ceil() as u64 + 1;
        let wanted = self.slots(shard, slots, members);
        let sizes = [wanted, slots.max(least), least.max(LEAST_SLOTS)];
        sizes.into_iter().find(|&slots| self.remainder_bits::<F>(slots).is_ok())
    }

    /// Returns why a shard should be rebuilt, or `None` if it need not be.
    pub(crate) fn reason<F: Shard>(&self, shard: usize, fill: &Fill) -> Option<Reason> {
        let share = |count: u64| count as f64 / fill.slots as f64;
        let is_large = fill.slots > self.planned.max(LEAST_SLOTS);
        let has_other_bits =
            || self.remainder_bits::<F>(fill.slots).is_ok_and(|bits| bits != fill.slot_bits);
        if fill.bits_lost > 0 || has_other_bits() {
            Some(Reason::Renewal)
        } else if share(fill.used) > FULL - self.stagger(shard) / 2.0 {
            let has_grown = share(fill.members) > KEPT;
            Some(if has_grown { Reason::Growth } else { Reason::Rotation })
        } else if is_large && self.slots(shard, fill.slots, fill.members) < fill.slots {
            Some(Reason::Shrinking)
        } else {
            None
        }
    }

    /// Returns the number of remainder bits that the false-positive rate needs.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns whether memory is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.memory < u64::MAX
    }

    /// Returns the number of slots to give a shard when it is rebuilt, if memory suffices. The
    /// shard has `slots` slots now.
    pub(crate) fn slots(&self, shard: usize, slots: u64, members: u64) -> u64 {
        let share = members as f64 / slots as f64;
        let is_planned = slots <= self.planned;
        if share <= KEPT && (is_planned || share >= SPARSE) {
            return slots.max(self.planned);
        }
        let load = if share < SPARSE { SHRUNK } else { BUILT };
        let slots = (members as f64 / (load + self.stagger(shard))).ceil() as u64;
        slots.max(LEAST_SLOTS).max(self.planned)
    }

    /// Returns a number from 0 to [`STAGGER`], which differs between neighbouring shards.
    fn stagger(&self, shard: usize) -> f64 {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        debug_assert!(shard < self.shards);
        STAGGER * (shard as f64 * GOLDEN).fract()
    }
}
