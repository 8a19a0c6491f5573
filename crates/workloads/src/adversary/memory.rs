use rand::RngExt;

use crate::random::Random;

/// Keys that have been mistakes, so many at most: when it is full, a random one is forgotten.
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

    pub(super) fn some(&self, random: &mut Random) -> Option<u64> {
        (!self.keys.is_empty()).then(|| self.keys[random.random_range(0..self.keys.len())])
    }

    /// So many different ones, or all.
    pub(super) fn several(&self, count: usize, random: &mut Random) -> Vec<u64> {
        if self.keys.is_empty() {
            return Vec::new();
        }
        // They are in no order, so neighbours are as good as any.
        let start = random.random_range(0..self.keys.len());
        self.keys.iter().cycle().skip(start).take(count.min(self.keys.len())).copied().collect()
    }
}
