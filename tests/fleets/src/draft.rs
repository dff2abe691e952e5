//! What the generators of jobs start from, and what they return.

use crate::offer::Offer;
use crate::prng::Prng;
use crate::trace::Trace;

/// The start of a fleet.
pub(crate) struct Draft {
    pub(crate) offer: &'static Offer,
    /// Decides what the job is.
    pub(crate) prng: Prng,
    /// Varies the readings.
    pub(crate) noise: Prng,
}

/// A job with its traces.
pub(crate) struct Generated<J> {
    /// Seconds between readings.
    pub(crate) interval: f64,
    /// One per GPU, instance by instance.
    pub(crate) traces: Vec<Trace>,
    pub(crate) job: J,
}

impl<J> Generated<J> {
    pub(crate) fn map<K>(self, job: impl FnOnce(J) -> K) -> Generated<K> {
        let Self { interval, traces, job: own } = self;
        Generated { interval, traces, job: job(own) }
    }
}
