//! What depends on the wall clock: windows, which have wall time, and steps of it.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::encode::ClockStep;
#[cfg(feature = "full")]
use phasemeter_otlp::experiment::Attributes;
use phasemeter_rules::window::Window;
#[cfg(feature = "full")]
use phasemeter_rules::workload::Workload;
use phasemeter_sources::clock::Step;

use super::{ExperimentState, Pipeline, PipelineError, in_order};
use crate::policies::{self, WindowGpu};

/// The attributes of a machine that identify it.
#[cfg(feature = "full")]
const HOST: [&str; 3] = ["host.name", "host.id", "host.type"];

impl Pipeline<'_> {
    /// The wall clock stepped: the sessions of all GPUs end, and new ones begin with the new wall time.
    /// Lengths do not change.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn step_wall_clock(&mut self, step: &Step) -> Result<(), PipelineError> {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::WallClock(*step));
        // At a whole second: no second is in two sessions, or it would be in two phases.
        let at = step.at.ceil_second();
        let (before, after) = (self.wall.offset(), WallOffset::between(step.at, step.after));
        self.wall.step(at, after);
        self.pricing.set_wall_clock(after);
        for gpu in &mut self.gpus {
            gpu.meter.step_wall_clock(at, after);
            // A price ends at a wall time, but not before this.
            let until = after.instant(before.wall(gpu.price_until));
            gpu.price_until = until.max(at);
        }
        if let Some(exporter) = &mut self.exporter {
            let event = ClockStep { seconds: step.seconds(), body: step.to_string() };
            exporter.step_wall_clock(at, after, &event);
        }
        self.send()
    }

    /// Sets local time, in seconds east of UTC, for hours of the week from now on.
    pub fn set_utc_offset(&mut self, offset: Option<i32>) {
        if self.meter.utc_offset != offset {
            #[cfg(feature = "full")]
            self.record(|_| super::Change::UtcOffset(offset));
            self.meter.utc_offset = offset;
            self.gpus.iter_mut().for_each(|gpu| gpu.meter.set_utc_offset(offset));
        }
    }

    /// Local time, in seconds east of the clock of the meters.
    pub(super) fn local_seconds(&self) -> i64 {
        let utc_offset = self.meter.utc_offset.unwrap_or_default();
        self.wall.offset().seconds().saturating_add(utc_offset.into())
    }

    /// Sets the machine of the GPUs that do not name theirs, for windows and recommendations: its
    /// `host.name`, `host.id` and `host.type` among these attributes.
    #[cfg(feature = "full")]
    pub fn set_host(&mut self, place: &Attributes) {
        let host = place.iter().filter(|(key, _)| HOST.contains(&key.as_str()));
        self.host = host.map(|(key, value)| (key.clone(), value.clone())).collect();
    }

    /// Sets the kind of the processes on a GPU, for windows.
    #[cfg(feature = "full")]
    pub fn set_processes(&mut self, gpu: usize, kind: Workload) {
        self.gpus.iter_mut().skip(gpu).take(1).for_each(|gpu| gpu.processes = kind);
    }

    /// The window of the run so far; `None` before the experiment is open.
    #[must_use]
    pub fn window(&mut self, identities: &[GpuIdentity], is_final: bool) -> Option<Window> {
        let ExperimentState::Open(experiment) = &self.experiment else { return None };
        let reached = self.gpus.iter().filter_map(|gpu| gpu.meter.reached()).max()?;
        let local = self.local_seconds();
        self.loads.add_up(&mut self.gpus, identities, reached, local, is_final);
        let mut load = self.loads.of_window(&self.gpus, identities);
        let own = self.gpus.iter().zip(identities).filter(|(gpu, _)| !gpu.is_part);
        let is_own = |name: &String| own.clone().any(|(_, identity)| identity.name == *name);
        load.retain(|load| load.gpus.iter().all(is_own));
        let gpus = own.clone().map(|(gpu, identity)| WindowGpu {
            identity,
            meter: &gpu.meter,
            memory_total: gpu.memory_total,
            price: gpu.price.as_ref().ok(),
            processes: gpu.processes,
            vanished: gpu.vanished,
        });
        let gpus = in_order(gpus.collect(), |gpu| gpu.identity);
        let window = policies::window(
            experiment,
            &gpus,
            &self.work,
            self.wall.offset(),
            self.meter.utc_offset,
            is_final,
        )?;
        let used = gpus.iter().filter_map(|gpu| {
            Some((gpu.identity.model.as_deref().unwrap_or_default(), gpu.price?))
        });
        let offers = self.pricing.offers(used, window.end);
        let mut window = Window { offers, load, ..window };
        for gpu in &mut window.gpus {
            for (key, value) in &self.host {
                gpu.attributes.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        Some(window)
    }
}
