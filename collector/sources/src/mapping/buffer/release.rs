//! The readings that have been held long enough.

use std::ops::Range;

use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::super::coverage::Coverage;
use super::super::held_gpu::{HeldGpu, HeldReading};
use super::super::instant::Instant;
use super::ReadingBuffer;

impl ReadingBuffer {
    /// Releases the readings that have been held long enough, in time order: no GPU is metered ahead of another.
    pub fn release(&mut self, now: Nanos) -> Vec<HeldReading> {
        self.release_until(0..self.gpus.len(), Some(now))
    }

    /// Releases the readings of a GPU that have been held long enough, by the arrival of its last value: no
    /// other GPU decides how long it is waited for.
    pub fn release_of(&mut self, gpu: usize) -> Vec<HeldReading> {
        let now = self.gpus.get(gpu).map(|gpu| gpu.arrived);
        self.release_until(gpu..gpu.saturating_add(1), now)
    }

    /// Releases all readings, at the end.
    pub fn release_all(&mut self) -> Vec<HeldReading> {
        self.release_until(0..self.gpus.len(), None)
    }

    /// GPUs whose time up to an instant is final, until another reading arrives: that of GPUs without a reading for
    /// long up to `at`, which is now, and that of GPUs that another meter bills.
    pub fn final_until(
        &self,
        now: Nanos,
        at: Timestamp,
    ) -> impl Iterator<Item = (usize, Timestamp)> {
        let final_until = move |gpu: &HeldGpu| {
            let stale_after = gpu.stale_after.unwrap_or_default();
            let is_silent = gpu.instants.is_empty() && gpu.arrived + self.hold + stale_after < now;
            if is_silent { Some(at) } else { gpu.elsewhere }
        };
        self.gpus
            .iter()
            .enumerate()
            .filter_map(move |(index, gpu)| Some((index, final_until(gpu)?)))
    }

    /// Releases the readings of these GPUs that are due at this time, in time order; all of them without one.
    fn release_until(&mut self, gpus: Range<usize>, now: Option<Nanos>) -> Vec<HeldReading> {
        let mut released = Vec::new();
        let nothing = Coverage::default();
        let hold = self.hold;
        let is_due = |instant: &Instant| {
            now.is_none_or(|now| instant.arrived.0.saturating_add(hold.0) <= now.0)
        };
        let of = self.gpus.iter_mut().enumerate().skip(gpus.start).take(gpus.len());
        for (index, gpu) in of {
            let Some(identity) = self.known.identity_mut(index) else { continue };
            let coverage = self.coverage.of(index).unwrap_or(&nothing);
            while let Some(first) = gpu.instants.first_entry()
                && is_due(first.get())
            {
                if !self.own_pods.is_empty() {
                    // Its first values may have come before it was known whose pod it is.
                    first.into_mut().remove_holders(|holder| self.own_pods.is(holder));
                }
                if gpu.stale_after.is_none() {
                    let readings = gpu.instants.iter().filter(|(_, it)| !it.is_of_holders());
                    let times: Vec<_> = readings.map(|(at, _)| *at).collect();
                    let estimated = match times.len() {
                        0 | 1 => self.hold.saturating_mul(3),
                        _ => staleness::estimate(times.into_iter()),
                    };
                    gpu.stale_after = Some(self.stale_after.unwrap_or(estimated));
                }
                let own_pods = &self.own_pods;
                released.extend(gpu.take_first(
                    index,
                    identity,
                    self.preferred,
                    (coverage, own_pods),
                ));
            }
        }
        released.sort_by_key(|held| held.reading.at);
        released
    }
}
