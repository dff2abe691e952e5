//! The instants of a log: the values of each GPU at each, without those whose clock is far ahead.
//!
//! Each GPU has a clock of its own, so that a wrong one rejects no value of another.

use std::collections::{BTreeMap, VecDeque};

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::log::clock_jump::{self, Clock, ClockJump, Rejection, Timed};
use phasemeter_sources::mapping::{GpuId, GpuValue, SAME_INSTANT};

/// Instants that are kept, while it is unknown whether the first one of a GPU is far ahead.
const MAX_UNDECIDED: usize = 1_024;

/// Maximum number of GPUs with a clock. Labels come from anywhere.
const MAX_CLOCKS: usize = 4_096;

/// A value with its line.
pub(super) type ValueOfLine = (u64, GpuValue);

/// Values by instant.
pub(super) struct GpuInstants {
    /// By how much a value may be earlier than one before it.
    allowed_lateness: Nanos,
    clocks: BTreeMap<GpuId, Clock<Instant>>,
    /// Number of clocks that may still reject their first instant.
    undecided: usize,
    /// Number of instants so far.
    count: u64,
    /// Instants that follow those before.
    ready: VecDeque<Instant>,
}

/// The values of a GPU at one instant.
struct Instant {
    at: Timestamp,
    /// Its place among the instants of the log.
    place: u64,
    values: Vec<ValueOfLine>,
}

impl Timed for Instant {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn line(&self) -> u64 {
        self.place
    }
}

impl GpuInstants {
    /// No instants yet. A value may be this much earlier than one of its GPU before it.
    pub(super) const fn new(allowed_lateness: Nanos) -> Self {
        Self {
            allowed_lateness,
            clocks: BTreeMap::new(),
            undecided: 0,
            count: 0,
            ready: VecDeque::new(),
        }
    }

    /// Adds values in time order. Passes lines that are rejected, each with the reason.
    pub(super) fn add(&mut self, values: Vec<ValueOfLine>, mut reject: impl FnMut(u64, ClockJump)) {
        for (at, values) in split(values) {
            self.count += 1;
            let rejected = self.resolve(Instant { at, place: self.count, values });
            rejected.iter().for_each(|rejection| each_line(rejection, &mut reject));
        }
    }

    /// Ends the log: instants that were not confirmed are rejected.
    pub(super) fn finish(&mut self, mut reject: impl FnMut(u64, ClockJump)) {
        self.undecided = 0;
        let clocks = std::mem::take(&mut self.clocks).into_values().collect();
        let rejected = clock_jump::finish(clocks, &mut self.ready);
        rejected.iter().for_each(|rejection| each_line(rejection, &mut reject));
    }

    /// The values of the next instant of a GPU; `None` if it is not decided yet whether they count.
    pub(super) fn next(&mut self) -> Option<Vec<ValueOfLine>> {
        let is_decided = self.undecided == 0 || self.ready.len() >= MAX_UNDECIDED;
        let instant = if is_decided { self.ready.pop_front() } else { None };
        instant.map(|instant| instant.values)
    }

    /// Appends an instant to those that are ready, unless the clock of its GPU is far ahead. Returns the
    /// instants that are rejected by it.
    fn resolve(&mut self, instant: Instant) -> Vec<Rejection<Instant>> {
        let Some((_, first)) = instant.values.first() else { return Vec::new() };
        if !self.clocks.contains_key(&first.gpu.id) {
            if self.clocks.len() >= MAX_CLOCKS {
                self.ready.push_back(instant);
                return Vec::new();
            }
            self.clocks.insert(first.gpu.id.clone(), Clock::new(None, self.allowed_lateness));
        }
        let Some(clock) = self.clocks.get_mut(&first.gpu.id) else { return Vec::new() };
        let was_undecided = !clock.knows_first();
        let rejected = clock.resolve(instant, &mut self.ready);
        self.undecided += usize::from(!clock.knows_first());
        self.undecided -= usize::from(was_undecided);
        rejected
    }
}

/// Whether two times are of one instant.
pub(super) fn is_same_instant(first: Timestamp, at: Timestamp) -> bool {
    first.since(at).max(at.since(first)) <= SAME_INSTANT
}

/// The values of each GPU at each instant, in time order.
fn split(mut values: Vec<ValueOfLine>) -> Vec<(Timestamp, Vec<ValueOfLine>)> {
    // Stable: utilization stays first.
    values.sort_by(|(_, a), (_, b)| a.gpu.id.cmp(&b.gpu.id));
    let mut instants: Vec<(Timestamp, Vec<ValueOfLine>)> = Vec::new();
    for (line, value) in values {
        match instants.last_mut() {
            Some((at, known))
                if is_same_instant(*at, value.at)
                    && known.first().is_some_and(|(_, it)| it.gpu.id == value.gpu.id) =>
            {
                known.push((line, value));
            }
            _ => instants.push((value.at, vec![(line, value)])),
        }
    }
    instants.sort_by_key(|(at, _)| *at);
    instants
}

/// Passes each line of a rejected instant.
fn each_line((instant, jump): &Rejection<Instant>, reject: &mut impl FnMut(u64, ClockJump)) {
    let mut lines: Vec<u64> = instant.values.iter().map(|(line, _)| *line).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().for_each(|line| reject(line, *jump));
}
