//! GPUs that join a live run, and those of a run that goes on.

use std::sync::Arc;

use phasemeter_engine::live::event as live_event;
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_meter::holder::{Grant, Share};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{EventKind, GpuEvent};
use phasemeter_sources::live::OpenDriver;
use tracing::warn;

use super::Live;
use crate::command::gpus::{ArrivedGpu, BilledFrom};

impl Live {
    /// Goes on with the GPUs of a run that was killed, of which the pipeline has all that is known.
    pub(in crate::command) fn resume(&mut self, gpus: Vec<GpuIdentity>, until: Timestamp) {
        for identity in gpus {
            self.hardware.join(self.gpus.len(), &identity, &mut self.pipeline);
            self.agent.iter_mut().for_each(|agent| agent.join(&identity));
            self.gpus.push(identity);
        }
        let seconds = self.clock.now().since(until).as_secs_f64();
        self.notes.push(format!(
            "the process was killed and started again; {seconds:.1} s in between are unobserved"
        ));
    }

    /// Meters one more GPU.
    pub(in crate::command) fn join(&mut self, gpu: ArrivedGpu) {
        let ArrivedGpu { identity, driver, billed_from } = gpu;
        let uuid = identity.uuid.clone().unwrap_or_default();
        let known = self.gpus.iter().position(|gpu| gpu.key() == identity.key());
        if let Some(place) = known.filter(|place| !self.places.contains(place)) {
            self.pipeline.divide_into_parts(place, identity.is_in_mig_mode());
            self.gpus.splice(place..=place, [identity]);
            return self.sample(place, uuid, driver);
        }
        let start = match billed_from {
            BilledFrom::Start => self.start,
            BilledFrom::Now if self.agent.is_some() => self.clock.now().ceil_second(),
            BilledFrom::Now => self.clock.now(),
        };
        self.pipeline.add(&identity, start);
        self.hardware.join(self.gpus.len(), &identity, &mut self.pipeline);
        if identity.is_in_mig_mode() {
            live_event::log_mig_mode(&identity, true);
            self.pipeline.divide_into_parts(self.gpus.len(), true);
        }
        let grants = driver.grants(&uuid);
        if !grants.is_empty() {
            if is_part(&grants) {
                self.pipeline.hold_part(self.gpus.len());
                self.notes.push(format!(
                    "this pod has a part of {}: its spans have that part of time and cost, by what is granted; alerts \
                     and recommendations about it are those of the agent of the node",
                    live_event::name(Some(&identity))
                ));
            }
            self.pipeline.assign(self.gpus.len(), start, grants);
        }
        self.agent.iter_mut().for_each(|agent| agent.join(&identity));
        self.gpus.push(identity);
        self.sample(self.gpus.len() - 1, uuid, driver);
    }

    /// Samples the GPU at this place.
    fn sample(&mut self, gpu: usize, uuid: String, driver: Arc<dyn OpenDriver>) {
        self.places.push(gpu);
        if let Err(error) = self.sampler.add(uuid, driver) {
            let name = self.name(gpu);
            warn!(gpu, "{name} is unobserved until a thread can be started: {error}");
        }
    }

    /// Meters one more GPU while the run lasts, and reports it as an event.
    pub(in crate::command) fn join_late(&mut self, gpu: ArrivedGpu) -> Result<(), PipelineError> {
        let (billed_from, at) = (gpu.billed_from, self.clock.now());
        self.join(gpu);
        let Some(gpu) = self.places.last().copied() else { return Ok(()) };
        let (kind, body) = match billed_from {
            BilledFrom::Start => (EventKind::Recovered, "GPU responds; unobserved until now"),
            BilledFrom::Now => {
                (EventKind::Joined, "GPU is listed by the driver for the first time")
            }
        };
        if billed_from == BilledFrom::Now {
            let passed = at.since(self.start).as_secs_f64();
            let name = self.name(gpu);
            self.notes.push(format!("{name} was added {passed:.0} s after the start"));
        }
        self.pipeline.emit_event(gpu, &GpuEvent { at, kind, body: body.to_owned() })
    }
}

/// Whether these grants are known to be less than the whole GPU.
fn is_part(grants: &[Grant]) -> bool {
    let shares: Option<Vec<Share>> = grants.iter().map(|grant| grant.share).collect();
    shares.and_then(Share::sum).is_some_and(|sum| sum != Share::WHOLE)
}
