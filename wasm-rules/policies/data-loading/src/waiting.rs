//! A GPU that waits for input, and how long it waits in each cycle.

use phasemeter_diagnoses::SIMILAR;
use phasemeter_policy::Gpu;

/// Readings in the shorter half of a cycle, so that it is seen. Two are the fewest that show both ends.
const READINGS_PER_HALF: f64 = 2.0;

/// Interval between readings, in seconds, up to which one in each half is enough: drivers report a mean of up to a second, so
/// that nothing is missed in between.
const WITHOUT_GAPS: f64 = 1.0;

/// A wait of this length empties a loader's queue, so that a deeper queue does not help. Loaders keep
/// two to four batches of up to a few seconds by default (PyTorch: two per worker).
const LONG_WAIT_SECONDS: f64 = 5.0;

/// Maximum memory use for decoding on the GPU, which needs a few GiB.
const MAX_MEMORY_TO_DECODE: f64 = 0.85;

/// A GPU that waits for input.
pub(crate) struct Waiting<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) lost: f64,
    pub(crate) period: f64,
    /// Share of a cycle in which it works.
    pub(crate) busy: f64,
}

impl Waiting<'_> {
    /// Seconds per wait.
    pub(crate) fn wait(&self) -> f64 {
        self.period * (1.0 - self.busy)
    }

    /// Whether readings are frequent enough to see each wait and each burst of work.
    pub(crate) fn is_seen(&self) -> bool {
        let shortest = f64::min(self.wait(), self.period * self.busy);
        let readings =
            |interval: f64| if interval <= WITHOUT_GAPS { 1.0 } else { READINGS_PER_HALF };
        let interval = self.gpu.activity.interval_seconds;
        interval.is_some_and(|interval| readings(interval) * interval <= shortest)
    }

    pub(crate) fn waits_long(&self) -> bool {
        self.wait() >= LONG_WAIT_SECONDS
    }

    /// Whether decoding fits into memory; `None` if memory was not recorded.
    pub(crate) fn can_decode(&self) -> Option<bool> {
        self.gpu.memory_share().map(|share| share <= MAX_MEMORY_TO_DECODE)
    }
}

/// Share of a cycle in which a GPU waits. `by_cycles` counts all that is not at high load, of the median cycle; the
/// time below 10% is exact, unless the GPU also works without waits.
pub(crate) fn waiting_share(gpu: &Gpu, by_cycles: f64) -> f64 {
    let accounts = &gpu.accounts;
    let all = accounts.observed().seconds + accounts.unobserved.seconds;
    let elsewhere = gpu.lost_idle() * all;
    let waits = f64::max(accounts.idle().seconds - elsewhere, 0.0);
    let share = waits / (waits + accounts.busy().seconds).max(1.0);
    if (share - by_cycles).abs() <= SIMILAR { share } else { by_cycles }
}
