//! Limits of what waits for its cost.

use phasemeter_meter::units::Nanos;

/// Limits of what waits, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of spans that wait, and as many of those that left, until their cost is final.
    pub max_bytes: usize,
    /// How long a span waits for its cost. Then it leaves without, and its cost follows.
    pub max_wait: Nanos,
    /// How long after an instant its spans can arrive. Spans that arrive later share none of its cost
    /// with those that arrived in time.
    pub allowed_lateness: Nanos,
    /// How long time without a span is open to spans that arrive late.
    pub history: Nanos,
    /// Time slices of a GPU that are open.
    pub max_open_slices: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
            max_wait: Nanos::from_secs(120),
            allowed_lateness: Nanos::from_secs(30),
            history: Nanos::from_secs(3_600),
            max_open_slices: 8_192,
        }
    }
}
