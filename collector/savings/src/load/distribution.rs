//! Time at each level of a load.

use phasemeter_meter::units::{Nanos, PPM};

/// Usual maximum number of levels: so many in each of six distributions, and those of the hours of the week, fit into
/// 256 KiB.
const MAX_LEVELS: usize = 6_000;

/// One percent of a GPU, in ppm.
const PERCENT: u64 = PPM as u64 / 100;

/// Time with one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLevel {
    /// The sum of the utilization of all GPUs in percent of one of them, rounded up.
    pub percent: u32,
    /// Time with this load.
    pub time: Nanos,
}

/// Counts means of one length by their load, in steps of one percent; of more if that is too many levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    /// Percent from one level to the next.
    step: u32,
    /// How many means each level has, from 0% on.
    counts: Vec<u32>,
    /// Maximum number of levels.
    max: usize,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new(MAX_LEVELS)
    }
}

impl Distribution {
    /// With at most so many levels.
    pub(super) const fn new(max: usize) -> Self {
        Self { step: 1, counts: Vec::new(), max }
    }

    /// Counts this many means of a load of `ppm` of one GPU.
    pub(super) fn add(&mut self, ppm: u64, means: u32) {
        let mut level = self.level(ppm);
        while level >= self.max {
            self.double_step();
            level = self.level(ppm);
        }
        if self.counts.len() <= level {
            self.counts.reserve_exact(level + 1 - self.counts.len());
            self.counts.resize(level + 1, 0);
        }
        self.counts[level] = self.counts[level].saturating_add(means);
    }

    /// The levels that have means, ascending, if each is of this length.
    pub(super) fn levels(&self, length: Nanos) -> impl Iterator<Item = LoadLevel> {
        let counted = (0..).zip(&self.counts).filter(|(_, means)| **means > 0);
        counted.map(move |(level, means): (u32, _)| LoadLevel {
            percent: level.saturating_mul(self.step),
            time: length.saturating_mul((*means).into()),
        })
    }

    /// Adds the means of another one.
    pub(super) fn merge(&mut self, other: &Self) {
        for (level, means) in (0_u64..).zip(&other.counts).filter(|(_, means)| **means > 0) {
            self.add(level * u64::from(other.step) * PERCENT, *means);
        }
    }

    /// Bytes that it has allocated.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
    }

    /// The level of a load, rounded up.
    fn level(&self, ppm: u64) -> usize {
        usize::try_from(ppm.div_ceil(PERCENT * u64::from(self.step))).unwrap_or(usize::MAX)
    }

    /// Joins levels in pairs, each at the higher load of both.
    fn double_step(&mut self) {
        let joined = 1 + self.counts.len().saturating_sub(1).div_ceil(2);
        let counts = std::mem::replace(&mut self.counts, vec![0; joined]);
        for (level, means) in counts.into_iter().enumerate() {
            let to = &mut self.counts[level.div_ceil(2)];
            *to = to.saturating_add(means);
        }
        self.step = self.step.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(distribution: &Distribution) -> Vec<(u32, u64)> {
        let levels = distribution.levels(Nanos::SECOND);
        levels.map(|level| (level.percent, level.time.0 / Nanos::SECOND.0)).collect()
    }

    #[test]
    fn loads_are_rounded_up_to_whole_percent() {
        let mut distribution = Distribution::default();
        for ppm in [0, 1, 10_000, 10_001, 2_345_678] {
            distribution.add(ppm, 3);
        }
        assert_eq!(levels(&distribution), [(0, 3), (1, 6), (2, 3), (235, 3)]);
    }

    #[test]
    fn many_levels_are_joined_at_the_higher_load() {
        let mut distribution = Distribution::default();
        for percent in [0, 1, 2, 3, 5_999, 6_000, 18_001] {
            distribution.add(percent * PERCENT, 1);
        }
        assert_eq!(levels(&distribution), [(0, 1), (4, 3), (6_000, 2), (18_004, 1)]);
        let mut merged = Distribution::default();
        merged.add(3 * PERCENT, 1);
        merged.merge(&distribution);
        assert_eq!(levels(&merged), [(0, 1), (4, 4), (6_000, 2), (18_004, 1)]);
        assert!(merged.counts.len() <= MAX_LEVELS);
    }
}
