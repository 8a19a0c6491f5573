//! Reproducible pseudo-random numbers.

/// The pseudo-random generator `SplitMix64`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a number above 0 and at most 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws a rank of at least 1 by Zipf's law with exponent 1.5. Uses Devroye's rejection method.
    pub(super) fn zipf(&mut self) -> u64 {
        const LESS_ONE: f64 = 0.5;
        let most = 2f64.powf(LESS_ONE);
        loop {
            let (u, v) = (self.unit(), self.unit());
            let rank = u.powf(-1.0 / LESS_ONE).floor();
            let next = (1.0 + 1.0 / rank).powf(LESS_ONE);
            if v * rank * (next - 1.0) / (most - 1.0) <= next / most {
                return rank as u64;
            }
        }
    }
}
