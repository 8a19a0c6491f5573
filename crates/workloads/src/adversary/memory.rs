use rand::RngExt;

use crate::random::Random;

/// A bounded set of keys that were mistakes; when full, a new key replaces a random one.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    keys: Vec<u64>,
    capacity: usize,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Self {
        Self { keys: Vec::new(), capacity }
    }

    pub(super) fn note(&mut self, key: u64, random: &mut Random) {
        if self.keys.len() < self.capacity {
            self.keys.push(key);
        } else {
            let at = random.random_range(0..self.keys.len());
            self.keys[at] = key;
        }
    }

    pub(super) fn sample(&self, random: &mut Random) -> Option<u64> {
        (!self.keys.is_empty()).then(|| self.keys[random.random_range(0..self.keys.len())])
    }

    /// Returns `count` different keys, or all if there are fewer.
    pub(super) fn samples(&self, count: usize, random: &mut Random) -> Vec<u64> {
        if self.keys.is_empty() {
            return Vec::new();
        }
        // The keys are in random order, so consecutive ones are a random choice.
        let start = random.random_range(0..self.keys.len());
        self.keys.iter().cycle().skip(start).take(count.min(self.keys.len())).copied().collect()
    }
}
