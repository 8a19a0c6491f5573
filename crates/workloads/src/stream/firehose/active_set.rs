use libm::pow;
use rand::RngExt;
use rand::distr::Distribution;

use super::Datum;
use crate::Invalid;
use crate::invalid::some;
use crate::random::{Random, random};
use crate::stream::Zipf;

/// The second stream: keys come, are the fashion, and go; there is no end of them.
///
/// A set of keys is active. Each will appear a limited number of times, and then another takes
/// its place for good. An active key is drawn evenly, but accepted only with a probability that
/// depends on how much of its life is over: low at first, highest in the middle, low at the end.
/// A key that appears grows more likely to, until it is half used up, so its rate over time is
/// that of a logistic growth: bell-shaped.
#[derive(Clone, Debug)]
pub struct ActiveSet {
    lives: Zipf,
    active: Vec<Life>,
    random: Random,
}

/// The shape of an [`ActiveSet`].
#[derive(Clone, Copy, Debug)]
pub struct ActiveSetConfig {
    /// How many keys are active at a time.
    pub active: u32,
    /// How often the longest-lived keys appear.
    pub most: u32,
    /// How much rarer long lives are than short ones: the exponent of their Zipfian law.
    pub exponent: f64,
}

/// As published, 128 Ki keys. A key appears 60 times on average, about as in the data on which
/// the telescoping filter was evaluated (57).
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

/// The probability to be accepted at the very beginning, of that in the middle: without it, no
/// key would ever begin.
const FLOOR: f64 = 1.0 / 16.0;

impl Life {
    fn new(lives: &Zipf, random: &mut Random) -> Self {
        let limit = lives.sample(random) as u32 + 1;
        Self { key: random.random(), appearances: 0, limit }
    }

    /// What an active key is at a random time. Long lives are met more often than they begin, and
    /// a key stays at an age for the longer, the less popular it is then.
    fn met(config: ActiveSetConfig, sizes: &Zipf, random: &mut Random) -> Self {
        loop {
            // With `sizes`, in proportion to the length of a life and how often such ones begin.
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

    /// The bell over the life: a parabola, which is what makes growth logistic.
    fn popularity(&self) -> f64 {
        let lived = f64::from(self.appearances) / f64::from(self.limit);
        FLOOR + (1.0 - FLOOR) * 4.0 * lived * (1.0 - lived)
    }
}

impl ActiveSet {
    /// The stream of a shape and a seed. It begins with keys in the middle of their lives, as if it
    /// had been running for long.
    ///
    /// # Errors
    ///
    /// If there are no active keys or no appearances, or the exponent is none of a Zipfian law.
    pub fn new(config: ActiveSetConfig, seed: u64) -> Result<Self, Invalid> {
        some("the number of active keys", config.active.into())?;
        some("the most appearances", config.most.into())?;
        let lives = Zipf::new(config.most.into(), config.exponent)?;
        let mut random = random(seed, "active set");
        // Sizes by `k^(1 - exponent)`; of a law that grows, an even one is thinned out.
        let sizes = Zipf::new(config.most.into(), (config.exponent - 1.0).max(0.0))?;
        let active = (0..config.active).map(|_| Life::met(config, &sizes, &mut random)).collect();
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

    /// When each key appeared.
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
        // Those who were there when it began had lived before, as much as those at its end will.
        let mean = 3_000_000.0 / (keys.len() - 1000) as f64;
        let sum = |exponent| (1..=170).map(|life| f64::from(life).powf(exponent)).sum::<f64>();
        let wanted = sum(0.5) / sum(-0.5);
        assert!((wanted - 60.2).abs() < 0.05 && (mean - wanted).abs() < 1.0, "{mean}");
        assert!(keys.values().all(|times| times.len() <= 170));
    }

    #[test]
    fn keys_go_at_the_same_rate_from_the_beginning_on() {
        const PART: usize = 20_000;
        for exponent in [0.5, 1.5] {
            let mut deaths = [0_u32; 10];
            for seed in 1..=4 {
                let stream = ActiveSet::new(ActiveSetConfig { exponent, ..SMALL }, seed).unwrap();
                // Who isn't seen for that long has gone.
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
    fn the_set_evolves_without_end() {
        let mut stream = ActiveSet::new(SMALL, 2).unwrap().map(|datum| datum.key);
        let early = appearances(stream.by_ref().take(100_000));
        let late = appearances(stream.skip(1_000_000).take(100_000));
        assert!(early.keys().all(|key| !late.contains_key(key)), "who went comes back");
        assert!(late.len() > 1000);
    }

    #[test]
    fn popularity_over_time_is_a_bell() {
        let keys = appearances(ActiveSet::new(SMALL, 3).unwrap().take(3_000_000).map(|d| d.key));
        let mut fifths = [0_u32; 5];
        for times in keys.values().filter(|times| times.len() >= 100) {
            let (first, last) = (times[0], times[times.len() - 1]);
            // Who were there when it began, or still are at its end, weren't seen whole.
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
    fn the_published_set_is_large_and_its_bits_are_biased() {
        let data: Vec<_> =
            ActiveSet::new(ActiveSetConfig::default(), 4).unwrap().take(2_000_000).collect();
        let distinct = appearances(data.iter().map(|datum| datum.key)).len();
        assert!((100_000..200_000).contains(&distinct), "{distinct}");
        assert_bits_are_biased(&data);
    }

    #[test]
    fn nonsense_is_refused() {
        for config in [
            ActiveSetConfig { active: 0, ..SMALL },
            ActiveSetConfig { most: 0, ..SMALL },
            ActiveSetConfig { exponent: -1.0, ..SMALL },
        ] {
            assert!(ActiveSet::new(config, 1).is_err());
        }
    }
}
