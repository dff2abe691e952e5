//! The state of one GPU of the demo fleet, step by step.

use std::iter::Cycle;
use std::slice::Iter;

use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Timestamp, Utilization,
};

use super::prng::Prng;
use super::workloads::{DemoState, Stage, away};

/// The first reading, 2026-07-27T00:00:00Z, in milliseconds since the epoch.
pub(super) const START_MILLIS: u64 = 1_785_110_400_000;
/// Time between two readings of a GPU: 10 Hz.
pub(super) const STEP_MILLIS: u64 = 100;
/// Time between two utilization measurements of the driver; the value is constant in between.
pub(super) const DRIVER_WINDOW_MILLIS: u64 = 167;
/// Steps per second.
pub(super) const STEPS_PER_SECOND: u32 = 10;

/// The state of one GPU.
pub(super) struct DemoGpu {
    stages: Cycle<Iter<'static, Stage>>,
    stage: Stage,
    /// The step at which the stage ends.
    stage_end: u32,
    /// Determines the duration of stages. All GPUs use the same seed, so that those of one workload
    /// wait and work together.
    schedule: Prng,
    /// Determines the measured values. Every GPU has its own seed.
    noise: Prng,
    /// The last measured utilization, in percent.
    percent: u32,
    /// In milliwatts.
    power: u32,
    /// In thousandths of a degree Celsius.
    temperature: u32,
    /// In microjoules, since the driver was loaded some weeks ago.
    energy: u64,
}

impl DemoGpu {
    pub(super) fn new(seed: u64, number: u64, cycle: &'static [Stage]) -> Self {
        let mut noise = Prng(seed ^ (number << 32));
        Self {
            stages: cycle.iter().cycle(),
            stage: away(1, DemoState::Unpolled),
            stage_end: 0,
            schedule: Prng(seed),
            percent: 0,
            power: 72_000,
            temperature: 30_000,
            energy: u64::from(noise.within((1_000, 4_000))) * 1_000_000_000_000,
            noise,
        }
    }

    /// Advances to this step and returns its reading, if any.
    pub(super) fn read(&mut self, step: u32) -> Option<Reading> {
        if step == self.stage_end {
            self.stage = *self.stages.next()?;
            self.stage_end += self.schedule.within(self.stage.seconds) * STEPS_PER_SECOND;
        }
        let millis = u64::from(step) * STEP_MILLIS;
        self.advance(millis);
        let reading = Reading::at(Timestamp::default() + Nanos::from_millis(START_MILLIS + millis));
        match self.stage.state {
            DemoState::Responding => Some(self.with_values(reading)),
            DemoState::Lost => Some(Reading { utilization: Err(MissingReason::Lost), ..reading }),
            DemoState::Unpolled => None,
        }
    }

    /// Updates the values by one step: power follows utilization within about a second, as the
    /// driver's own average does; temperature follows power within about half a minute.
    fn advance(&mut self, millis: u64) {
        if millis % DRIVER_WINDOW_MILLIS < STEP_MILLIS {
            self.percent = self.noise.within(self.stage.percent);
        }
        let context = if self.has_process() { 43_000 } else { 0 };
        let target = 72_000 + context + 5_450 * self.percent + self.noise.within((0, 4_000));
        self.power = (7 * self.power + target) / 8;
        self.temperature = (255 * self.temperature + 26_000 + self.power / 18) / 256;
        self.energy += u64::from(self.power) * STEP_MILLIS;
    }

    fn has_process(&self) -> bool {
        self.stage.memory > 0
    }

    fn with_values(&self, reading: Reading) -> Reading {
        // The clock is at its maximum while a process exists, and drops near the power limit.
        let above = self.power.saturating_sub(600_000) / 10_000;
        let sm_clock = if self.has_process() { 1_980 - 15 * above } else { 345 };
        Reading {
            utilization: Utilization::from_percent(self.percent).ok_or(MissingReason::Unreadable),
            memory_used: Bytes::from_mebibytes(self.stage.memory),
            compute_processes: Some(self.has_process().into()),
            power: Milliwatts::new(self.power),
            energy: Some(Millijoules(self.energy / 1_000)),
            temperature: i16::try_from(self.temperature / 1_000).ok().map(Celsius),
            sm_clock: Some(Megahertz(sm_clock)),
            memory_clock: Some(Megahertz(2_619)),
            ..reading
        }
    }
}
