//! Jobs whose GPUs wait for input, and how faster loading changes that.
//!
//! The GPU is busy for the share of a period in which it has input, so that its throughput is that of the
//! input, until it is busy all the time.

use crate::assumptions as assume;
use crate::prng::Prng;
use crate::trace::Work;

/// Why input is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Too few workers, with idle cores.
    Workers,
    /// Preprocessing, with all cores busy.
    Preprocessing,
    Storage,
    /// Time per batch varies.
    Variation,
    Other,
}

/// Waiting for input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    /// Share of a period with input.
    pub(crate) busy: f64,
    pub(crate) period: f64,
    cause: Cause,
    /// How many times as fast: more workers, more reads, on the GPU, local reads, a deeper queue.
    gains: [f64; 5],
    decode_cost: f64,
    residual: f64,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faster {
    Workers,
    Decode,
    Storage,
    Prefetch,
}

impl Input {
    pub(crate) fn draw(prng: &mut Prng) -> Self {
        let causes =
            [Cause::Workers, Cause::Preprocessing, Cause::Storage, Cause::Variation, Cause::Other];
        let cause = causes.get(prng.weighted(&assume::INPUT_CAUSES)).copied();
        let cause = cause.unwrap_or(Cause::Other);
        // Shards take longer to open than samples take to decode.
        let period = if cause == Cause::Storage { (10.0, 60.0) } else { (6.0, 40.0) };
        Self {
            busy: prng.within((0.2, 0.85)),
            period: prng.log_within(period),
            cause,
            gains: [
                prng.log_within(assume::MORE_WORKERS),
                prng.within(assume::MORE_READS),
                prng.within(assume::DECODE_ON_GPU),
                prng.log_within(assume::LOCAL_READS),
                prng.within(assume::DEEPER_QUEUE),
            ],
            decode_cost: prng.within(assume::DECODE_COST),
            residual: prng.within(assume::RESIDUAL_WAIT),
        }
    }

    pub(crate) fn work(&self) -> Work {
        Work::Waves { period: self.period, busy: self.busy }
    }

    /// Share of the time that the same work no longer takes; 0 if the change is taken back.
    pub(crate) fn saved(&self, faster: Faster) -> f64 {
        let [workers, reads, decode, local, queue] = self.gains;
        let (gain, cost) = match (faster, self.cause) {
            (Faster::Workers, Cause::Workers) => (workers, 0.0),
            (Faster::Workers, Cause::Storage) => (reads, 0.0),
            (Faster::Decode, Cause::Workers | Cause::Preprocessing) => (decode, self.decode_cost),
            (Faster::Storage, Cause::Storage) => (local, 0.0),
            (Faster::Prefetch, Cause::Variation) => (queue, 0.0),
            _ => (1.0, 0.0),
        };
        if gain <= 1.0 {
            return 0.0;
        }
        // Per period of work: its input then takes 1 ÷ gain, its computation `busy`.
        let computes = self.busy * (1.0 + cost);
        let after = f64::max(1.0 / gain, computes / (1.0 - self.residual));
        (1.0 - after).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cause_of_a_wait_can_be_removed_and_no_more_than_the_wait() {
        let input = |cause, gain| Input {
            busy: 0.4,
            period: 10.0,
            cause,
            gains: [gain; 5],
            decode_cost: 0.1,
            residual: 0.0,
        };
        let saved =
            |cause, gain, faster| (input(cause, gain).saved(faster) * 1_000.0).round() as i64;
        assert_eq!(saved(Cause::Workers, 2.0, Faster::Workers), 500);
        assert_eq!(saved(Cause::Workers, 8.0, Faster::Workers), 600);
        assert_eq!(saved(Cause::Workers, 8.0, Faster::Decode), 560);
        assert_eq!(saved(Cause::Preprocessing, 8.0, Faster::Workers), 0);
        assert_eq!(saved(Cause::Storage, 2.0, Faster::Storage), 500);
        assert_eq!(saved(Cause::Other, 8.0, Faster::Decode), 0);
    }
}
