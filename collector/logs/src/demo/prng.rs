//! Pseudorandom numbers that are the same on every machine.

/// Deterministic pseudorandom numbers: splitmix64, whose whole state is its seed.
pub(super) struct Prng(pub(super) u64);

impl Prng {
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniformly distributed in an inclusive range.
    pub(super) fn within(&mut self, (low, high): (u32, u32)) -> u32 {
        let span = u64::from(high.saturating_sub(low)) + 1;
        low + (((self.next_u64() >> 32) * span) >> 32) as u32
    }
}
