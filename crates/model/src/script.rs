//! Scripts: any bytes encode a sequence of operations on a filter and its model.

use crate::quotient::{Form, Ghosts, Model};
use arbitrary::{Result, Unstructured};
use core::ops::RangeInclusive;
use twiceshy::{
    Answer, Claim, Hash, Listing, Member, QuotientFilter, Snapshot,
    claim::Adaptation,
    error::{AdaptError, BuildError, GrowError, InsertError, RemoveError},
    quotient::{MergeError, Parameters, Remainders, ValueError},
};

/// Distribution of a script's hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Hashes anywhere.
    Uniform,
    /// Hashes near a few spots.
    Clustered,
    /// Hashes that all have the same quotient.
    OneQuotient,
    /// Hashes at the end of the table.
    End,
}

impl Spread {
    pub(crate) fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        bytes.choose(&[Self::Uniform, Self::Clustered, Self::OneQuotient, Self::End]).copied()
    }

    /// Maps a random number to a hash of this distribution.
    pub(crate) fn hash(self, random: u128, slots: u64) -> Hash {
        let slots = u128::from(slots);
        let one_slot = u128::MAX / slots;
        Hash::from_u128(match self {
            Self::Uniform => random,
            Self::Clustered => (random % 4) * (u128::MAX / 5) + (random >> 20) % one_slot / 2,
            Self::OneQuotient => slots / 2 * one_slot + random % one_slot,
            Self::End => u128::MAX - random % one_slot,
        })
    }
}

/// The shape of the filter that a script drives.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of home slots.
    pub slots: u64,
    /// Number of bits per remainder.
    pub remainder_bits: u32,
    /// Number of bits per value.
    pub value_bits: u32,
    /// Whether the filter grows by itself.
    pub grows: bool,
    /// Distribution of the hashes.
    pub spread: Spread,
    /// Number of inserts before the script begins; every third is a ghost.
    pub inserted: u32,
    /// How remainders are made. A filter whose remainders aren't plain doesn't grow.
    pub remainders: Remainders,
}

impl Shape {
    fn any(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(Self {
            slots: match bytes.int_in_range(0..=3)? {
                0 => bytes.int_in_range(1..=20)?,
                1 => bytes.int_in_range(1..=200)?,
                2 => 1 << bytes.int_in_range(0..=9)?,
                _ => bytes.int_in_range(1..=1000)?,
            },
            remainder_bits: bytes.int_in_range(1..=40)?,
            value_bits: if bytes.ratio(1, 3)? { bytes.int_in_range(1..=16)? } else { 0 },
            grows: bytes.ratio(1, 4)?,
            spread: Spread::any(bytes)?,
            inserted: 0,
            remainders: any_remainders(bytes)?,
        })
    }
}

/// Returns plain remainders half of the time.
pub(crate) fn any_remainders(bytes: &mut Unstructured<'_>) -> Result<Remainders> {
    Ok(if bytes.ratio(1, 2)? {
        Remainders::from_bytes(bytes.arbitrary()?)
    } else {
        Remainders::PLAIN
    })
}

/// A filter, its model, and the repaired mistakes.
struct Stage {
    shape: Shape,
    filter: QuotientFilter,
    model: Model,
    mistakes: Vec<Hash>,
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
    for index in 0..shape.inserted {
        let random = u128::from(index + 1).wrapping_mul(0x2d99_787e_fda9_9e3c_2ad8_6f12_9e3b_c255);
        stage.insert(stage.spread(random), index % 3 == 0, 1);
    }
    let mut maybe = Vec::new();
    while !bytes.is_empty() && stage.step(bytes).is_ok() {
        stage.model.check(&stage.filter);
        let entries = stage.model.entries().iter().map(|entry| entry.hash);
        let queries: Vec<Hash> = entries.chain(stage.mistakes.iter().copied()).collect();
        stage.filter.contains_many(&queries, &mut maybe);
        for (&query, &maybe) in queries.iter().zip(&maybe) {
            assert_eq!(maybe, stage.model.contains(query));
            assert_eq!(maybe, stage.filter.contains(query));
            let has_repairs = stage.filter.has_repairs_near(query);
            assert_eq!(has_repairs, stage.model.has_repairs_near(query));
        }
    }
}

/// Drives the constructor by the lists encoded in `bytes`.
///
/// # Panics
/// If the built filter differs from the model.
pub fn drive_constructor(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    let _ = construct(&mut bytes);
}

fn construct(bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut stage = Stage::new(Shape::any(bytes)?);
    let (mut members, mut mistakes) = (Vec::new(), Vec::new());
    let (sort_members, sort_mistakes) = (bytes.ratio(9, 10)?, bytes.ratio(9, 10)?);
    while !bytes.is_empty() {
        let known: &Vec<Hash> = &members;
        let hash = stage.hash(bytes, known)?;
        if bytes.ratio(1, 3)? { mistakes.push(hash) } else { members.push(hash) }
    }
    stage.insert_many(&members);
    stage.model.check(&stage.filter);
    if sort_members {
        members.sort_unstable();
    }
    if sort_mistakes {
        mistakes.sort_unstable();
    }
    let members: Vec<Member> = members.into_iter().map(Member::from).collect();
    stage.compare_with_built(&members, &mistakes);
    Ok(())
}

/// Returns a listing of these members, with the mistakes if there are any.
pub(crate) fn listing<'a>(members: &'a [Member], mistakes: Option<&'a [Hash]>) -> Listing<'a> {
    match mistakes {
        Some(mistakes) => Listing::new(members).with_mistakes(mistakes),
        None => Listing::new(members),
    }
}

impl Stage {
    fn new(shape: Shape) -> Self {
        let builder = QuotientFilter::builder()
            .remainder_bits(shape.remainder_bits)
            .value_bits(shape.value_bits)
            .slots(shape.slots);
        let builder = if shape.grows { builder.grow_at(0.8) } else { builder };
        let mut filter = builder.build().expect("a possible shape");
        let mut parameters = filter.parameters();
        if parameters.remainders != shape.remainders {
            parameters.remainders = shape.remainders;
            let no_members: [Hash; 0] = [];
            filter = QuotientFilter::from_sorted(parameters, no_members, []).expect("an empty one");
        }
        let model = Model::new(filter.parameters().into());
        Self { shape, filter, model, mistakes: Vec::new() }
    }

    /// Picks a hash: a new one, or one close or equal to one of `known`.
    fn hash(&self, bytes: &mut Unstructured<'_>, known: &[Hash]) -> Result<Hash> {
        let random: u128 = bytes.arbitrary()?;
        if !known.is_empty() && bytes.ratio(1, 2)? {
            let near = bytes.choose(known)?.as_u128();
            let keep = bytes.int_in_range(0..=128u32)?;
            let rest = u128::MAX.checked_shr(keep).unwrap_or(0);
            return Ok(Hash::from_u128(near & !rest | random & rest));
        }
        Ok(self.spread(random))
    }

    fn spread(&self, random: u128) -> Hash {
        self.shape.spread.hash(random, self.model.form().slots)
    }

    fn any_hash(&self, bytes: &mut Unstructured<'_>) -> Result<Hash> {
        let known: Vec<Hash> = self.model.entries().iter().map(|entry| entry.hash).collect();
        self.hash(bytes, &known)
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let hash = self.any_hash(bytes)?;
        match bytes.int_in_range(0..=35)? {
            0..=6 => self.insert(hash, false, 1),
            7 => self.insert(hash, bytes.ratio(1, 4)?, 1),
            8..=12 => {
                let ghosts = [Ghosts::Keep, Ghosts::Keep, Ghosts::Drop, Ghosts::Bury];
                self.adapt(hash, *bytes.choose(&ghosts)?);
            }
            13 => self.misuse(hash, bytes)?,
            14 => {
                self.mistakes.retain(|&mistake| !self.model.contains(mistake));
                self.mistakes.sort_unstable();
                self.compare_with_built(&self.model.members(), &self.mistakes);
            }
            15..=16 => {
                let most = if bytes.ratio(1, 8)? { 200 } else { 20 };
                let count = bytes.int_in_range(0..=most)?;
                let hashes =
                    (0..count).map(|_| self.any_hash(bytes)).collect::<Result<Vec<_>>>()?;
                self.insert_many(&hashes);
            }
            17 => {
                let most = 1 << bytes.int_in_range(0..=40)?;
                let times = if bytes.ratio(1, 4)? { most } else { bytes.int_in_range(0..=most)? };
                self.insert(hash, false, times);
            }
            18..=19 => self.set_value(hash, bytes)?,
            20..=25 => {
                let known = self.model.members();
                let member = if known.is_empty() || bytes.ratio(1, 10)? {
                    hash
                } else {
                    bytes.choose(&known)?.hash
                };
                let (listed, bury) = (bytes.arbitrary()?, bytes.ratio(1, 3)?);
                if listed {
                    self.remove_listed(member, bury, bytes.arbitrary()?);
                } else {
                    self.remove(member, bury);
                }
            }
            26..=27 => self.merge(bytes)?,
            28 => self.double(),
            29..=30 => self.resize(bytes)?,
            31 => {
                let mut snapshot = Vec::new();
                self.filter.write_to(&mut snapshot).expect("memory");
                self.filter = QuotientFilter::read_from(&snapshot[..]).expect("what was saved");
            }
            32..=33 => {
                let mut mistakes = self.mistakes.clone();
                for _ in 0..bytes.int_in_range(0..=3)? {
                    mistakes.push(self.hash(bytes, &[hash])?);
                }
                self.insert_apart(hash, &mistakes);
            }
            34 => self.shorten(hash),
            _ => {
                assert_eq!(self.filter.contains(hash), self.model.contains(hash));
                assert_eq!(self.filter.is_lengthened(hash), self.model.is_lengthened(hash));
                for entry in self.model.entries() {
                    let confused = self.model.same_minirun(entry.hash, hash);
                    assert_eq!(self.filter.may_confuse(entry.hash, hash), confused);
                }
            }
        }
        Ok(())
    }

    fn insert_apart(&mut self, hash: Hash, mistakes: &[Hash]) {
        let absent: Vec<Hash> =
            mistakes.iter().copied().filter(|&mistake| !self.filter.contains(mistake)).collect();
        let inserted = self.filter.insert_apart(hash, mistakes);
        assert!(!self.follow_growth() || inserted.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        model.insert_apart(hash, mistakes);
        match inserted {
            Ok(()) => {
                self.model = model;
                let is_back = |&mistake: &Hash| mistake != hash && self.filter.contains(mistake);
                assert!(!absent.iter().any(is_back), "a mistake is back");
            }
            Err(InsertError::Full { load }) => self.must_be_full(&model, load),
            Err(InsertError::Uncountable) => assert!(model.is_uncountable()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Shortens the prints near a hash as far as the mistakes allow.
    fn shorten(&mut self, hash: Hash) {
        self.mistakes.retain(|&mistake| !self.model.contains(mistake));
        let members = self.model.suspects(hash);
        let claim = self.filter.claim_near(hash);
        let listing = Listing::new(&members).with_mistakes(&self.mistakes[..]);
        let shortened = self.filter.shorten(&claim, listing);
        assert!(!self.follow_growth() || shortened.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        model.shorten(hash, &self.mistakes);
        match self.model.ghosts(hash) {
            0 => match shortened {
                Ok(()) => self.model = model,
                Err(RemoveError::Full { load }) => self.must_be_full(&model, load),
                Err(RemoveError::Uncountable) => assert!(model.is_uncountable()),
                Err(error) => panic!("{error}"),
            },
            ghosts => assert_eq!(shortened, Err(RemoveError::Unlisted { members: ghosts })),
        }
    }

    fn double(&mut self) {
        // Scripts must not make large filters.
        if self.model.form().slots > 1 << 8 {
            return;
        }
        match self.filter.doubled() {
            Ok(doubled) => {
                self.filter = doubled;
                self.follow_growth();
            }
            Err(GrowError::NoRemainder) => assert_eq!(self.model.form().remainder, 1),
            Err(GrowError::FreshRemainders) => assert!(!self.model.form().is_plain()),
            // The doubled filter's tail consists of whole blocks and may be shorter, so entries at
            // the end of the table may not fit.
            Err(GrowError::Build(BuildError::Full { slots })) => {
                let Form { remainder, .. } = self.model.form();
                let form = Form { slots, remainder: remainder - 1, ..self.model.form() };
                assert!(!self.model.converted(form).expect("every print is kept").fits());
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes the model as large as the filter. Returns whether the filter had grown.
    fn follow_growth(&mut self) -> bool {
        let form = Form::from(self.filter.parameters());
        let grown = form != self.model.form();
        if grown {
            self.model = self.model.converted(form).expect("a doubled filter keeps every print");
        }
        grown
    }

    /// Merges with another filter that has its own members.
    fn merge(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let form = self.model.form();
        if form.slots > 1 << 8 {
            return Ok(());
        }
        let (larger, smaller) = (bytes.int_in_range(0..=2)?, bytes.int_in_range(0..=2)?);
        let slots = if form.slots.is_multiple_of(1 << smaller) {
            form.slots >> smaller
        } else {
            form.slots
        };
        let mut shape = Shape { slots: slots << larger, grows: false, ..self.shape };
        shape.remainders = self.filter.parameters().remainders;
        if bytes.ratio(1, 8)? {
            shape.remainders = any_remainders(bytes)?;
        }
        let mut other = Self::new(shape);
        if other.model.form().width != form.width {
            return Ok(());
        }
        for _ in 0..bytes.int_in_range(0..=20)? {
            let hash =
                if bytes.arbitrary()? { self.any_hash(bytes)? } else { other.any_hash(bytes)? };
            match bytes.int_in_range(0..=4)? {
                0 => other.adapt(hash, Ghosts::Keep),
                1 => other.remove(hash, true),
                2 => other.set_value(hash, bytes)?,
                _ => other.insert(hash, false, 1),
            }
        }
        match QuotientFilter::merged(&[&self.filter, &other.filter]) {
            Ok(merged) => {
                let form = merged.parameters().into();
                let model = Model::merged(&[&self.model, &other.model], form);
                self.model = model.expect("no print has to be cut");
                self.filter = merged;
                self.mistakes.retain(|&mistake| !self.model.contains(mistake));
            }
            Err(MergeError::Lengthened) => {
                let cut = |model: &Model| {
                    let (small, large) = (model.form().slots, form.slots.max(shape.slots));
                    (0..)
                        .map_while(|doublings| {
                            let doubled = large << doublings;
                            let lost = (doubled / small).ilog2() as usize;
                            let remainder = model.form().remainder.checked_sub(lost)?;
                            let shorter = remainder.checked_sub(1).filter(|&bits| bits > 0)?;
                            let form = Form { slots: doubled, remainder: shorter, ..model.form() };
                            Some(model.converted(form).is_none())
                        })
                        .any(|cut| cut)
                };
                assert!(cut(&self.model) || cut(&other.model));
            }
            Err(MergeError::NoRemainder) => assert!(form.remainder <= 12),
            Err(MergeError::Remainders) => {
                let other = other.model.form();
                assert!(!form.is_plain() || !other.is_plain());
                assert!(form.remainders != other.remainders || form.slots != other.slots);
            }
            Err(MergeError::Build(BuildError::Full { .. })) => {
                assert!(!form.is_plain());
                let remainder = form.remainder.min(other.model.form().remainder);
                let value_bits = form.value_bits.max(other.model.form().value_bits);
                let form = Form { remainder, value_bits, ..form };
                let merged = Model::merged(&[&self.model, &other.model], form);
                assert!(merged.is_none_or(|merged| !merged.fits()));
            }
            Err(MergeError::Build(BuildError::Uncountable)) => {
                assert!(self.filter.len() + other.filter.len() > 1 << 40);
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// Rebuilds the filter from its members with a different number of slots.
    fn resize(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let slots = bytes.int_in_range(1..=300)?;
        self.mistakes.retain(|&mistake| !self.model.contains(mistake));
        self.mistakes.sort_unstable();
        let listed: &[Hash] = if bytes.arbitrary()? { &self.mistakes } else { &[] };
        let mut parameters = self.filter.parameters();
        if bytes.ratio(3, 4)? {
            parameters.slots = slots;
        }
        parameters.remainder_bits = parameters.slot_bits;
        if bytes.ratio(1, 4)? {
            parameters.remainders = any_remainders(bytes)?;
        }
        let members = self.model.members();
        match QuotientFilter::rebuilt(parameters, &[&self.filter], members, listed.iter().copied())
        {
            Ok(rebuilt) => {
                self.model = self.model.rebuilt(&rebuilt, &self.mistakes);
                self.filter = rebuilt;
                assert!(listed.iter().all(|&mistake| !self.filter.contains(mistake)));
                self.mistakes.retain(|&mistake| !self.model.contains(mistake));
            }
            Err(BuildError::Full { .. }) => {
                let form = Form::from(parameters);
                let fits = Model::built(form, &self.model.members(), listed).fits();
                // Values and lengthened fingerprints need more room.
                assert!(!fits || self.model.has_lengthened() || form.value_bits > 0);
            }
            Err(BuildError::Uncountable) => assert!(self.filter.len() > 1 << 40),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    fn set_value(&mut self, hash: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        let largest = (1 << self.shape.value_bits) - 1;
        let value = bytes.int_in_range(0..=largest + 1)?;
        let set = self.filter.set_value(hash, value);
        assert!(!self.follow_growth() || set.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        let expected = if value > largest { None } else { model.set_value(hash, value) };
        match set {
            Ok(before) => {
                assert_eq!(Some(before), expected);
                self.model = model;
            }
            Err(ValueError::Full { load }) => self.must_be_full(&model, load),
            Err(ValueError::Absent) => assert!(!self.model.contains(hash)),
            Err(ValueError::TooLarge { .. }) => assert!(value > largest),
            Err(error) => panic!("{error}"),
        }
        Ok(())
    }

    /// Removes a hash without a list. If it isn't a member, the removal must fail. Does nothing for
    /// a false positive.
    fn remove(&mut self, hash: Hash, bury: bool) {
        let is_member = self.model.members().iter().any(|member| member.hash == hash);
        if !is_member && self.model.contains(hash) {
            return;
        }
        let removed = if bury {
            self.filter.remove_trusting_keeping_repairs(hash)
        } else {
            self.filter.remove_trusting(hash)
        };
        assert!(!self.follow_growth() || removed.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        if is_member {
            model.remove(hash, bury);
        }
        self.check_removed(removed, is_member, model);
    }

    fn remove_listed(&mut self, hash: Hash, bury: bool, with_mistakes: bool) {
        let Answer::Maybe(claim) = self.filter.check(hash) else {
            assert!(!self.model.contains(hash), "a false negative");
            return;
        };
        let members = self.model.suspects(hash);
        self.mistakes.retain(|&mistake| !self.model.contains(mistake));
        let mistakes = (with_mistakes && !bury).then_some(&self.mistakes[..]);
        let is_member = members.iter().any(|member| member.hash == hash);
        let ghosts = self.model.ghosts(hash);
        let removed = if bury {
            self.filter.remove_keeping_repairs(&claim, &members)
        } else {
            self.filter.remove(&claim, listing(&members, mistakes))
        };
        let mistakes = mistakes.map(<[Hash]>::to_vec);
        assert!(!self.follow_growth() || removed.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        if is_member {
            model.remove(hash, bury);
            if let Some(mistakes) = mistakes {
                model.shorten(hash, &mistakes);
            }
        }
        if ghosts > 0 {
            assert_eq!(removed, Err(RemoveError::Unlisted { members: ghosts }));
            return;
        }
        let gone = removed.is_ok();
        self.check_removed(removed, is_member, model);
        let again = self.filter.remove(&claim, &members);
        if gone {
            assert_eq!(again, Err(RemoveError::Stale));
        } else if !is_member {
            assert_eq!(again, Err(RemoveError::Absent));
        } else {
            self.model.remove(hash, false);
            again.expect("needs no room");
        }
    }

    fn check_removed(
        &mut self,
        removed: core::result::Result<(), RemoveError>,
        is_member: bool,
        model: Model,
    ) {
        match removed {
            Ok(()) => {
                assert!(is_member);
                self.model = model;
            }
            Err(RemoveError::Absent) => assert!(!is_member),
            Err(RemoveError::Full { load }) => self.must_be_full(&model, load),
            Err(RemoveError::Uncountable) => assert!(model.is_uncountable()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Inserts several hashes. Each must fit at its turn: a hash that reuses a tombstone's slot
    /// makes room only for the hashes after it.
    fn insert_many(&mut self, hashes: &[Hash]) {
        let inserted = self.filter.insert_many(hashes);
        assert!(!self.follow_growth() || inserted.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        let mut fits = true;
        for &hash in hashes {
            model.insert(hash, false, 1);
            fits &= model.fits();
        }
        match inserted {
            Ok(()) => {
                assert!(fits);
                self.model = model;
            }
            Err(InsertError::Full { load }) => {
                assert!((load - self.filter.stats().load).abs() < f64::EPSILON);
                assert!(!fits, "refused at {load}");
            }
            Err(InsertError::Uncountable) => assert!(model.is_uncountable()),
            Err(error) => panic!("{error}"),
        }
    }

    fn insert(&mut self, hash: Hash, ghost: bool, times: u64) {
        let inserted = match times {
            1 => self.filter.insert(hash),
            _ => self.filter.insert_times(hash, times),
        };
        assert!(!self.follow_growth() || inserted.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        if times > 0 {
            model.insert(hash, ghost, times);
        }
        match inserted {
            Ok(()) => {
                assert!(model.fits());
                self.model = model;
            }
            Err(InsertError::Full { load }) => self.must_be_full(&model, load),
            Err(InsertError::Uncountable) => assert!(model.count(hash) > 1 << 40),
            Err(error) => panic!("{error}"),
        }
    }

    fn must_be_full(&self, wanted: &Model, load: f64) {
        assert!((load - self.filter.stats().load).abs() < f64::EPSILON);
        assert!(!wanted.fits(), "refused at {load}");
    }

    fn adapt(&mut self, query: Hash, policy: Ghosts) {
        let expected = self.model.contains(query);
        let Answer::Maybe(claim) = self.filter.check(query) else {
            assert!(!expected, "a false negative");
            return;
        };
        assert!(expected, "the filter covers more than the model");
        assert_eq!(claim.query(), query);
        self.check_suspects(claim.suspects(), query);
        let members = self.model.suspects(query);
        self.ignores_other_remainders(&claim, &members);
        let result = self.adapt_listed(&claim, &members, policy);
        let grown = self.follow_growth();
        assert!(!grown || result.is_ok(), "a refused call made the filter grow");
        let mut model = self.model.clone();
        let ghosts = self.model.ghosts(query);
        if members.iter().any(|member| member.hash == query) {
            assert_eq!(result, Err(AdaptError::IsMember));
            return;
        }
        if ghosts > 0 && policy == Ghosts::Keep {
            assert_eq!(result, Err(AdaptError::Unlisted { members: ghosts }));
            return;
        }
        let lengthened = model.adapt(query, policy);
        match result {
            Ok(adaptation) => {
                assert_eq!((adaptation.lengthened, adaptation.ghosts), (lengthened, ghosts));
                self.model = model;
                self.mistakes.push(query);
                assert!(!self.filter.contains(query), "not repaired");
                if ghosts == 0 || policy == Ghosts::Bury {
                    assert!(self.filter.has_repairs_near(query), "a repair without a trace");
                }
                if ghosts == 0 && !grown {
                    let again = self.filter.adapt(&claim, &members).expect("no change of members");
                    assert_eq!(again.lengthened, 0);
                } else {
                    let again = self.filter.adapt(&claim, &members);
                    assert_eq!(again, Err(AdaptError::Stale));
                }
            }
            Err(AdaptError::Full { load }) => self.must_be_full(&model, load),
            Err(error) => panic!("{error}"),
        }
    }

    fn adapt_listed(
        &mut self,
        claim: &Claim,
        members: &[Member],
        ghosts: Ghosts,
    ) -> core::result::Result<Adaptation, AdaptError> {
        let listing = Listing::new(members);
        let listing = match ghosts {
            Ghosts::Keep => listing,
            Ghosts::Drop => listing.dropping_ghosts(),
            Ghosts::Bury => listing.leaving_tombstones(),
        };
        self.filter.adapt(claim, listing)
    }

    /// Repairs copies of the filter with a listing that lacks the members of other remainders, and
    /// with a listing that has these members twice. Both must have the same effect as the correct
    /// listing.
    fn ignores_other_remainders(&self, claim: &Claim, members: &[Member]) {
        let is_near = |member: &Member| self.model.same_minirun(member.hash, claim.query());
        let (near, far): (Vec<Member>, Vec<Member>) =
            members.iter().copied().partition(|member| is_near(member));
        if far.is_empty() {
            return;
        }
        let adapted = |members: &[Member]| {
            let mut copy = self.filter.clone();
            let Answer::Maybe(claim) = copy.check(claim.query()) else {
                panic!("a different copy")
            };
            let adapted = copy.adapt(&claim, members);
            (adapted, copy.iter().collect::<Vec<_>>())
        };
        let expected = adapted(members);
        assert_eq!(adapted(&near), expected);
        assert_eq!(adapted(&[members, &far].concat()), expected);
    }

    /// Checks that the interval is exactly that of the query's quotient.
    fn check_suspects(&self, suspects: RangeInclusive<Hash>, query: Hash) {
        let (first, last) = (suspects.start().as_u128(), suspects.end().as_u128());
        let same = |hash| self.model.same_quotient(Hash::from_u128(hash), query);
        assert!(same(first) && same(last) && suspects.contains(&query));
        assert!(first.checked_sub(1).is_none_or(|before| !same(before)));
        assert!(last.checked_add(1).is_none_or(|after| !same(after)));
    }

    /// Tries lists and claims that must be refused.
    fn misuse(&mut self, query: Hash, bytes: &mut Unstructured<'_>) -> Result<()> {
        let Answer::Maybe(claim) = self.filter.check(query) else { return Ok(()) };
        let mut members = self.model.suspects(query);
        if members.iter().any(|member| member.hash == query) || self.model.ghosts(query) > 0 {
            return Ok(());
        }
        let same = |member: &Member| self.model.same_minirun(member.hash, query);
        let near: Vec<Member> = members.iter().copied().filter(same).collect();
        let ghosts = *bytes.choose(&[Ghosts::Keep, Ghosts::Drop, Ghosts::Bury])?;
        let expected = match bytes.int_in_range(0..=4)? {
            0 if ghosts == Ghosts::Keep => {
                let gone = *bytes.choose(&near)?;
                let at = members.iter().position(|&member| member == gone);
                members.swap_remove(at.expect("it is listed"));
                AdaptError::Unlisted { members: gone.count }
            }
            1 => {
                let extra = *bytes.choose(&near)?;
                members.push(extra);
                AdaptError::Surplus { members: extra.count }
            }
            2 => {
                let Some(outside) = claim.suspects().end().as_u128().checked_add(1) else {
                    return Ok(());
                };
                members.push(Hash::from_u128(outside).into());
                AdaptError::Outside { member: Hash::from_u128(outside) }
            }
            3 => {
                // An insert that fits makes the claim stale.
                let newcomer = bytes.choose(&near)?.hash;
                let before = self.filter.len();
                self.insert(newcomer, false, 1);
                if self.filter.len() == before {
                    return Ok(());
                }
                members.push(newcomer.into());
                AdaptError::Stale
            }
            _ => {
                members.push(query.into());
                AdaptError::IsMember
            }
        };
        assert_eq!(self.adapt_listed(&claim, &members, ghosts), Err(expected));
        Ok(())
    }

    /// Builds a filter of this shape from lists, and compares it with the model.
    fn compare_with_built(&self, members: &[Member], mistakes: &[Hash]) {
        let parameters: Parameters = self.filter.parameters();
        let is_sorted = members.is_sorted_by_key(|member| member.hash);
        let is_member = |hash| members.iter().any(|member| member.hash == hash);
        let built = QuotientFilter::from_sorted(
            parameters,
            members.iter().copied(),
            mistakes.iter().copied(),
        );
        match built {
            Ok(filter) => {
                assert!(is_sorted && mistakes.is_sorted());
                let model = Model::built(parameters.into(), members, mistakes);
                model.check(&filter);
                assert!(mistakes.iter().all(|&mistake| !filter.contains(mistake)));
            }
            Err(BuildError::Unsorted(list)) => {
                assert!(!(if list == "members" { is_sorted } else { mistakes.is_sorted() }));
            }
            Err(BuildError::MistakeIsMember { hash, .. }) => {
                assert!(is_member(hash) && mistakes.contains(&hash));
            }
            Err(BuildError::Full { .. }) => {
                let both = mistakes.iter().any(|&mistake| is_member(mistake));
                if !both && is_sorted && mistakes.is_sorted() {
                    assert!(!Model::built(parameters.into(), members, mistakes).fits());
                }
            }
            Err(BuildError::Uncountable) => {
                assert!(members.iter().map(|member| member.count).sum::<u64>() > 1 << 40);
            }
            Err(error) => panic!("{error}"),
        }
    }
}
