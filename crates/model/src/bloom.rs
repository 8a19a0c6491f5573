//! The adaptive Bloom filter as a list of members and a map of dead cells, and scripts that drive
//! both.
//!
//! Which bits are set is not modelled: a filter may say "maybe" where the model has no member. What
//! it must never do is to say "absent" of one.

use crate::quotient::scaled;
use arbitrary::{Result, Unstructured};
use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{
    AdaptError, AdaptiveBloomFilter, Answer, BuildError, Claim, Hash, InsertError, Member,
    RemoveError,
};

/// The shape of the filter that a script drives.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Members that it has room for.
    pub capacity: usize,
    /// Its false-positive rate.
    pub rate: f64,
    /// Repairs that it is planned for.
    pub adaptations: usize,
}

impl Shape {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self {
            capacity: bytes.int_in_range(1..=60)?,
            rate: *bytes.choose(&[0.9, 0.5, 0.25, 0.1, 0.02, 0.001])?,
            adaptations: bytes.int_in_range(0..=200)?,
        })
    }
}

/// What a filter must hold.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Cells of function 0.
    cells: u64,
    /// Members, and how often each was inserted.
    members: BTreeMap<Hash, u64>,
    /// Hashes that were inserted since the last rebuild, whatever became of them.
    inserted: BTreeSet<Hash>,
    /// How many inserts that were.
    writes: usize,
    /// Dead cells, and the levels that answer for them.
    dead: BTreeMap<u64, u32>,
    /// The level of whole hashes.
    last: u32,
    len: u64,
}

/// A filter and its model.
struct Stage {
    filter: AdaptiveBloomFilter,
    shape: Shape,
    model: Model,
    /// What was asked before.
    asked: Vec<Hash>,
    maybe: Vec<bool>,
}

/// Drives a filter of any shape by the operations that `bytes` spell.
///
/// # Panics
/// If filter and model disagree.
pub fn drive(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if let Ok(shape) = Shape::any(&mut bytes) {
        drive_shape(shape, &mut bytes);
    }
}

/// Drives a filter of a given shape.
///
/// # Panics
/// If filter and model disagree.
pub fn drive_shape(shape: Shape, bytes: &mut Unstructured<'_>) {
    let mut stage = Stage::new(shape);
    while !bytes.is_empty() && stage.step(bytes).is_ok() {
        stage.check();
    }
}

impl Model {
    fn cell(&self, hash: Hash) -> u64 {
        scaled(hash, self.cells).quotient
    }

    /// The members of a cell, as a reverse map would list them.
    fn suspects(&self, cell: u64) -> Vec<Member> {
        let suspects = self.members.iter().filter(|(hash, _)| self.cell(**hash) == cell);
        suspects.map(|(&hash, &count)| Member { hash, count }).collect()
    }
}

impl Stage {
    fn new(shape: Shape) -> Self {
        let builder = AdaptiveBloomFilter::builder()
            .capacity(shape.capacity)
            .false_positive_rate(shape.rate)
            .adaptations(shape.adaptations);
        let plan = builder.plan().expect("a plan");
        let filter = builder.build().expect("memory for a small filter");
        assert_eq!(filter.levels().count(), plan.levels);
        let model = Model { cells: plan.cells, last: plan.levels as u32 - 1, ..Model::default() };
        Self { filter, shape, model, asked: Vec::new(), maybe: Vec::new() }
    }

    /// A hash: new, or one that is known, or next to one.
    fn hash(&self, bytes: &mut Unstructured<'_>) -> Result<Hash> {
        let any = u128::from(bytes.arbitrary::<u32>()?)
            .wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255);
        let members = self.model.members.len();
        Ok(match bytes.int_in_range(0..=5)? {
            0 if members > 0 => {
                *self.model.members.keys().nth(bytes.choose_index(members)?).expect("one")
            }
            1 if !self.asked.is_empty() => *bytes.choose(&self.asked)?,
            2 if members > 0 => {
                let near =
                    *self.model.members.keys().nth(bytes.choose_index(members)?).expect("one");
                // In the same cell, mostly.
                Hash::from_u128(near.as_u128() ^ any >> 32)
            }
            _ => Hash::from_u128(any),
        })
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let hash = self.hash(bytes)?;
        match bytes.int_in_range(0..=13)? {
            0..=3 => self.insert(hash),
            4..=8 => self.query(hash, bytes)?,
            9 => self.remove(hash),
            10 | 11 => self.remove_listed(hash, bytes)?,
            12 => self.stale(hash),
            _ if bytes.ratio(1, 4)? => self.rebuild(),
            _ => {}
        }
        Ok(())
    }

    fn insert(&mut self, hash: Hash) {
        let is_known = self.filter.contains(hash);
        match self.filter.insert(hash) {
            Ok(()) => {
                *self.model.members.entry(hash).or_default() += 1;
                self.model.inserted.insert(hash);
                self.model.writes += 1;
                self.model.len += 1;
            }
            Err(InsertError::Full { load }) => {
                assert!(load >= 1.0 && !is_known);
                assert!(self.model.writes >= self.shape.capacity);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Asks, and repairs what is a mistake: first with lists that must be refused.
    fn query(&mut self, query: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        self.asked.push(query);
        // Those before are forgotten: what is checked after each step would be too much.
        if self.asked.len() > 40 {
            self.asked.remove(0);
        }
        let Answer::Maybe(claim) = self.filter.check(query) else {
            assert!(!self.model.members.contains_key(&query), "a false negative");
            return Ok(());
        };
        assert_eq!(claim.query(), query);
        let cell = self.model.cell(query);
        let listed = self.model.suspects(cell);
        assert!(listed.iter().all(|member| claim.suspects().contains(&member.hash)));
        self.refusals(&claim, &listed);
        if self.model.members.contains_key(&query) {
            return Ok(());
        }
        let dropping = bytes.ratio(1, 3)?;
        let adapted = if dropping {
            self.filter.adapt_dropping_ghosts(&claim, &listed)
        } else {
            self.filter.adapt(&claim, &listed)
        };
        let before = self.model.dead.get(&cell).copied();
        match adapted {
            Ok(adaptation) => {
                assert!(!self.filter.contains(query), "a mistake that is repaired");
                if listed.is_empty() {
                    assert!(dropping && adaptation.ghosts > 0);
                    self.model.dead.remove(&cell);
                } else if adaptation.lengthened > 0 {
                    assert_eq!(adaptation.lengthened, listed.len());
                    let depth = self.dead().get(&cell).copied().expect("a dead cell");
                    assert!(before < Some(depth) && depth <= self.model.last);
                    self.model.dead.insert(cell, depth);
                } else {
                    assert!(dropping && before == Some(self.model.last));
                }
            }
            Err(AdaptError::Unlisted { .. }) => {
                assert!(!dropping, "it was told that the list is complete");
                assert!(listed.is_empty() || before == Some(self.model.last));
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// Lists that are wrong, as far as that can be noticed.
    fn refusals(&mut self, claim: &Claim, listed: &[Member]) {
        let before = self.filter.statistics();
        let mut wrong = listed.to_vec();
        let other = Hash::from_u128(!claim.query().as_u128());
        if self.model.cell(other) != self.model.cell(claim.query()) {
            wrong.push(other.into());
            assert_eq!(
                self.filter.adapt(claim, &wrong),
                Err(AdaptError::Outside { member: other })
            );
            wrong.pop();
        }
        if wrong.iter().all(|member| member.hash != claim.query()) {
            wrong.push(claim.query().into());
        }
        assert_eq!(self.filter.adapt(claim, &wrong), Err(AdaptError::IsMember));
        let stranger = *claim.suspects().start();
        if !self.filter.contains(stranger) {
            let wrong = [listed, &[Member { hash: stranger, count: 3 }]].concat();
            if listed.iter().all(|member| member.hash != claim.query()) {
                let refused = self.filter.adapt(claim, &wrong);
                assert_eq!(refused, Err(AdaptError::Surplus { members: 3 }));
            }
        }
        if !self.model.members.contains_key(&claim.query()) {
            let nobody: [Member; 0] = [];
            let refused = self.filter.adapt(claim, &nobody);
            assert!(matches!(refused, Err(AdaptError::Unlisted { members: 1.. })));
        }
        if self.model.dead.get(&self.model.cell(claim.query())) == Some(&self.model.last)
            && !self.model.members.contains_key(&claim.query())
            && listed.len() > 1
        {
            let refused = self.filter.adapt(claim, &listed[1..]);
            assert!(matches!(refused, Err(AdaptError::Unlisted { members: 1.. })));
        }
        assert_eq!(self.filter.statistics(), before, "a refusal that changes something");
    }

    fn remove(&mut self, hash: Hash) {
        if !self.model.members.contains_key(&hash) {
            if !self.filter.contains(hash) {
                assert_eq!(self.filter.remove(hash), Err(RemoveError::Absent));
            }
            return;
        }
        self.filter.remove(hash).expect("a member");
        self.forget(hash);
    }

    fn forget(&mut self, hash: Hash) {
        let count = self.model.members.get_mut(&hash).expect("a member");
        *count -= 1;
        if *count == 0 {
            self.model.members.remove(&hash);
        }
        self.model.len -= 1;
    }

    fn remove_listed(&mut self, hash: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        let Answer::Maybe(claim) = self.filter.check(hash) else { return Ok(()) };
        let cell = self.model.cell(hash);
        let listed = self.model.suspects(cell);
        let mistakes = bytes.ratio(1, 2)?.then_some(&self.asked[..]);
        let is_alone = listed.len() == 1 && listed[0].count == 1;
        let is_last = self.model.members.get(&hash) == Some(&1);
        match self.filter.remove_listed(&claim, &listed, mistakes) {
            Ok(()) => {
                self.forget(hash);
                if is_alone {
                    assert!(!self.filter.contains(hash) && !self.filter.check(hash).is_maybe());
                    self.model.dead.remove(&cell);
                } else if is_last && self.model.dead.get(&cell) == Some(&self.model.last) {
                    assert!(!self.filter.contains(hash));
                }
                let again = self.filter.remove_listed(&claim, &listed, None);
                assert_eq!(again, Err(RemoveError::Stale));
            }
            Err(RemoveError::Absent) => assert!(!self.model.members.contains_key(&hash)),
            Err(RemoveError::Unlisted { .. }) => {
                assert!(listed.is_empty() || self.model.dead.get(&cell) == Some(&self.model.last));
            }
            Err(RemoveError::MistakeIsMember { hash: mistake }) => {
                assert!(self.model.members.contains_key(&mistake) && self.asked.contains(&mistake));
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// A claim that was made before an insert in its interval.
    fn stale(&mut self, query: Hash) {
        let Answer::Maybe(claim) = self.filter.check(query) else { return };
        let newcomer = *claim.suspects().end();
        let len = self.filter.len();
        self.insert(newcomer);
        if self.filter.len() > len {
            let listed = self.model.suspects(self.model.cell(query));
            assert_eq!(self.filter.adapt(&claim, &listed), Err(AdaptError::Stale));
            let dropped = self.filter.adapt_dropping_ghosts(&claim, &listed);
            assert_eq!(dropped, Err(AdaptError::Stale));
        }
    }

    fn rebuild(&mut self) {
        let members = self.model.members.iter().map(|(&hash, &count)| Member { hash, count });
        let members: Vec<Member> = members.collect();
        let claim = members.first().map(|member| self.filter.check(member.hash));
        match self.filter.rebuild(members.iter()) {
            Ok(()) => {
                self.model.dead.clear();
                self.model.inserted = self.model.members.keys().copied().collect();
                self.model.writes = self.model.inserted.len();
                let statistics = self.filter.statistics();
                assert_eq!(
                    (statistics.ghosts, statistics.adaptations, statistics.dead_cells),
                    (0, 0, 0)
                );
                if let Some(Answer::Maybe(claim)) = claim {
                    assert_eq!(self.filter.adapt(&claim, &members), Err(AdaptError::Stale));
                }
            }
            Err(BuildError::Members { capacity }) => {
                assert!(members.len() as u64 > capacity);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The dead cells that the filter has.
    fn dead(&self) -> BTreeMap<u64, u32> {
        let dead = self.filter.dead_cells();
        dead.map(|(cell, depth)| (cell.quotient(), depth)).collect()
    }

    /// Compares all that can be seen of the filter with the model.
    fn check(&mut self) {
        self.filter.validate().expect("a valid filter");
        assert_eq!(self.filter.len() as u64, self.model.len);
        assert_eq!(self.dead(), self.model.dead);
        assert_eq!(self.filter.statistics().dead_cells, self.model.dead.len() as u64);
        for hash in self.model.members.keys() {
            assert!(self.filter.contains(*hash), "a false negative: {hash:?}");
        }
        let hashes = self.model.members.keys().chain(&self.asked).copied();
        let hashes: Vec<Hash> = hashes.collect();
        self.filter.contains_many(&hashes, &mut self.maybe);
        for (&hash, &maybe) in hashes.iter().zip(&self.maybe) {
            assert_eq!(maybe, self.filter.contains(hash));
            let depth = self.model.dead.get(&self.model.cell(hash));
            if maybe && depth == Some(&self.model.last) {
                assert!(self.model.inserted.contains(&hash), "whole hashes that are confused");
            }
        }
    }
}
