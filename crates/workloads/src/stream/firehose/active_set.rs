use libm::pow;
use rand::RngExt;
use rand::distr::Distribution;

use super::Datum;
use crate::Invalid;
use crate::invalid::at_least_one;
use crate::random::{Random, random};
use crate::stream::Zipf;

/// The second `FireHose` stream: keys appear, become popular, and disappear, without end.
///
/// A set of keys is active. Each key appears a limited number of times; then a new key replaces it
/// for good. Keys are drawn uniformly from the active set, and accepted with a probability that
/// depends on the share of their appearances already used: low at first, highest in the middle, low
/// at the end. So a key's rate over time is that of logistic growth: bell-shaped.
#[derive(Clone, Debug)]
pub struct ActiveSet {
    lives: Zipf,
    active: Vec<Life>,
    random: Random,
}

/// The shape of an [`ActiveSet`].
#[derive(Clone, Copy, Debug)]
pub struct ActiveSetConfig {
    /// Number of keys that are active at a time.
    pub active: u32,
    /// Maximum number of appearances per key.
    pub most: u32,
    /// The exponent of the Zipfian law that the keys' numbers of appearances follow.
    pub exponent: f64,
}

/// The published configuration: 128 Ki keys. A key appears 60 times on average, similar to the data
/// of the telescoping filter's evaluation (57).
impl Default for ActiveSetConfig {
    fn default() -> Self {
        Self { active: 128 << 10, most: 170, exponent: 0.5 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Life {
    key: u64,
    appearances: u32,
    limit: u32,
}

/// The acceptance probability at the start of a key's life, relative to the middle. If it were 0,
/// no key would ever start.
const FLOOR: f64 = 1.0 / 16.0;

impl Life {
    fn new(lives: &Zipf, random: &mut Random) -> Self {
        let limit = lives.sample(random) as u32 + 1;
        Self { key: random.random(), appearances: 0, limit }
    }

    /// Returns an active key of a random age. Long lives are more frequent among active keys than
    /// among new keys. A key stays at an age longer if it is less popular at that age.
    fn in_progress(config: ActiveSetConfig, sizes: &Zipf, random: &mut Random) -> Self {
        loop {
            // Draw from `sizes`, and reject some draws, so the probability of a lifetime is
            // proportional to its length and to how often such lifetimes begin.
            let limit = sizes.sample(random) as u32 + 1;
            let share = f64::from(limit) / f64::from(config.most);
            if random.random::<f64>() >= pow(share, (1.0 - config.exponent).max(0.0)) {
                continue;
            }
            let life =
                Self { key: random.random(), appearances: random.random_range(0..limit), limit };
            if random.random::<f64>() < FLOOR / life.popularity() {
                return life;
            }
        }
    }

    /// Returns the height of the bell curve at this point of the key's life. The curve is a
    /// parabola, so that the growth is logistic.
    fn popularity(&self) -> f64 {
        let lived = f64::from(self.appearances) / f64::from(self.limit);
        FLOOR + (1.0 - FLOOR) * 4.0 * lived * (1.0 - lived)
    }
}

impl ActiveSet {
    /// Creates the stream. It starts with keys in the middle of their lives, as if it had been
    /// running for a long time.
    ///
    /// # Errors
    ///
    /// If the number of active keys or appearances is 0, or the exponent isn't one of a Zipfian
    /// law.
    pub fn new(config: ActiveSetConfig, seed: u64) -> Result<Self, Invalid> {
        at_least_one("the number of active keys", config.active.into())?;
        at_least_one("the most appearances", config.most.into())?;
        let lives = Zipf::new(config.most.into(), config.exponent)?;
        let mut random = random(seed, "active set");
        // Sizes follow `k^(1 - exponent)`. If the exponent is below 1, larger sizes are more
        // likely, so uniform sizes are thinned out instead.
        let sizes = Zipf::new(config.most.into(), (config.exponent - 1.0).max(0.0))?;
        let active =
            (0..config.active).map(|_| Life::in_progress(config, &sizes, &mut random)).collect();
        Ok(Self { lives, active, random })
    }
}

impl Iterator for ActiveSet {
    type Item = Datum;

    fn next(&mut self) -> Option<Datum> {
        loop {
            let at = self.random.random_range(0..self.active.len());
            let life = &mut self.active[at];
            if self.random.random::<f64>() >= life.popularity() {
                continue;
            }
            let datum = Datum::new(life.key, &mut self.random);
            life.appearances += 1;
            if life.appearances == life.limit {
                *life = Life::new(&self.lives, &mut self.random);
            }
            return Some(datum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::tests::assert_bits_are_biased;
    use super::{ActiveSet, ActiveSetConfig};

    const SMALL: ActiveSetConfig = ActiveSetConfig { active: 1000, most: 170, exponent: 0.5 };

    /// Returns the times at which each key appeared.
    fn appearances(stream: impl Iterator<Item = u64>) -> HashMap<u64, Vec<usize>> {
        let mut keys: HashMap<u64, Vec<usize>> = HashMap::new();
        for (time, key) in stream.enumerate() {
            keys.entry(key).or_default().push(time);
        }
        keys
    }

    #[test]
    fn keys_appear_60_times_on_average_and_never_more_than_the_limit() {
        let keys = appearances(ActiveSet::new(SMALL, 1).unwrap().take(3_000_000).map(|d| d.key));
        // The keys active at the start had appeared before, as often as the keys active at the end
        // will appear later.
        let mean = 3_000_000.0 / (keys.len() - 1000) as f64;
        let sum = |exponent| (1..=170).map(|life| f64::from(life).powf(exponent)).sum::<f64>();
        let wanted = sum(0.5) / sum(-0.5);
        assert!((wanted - 60.2).abs() < 0.05 && (mean - wanted).abs() < 1.0, "{mean}");
        assert!(keys.values().all(|times| times.len() <= 170));
    }

    #[test]
    fn keys_disappear_at_a_constant_rate_from_the_start() {
        const PART: usize = 20_000;
        for exponent in [0.5, 1.5] {
            let mut deaths = [0_u32; 10];
            for seed in 1..=4 {
                let stream = ActiveSet::new(ActiveSetConfig { exponent, ..SMALL }, seed).unwrap();
                // Take twice as much of the stream as is counted. A key that isn't seen in the
                // second half has disappeared.
                let keys = appearances(stream.take(2 * deaths.len() * PART).map(|d| d.key));
                for times in keys.values() {
                    if let Some(part) = deaths.get_mut(times[times.len() - 1] / PART) {
                        *part += 1;
                    }
                }
            }
            let later = f64::from(deaths[1..].iter().sum::<u32>()) / 9.0;
            let first = f64::from(deaths[0]);
            assert!((first - later).abs() < 4.0 * later.sqrt(), "{exponent}: {deaths:?}");
        }
    }

    #[test]
    fn active_set_keeps_changing() {
        let mut stream = ActiveSet::new(SMALL, 2).unwrap().map(|datum| datum.key);
        let early = appearances(stream.by_ref().take(100_000));
        let late = appearances(stream.skip(1_000_000).take(100_000));
        assert!(early.keys().all(|key| !late.contains_key(key)), "a key came back");
        assert!(late.len() > 1000);
    }

    #[test]
    fn popularity_over_time_is_bell_shaped() {
        let keys = appearances(ActiveSet::new(SMALL, 3).unwrap().take(3_000_000).map(|d| d.key));
        let mut fifths = [0_u32; 5];
        for times in keys.values().filter(|times| times.len() >= 100) {
            let (first, last) = (times[0], times[times.len() - 1]);
            // The stream shows only a part of the life of a key that is active at the start or at
            // the end.
            if first < 200_000 || last > 2_800_000 {
                continue;
            }
            for time in &times[1..times.len() - 1] {
                fifths[(time - first) * 5 / (last - first)] += 1;
            }
        }
        let [a, b, c, d, e] = fifths;
        assert!(a * 2 < b && b < c && c > d && d > e * 2, "{fifths:?}");
        assert!(c > 4 * a && c > 4 * e, "{fifths:?}");
    }

    #[test]
    fn default_config_matches_the_published_size_and_bias() {
        let data: Vec<_> =
            ActiveSet::new(ActiveSetConfig::default(), 4).unwrap().take(2_000_000).collect();
        let distinct = appearances(data.iter().map(|datum| datum.key)).len();
        assert!((100_000..200_000).contains(&distinct), "{distinct}");
        assert_bits_are_biased(&data);
    }

    #[test]
    fn invalid_config_is_an_error() {
        for config in [
            ActiveSetConfig { active: 0, ..SMALL },
            ActiveSetConfig { most: 0, ..SMALL },
            ActiveSetConfig { exponent: -1.0, ..SMALL },
        ] {
            assert!(ActiveSet::new(config, 1).is_err());
        }
    }
}
