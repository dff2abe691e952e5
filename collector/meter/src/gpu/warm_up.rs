//! The first readings of a log, which wait until it is known how long a reading is valid.

use super::{GpuMeter, Observer};
use crate::reading::Reading;
use crate::staleness;

impl GpuMeter {
    /// Ingests a reading, or lets it wait.
    pub(super) fn ingest(&mut self, reading: &Reading, observer: &mut impl Observer) {
        match self.stale_after {
            Some(stale_after) if self.warmup.is_empty() => {
                self.advance(reading, stale_after, observer);
            }
            _ => self.warm_up(*reading, observer),
        }
    }

    /// Once `stale_after` is estimated, ingests two readings for each that arrives, until none waits: GPUs
    /// whose first readings ended the wait at once would reach many boundaries one GPU after another.
    #[inline(never)]
    fn warm_up(&mut self, reading: Reading, observer: &mut impl Observer) {
        self.warmup.push_back(reading);
        if self.warmup.len() == staleness::READINGS_NEEDED {
            let times = self.warmup.iter().map(|reading| reading.at);
            self.stale_after.get_or_insert_with(|| staleness::estimate(times));
        }
        let Some(stale_after) = self.stale_after else { return };
        for _ in 0..2 {
            if let Some(next) = self.warmup.pop_front() {
                self.advance(&next, stale_after, observer);
            }
        }
        if self.warmup.is_empty() {
            self.warmup.shrink_to_fit();
        }
    }
}
