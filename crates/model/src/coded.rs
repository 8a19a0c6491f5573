//! A model of telescoping and extension filters: a list of members. Scripts drive a filter and its
//! model.
//!
//! Neither the filter nor the model knows which entry belongs to which member, so the model checks
//! that each member can be given an entry of its own that covers it. It computes from the bits of a
//! hash which entries cover it, and compares the filter's answers with the filter's entries.

use crate::concurrent::forget;
use crate::quotient::{mixed, numbers_of, scaled};
use crate::script::{Spread, any_remainders};
use arbitrary::{Result, Unstructured};
use std::collections::{BTreeMap, BTreeSet};
use twiceshy::{
    Answer, Claim, Hash, Listing, Member, Snapshot, Stats,
    error::{AdaptError, BuildError, InsertError, RemoveError},
    quotient::Remainders,
    telescoping::{self, CodedFilter, Extensions, Selectors},
};

/// The part of a scheme that the model needs.
pub trait Spelling: telescoping::CodedScheme {
    /// Whether repairing an entry may undo earlier repairs.
    const STRAYS: bool;

    /// Returns whether an entry with remainders of `remainder_bits` bits covers a fraction.
    fn covers(entry: telescoping::Entry, remainder_bits: u32, fraction: u128) -> bool;
}

impl Spelling for Selectors {
    const STRAYS: bool = true;

    fn covers(entry: telescoping::Entry, remainder_bits: u32, fraction: u128) -> bool {
        bits(fraction, entry.level * remainder_bits, remainder_bits) == u128::from(entry.value)
    }
}

impl Spelling for Extensions {
    const STRAYS: bool = false;

    fn covers(entry: telescoping::Entry, remainder_bits: u32, fraction: u128) -> bool {
        bits(fraction, 0, remainder_bits) == u128::from(entry.value)
            && bits(fraction, remainder_bits, entry.level) == u128::from(entry.extension)
    }
}

/// Returns `count` bits of a fraction, after the first `skip` bits.
fn bits(fraction: u128, skip: u32, count: u32) -> u128 {
    assert!(skip + count <= 128, "a fraction has 128 bits");
    (0..count).fold(0, |bits, bit| bits << 1 | fraction >> (127 - skip - bit) & 1)
}

/// The shape of the filter that a script drives.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of home slots.
    pub slots: u64,
    /// Number of bits per remainder.
    pub remainder_bits: u32,
    /// Number of code bits per 64 slots.
    pub code_bits: u32,
    /// Distribution of the hashes.
    pub spread: Spread,
    /// How remainders are made.
    pub remainders: Remainders,
}

impl Shape {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self {
            slots: match bytes.int_in_range(0..=2)? {
                0 => bytes.int_in_range(1..=20)?,
                1 => bytes.int_in_range(1..=100)?,
                _ => bytes.int_in_range(1..=400)?,
            },
            // Few bits, to cause collisions.
            remainder_bits: match bytes.int_in_range(0..=3)? {
                0 => bytes.int_in_range(1..=56)?,
                _ => bytes.int_in_range(1..=6)?,
            },
            code_bits: *bytes.choose(&[8, 12, 24, 40, 56, 57, 63, 64, 90, 120])?,
            spread: Spread::any(bytes)?,
            remainders: any_remainders(bytes)?,
        })
    }
}

/// A filter and its expected content.
struct Stage<S: telescoping::CodedScheme> {
    filter: CodedFilter<S>,
    shape: Shape,
    /// Members, and how often each was inserted.
    members: BTreeMap<Hash, u64>,
    /// Members that the source of members doesn't list.
    ghosts: BTreeMap<Hash, u64>,
    /// Recent queries.
    asked: Vec<Hash>,
    /// Repaired mistakes that no later operation can have undone.
    repaired: BTreeSet<Hash>,
    maybe: Vec<bool>,
}

/// Drives a filter of any shape and either scheme by the operations encoded in `bytes`.
///
/// # Panics
/// If filter and model disagree.
pub fn drive(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let Ok(shape) = Shape::any(&mut bytes) else { return };
    match bytes.arbitrary() {
        Ok(true) => drive_shape::<Selectors>(shape, &mut bytes),
        Ok(false) => drive_shape::<Extensions>(shape, &mut bytes),
        Err(_) => {}
    }
}

/// Drives a filter of a given shape and scheme.
///
/// # Panics
/// If filter and model disagree.
pub fn drive_shape<S: Spelling>(shape: Shape, bytes: &mut Unstructured<'_>) {
    let mut stage = Stage::<S>::new(shape);
    while !bytes.is_empty() && stage.step(bytes).is_ok() {
        stage.check();
    }
}

impl<S: Spelling> Stage<S> {
    fn new(shape: Shape) -> Self {
        let filter = CodedFilter::<S>::builder()
            .slots(shape.slots)
            .remainder_bits(shape.remainder_bits)
            .code_bits(shape.code_bits)
            .build()
            .expect("a possible shape");
        let mut parameters = filter.parameters();
        parameters.remainders = shape.remainders;
        let no_members: [Hash; 0] = [];
        let filter = CodedFilter::from_sorted(parameters, no_members, []).expect("an empty one");
        assert_eq!(filter.parameters(), parameters);
        let built = (parameters.slots, parameters.remainder_bits, parameters.code_bits);
        assert_eq!(built, (shape.slots, shape.remainder_bits, shape.code_bits));
        Self {
            filter,
            shape,
            members: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            asked: Vec::new(),
            repaired: BTreeSet::new(),
            maybe: Vec::new(),
        }
    }

    /// Picks a hash: a new one, a known one, or one with the same first bits as a known one.
    fn hash(&self, bytes: &mut Unstructured<'_>) -> Result<Hash> {
        let random = u128::from(bytes.arbitrary::<u32>()?)
            .wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255);
        let known = self.members.len();
        Ok(match bytes.int_in_range(0..=7)? {
            0 | 1 if known > 0 => {
                *self.members.keys().nth(bytes.choose_index(known)?).expect("one")
            }
            2 if !self.asked.is_empty() => *bytes.choose(&self.asked)?,
            3..=5 if known > 0 => {
                let near = *self.members.keys().nth(bytes.choose_index(known)?).expect("one");
                let rest = u128::MAX >> bytes.int_in_range(0..=127u32)?;
                Hash::from_u128(near.as_u128() & !rest | random & rest)
            }
            _ => self.shape.spread.hash(random, self.shape.slots),
        })
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let hash = self.hash(bytes)?;
        match bytes.int_in_range(0..=15)? {
            0..=3 => self.insert(hash),
            4 => self.insert_many(bytes)?,
            5..=9 => self.query(hash, bytes)?,
            10 | 11 => self.remove(hash),
            12 => self.remove_listed(hash),
            13 => self.stale(hash),
            14 if bytes.ratio(1, 2)? => self.insert_ghost(hash),
            14 => self.save_and_restore(),
            _ => self.rebuild(bytes)?,
        }
        Ok(())
    }

    fn quotient(&self, hash: Hash) -> u64 {
        scaled(hash, self.shape.slots).quotient
    }

    /// Returns the indices of the entries that cover a hash. `entries` must be sorted by quotient.
    fn covering(&self, entries: &[telescoping::Entry], hash: Hash) -> Vec<usize> {
        let whole = scaled(hash, self.shape.slots);
        let fraction = mixed(whole.bits, numbers_of(self.shape.remainders));
        let start = entries.partition_point(|entry| entry.quotient < whole.quotient);
        let run = entries[start..].iter().take_while(|entry| entry.quotient == whole.quotient);
        let covers =
            |entry: telescoping::Entry| S::covers(entry, self.shape.remainder_bits, fraction);
        (start..).zip(run).filter(|(_, entry)| covers(**entry)).map(|(at, _)| at).collect()
    }

    /// Returns the filter's observable state.
    fn state(&self) -> (Vec<telescoping::Entry>, telescoping::Details, Stats) {
        (self.filter.iter().collect(), self.filter.details(), self.filter.stats())
    }

    /// Returns the members that a claim asks for, as a source of members would list them.
    fn listed(&self, claim: &Claim) -> Vec<Member> {
        let suspects = self.members.range(claim.suspects());
        suspects.map(|(&hash, &count)| Member { hash, count }).collect()
    }

    fn ghosts_in(&self, claim: &Claim) -> u64 {
        self.ghosts.range(claim.suspects()).map(|(_, &count)| count).sum()
    }

    fn insert(&mut self, hash: Hash) {
        if self.put(hash) {
            *self.members.entry(hash).or_default() += 1;
        }
    }

    /// Inserts a batch of members, all or none.
    fn insert_many(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let count = bytes.int_in_range(0..=20)?;
        let hashes = (0..count).map(|_| self.hash(bytes)).collect::<Result<Vec<_>>>()?;
        let before = self.state();
        match self.filter.insert_many(&hashes) {
            Ok(()) => {
                self.drop_forgotten(&before.1);
                for hash in hashes {
                    *self.members.entry(hash).or_default() += 1;
                    self.forget_mistakes_near(hash);
                }
            }
            Err(error) => {
                let needs_members = matches!(error, InsertError::NeedsMembers(_));
                assert!(needs_members || matches!(error, InsertError::Full { .. }), "{error}");
                assert!(S::STRAYS || !needs_members, "extensions can be forgotten without a list");
                assert_eq!(self.state(), before, "a refused call changed the filter");
                if let InsertError::NeedsMembers(claim) = error {
                    self.insert_claimed(&claim, &before.1);
                }
            }
        }
        Ok(())
    }

    /// Inserts, with a list, the member for which a batch was refused.
    fn insert_claimed(&mut self, claim: &Claim, before: &telescoping::Details) {
        match self.filter.insert_listed(claim, self.listed(claim)) {
            Ok(()) => {
                self.drop_forgotten(before);
                *self.members.entry(claim.query()).or_default() += 1;
                self.forget_mistakes_near(claim.query());
            }
            Err(InsertError::Full { .. }) => assert!(!self.fits(claim.query()), "there is room"),
            Err(InsertError::Mismatch) => assert!(self.ghosts_in(claim) > 0, "a stale claim"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Forgets repaired mistakes of a new member's quotient, because they may recur.
    fn forget_mistakes_near(&mut self, hash: Hash) {
        let (quotient, slots) = (self.quotient(hash), self.shape.slots);
        self.repaired.retain(|&mistake| scaled(mistake, slots).quotient != quotient);
    }

    /// Inserts a member that the source of members doesn't list. A failed write leaves such a
    /// ghost.
    fn insert_ghost(&mut self, hash: Hash) {
        if self.put(hash) {
            *self.ghosts.entry(hash).or_default() += 1;
        }
    }

    /// Inserts a hash, and returns whether there was room.
    fn put(&mut self, hash: Hash) -> bool {
        let before = self.state();
        let inserted = match self.filter.insert(hash) {
            Err(InsertError::NeedsMembers(claim)) => {
                assert!(S::STRAYS, "extensions can be forgotten without a list");
                assert_eq!(self.state(), before, "a refused call changed the filter");
                self.put_listed(&claim)
            }
            other => other,
        };
        match inserted {
            Ok(()) => {
                self.drop_forgotten(&before.1);
                self.forget_mistakes_near(hash);
                true
            }
            Err(InsertError::Full { .. }) => {
                assert!(!self.fits(hash), "there is room");
                assert_eq!(self.state(), before, "a refused call changed the filter");
                false
            }
            Err(InsertError::Mismatch) => {
                let Err(InsertError::NeedsMembers(claim)) = self.filter.insert(hash) else {
                    panic!("there was no room just now")
                };
                assert!(self.ghosts_in(&claim) > 0);
                assert_eq!(self.state(), before, "a refused call changed the filter");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Inserts with a list. First tries lists that must be refused.
    fn put_listed(&mut self, claim: &Claim) -> std::result::Result<(), InsertError> {
        let (before, hash) = (self.state(), claim.query());
        assert!(claim.suspects().contains(&hash));
        let listed = self.listed(claim);
        let refused = Err(InsertError::Mismatch);
        if !listed.is_empty() {
            assert_eq!(self.filter.insert_listed(claim, &listed[1..]), refused);
        }
        let more = [&listed[..], &[Member::from(hash)]].concat();
        if self.ghosts_in(claim) == 0 {
            assert_eq!(self.filter.insert_listed(claim, &more), refused);
        }
        let Err(InsertError::NeedsMembers(other)) = self.filter.clone().insert(hash) else {
            panic!("a copy has as much room")
        };
        assert_eq!(self.filter.insert_listed(&other, &listed), refused, "another filter's claim");
        if let Answer::Maybe(narrow) = self.filter.check(hash)
            && narrow.suspects() != claim.suspects()
        {
            let listed = self.listed(&narrow);
            assert_eq!(
                self.filter.insert_listed(&narrow, &listed),
                refused,
                "a claim for less than a block"
            );
        }
        assert_eq!(self.state(), before, "a refused call changed the filter");
        self.filter.insert_listed(claim, &listed)
    }

    /// Returns whether there are slots for one more entry. This is a lower estimate: the filter's
    /// tail may be slightly longer than assumed here.
    fn fits(&self, hash: Hash) -> bool {
        let mut quotients: Vec<u64> = self.filter.iter().map(|entry| entry.quotient).collect();
        quotients.push(self.quotient(hash));
        fit(self.shape.slots, quotients)
    }

    /// Drops the known repairs if the filter has forgotten any.
    fn drop_forgotten(&mut self, before: &telescoping::Details) {
        if self.filter.details().forgotten > before.forgotten {
            self.repaired.clear();
        }
    }

    /// Queries a key, and repairs a mistake. First tries lists that must be refused.
    fn query(&mut self, query: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        self.asked.push(query);
        // Drop the oldest query, to bound the time of the checks after each step.
        if self.asked.len() > 40 {
            self.asked.remove(0);
        }
        let Answer::Maybe(claim) = self.filter.check(query) else {
            assert!(!self.members.contains_key(&query), "a false negative");
            return Ok(());
        };
        assert_eq!(claim.query(), query);
        assert!(claim.suspects().contains(&query));
        assert_eq!(claim.suspects(), self.filter.suspects(query));
        let listed = self.listed(&claim);
        self.refusals(&claim, &listed);
        let (before, ghosts) = (self.state(), self.ghosts_in(&claim));
        let dropping = bytes.ratio(1, 3)?;
        let listing = Listing::new(&listed);
        let listing = if dropping { listing.dropping_ghosts() } else { listing };
        let adapted = self.filter.adapt(&claim, listing);
        match adapted {
            Ok(adaptation) => {
                assert!(!self.members.contains_key(&query), "a member's entry was changed");
                assert!(!self.filter.contains(query), "a mistake was not repaired");
                assert_eq!(adaptation.ghosts, if dropping { ghosts } else { 0 });
                assert!(adaptation.lengthened > 0 || adaptation.ghosts > 0);
                self.ghosts.retain(|hash, _| !claim.suspects().contains(hash));
                self.drop_forgotten(&before.1);
                if S::STRAYS {
                    self.forget_mistakes_near(query);
                }
                self.repaired.insert(query);
                let after = self.filter.stats().repairs;
                assert_eq!(after, before.2.repairs + 1);
            }
            Err(error) => {
                match error {
                    AdaptError::IsMember => assert!(self.members.contains_key(&query)),
                    AdaptError::Unlisted { members } => {
                        assert!(!dropping, "ghosts were to be dropped");
                        assert_eq!(members, ghosts);
                    }
                    AdaptError::Crowded | AdaptError::Inseparable => {}
                    error => panic!("{error}"),
                }
                assert_eq!(self.state(), before, "a refused call changed the filter");
            }
        }
        Ok(())
    }

    /// Tries lists that are detectably wrong.
    fn refusals(&mut self, claim: &Claim, listed: &[Member]) {
        let before = self.state();
        let is_member = self.members.contains_key(&claim.query());
        let outside = Hash::from_u128(!claim.query().as_u128());
        if !claim.suspects().contains(&outside) {
            let wrong = [listed, &[outside.into()]].concat();
            let refused = Err(AdaptError::Outside { member: outside });
            assert_eq!(self.filter.adapt(claim, &wrong), refused);
        }
        if !listed.is_empty() && !is_member {
            let refused = self.filter.adapt(claim, &listed[1..]);
            assert!(matches!(refused, Err(AdaptError::Unlisted { members: 1.. })));
        }
        if self.ghosts_in(claim) == 0 {
            let mut wrong =
                [listed, &[Member { hash: *claim.suspects().end(), count: 3 }]].concat();
            let refused = Err(AdaptError::Surplus { members: 3 });
            assert_eq!(self.filter.adapt(claim, &wrong), refused);
            wrong.last_mut().expect("one").count = u64::MAX;
            let refused = self.filter.adapt(claim, &wrong);
            assert!(matches!(refused, Err(AdaptError::Surplus { .. })));
        }
        let copy = self.filter.clone();
        if let Answer::Maybe(other) = copy.check(claim.query()) {
            assert_eq!(self.filter.adapt(&other, listed), Err(AdaptError::Stale));
        }
        assert_eq!(self.state(), before, "a refused call changed the filter");
    }

    /// Removes a hash without a list. If it isn't a member, the removal must fail. Does nothing for
    /// a false positive.
    fn remove(&mut self, hash: Hash) {
        if !self.members.contains_key(&hash) {
            if !self.filter.contains(hash) {
                assert_eq!(self.filter.remove_trusting(hash), Err(RemoveError::Absent));
            }
            return;
        }
        let before = self.state();
        match self.filter.remove_trusting(hash) {
            Ok(()) => forget(&mut self.members, hash),
            Err(RemoveError::Ambiguous) => {
                assert!(S::STRAYS, "any of several extensions can be removed");
                assert_eq!(self.state(), before, "a refused call changed the filter");
                self.remove_listed(hash);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn remove_listed(&mut self, hash: Hash) {
        let Answer::Maybe(claim) = self.filter.check(hash) else { return };
        let (before, listed) = (self.state(), self.listed(&claim));
        match self.filter.remove(&claim, &listed) {
            Ok(()) => {
                forget(&mut self.members, hash);
                let again = self.filter.remove(&claim, &listed);
                assert_eq!(again, Err(RemoveError::Stale));
            }
            Err(error) => {
                match error {
                    RemoveError::Absent => assert!(!self.members.contains_key(&hash)),
                    RemoveError::Unlisted { members } => {
                        assert!(members > 0);
                        assert_eq!(members, self.ghosts_in(&claim));
                    }
                    error => panic!("{error}"),
                }
                assert_eq!(self.state(), before, "a refused call changed the filter");
            }
        }
    }

    /// Checks that an insert near the query of a claim makes the claim stale.
    fn stale(&mut self, query: Hash) {
        let Answer::Maybe(claim) = self.filter.check(query) else { return };
        let to_insert = match self.filter.clone().insert(query) {
            Err(InsertError::NeedsMembers(claim)) => Some(claim),
            _ => None,
        };
        let len = self.filter.len();
        self.insert(*claim.suspects().end());
        if self.filter.len() > len {
            let listed = self.listed(&claim);
            assert_eq!(self.filter.adapt(&claim, &listed), Err(AdaptError::Stale));
            let dropping = Listing::new(&listed).dropping_ghosts();
            assert_eq!(self.filter.adapt(&claim, dropping), Err(AdaptError::Stale));
            if let Some(stale) = to_insert {
                let inserted = self.filter.insert_listed(&stale, self.listed(&stale));
                assert_eq!(inserted, Err(InsertError::Mismatch));
            }
        }
    }

    fn save_and_restore(&mut self) {
        let before = self.state();
        let mut snapshot = Vec::new();
        self.filter.write_to(&mut snapshot).expect("memory");
        self.filter = CodedFilter::read_from(&snapshot[..]).expect("what was saved");
        assert_eq!(self.state(), before);
        let mut again = Vec::new();
        self.filter.write_to(&mut again).expect("memory");
        assert_eq!(again, snapshot);
    }

    fn members(&self) -> Vec<Member> {
        self.members.iter().map(|(&hash, &count)| Member { hash, count }).collect()
    }

    /// Returns the known mistakes to rebuild a filter with, sorted.
    fn mistakes(&self) -> Vec<Hash> {
        let asked: BTreeSet<Hash> = self.asked.iter().copied().collect();
        asked.into_iter().filter(|hash| !self.members.contains_key(hash)).collect()
    }

    /// Rebuilds the filter from its members, with the same or a different number of slots.
    fn rebuild(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let slots = match bytes.int_in_range(0..=2)? {
            0 => self.shape.slots,
            1 => (2 * self.shape.slots).min(400),
            _ => bytes.int_in_range(1..=400)?,
        };
        let (members, mistakes) = (self.members(), self.mistakes());
        self.refuse_lists(slots, &members, &mistakes);
        match self.built(slots, &members, &mistakes) {
            Ok(built) => self.replace(built, &mistakes),
            Err(BuildError::Full { .. }) => assert!(!self.all_fit(slots)),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    fn built(
        &self,
        slots: u64,
        members: &[Member],
        mistakes: &[Hash],
    ) -> std::result::Result<CodedFilter<S>, BuildError> {
        let mut parameters = self.filter.parameters();
        parameters.slots = slots;
        CodedFilter::from_sorted(parameters, members, mistakes.iter().copied())
    }

    /// Checks that invalid lists are refused.
    fn refuse_lists(&self, slots: u64, members: &[Member], mistakes: &[Hash]) {
        if let [first, .., last] = *members {
            let unsorted = [last.hash.into(), first.hash.into()];
            let refused = self.built(slots, &unsorted, &[]);
            assert!(matches!(refused, Err(BuildError::Unsorted("members"))));
        }
        if let [first, .., last] = *mistakes {
            let refused = self.built(slots, &[], &[last, first]);
            assert!(matches!(refused, Err(BuildError::Unsorted("mistakes"))));
        }
        if let [.., last] = *members {
            let both = self.built(slots, &[last], &[last.hash]);
            assert!(
                matches!(both, Err(BuildError::MistakeIsMember { hash, .. }) if hash == last.hash)
                    || last.count > slots
            );
        }
    }

    /// Continues with a filter that was built from the members and these mistakes.
    fn replace(&mut self, filter: CodedFilter<S>, mistakes: &[Hash]) {
        self.filter = filter;
        self.shape.slots = self.filter.slots();
        self.ghosts.clear();
        let is_repaired = |hash: &Hash| !self.filter.contains(*hash);
        self.repaired = mistakes.iter().copied().filter(is_repaired).collect();
        let unrepaired = (mistakes.len() - self.repaired.len()) as u64;
        assert_eq!(self.filter.details().unrepaired, unrepaired);
    }

    /// Returns whether all members fit in `slots` slots. This is a lower estimate, as in
    /// [`Self::fits`].
    fn all_fit(&self, slots: u64) -> bool {
        let members = self.members.iter().flat_map(|(&hash, &count)| {
            std::iter::repeat_n(scaled(hash, slots).quotient, count as usize)
        });
        fit(slots, members.collect())
    }

    /// Compares the filter's observable state with the model.
    fn check(&mut self) {
        self.filter.validate().expect("a valid filter");
        let (entries, details, _) = self.state();
        assert_eq!(self.filter.len(), entries.len());
        assert!(entries.is_sorted_by_key(|entry| entry.quotient));
        let mut levels = [0; 16];
        for entry in &entries {
            levels[entry.level.min(15) as usize] += 1;
        }
        assert_eq!(details.levels, levels);
        self.check_owners(&entries);
        let hashes = self.members.keys().chain(self.ghosts.keys());
        let hashes: Vec<Hash> = hashes.chain(&self.asked).chain(&self.repaired).copied().collect();
        self.filter.contains_many(&hashes, &mut self.maybe);
        for (&hash, &maybe) in hashes.iter().zip(&self.maybe) {
            assert_eq!(maybe, self.filter.contains(hash));
            assert_eq!(maybe, !self.covering(&entries, hash).is_empty());
            assert!(maybe || !self.members.contains_key(&hash), "a false negative: {hash:?}");
            assert!(!maybe || !self.repaired.contains(&hash), "a repaired mistake is back");
        }
    }

    /// Checks that each member and ghost can be given an entry of its own that covers it.
    fn check_owners(&self, entries: &[telescoping::Entry]) {
        let known = self.members.iter().chain(&self.ghosts);
        let all: Vec<Hash> =
            known.flat_map(|(&hash, &count)| std::iter::repeat_n(hash, count as usize)).collect();
        assert_eq!(all.len(), entries.len());
        let covering: Vec<Vec<usize>> =
            all.iter().map(|&hash| self.covering(entries, hash)).collect();
        let mut owners = vec![None; entries.len()];
        for (member, hash) in all.iter().enumerate() {
            let mut tried = vec![false; entries.len()];
            let found = finds_entry(member, &covering, &mut owners, &mut tried);
            assert!(found, "no entry for {hash:?}");
        }
    }
}

/// Returns whether entries with these quotients fit in `slots` slots and the shortest possible tail.
fn fit(slots: u64, mut quotients: Vec<u64>) -> bool {
    quotients.sort_unstable();
    let end = quotients.iter().fold(0, |end: u64, &quotient| end.max(quotient) + 1);
    quotients.len() as u64 <= slots && end < slots + 4 * slots.isqrt() + 64
}

/// Returns whether a member can be given an entry. If necessary, the owner of an entry moves to
/// another entry.
fn finds_entry(
    member: usize,
    covering: &[Vec<usize>],
    owners: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &entry in &covering[member] {
        if std::mem::replace(&mut tried[entry], true) {
            continue;
        }
        let is_free = owners[entry].is_none_or(|owner| finds_entry(owner, covering, owners, tried));
        if is_free {
            owners[entry] = Some(member);
            return true;
        }
    }
    false
}
