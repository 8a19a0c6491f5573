//! A model of the adaptive Bloom filter: a list of members and a map of dead cells. Scripts drive a
//! filter and its model.
//!
//! The model doesn't know which bits are set, so a filter may answer "maybe" where the model has no
//! member. It must never answer "absent" for a member.

use crate::concurrent::forget;
use crate::quotient::scaled;
use crate::script::listing;
use arbitrary::{Result, Unstructured};
use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{
    AdaptiveBloomFilter, Answer, Claim, Hash, Listing, Member,
    error::{AdaptError, BuildError, InsertError, RemoveError},
};

/// The shape of the filter that a script drives.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Planned number of members.
    pub capacity: usize,
    /// False-positive rate.
    pub rate: f64,
    /// Planned number of repairs.
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

/// The expected content of a filter.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Number of cells of function 0.
    cells: u64,
    /// Members, and how many times each was inserted.
    members: BTreeMap<Hash, u64>,
    /// All hashes inserted since the last rebuild, including removed ones.
    inserted: BTreeSet<Hash>,
    /// Number of inserts since the last rebuild.
    writes: usize,
    /// Dead cells, and the levels that answer for them.
    dead: BTreeMap<u64, u32>,
    /// The number of the last level, which contains whole hashes.
    last: u32,
    len: u64,
}

/// A filter and its model.
struct Stage {
    filter: AdaptiveBloomFilter,
    shape: Shape,
    model: Model,
    /// Recent queries.
    asked: Vec<Hash>,
    maybe: Vec<bool>,
}

/// Drives a filter of any shape by the operations encoded in `bytes`.
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

    /// Returns the members of a cell, as a source of members would list them.
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
        let model =
            Model { cells: plan.slots, last: plan.details.levels as u32 - 1, ..Model::default() };
        Self { filter, shape, model, asked: Vec::new(), maybe: Vec::new() }
    }

    /// Picks a hash: a new one, a known one, or one near to a known one.
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
                // This hash is usually in the same cell as the member.
                Hash::from_u128(near.as_u128() ^ any >> 32)
            }
            _ => Hash::from_u128(any),
        })
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let hash = self.hash(bytes)?;
        match bytes.int_in_range(0..=13)? {
            0..=2 => self.insert(hash),
            3 => self.insert_many(bytes)?,
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
            Ok(()) => self.inserted(hash),
            Err(InsertError::Full { load }) => {
                assert!(load >= 1.0 && !is_known);
                assert!(self.model.writes >= self.shape.capacity);
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Inserts a batch of members, all or none. It must be refused if and only if inserting them
    /// one by one into a copy is refused.
    fn insert_many(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let count = bytes.int_in_range(0..=20)?;
        let hashes = (0..count).map(|_| self.hash(bytes)).collect::<Result<Vec<_>>>()?;
        let mut copy = self.filter.clone();
        let fits = hashes.iter().all(|&hash| copy.insert(hash).is_ok());
        let before = (self.filter.stats(), self.filter.details());
        match self.filter.insert_many(&hashes) {
            Ok(()) => {
                assert!(fits);
                assert_eq!(copy.details(), self.filter.details());
                assert_eq!(copy.len(), self.filter.len());
                assert!((copy.stats().load - self.filter.stats().load).abs() < f64::EPSILON);
                for &hash in &hashes {
                    self.inserted(hash);
                }
            }
            Err(InsertError::Full { .. }) => {
                assert!(!fits);
                assert_eq!(before, (self.filter.stats(), self.filter.details()));
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    fn inserted(&mut self, hash: Hash) {
        *self.model.members.entry(hash).or_default() += 1;
        self.model.inserted.insert(hash);
        self.model.writes += 1;
        self.model.len += 1;
    }

    /// Queries a key, and repairs a mistake. First tries lists that must be refused.
    fn query(&mut self, query: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        self.asked.push(query);
        // Drop the oldest query, to bound the time of the checks after each step.
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
        let listing = Listing::new(&listed);
        let listing = if dropping { listing.dropping_ghosts() } else { listing };
        let adapted = self.filter.adapt(&claim, listing);
        let before = self.model.dead.get(&cell).copied();
        match adapted {
            Ok(adaptation) => {
                assert!(!self.filter.contains(query), "a mistake was not repaired");
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
                assert!(!dropping, "ghosts were to be dropped");
                assert!(listed.is_empty() || before == Some(self.model.last));
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// Tries lists that are detectably wrong.
    fn refusals(&mut self, claim: &Claim, listed: &[Member]) {
        let before = self.filter.stats();
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
        assert_eq!(self.filter.stats(), before, "a refused call changed the filter");
    }

    fn remove(&mut self, hash: Hash) {
        if !self.model.members.contains_key(&hash) {
            if !self.filter.contains(hash) {
                assert_eq!(self.filter.remove_trusting(hash), Err(RemoveError::Absent));
            }
            return;
        }
        self.filter.remove_trusting(hash).expect("a member");
        self.forget(hash);
    }

    fn forget(&mut self, hash: Hash) {
        forget(&mut self.model.members, hash);
        self.model.len -= 1;
    }

    fn remove_listed(&mut self, hash: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        let Answer::Maybe(claim) = self.filter.check(hash) else { return Ok(()) };
        let cell = self.model.cell(hash);
        let listed = self.model.suspects(cell);
        let mistakes = bytes.ratio(1, 2)?.then_some(&self.asked[..]);
        let is_alone = listed.len() == 1 && listed[0].count == 1;
        let is_last = self.model.members.get(&hash) == Some(&1);
        match self.filter.remove(&claim, listing(&listed, mistakes)) {
            Ok(()) => {
                self.forget(hash);
                if is_alone {
                    assert!(!self.filter.contains(hash) && !self.filter.check(hash).is_maybe());
                    self.model.dead.remove(&cell);
                } else if is_last && self.model.dead.get(&cell) == Some(&self.model.last) {
                    assert!(!self.filter.contains(hash));
                }
                let again = self.filter.remove(&claim, &listed);
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

    /// Checks that an insert makes a claim about its interval stale.
    fn stale(&mut self, query: Hash) {
        let Answer::Maybe(claim) = self.filter.check(query) else { return };
        let newcomer = *claim.suspects().end();
        let len = self.filter.len();
        self.insert(newcomer);
        if self.filter.len() > len {
            let listed = self.model.suspects(self.model.cell(query));
            assert_eq!(self.filter.adapt(&claim, &listed), Err(AdaptError::Stale));
            let dropping = Listing::new(&listed).dropping_ghosts();
            assert_eq!(self.filter.adapt(&claim, dropping), Err(AdaptError::Stale));
        }
    }

    fn rebuild(&mut self) {
        let members = self.model.members.iter().map(|(&hash, &count)| Member { hash, count });
        let members: Vec<Member> = members.collect();
        let claim = members.first().map(|member| self.filter.check(member.hash));
        match self.filter.rotated(members.iter()) {
            Ok(rotated) => {
                assert_eq!(rotated.stats().repairs, self.filter.stats().repairs);
                self.filter = rotated;
                self.model.dead.clear();
                self.model.inserted = self.model.members.keys().copied().collect();
                self.model.writes = self.model.inserted.len();
                let details = self.filter.details();
                assert_eq!((details.ghosts, details.dead_cells), (0, 0));
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

    /// Returns the dead cells of the filter.
    fn dead(&self) -> BTreeMap<u64, u32> {
        let dead = self.filter.dead_cells();
        dead.map(|(hashes, depth)| (self.model.cell(*hashes.start()), depth)).collect()
    }

    /// Compares the filter's observable state with the model.
    fn check(&mut self) {
        self.filter.validate().expect("a valid filter");
        assert_eq!(self.filter.len() as u64, self.model.len);
        assert_eq!(self.dead(), self.model.dead);
        assert_eq!(self.filter.details().dead_cells, self.model.dead.len() as u64);
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
                assert!(self.model.inserted.contains(&hash), "a false positive among whole hashes");
            }
        }
    }
}
