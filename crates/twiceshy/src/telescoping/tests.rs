//! Compares the filters with an exact model: a multiset of hashes.

use super::coder::{Decoder, Long, Middle, Short, Word};
use super::*;
use crate::error::{AdaptError, InsertError, RemoveError};
use crate::fingerprint::Digits;
use crate::{Answer, Claim, Hash, Member};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A filter, and how often each member was inserted.
struct Model<S: CodedScheme> {
    filter: CodedFilter<S>,
    members: BTreeMap<Hash, u64>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u16),
    Remove(u16),
    Ask(u16),
}

/// Returns hashes with few quotients, and fractions with long common prefixes, so that many
/// collide.
fn hash(key: u16) -> Hash {
    let quotient = u128::from(key % 16) << 124;
    let fraction = u128::from(key / 16 % 8) << 100 | u128::from(key / 128) << 60;
    Hash::from_u128(quotient | fraction | u128::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl<S: CodedScheme> Model<S> {
    fn new(slots: u64, remainder_bits: u32, code_bits: u32) -> Self {
        let builder = CodedFilter::builder().slots(slots).remainder_bits(remainder_bits);
        let filter = builder.code_bits(code_bits).build().unwrap();
        Self { filter, members: BTreeMap::new() }
    }

    fn listed(&self, claim: &Claim) -> Vec<Member> {
        let suspects = self.members.range(claim.suspects());
        suspects.map(|(&hash, &count)| Member { hash, count }).collect()
    }

    fn insert(&mut self, hash: Hash) {
        let inserted = match self.filter.insert(hash) {
            Err(InsertError::NeedsMembers(claim)) => {
                self.filter.insert_listed(&claim, self.listed(&claim))
            }
            other => other,
        };
        match inserted {
            Ok(()) => *self.members.entry(hash).or_default() += 1,
            Err(InsertError::Full { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn remove(&mut self, hash: Hash) {
        let is_member = self.members.contains_key(&hash);
        if !is_member {
            if let Answer::Maybe(claim) = self.filter.check(hash) {
                let refused = self.filter.remove(&claim, self.listed(&claim));
                assert_eq!(refused, Err(RemoveError::Absent));
            }
            return;
        }
        match self.filter.remove_trusting(hash) {
            Err(RemoveError::Ambiguous) => {
                let Answer::Maybe(claim) = self.filter.check(hash) else { panic!("lost member") };
                self.filter.remove(&claim, self.listed(&claim)).unwrap();
            }
            other => other.unwrap(),
        }
        let count = self.members.get_mut(&hash).unwrap();
        *count -= 1;
        if *count == 0 {
            self.members.remove(&hash);
        }
    }

    /// Looks up a hash, and repairs a mistake.
    fn ask(&mut self, hash: Hash) {
        let Answer::Maybe(claim) = self.filter.check(hash) else {
            assert!(!self.members.contains_key(&hash), "a member is lost");
            return;
        };
        let before = self.filter.clone();
        match self.filter.adapt(&claim, self.listed(&claim)) {
            Err(AdaptError::Crowded) if self.filter.suspects(hash) != claim.suspects() => {
                assert_eq!(
                    before.shared.table.lines().bytes(),
                    self.filter.shared.table.lines().bytes()
                );
                self.ask(hash);
            }
            Ok(adaptation) => {
                assert!(!self.members.contains_key(&hash) && adaptation.lengthened > 0);
                assert!(!self.filter.contains(hash), "a repaired mistake is still there");
            }
            Err(AdaptError::IsMember) => assert!(self.members.contains_key(&hash)),
            Err(AdaptError::Crowded | AdaptError::Inseparable) => {
                assert_eq!(
                    before.shared.table.lines().bytes(),
                    self.filter.shared.table.lines().bytes()
                );
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn check(&self) {
        self.filter.validate().unwrap();
        assert_eq!(self.filter.len() as u64, self.members.values().sum::<u64>());
        let mut many = Vec::new();
        let hashes: Vec<Hash> = self.members.keys().copied().collect();
        self.filter.contains_many(&hashes, &mut many);
        assert!(many.iter().all(|&maybe| maybe), "a member is lost");
        assert!(hashes.iter().all(|&hash| self.filter.contains(hash)), "a member is lost");
    }

    fn play(&mut self, steps: &[Step]) {
        for &step in steps {
            match step {
                Step::Insert(key) => self.insert(hash(key)),
                Step::Remove(key) => self.remove(hash(key)),
                Step::Ask(key) => self.ask(hash(key)),
            }
            self.check();
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<u16>().prop_map(Step::Insert),
        1 => any::<u16>().prop_map(Step::Remove),
        4 => any::<u16>().prop_map(Step::Ask),
    ];
    let few = (1u16..600, prop::collection::vec(step, 0..250));
    few.prop_map(|(keys, steps)| {
        let less = |step: &Step| match *step {
            Step::Insert(key) => Step::Insert(key % keys),
            Step::Remove(key) => Step::Remove(key % keys),
            Step::Ask(key) => Step::Ask(key % keys),
        };
        steps.iter().map(less).collect()
    })
}

proptest! {
    #[test]
    fn telescoping_filter_matches_the_model(
        slots in 1u64..300, bits in 1u32..10, code in 8u32..=120, steps in steps()
    ) {
        Model::<Selectors>::new(slots, bits, code).play(&steps);
    }

    #[test]
    fn extension_filter_matches_the_model(
        slots in 1u64..300, bits in 1u32..10, code in 8u32..=120, steps in steps()
    ) {
        Model::<Extensions>::new(slots, bits, code).play(&steps);
    }

    #[test]
    fn plain_filter_loses_no_member(slots in 1u64..300, bits in 1u32..10, steps in steps()) {
        let builder = PlainQuotientFilter::builder().slots(slots).remainder_bits(bits);
        let mut filter = builder.build().unwrap();
        let mut members: Vec<Hash> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(key) if filter.insert(hash(key)).is_ok() => members.push(hash(key)),
                Step::Insert(_) => prop_assert!(members.len() as u64 * 2 > slots),
                Step::Remove(key) => match members.iter().position(|&member| member == hash(key)) {
                    Some(at) => filter.remove_trusting(members.swap_remove(at)).unwrap(),
                    None if filter.contains(hash(key)) => {}
                    None => {
                        let refused = filter.remove_trusting(hash(key));
                        prop_assert_eq!(refused, Err(RemoveError::Absent));
                    }
                },
                Step::Ask(key) => {
                    let batch: Vec<Hash> = (0..20).map(|more| hash(key.wrapping_add(more))).collect();
                    let before = filter.shared.table.lines().bytes().to_vec();
                    if let Ok(()) = filter.insert_many(&batch) { members.extend(batch) } else { prop_assert_eq!(filter.shared.table.lines().bytes(), &before[..]) }
                }
            }
            filter.validate().unwrap();
            prop_assert_eq!(filter.len(), members.len());
            prop_assert!(members.iter().all(|&member| filter.contains(member)));
        }
    }

    #[test]
    fn selectors_survive_a_round_trip(
        symbols in prop::collection::vec(0u32..12, 0..60),
        bits in 8u32..=120,
    ) {
        let coding = Coding::<Selectors>::new(Digits::plain(1 << 20, 8, 8), 1.0);
        check_code(&coding, &symbols, bits);
    }

    #[test]
    fn extensions_survive_a_round_trip(
        extensions in prop::collection::vec(prop_oneof![8 => Just(0), 1 => 2u32..1 << 20], 0..60),
        bits in 8u32..=120,
    ) {
        let coding = Coding::<Extensions>::new(Digits::plain(1 << 20, 8, 8), 1.0);
        check_code(&coding, &extensions, bits);
    }

    #[test]
    fn any_code_can_be_decoded(code: u128, bits in 8u32..=120) {
        let code = code & ((1 << bits) - 1);
        let telescoping = Coding::<Selectors>::new(Digits::plain(1 << 20, 8, 8), 1.0);
        prop_assert!(telescoping.decode(code, bits).all(|symbol| symbol <= telescoping.greatest));
        let extending = Coding::<Extensions>::new(Digits::plain(1 << 20, 8, 8), 1.0);
        prop_assert!(extending.decode(code, bits).count() < 2000);
    }
}

fn check_code<S: CodedScheme>(coding: &Coding<S>, symbols: &[Symbol], bits: u32) {
    let coded = symbols.iter().rposition(|&symbol| symbol != 0).map_or(0, |last| last + 1);
    let Some(code) = coding.encode(symbols, bits) else {
        assert!(coded > 0, "a code always has room for zeros");
        return;
    };
    assert!(code < 1 << bits && (code == 0) == (coded == 0));
    assert!(coding.decode(code, bits).eq(symbols[..coded].iter().copied()));
    for from in 0..symbols.len() {
        let rest = &symbols[from..];
        check_rest(coding, Decoder::<Long>::new(code, bits), from, rest);
        if bits < u64::BITS {
            check_rest(coding, Decoder::<Middle>::new(code, bits), from, rest);
        }
        if bits <= Short::BITS {
            check_rest(coding, Decoder::<Short>::new(code, bits), from, rest);
        }
    }
}

/// Skips the symbols before `from`, and decodes the rest.
fn check_rest<S: CodedScheme, W: Word>(
    coding: &Coding<S>,
    mut decoder: Decoder<W>,
    from: usize,
    rest: &[Symbol],
) {
    let most = coding.begun(&mut decoder);
    S::skip(coding, from, most, &mut decoder);
    for &symbol in rest {
        assert_eq!(S::read(coding, most, &mut decoder), symbol);
    }
    assert!(decoder.is_done());
}

/// Returns pseudo-random numbers.
pub(super) fn random(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |index: u64| {
        let mixed = (seed << 32 ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 29
    })
}

fn random_hashes(seed: u64) -> impl Iterator<Item = Hash> {
    random(2 * seed)
        .zip(random(2 * seed + 1))
        .map(|(high, low)| Hash::from_u128(u128::from(high) << 64 | u128::from(low)))
}

/// Returns the average number of bits per code, and the entropy of a code's symbols.
fn code_lengths<S: CodedScheme>(
    coding: &Coding<S>,
    entropy: f64,
    draw: impl Fn(u64) -> Symbol,
) -> [f64; 2] {
    let (blocks, entries) = (400, 41);
    let mut numbers = random(7);
    let mut bits = 0;
    for _ in 0..blocks {
        let symbols: Vec<Symbol> = numbers.by_ref().take(entries).map(&draw).collect();
        bits += (0..=120).find(|&bits| coding.encode(&symbols, bits).is_some()).unwrap();
    }
    [f64::from(bits) / f64::from(blocks), entropy * entries as f64]
}

#[test]
fn code_lengths_are_near_the_entropy() {
    let chance = 0.24;
    let entropy = |chance: f64| -(chance * chance.log2() + (1.0 - chance) * (1.0 - chance).log2());
    let share = |number: u64| number as f64 / 2f64.powi(64);
    let bits = entropy(chance) / (1.0 - chance);
    let telescoping = Coding::<Selectors>::new(Digits::plain(1 << 20, 8, 8), bits);
    let chance_of_zero = f64::from(telescoping.odds()) / f64::from(1 << 16);
    assert!((1.0 - chance_of_zero - chance).abs() < 0.001);
    let draw = |number| (share(number).ln() / chance.ln()) as Symbol;
    let [coded, bound] = code_lengths(&telescoping, bits, draw);
    // The length may be less than the entropy, because codes don't contain the number of entries.
    assert!((0.9..1.03).contains(&(coded / bound)), "{coded} bits, entropy {bound}");

    let chance = 0.12;
    let bits = entropy(chance) + 4.0 * chance;
    let extending = Coding::<Extensions>::new(Digits::plain(1 << 20, 8, 8), bits);
    let draw = |number: u64| {
        let length = 1 + (number >> 20).trailing_zeros();
        let extension = 1 << length | (number as u32 & ((1 << length) - 1));
        if share(number) < chance { extension } else { 0 }
    };
    let [coded, bound] = code_lengths(&extending, bits, draw);
    assert!((0.9..1.03).contains(&(coded / bound)), "{coded} bits, entropy {bound}");
}

/// Lets an attacker repeat only the mistakes of the previous round. Returns how many are left at
/// the end.
fn whittled<S: CodedScheme>(queries_per_member: usize) -> usize {
    let mut model = Model::<S>::new(1 << 12, 8, 56);
    let members = (1 << 12) * 9 / 10;
    random_hashes(1).take(members).for_each(|hash| model.insert(hash));
    let mut queries: Vec<Hash> = random_hashes(2).take(queries_per_member * members).collect();
    for _ in 0..30 {
        queries.retain(|&query| {
            (0..4).fold(false, |was_mistake, _| {
                let is_mistake = model.filter.contains(query);
                if is_mistake {
                    model.ask(query);
                }
                was_mistake | is_mistake
            })
        });
    }
    model.check();
    queries.len()
}

#[test]
fn few_mistakes_are_left_if_only_mistakes_are_repeated() {
    assert_eq!(whittled::<Selectors>(30), 0);
    // Extensions take more room, so the filter forgets them sooner.
    assert!(whittled::<Extensions>(10) < 4096 / 100);
}

#[test]
fn forget_prefers_the_highest_level_but_may_choose_any() {
    const SYMBOLS: [Symbol; 6] = [0, 1, 3, 0, 3, 2];
    let mut times = [0; 6];
    for turn in 0..1000 {
        let mut symbols = SYMBOLS;
        let at = change::forget::<Selectors>(&mut symbols, turn, |at| at != 5).unwrap();
        times[at] += 1;
        let changed = (0..6).filter(|&at| symbols[at] != SYMBOLS[at]);
        assert!(changed.eq([at]) && symbols[at] == 0);
    }
    let [_, low, high, _, last, forbidden] = times;
    assert!(
        times[0] + times[3] + forbidden == 0 && low > 50 && high > 50 && last > 750,
        "{times:?}"
    );
    assert_eq!(change::forget::<Selectors>(&mut [0, 0], 0, |_| true), None);
    assert_eq!(change::forget::<Selectors>(&mut [1, 2], 0, |_| false), None);
}

fn accepts_exactly_the_canonical_codes<S: CodedScheme>() {
    let mut model = Model::<S>::new(100, 8, 56);
    random_hashes(3).take(90).for_each(|hash| model.insert(hash));
    let home = model.filter.home(0);
    let bits = model.filter.shared.table.code_bits();
    let entries = iter::entries(&model.filter, model.filter.cells_of_block(home)).len();
    let mut accepted = 0;
    for number in random(5).take(5000) {
        // Clear low bits, so that some codes have few symbols.
        let code = u128::from(number) & ((1 << bits) - 1) & !((1 << (number >> 58)) - 1);
        let symbols: Vec<Symbol> = model.filter.shared.coding.decode(code, bits).collect();
        let is_written = model.filter.encode(&symbols) == Some(code);
        model.filter.shared.table.set_code(home, code);
        let is_valid = model.filter.validate().is_ok();
        assert_eq!(is_valid, is_written && symbols.len() <= entries, "{symbols:?}");
        accepted += usize::from(is_valid);
    }
    assert!((100..4900).contains(&accepted), "{accepted} of 5000");
}

#[test]
fn only_canonical_codes_are_valid() {
    accepts_exactly_the_canonical_codes::<Selectors>();
    accepts_exactly_the_canonical_codes::<Extensions>();
}

#[test]
fn impossible_filters_are_refused() {
    let builder = TelescopingFilter::builder;
    let refused = |builder: Builder<TelescopingFilter>| builder.build().unwrap_err().to_string();
    assert!(refused(builder()).contains("capacity"));
    assert!(refused(builder().slots(0)).contains("0 slots"));
    assert!(refused(builder().slots(9).code_bits(121)).contains("121 bits"));
    assert!(refused(builder().slots(9).remainder_bits(57)).contains("57 bits"));
    assert!(refused(builder().slots(9).false_positive_rate(2.0)).contains("rate"));
    let two = builder().slots(9).remainder_bits(8).false_positive_rate(0.1);
    assert!(refused(two).contains("not both"));
}

#[test]
fn slots_take_about_three_bits_more_than_the_remainder() {
    let filter = TelescopingFilter::builder().slots(1 << 16).remainder_bits(8).build().unwrap();
    let bits = filter.shared.table.bytes() as f64 * 8.0 / f64::from(1 << 16);
    // This includes the tail of the table, which holds runs that are pushed past its end.
    assert!(bits < 11.4, "{bits}");
    assert!(filter.details().code_bits_per_slot > 0.875);
}
