//! The adaptive Bloom filter: a cascade of Bloom filters, where each level answers for the mistakes
//! of the level above.
//!
//! ```text
//!              cells of function 0: intervals of hashes        functions 1 to k − 1
//!           ┌──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┐┌─────────────────┐┌───────────
//!  level 0  │ 1│  │ 1│ ✝│  │  │ 1│  │ 1│ ✝│  │ 1│  │ 1││    1 1  1   1 11││ 1   11 1
//!           └──┴──┴──┴┬─┴──┴──┴──┴──┴──┴┬─┴──┴──┴──┴──┘└─────────────────┘└───────────
//!                     │ depth 1         │ depth 2
//!           ┌─────────▼──┐              │
//!  level 1  │  1   1  1  │ different functions; rate ε², room for the members of some cells
//!           └────────────┘              │
//!           ┌───────────────────────────▼──┐
//!  last     │ whole hashes, in order       │
//!           └──────────────────────────────┘
//! ```
//!
//! Function 0 of level 0 is the hash itself, because members are listed in hash order and its cells
//! have to be intervals of hashes. All other functions are random and derived from a new secret.
//!
//! # Invariants
//! 1. All cells of a member are set in level 0. Other bits may also be set.
//! 2. A dead cell belongs to function 0 of level 0, is set, and has a depth of at least 1. All
//!    members in its interval are in the level of that depth, and possibly in others.
//! 3. Every hash in the last level belongs to a cell for which the last level answers.
//!
//! # No false negatives
//! A lookup answers "absent" if a cell of level 0 is not set, or if the cell of function 0 is dead
//! and the level of its depth doesn't contain the hash. By the first two invariants, that never
//! happens for a member. Every operation preserves them:
//! - An insert sets all cells in level 0. If the cell of function 0 is dead, it also inserts into
//!   the level of its depth.
//! - A repair gives a cell a different depth, and inserts *all* members of the interval into the
//!   level of that depth. The list is complete and current, because nothing has changed since the
//!   claim. No other member uses this cell, because function 0 has its own part of the bits.
//! - A cell of function 0 is cleared, and the last level removes a hash, only if a complete list
//!   shows that no member needs it. Bits of other functions and deeper levels are never cleared.

mod adapt;
mod change;
mod dead;
mod level;
mod lookup;
mod plan;

pub(crate) use level::LevelParts;
pub use plan::PlanDetails;

use crate::builder::Builder;
use crate::claim::{Cells as HashCells, Versions};
use crate::error::{BuildError, Invalid};
use crate::hash::{KeyedHasher, Scaled};
use crate::members::OrderedHashes;
use crate::traits::filter_traits;
use crate::{Hash, QuotientFilter, Secret, Stats};
use core::fmt;
use core::ops::RangeInclusive;
use dead::{DeadCells, MOST_DEPTH};
use level::{Level, MOST_MEMBERS};
use plan::LevelPlan;

/// A Bloom filter that learns from its mistakes.
///
/// As in any Bloom filter, the answer is "maybe" if all cells of a query are set. When the filter
/// learns that this was a mistake, and which members caused it, it lets one cell of the query
/// *die*: it inserts the members of that cell into a second, much smaller Bloom filter with
/// different hash functions and a lower rate. From then on, the second filter answers for the
/// dead cell. It can also make mistakes, so there is a third filter below it, and so on. The last
/// level contains whole hashes, which are never wrong.
///
/// Use it if members are rarely removed and a false-positive rate of 1/100 or more is acceptable. A
/// [`QuotientFilter`] reads one cache line instead of several, removes
/// members exactly, forgets no repair, and is smaller at rates below about 1/1000.
///
/// # Guarantees
/// - No false negatives, if lists are complete. An operation that fails returns an error and
///   changes nothing.
/// - A query for a new key is a false positive with probability at most ε, whatever the earlier
///   queries were, as long as mistakes are repaired and the filter is rebuilt when that is
///   [due](Details::rebuild_due).
/// - A repaired mistake is answered "absent". It can come back before the next rebuild if a member
///   is inserted in its interval, or if members from elsewhere happen to set its bits in the deeper
///   level that answers for it. The probability of the latter is at most ε² in level 1, lower in
///   the levels below, and 0 in the last level. Another repair moves it one level deeper.
/// - A mistake from before a [rebuild](Self::rotated) occurs again after it with probability at
///   most ε^(1 − 1/k), where k is the number of [hash functions](PlanDetails::functions) of level
///   0: about 2ε. An attacker who replays mistakes after every rebuild causes at most twice as
///   many mistakes as with new keys. With a single hash function, at rates above 0.38, *all*
///   mistakes come back.
///
/// # How it works
/// Level 0 has k hash functions with their own cells. The first function multiplies the hash, read
/// as a fraction, by the number of cells, so the members of a cell are those in an *interval* of
/// hashes, which an index in hash order can list, and which a claim names. Only these cells die.
///
/// A cell is either alive, or it has a *depth*: the number of the level that answers for it. A
/// member that is inserted into a dead cell is also inserted into that level; this needs no list
/// of members. Dead cells are few and stored compressed. Level i has the rate ε^(2^i), and room
/// for the [planned](Builder::adaptations) mistakes. If a level has no room, the members go to a
/// lower one; the last level grows. A lookup reads level 0 and at most one other level.
///
/// A removed member is a *ghost*: its bits stay set, so its key is still answered "maybe" until it
/// is repaired like any mistake. A [rebuild](Self::rotated) frees the room of ghosts.
///
/// # Complexity
/// A lookup reads k cache lines for a member, and two on average for a key that is not a member.
/// For a repaired mistake it also reads one or two lines for the dead cell, and the cells of one
/// deeper level. All deeper levels together, including the dead cells, take O(ε) of the first
/// level's space.
///
/// # Papers
/// - Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem* (FOCS 2018), section 5:
///   the cascade. In our filter, the dying cell is the one whose members form an interval. The
///   paper takes a random cell, and loses the members that reach it through other functions.
/// - Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors* (1970).
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveBloomFilter, Answer, MemberSource, members::MemoryMap};
/// let mut filter = AdaptiveBloomFilter::builder()
///     .false_positive_rate(0.01)
///     .capacity(10_000)
///     .build_keyed::<u64>()?;
/// let mut map = MemoryMap::new();
/// for key in 0..10_000 {
///     filter.insert(&key)?;
///     map.insert(filter.hash(&key), key);
/// }
/// for stranger in 10_000..20_000 {
///     if let Answer::Maybe(claim) = filter.check(&stranger) {
///         // The map has no such key, so this was a mistake.
///         filter.adapt(&claim, &map.members(claim.suspects())?)?;
///         assert!(!filter.contains(&stranger));
///     }
/// }
/// assert!(filter.filter().stats().repairs > 50);
/// assert!((0..10_000).all(|key| filter.contains(&key)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AdaptiveBloomFilter {
    first: Level,
    /// All levels between the first and the last.
    deeper: Vec<Level>,
    last: OrderedHashes,
    dead: DeadCells,
    versions: Versions,
    /// Number of repairs that the levels are planned for.
    repairs: u64,
    /// Number of members, each counted as often as it was inserted.
    len: u64,
    /// Upper bound on the number of removed members whose bits are still set.
    ghosts: u64,
    /// Number of removed members whose space in level 0 only a rebuild can free.
    vacated: u64,
    adaptations: u64,
}

/// The parts of a filter, for snapshots.
pub(crate) struct Parts<'a> {
    /// All levels except the last.
    pub(crate) levels: Vec<LevelParts<'a>>,
    /// The table of dead cells.
    pub(crate) dead: QuotientFilter,
    /// The last level.
    pub(crate) last: OrderedHashes,
    /// Number of repairs that the levels are planned for.
    pub(crate) repairs: u64,
    /// See [`AdaptiveBloomFilter::tallies`].
    pub(crate) tallies: [u64; 4],
}

/// The costs of a Bloom filter's repairs and removals.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Details {
    /// Upper bound on the number of removed members that are still answered "maybe".
    pub ghosts: u64,
    /// Number of dead cells.
    pub dead_cells: u64,
    /// Bytes of memory that the dead cells take.
    pub dead_bytes: u64,
    /// Bytes of memory that level 0 takes. Repairs don't use level 0.
    pub first_bytes: u64,
    /// Number of members and ghosts in the last level.
    pub exact: u64,
    /// Number of repairs, divided by the number that the levels are planned for. Above 1, the
    /// filter takes more memory than planned.
    pub wear: f64,
    /// Whether the filter should be [rebuilt](AdaptiveBloomFilter::rotated), because its planned
    /// repairs are used up, or because it is full and removed members take some of its room.
    pub rebuild_due: bool,
}

impl AdaptiveBloomFilter {
    /// Returns a builder that sets the filter's false-positive rate and size.
    pub fn builder() -> Builder<Self> {
        Builder::default()
    }

    /// Creates an empty filter with these levels above the last one.
    fn new(plans: impl Iterator<Item = LevelPlan>, repairs: u64) -> Result<Self, BuildError> {
        let hasher = KeyedHasher::new(&Secret::generate()?);
        let levels = (0..).zip(plans);
        let mut levels = levels.map(|(number, plan)| Level::new(number, plan, &hasher));
        let first = levels.next().expect("every plan has a level 0")?;
        let cells = first.plan.cells;
        Ok(Self {
            first,
            deeper: levels.collect::<Result<_, _>>()?,
            last: OrderedHashes::new(),
            dead: DeadCells::new(cells, repairs)?,
            versions: Versions::new(cells),
            repairs,
            len: 0,
            ghosts: 0,
            vacated: 0,
            adaptations: 0,
        })
    }

    /// Makes a filter from its parts, which must then be [validated](Self::validate).
    pub(crate) fn from_parts(parts: Parts<'_>) -> Result<Self, Invalid> {
        let Parts { levels, dead, last, repairs, tallies } = parts;
        let [len, ghosts, vacated, adaptations] = tallies;
        let level = |(number, parts)| Level::from_parts(number, parts);
        let levels: Option<Vec<Level>> = (0..).zip(levels).map(level).collect();
        let is_possible = |levels: &Vec<Level>| {
            (1..=MOST_DEPTH as usize).contains(&levels.len())
                && tallies.iter().chain([&repairs]).all(|&count| count <= MOST_MEMBERS)
        };
        let levels = levels.filter(is_possible);
        let mut levels =
            levels.ok_or(Invalid("its levels or counts are impossible".into()))?.into_iter();
        let first = levels.next().expect("at least one level");
        let cells = first.plan.cells;
        Ok(Self {
            first,
            deeper: levels.collect(),
            last,
            dead: DeadCells::from_table(cells, dead)?,
            versions: Versions::new(cells),
            repairs,
            len,
            ghosts,
            vacated,
            adaptations,
        })
    }

    /// Iterates over the parts of all levels except the last.
    pub(crate) fn levels(&self) -> impl Iterator<Item = LevelParts<'_>> {
        core::iter::once(&self.first).chain(&self.deeper).map(Level::parts)
    }

    pub(crate) fn last_level(&self) -> &OrderedHashes {
        &self.last
    }

    /// Returns the table of dead cells.
    pub(crate) fn dead_cell_filter(&self) -> &QuotientFilter {
        self.dead.table()
    }

    /// Returns the number of repairs that the filter is planned for.
    pub(crate) fn planned_repairs(&self) -> u64 {
        self.repairs
    }

    /// Returns the numbers of members, of ghosts, of vacated places in level 0, and of repairs.
    pub(crate) fn tallies(&self) -> [u64; 4] {
        [self.len, self.ghosts, self.vacated, self.adaptations]
    }

    /// Returns the number of cells per function of level 0.
    #[inline(always)]
    fn cells(&self) -> u64 {
        self.first.plan.cells
    }

    /// Returns the cell of a hash under function 0.
    fn cell_of(&self, hash: Hash) -> u64 {
        Scaled::new(hash, self.cells()).quotient
    }

    /// Returns the depth of the cells for which the last level answers.
    fn last_depth(&self) -> u32 {
        self.deeper.len() as u32 + 1
    }

    /// Returns the number of members, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    filter_traits!(@is_empty);

    /// Returns the number of members and ghosts, divided by the capacity.
    fn load(&self) -> f64 {
        share(self.first.written, self.first.plan.room)
    }

    /// Returns the number of repairs, divided by the number of planned repairs.
    fn wear(&self) -> f64 {
        let levels = self.deeper.iter().map(|level| share(level.written, level.plan.room));
        levels.fold(share(self.dead.len(), self.repairs), f64::max)
    }

    /// Returns the filter's number of members, memory use, load and expected false-positive rate.
    pub fn stats(&self) -> Stats {
        let own = size_of::<Self>() + self.deeper.len() * size_of::<Level>();
        let deeper: u64 = self.deeper.iter().map(|level| level.plan.bytes()).sum();
        let last = self.last.memory_usage() - size_of::<OrderedHashes>() as u64;
        let beside = self.dead.bytes() + self.versions.bytes();
        Stats {
            members: self.len(),
            memory: own as u64 + self.first.plan.bytes() + deeper + last + beside,
            load: self.load(),
            repairs: self.adaptations,
            expected_rate: self.first.plan.rate(self.first.written),
        }
    }

    /// Returns the costs of repairs and removals.
    pub fn details(&self) -> Details {
        let wear = self.wear();
        Details {
            ghosts: self.ghosts,
            dead_cells: self.dead.len(),
            dead_bytes: self.dead.bytes(),
            first_bytes: self.first.plan.bytes(),
            exact: self.last.len() as u64,
            wear,
            rebuild_due: wear >= 1.0 || (self.load() >= 1.0 && self.vacated > 0),
        }
    }

    filter_traits!(@check_or_repair);

    /// Checks every invariant of the filter, for tests and for diagnosing suspected corruption.
    /// Takes time in proportion to the filter's size.
    ///
    /// # Errors
    /// Names the broken invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let invalid = |what: String| Err(Invalid(what));
        core::iter::once(&self.first).chain(&self.deeper).try_for_each(Level::validate)?;
        let (written, room) = (self.first.written, self.first.plan.room);
        if written > room {
            return invalid(format!("level 0 has {written} members, but room for {room}"));
        }
        self.dead.validate()?;
        for (cell, depth) in self.dead.iter() {
            if depth > self.last_depth() {
                return invalid(format!("no level answers for dead cell {cell}"));
            }
            if !self.first.is_set(cell) {
                return invalid(format!("dead cell {cell} is not set"));
            }
        }
        self.last.validate()?;
        let is_elsewhere = |&hash: &Hash| self.dead.depth(self.cell_of(hash)) != self.last_depth();
        self.last.iter().find(is_elsewhere).map_or(Ok(()), |hash| {
            invalid(format!("{hash:?} is in the last level, which doesn't answer for it"))
        })
    }

    /// Iterates over the dead cells in hash order. Each item is the interval of the cell and the
    /// number of the level that answers for it.
    pub fn dead_cells(&self) -> impl Iterator<Item = (RangeInclusive<Hash>, u32)> {
        let cells = self.cells();
        self.dead.iter().map(move |(cell, depth)| (HashCells::one(cell, cells).hashes(), depth))
    }
}

/// Returns what share of the room is taken by the members that were written.
fn share(written: u64, room: u64) -> f64 {
    written as f64 / room.max(1) as f64
}

impl fmt::Debug for AdaptiveBloomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveBloomFilter")
            .field("stats", &self.stats())
            .field("details", &self.details())
            .finish()
    }
}

filter_traits!([] AdaptiveBloomFilter, AdaptiveBloomFilter: Filter Dynamic Adaptive);
