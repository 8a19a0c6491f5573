//! A cascade of Bloom filters, the original design of `CRLite`.
//!
//! The first filter holds the yes list. The second one holds the no-list keys that are false
//! positives of the first. The third one holds the yes-list keys that are false positives of the
//! second, and so on until no false positives are left. A lookup asks the filters in order, until
//! one of them does not answer "maybe". The answer is yes if an odd number of filters has answered
//! "maybe".

use super::ListFilter;
use std::f64::consts::LN_2;
use twiceshy::Hash;

pub(super) struct Cascade {
    levels: Vec<Bloom>,
}

/// If the first level is expected to make fewer mistakes than this, it may make none.
const FEW: f64 = 10.0;

impl Cascade {
    pub(super) fn new(yes: &[Hash], no: &[Hash], rate: f64) -> Self {
        let (first, others) = best_rates(yes.len() as f64, no.len() as f64, rate);
        // Without a second level, the first level alone must meet the requested rate.
        let first = if first * (no.len() as f64) < FEW { first.min(rate) } else { first };
        let (mut inside, mut outside) = (yes.to_vec(), no.to_vec());
        let mut levels: Vec<Bloom> = Vec::new();
        while levels.is_empty() || !inside.is_empty() {
            let rate = if levels.is_empty() { first } else { others };
            let level = Bloom::new(&inside, rate, levels.len() as u64);
            outside.retain(|&hash| level.contains(hash));
            levels.push(level);
            (inside, outside) = (outside, inside);
        }
        Self { levels }
    }
}

impl ListFilter for Cascade {
    fn contains(&self, hash: Hash) -> bool {
        let passed = self.levels.iter().take_while(|level| level.contains(hash)).count();
        passed % 2 == 1
    }

    fn bits(&self) -> u64 {
        self.levels.iter().map(|level| 64 * level.words.len() as u64).sum()
    }
}

/// Returns the false-positive rates of the first level and of all other levels that make the cascade
/// smallest. With them, the answer for an unlisted key is "yes" with probability at most `rate`.
fn best_rates(yes: f64, no: f64, rate: f64) -> (f64, f64) {
    let candidates = (1..40).flat_map(|step| {
        let others = f64::from(step) / 50.0;
        // The probability that an odd number of levels is passed: p(1 - q) + pq²(1 - q) + …
        let most = (rate * (1.0 + others)).min(0.9);
        (0..60).map(move |less| (most * 0.9f64.powi(less), others))
    });
    let bits = |&(first, others): &(f64, f64)| expected_bits(yes, no, first, others);
    candidates.min_by(|one, other| bits(one).total_cmp(&bits(other))).expect("some candidates")
}

fn expected_bits(yes: f64, no: f64, first: f64, others: f64) -> f64 {
    let bits = |count: f64, rate: f64| -count * rate.log2() / LN_2;
    let (mut inside, mut outside) = (no * first, yes * others);
    let mut sum = bits(yes, first);
    while inside >= 1.0 {
        sum += bits(inside, others);
        (inside, outside) = (outside, inside * others);
    }
    sum
}

struct Bloom {
    words: Vec<u64>,
    functions: u32,
    /// A seed that differs between levels.
    seed: u64,
}

impl Bloom {
    fn new(members: &[Hash], rate: f64, seed: u64) -> Self {
        let functions = (-rate.log2()).round().max(1.0);
        // The size for this number of functions. It is slightly larger than for the optimal number.
        let load = (1.0 - rate.powf(functions.recip())).ln();
        let bits = (-functions * members.len() as f64 / load).ceil();
        let mut bloom = Self {
            words: vec![0; ((bits / 64.0).ceil() as usize).max(1)],
            functions: functions as u32,
            seed,
        };
        for &hash in members {
            let places: Vec<usize> = bloom.places(hash).collect();
            for place in places {
                bloom.words[place / 64] |= 1 << (place % 64);
            }
        }
        bloom
    }

    fn places(&self, hash: Hash) -> impl Iterator<Item = usize> {
        let bits = 64 * self.words.len() as u128;
        let [low, high] = [hash.as_u128() as u64, (hash.as_u128() >> 64) as u64]
            .map(|half| mixed(half ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (0..u64::from(self.functions)).map(move |number| {
            let place = low.wrapping_add(number.wrapping_mul(high | 1));
            ((u128::from(place) * bits) >> 64) as usize
        })
    }

    fn contains(&self, hash: Hash) -> bool {
        self.places(hash).all(|place| self.words[place / 64] >> (place % 64) & 1 == 1)
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}
