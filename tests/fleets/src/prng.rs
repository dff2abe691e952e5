//! Deterministic pseudorandom numbers.

/// splitmix64, whose whole state is its seed.
#[derive(Clone, Debug)]
pub(crate) struct Prng(u64);

/// Numbers from the first to the second, all equally likely.
pub(crate) type Uniform = (f64, f64);

impl Prng {
    /// The sequence of one part of a fleet.
    pub(crate) fn of(fleet: u64, part: u64) -> Self {
        let mut prng = Self(
            fleet.wrapping_mul(0xd134_2543_de82_ef95) ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        prng.next();
        prng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of the range.
    pub(crate) fn within(&mut self, (low, high): Uniform) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number of the range, whose logarithm is uniform.
    pub(crate) fn log_within(&mut self, (low, high): Uniform) -> f64 {
        self.within((low.ln(), high.ln())).exp()
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An index below `count`, which is above 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// The index of one of these weights.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_in_range_and_repeat() {
        let draw = || {
            let mut prng = Prng::of(7, 1);
            (0..1_000).map(|_| prng.within((2.0, 4.0))).collect::<Vec<_>>()
        };
        let drawn = draw();
        assert_eq!(drawn, draw());
        assert!(drawn.iter().all(|value| (2.0..4.0).contains(value)));
        let mean = drawn.iter().sum::<f64>() / 1_000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        let mut prng = Prng::of(7, 2);
        let second = (0..1_000).filter(|_| prng.weighted(&[1.0, 3.0]) == 1).count();
        assert!((700..800).contains(&second), "{second}");
    }
}
