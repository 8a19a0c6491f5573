//! The adaptive Bloom filter: a cascade of Bloom filters, of which each answers for the mistakes
//! of the one above.
//!
//! ```text
//!              cells of function 0: intervals of hashes        functions 1 to k − 1
//!           ┌──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──┐┌─────────────────┐┌───────────
//!  level 0  │ 1│  │ 1│ ✝│  │  │ 1│  │ 1│ ✝│  │ 1│  │ 1││    1 1  1   1 11││ 1   11 1
//!           └──┴──┴──┴┬─┴──┴──┴──┴──┴──┴┬─┴──┴──┴──┴──┘└─────────────────┘└───────────
//!                     │ depth 1         │ depth 2
//!           ┌─────────▼──┐              │
//!  level 1  │  1   1  1  │ other functions; rate ε², room for the members of some cells
//!           └────────────┘              │
//!           ┌───────────────────────────▼──┐
//!  last     │ whole hashes, in order       │
//!           └──────────────────────────────┘
//! ```
//!
//! The files: [`cells`] has the bits of a level, [`dead`] the dead cells with their depths, [`level`]
//! the plan of all levels; the last one is an [`OrderedHashes`]. [`lookup`] asks, [`change`] inserts,
//! removes and rebuilds, [`listing`] and [`adapt`] repair.
//!
//! # Hash functions
//! Function 0 of level 0 is the hash itself: a reverse map lists members in hash order, so its cells
//! have to be intervals of hashes. All other functions are drawn at random, from a fresh secret, each
//! time the filter is built or [rebuilt](AdaptiveBloomFilter::rebuild).
//!
//! # Invariants
//! 1. All cells of a member are set in level 0, but bits may be set that are no member's.
//! 2. A dead cell is one of function 0 of level 0; it is set, and has a depth of at least 1. All
//!    members in its interval are in the level of that depth, and maybe in others.
//! 3. The last level holds hashes of cells of its depth only.
//!
//! # No false negatives
//! A lookup says "absent" if a cell of level 0 is unset, or if the cell of function 0 is dead and
//! the level of its depth doesn't hold the hash. By the first two invariants that never happens to
//! a member. What changes something keeps them:
//! - An insert sets all cells in level 0, and if the cell of function 0 is dead, it inserts into the
//!   level of its depth, too.
//! - A repair gives a cell another depth, and inserts into that level *all* members of the interval:
//!   the list is complete, and current, because nothing came or went since the claim was made. No
//!   other member has anything to do with that cell: function 0 has a part of the bits of its own,
//!   and takes just the hashes of the interval there. (The paper's figure 1 moves those whose
//!   function j reaches the cell that dies; but others may reach it by other functions, and find
//!   it dead without having been moved.)
//! - A cell of function 0 is unset only when a list says that its interval has no members left. Bits
//!   of other functions, and of deeper levels, are never unset.
//! - The last level forgets only whom a list doesn't name, or who is removed for the last time.

mod adapt;
mod builder;
mod cells;
mod change;
mod dead;
mod level;
mod listing;
mod lookup;
mod validate;

pub use builder::{BloomBuilder, BloomPlan};

use crate::claim::Versions;
use crate::error::{AdaptError, BuildError, InsertError, RemoveError};
use crate::hash::{HashScheme, Scaled};
use crate::{
    Adaptation, AdaptiveFilter, Answer, Claim, Dynamic, Filter, Fingerprint, Hash, KeyedHasher,
    Member, OrderedHashes, Removable, Secret,
};
use core::fmt;
use dead::DeadCells;
use level::{Blueprint, LEVEL_BYTES, Level};

/// A Bloom filter that learns from its mistakes.
///
/// A query is "maybe" if all its cells are set, as in any Bloom filter. Told that this was a
/// mistake, and which members are behind it, the filter lets one cell of the query *die*, and
/// inserts the members of that cell into another, much smaller Bloom filter, with other hash
/// functions and a better rate, which is asked for that cell from now on. There, too, mistakes can
/// happen, and below it there is a third; in the end there are whole hashes, which are never wrong.
///
/// Take it where members come and hardly go, and one query in a hundred or more may be a mistake;
/// an [`AdaptiveQuotientFilter`](crate::AdaptiveQuotientFilter) touches one cache line where this
/// one touches several, removes exactly, forgets no repair, and is the smaller one at rates below
/// 1/1000 or so.
///
/// The filter knows only hashes; [`Keyed`](crate::Keyed) binds it to a key type and a secret. It
/// does no I/O: whoever has the members lists them.
///
/// # Guarantees
/// - No false negatives, if lists are complete. An operation that fails returns an error and changes
///   nothing.
/// - A query for a new key is a false positive with probability at most ε, whatever was asked before,
///   as long as mistakes are repaired and the filter is rebuilt when that is
///   [due](BloomStatistics::rebuild_due).
/// - A repaired mistake is answered "absent". It can come back before the next rebuild if a member is
///   inserted in its interval, or if members from elsewhere happen to set the mistake's bits in the
///   deeper level that answers for it. The probability of the latter is at most ε² in level 1, less
///   in the levels below, and 0 in the last level. If the mistake is repaired again, it goes one level
///   deeper.
/// - A mistake from before a [rebuild](Self::rebuild) is made again after it with probability at most
///   ε^(1 − 1/k), where k is the number of [hash functions](BloomLevel::functions) of level 0: about
///   2ε. So an adversary who replays mistakes after every rebuild makes twice as many as with new
///   keys, and no more. With a single hash function, at rates above 0.38, *all* mistakes come back.
///
/// # How it works
/// Level 0 has k hash functions with cells of their own. The first one takes the hash as a fraction
/// and multiplies it by the number of cells: so the members of a cell are those in an *interval* of
/// hashes, which a reverse map in hash order can list, and which a claim names. Only such cells die.
///
/// A cell is alive, or it has a *depth*: the number of the level that answers for it. Members that
/// are inserted later go to that level, too; this takes no list. Dead cells are few, and are kept
/// compressed. Level i has the rate ε^(2^i), and as much room as the mistakes that are
/// [planned](BloomBuilder::adaptations) are going to need: by default, those of as many queries as
/// there are members. More are never refused for that: where a level has no room, one below takes
/// them, and the last level grows. Lookups go to level 0 and at most one more.
///
/// Bits of removed members stay, and their keys are answered "maybe": [ghosts](Self::remove). Those
/// who ask for them are told "absent" after the first repair, like for any mistake. Room is free
/// again after a [rebuild](Self::rebuild).
///
/// # Complexity
/// k cache lines for a member, two on average for a stranger; a repaired mistake takes one or two
/// lines more for its dead cell, and the cells of one level. All levels below the first, dead cells
/// included, take O(ε) of the first one's space.
///
/// # Papers
/// - Bender et al., *Bloom Filters, Adaptivity, and the Dictionary Problem* (FOCS 2018), section 5:
///   the cascade. Ours differs in which cell dies (the one whose members are an interval, where the
///   paper takes a random one, and loses members), in that the intervals are the same in all levels,
///   and in that levels between the first and the one that answers aren't asked.
/// - Bloom, *Space/Time Trade-offs in Hash Coding with Allowable Errors* (1970).
///
/// # Examples
/// ```
/// use twiceshy::{AdaptiveBloomFilter, Answer, MemoryMap, ReverseMap};
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
/// assert!(filter.filter().statistics().adaptations > 50);
/// assert!((0..10_000).all(|key| filter.contains(&key)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AdaptiveBloomFilter {
    first: Level,
    /// Levels 1 and so on, but for the last.
    deeper: Vec<Level>,
    last: OrderedHashes,
    dead: DeadCells,
    versions: Versions,
    blueprint: Blueprint,
    /// Members, each counted as often as it was inserted.
    len: u64,
    /// Members that were removed, but whose bits are still set: that many at most.
    ghosts: u64,
    /// Members that are gone, but whose room in level 0 only a rebuild can free.
    vacated: u64,
    adaptations: u64,
}

/// What a filter holds, and what adapting has cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BloomStatistics {
    /// Members, counted as often as they were inserted.
    pub members: usize,
    /// Members that were removed and left their bits set: at most so many are still answered
    /// "maybe".
    pub ghosts: u64,
    /// Mistakes repaired since the filter was built, or rebuilt.
    pub adaptations: u64,
    /// Cells that are dead.
    pub dead_cells: u64,
    /// Members and ghosts in level 0, as a share of what it is planned for.
    pub load: f64,
    /// Repairs, as a share of what the levels are planned for; more than 1 takes more memory than
    /// was planned.
    pub wear: f64,
    /// Whether the filter should be [rebuilt](AdaptiveBloomFilter::rebuild): it has had as many
    /// repairs as it is planned for, or it is full and some of its room is that of members that are
    /// gone.
    pub rebuild_due: bool,
    /// Bytes of memory.
    pub bytes: u64,
    /// Bytes of memory of the dead cells alone.
    pub dead_bytes: u64,
    /// Bits of memory per member.
    pub bits_per_member: f64,
    /// The probability that a random query is a false positive, as if no cell were dead.
    pub expected_rate: f64,
}

/// One level of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BloomLevel {
    /// Its hash functions; none in the last level, which holds whole hashes.
    pub functions: u32,
    /// Cells of each function.
    pub cells: u64,
    /// The rate that it is planned for; 0 in the last level.
    pub rate: f64,
    /// Members and ghosts that it holds, as far as they have bits of their own.
    pub members: u64,
    /// How many it has room for; the last one has for all.
    pub room: Option<u64>,
    /// Bytes of memory.
    pub bytes: u64,
}

impl AdaptiveBloomFilter {
    /// Returns a builder, which is told how good and how large the filter should be.
    pub fn builder() -> BloomBuilder {
        BloomBuilder::default()
    }

    fn new(blueprint: Blueprint) -> Result<Self, BuildError> {
        let cells = blueprint.first.shape.cells;
        let hasher = KeyedHasher::new(&Secret::generate()?);
        let deeper = (1..).zip(&blueprint.deeper);
        let deeper = deeper.map(|(number, plan)| Level::new(number, plan, &hasher));
        Ok(Self {
            first: Level::new(0, &blueprint.first, &hasher)?,
            deeper: deeper.collect::<Result<_, _>>()?,
            last: OrderedHashes::new(),
            dead: DeadCells::new(cells, blueprint.repairs)?,
            versions: Versions::new(cells),
            blueprint,
            len: 0,
            ghosts: 0,
            vacated: 0,
            adaptations: 0,
        })
    }

    /// Cells of each function of level 0.
    #[inline(always)]
    fn cells(&self) -> u64 {
        self.first.cells.shape().cells
    }

    /// The cell of function 0.
    fn cell_of(&self, hash: Hash) -> u64 {
        Scaled::new(hash, self.cells()).quotient
    }

    /// The depth of cells for which the last level answers.
    fn last_depth(&self) -> u32 {
        self.deeper.len() as u32 + 1
    }

    /// How many members there are, each counted as often as it was inserted.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Members and ghosts, as a share of what the filter is planned for.
    pub fn load(&self) -> f64 {
        self.first.written as f64 / self.blueprint.first.room.max(1) as f64
    }

    /// Repairs, as a share of what the levels are planned for.
    fn wear(&self) -> f64 {
        let share = |written: u64, room: u64| written as f64 / room.max(1) as f64;
        let levels = self.deeper.iter().zip(&self.blueprint.deeper);
        let levels = levels.map(|(level, plan)| share(level.written, plan.room));
        levels.fold(share(self.dead.len(), self.blueprint.repairs), f64::max)
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_usage(&self) -> u64 {
        let levels: u64 = self.deeper.iter().map(|level| level.cells.bytes()).sum();
        let own = size_of::<Self>() + self.deeper.len() * LEVEL_BYTES;
        let first = self.first.cells.bytes();
        let beside = self.last_bytes() + self.dead.bytes() + self.versions.bytes();
        own as u64 + first + levels + beside
    }

    /// Bytes of the last level, without the structure itself.
    fn last_bytes(&self) -> u64 {
        self.last.memory_usage() - size_of::<OrderedHashes>() as u64
    }

    /// What the filter holds, and what adapting has cost.
    pub fn statistics(&self) -> BloomStatistics {
        let (load, wear, bytes) = (self.load(), self.wear(), self.memory_usage());
        BloomStatistics {
            members: self.len(),
            ghosts: self.ghosts,
            adaptations: self.adaptations,
            dead_cells: self.dead.len(),
            load,
            wear,
            rebuild_due: wear >= 1.0 || (load >= 1.0 && self.vacated > 0),
            bytes,
            dead_bytes: self.dead.bytes(),
            bits_per_member: bytes as f64 * 8.0 / self.len.max(1) as f64,
            expected_rate: self.first.cells.shape().rate(self.first.written),
        }
    }

    /// Iterates over the levels, top to bottom.
    pub fn levels(&self) -> impl Iterator<Item = BloomLevel> {
        let plans = core::iter::once(&self.blueprint.first).chain(&self.blueprint.deeper);
        let levels = core::iter::once(&self.first).chain(&self.deeper).zip(plans);
        let levels = levels.map(|(level, plan)| BloomLevel {
            functions: plan.shape.functions,
            cells: plan.shape.cells,
            rate: plan.rate,
            members: level.written,
            room: Some(plan.room),
            bytes: level.cells.bytes(),
        });
        levels.chain(core::iter::once(BloomLevel {
            functions: 0,
            cells: 0,
            rate: 0.0,
            members: self.last.len() as u64,
            room: None,
            bytes: self.last_bytes(),
        }))
    }

    /// The dead cells in hash order: the interval of each, and the number of the level that answers
    /// for it.
    pub fn dead_cells(&self) -> impl Iterator<Item = (Fingerprint, u32)> {
        self.dead.iter().map(|(cell, depth)| {
            let scaled = Scaled { quotient: cell, fraction: 0 };
            (Fingerprint::of(scaled, 0, self.cells()), depth)
        })
    }
}

impl fmt::Debug for AdaptiveBloomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveBloomFilter")
            .field("levels", &self.levels().collect::<Vec<_>>())
            .field("statistics", &self.statistics())
            .finish()
    }
}

impl Filter for AdaptiveBloomFilter {
    #[inline]
    fn contains(&self, hash: Hash) -> bool {
        self.contains(hash)
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn memory_usage(&self) -> u64 {
        self.memory_usage()
    }

    fn hash_scheme(&self) -> HashScheme {
        HashScheme::Aes128SipHash13
    }
}

impl Dynamic for AdaptiveBloomFilter {
    #[inline]
    fn insert(&mut self, hash: Hash) -> Result<(), InsertError> {
        self.insert(hash)
    }
}

impl AdaptiveFilter for AdaptiveBloomFilter {
    #[inline]
    fn check(&self, hash: Hash) -> Answer {
        self.check(hash)
    }

    fn adapt(&mut self, claim: &Claim, members: &[Member]) -> Result<Adaptation, AdaptError> {
        self.adapt(claim, members)
    }

    fn adapt_dropping_ghosts(
        &mut self,
        claim: &Claim,
        members: &[Member],
    ) -> Result<Adaptation, AdaptError> {
        self.adapt_dropping_ghosts(claim, members)
    }
}

impl Removable for AdaptiveBloomFilter {
    fn remove(&mut self, hash: Hash) -> Result<(), RemoveError> {
        self.remove(hash)
    }

    fn remove_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        mistakes: Option<&[Hash]>,
    ) -> Result<(), RemoveError> {
        self.remove_listed(claim, members, mistakes)
    }
}
