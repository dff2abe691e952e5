//! Which GPUs a live run exports as hardware: those that no other run on this machine exports.

use std::time::{Duration, Instant};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use tracing::info;

use super::event::name as gpu_name;
use crate::pipeline::Pipeline;
use phasemeter_environment::slot::Slot;

/// Time between two attempts to take over GPUs.
const RETRY: Duration = Duration::from_secs(1);

/// The GPUs that this run exports as hardware; without a slot, all.
#[derive(Default)]
pub struct HardwareExport {
    slot: Option<Slot>,
    /// GPUs that other runs export.
    of_others: Vec<usize>,
    tried: Option<Instant>,
}

impl HardwareExport {
    /// Exports what is free, by this slot.
    pub fn new(slot: Option<Slot>) -> Self {
        Self { slot, ..Self::default() }
    }

    /// A GPU has joined the pipeline.
    pub fn join(&mut self, gpu: usize, identity: &GpuIdentity, pipeline: &mut Pipeline<'_>) {
        let Some(slot) = &mut self.slot else { return };
        if !slot.take_gpu(identity.key()) {
            pipeline.export_hardware_after(gpu, Timestamp::LAST);
            self.of_others.push(gpu);
            let name = gpu_name(Some(identity));
            info!(gpu, "{name}: another run on this machine exports it as hardware (hw.*)");
        }
    }

    /// Takes over GPUs of runs that have ended. Call it often.
    pub fn step(&mut self, gpus: &[GpuIdentity], now: Timestamp, pipeline: &mut Pipeline<'_>) {
        let Some(slot) = self.slot.as_mut().filter(|_| !self.of_others.is_empty()) else { return };
        if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return;
        }
        self.tried = Some(Instant::now());
        self.of_others.retain(|gpu| {
            let is_taken = gpus.get(*gpu).is_some_and(|identity| slot.take_gpu(identity.key()));
            if is_taken {
                // What waits for export from before was exported by the other run.
                pipeline.export_hardware_after(*gpu, now);
                let name = gpu_name(gpus.get(*gpu));
                info!(gpu, "{name}: this run exports it as hardware (hw.*) from now on");
            }
            !is_taken
        });
    }
}
