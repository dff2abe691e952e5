//! What the sampler observes, on its way to the meters.

use std::sync::atomic::Ordering;

use phasemeter_engine::live::event as live_event;
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::reorder::LateReading;
use phasemeter_sources::live::{ComputeProcess, Observation, Observed};

use super::Live;

impl Live {
    /// Takes what the sampler has observed of a GPU to its meter.
    pub(super) fn process(&mut self, observation: Observation) -> Result<(), PipelineError> {
        let Observation { gpu, observed } = observation;
        let Some(gpu) = self.places.get(gpu).copied() else { return Ok(()) };
        self.seen.iter_mut().for_each(|seen| seen.note(gpu, &observed));
        if let Some(agent) = &mut self.agent {
            agent.observe(gpu, &observed, self.clock.now());
        }
        let of = (gpu, self.gpus.get(gpu).and_then(|it| it.model.as_deref()));
        let seen = (&observed, self.clock.now());
        let uses = self.mig.observe(of, seen, self.agent.is_none(), &mut self.pipeline);
        if let Some(agent) = &mut self.agent {
            agent.observe_instances(gpu, uses);
        }
        match observed {
            Observed::Reading(reading) => {
                let accepted = self.pipeline.ingest(gpu, &reading, &self.gpus)?;
                let is_late = |late: &_| !matches!(late, LateReading::BeforeStart { .. });
                let late = accepted.as_ref().err().filter(|late| is_late(late));
                self.late.fetch_add(u64::from(late.is_some()), Ordering::Relaxed);
            }
            Observed::Interval(interval) => {
                self.pipeline.ingest_interval(gpu, interval);
            }
            Observed::Activity(activity) => {
                let is_mig = self.gpus.get(gpu).is_some_and(GpuIdentity::is_in_mig_mode);
                for interval in activity.intervals() {
                    // The driver reports no other utilization in MIG mode.
                    if is_mig && interval.basis == Basis::GpmSm {
                        self.pipeline.ingest_interval_of_parts(gpu, interval);
                    } else {
                        self.pipeline.ingest_interval(gpu, interval);
                    }
                }
                for metric in activity.device_metrics() {
                    self.pipeline.export_metric(gpu, metric);
                }
            }
            Observed::DeviceMetric(metric) => self.pipeline.export_metric(gpu, metric),
            Observed::Process(ComputeProcess { pid, .. }) => {
                self.kinds.note(gpu, pid);
                if let Some(telemetry) = &mut self.telemetry {
                    telemetry.note_process(gpu, pid, &self.gpus);
                }
            }
            // Taken above.
            Observed::ProcessUse(_) | Observed::MigInstance(_) => {}
            Observed::MigMode(enabled) => {
                if let Some(gpu) = self.gpus.get_mut(gpu)
                    && gpu.set_mig_mode(enabled)
                {
                    live_event::log_mig_mode(gpu, enabled);
                }
            }
            Observed::Event(event) => {
                let at = self.clock.now();
                self.events.record(&mut self.pipeline, &self.gpus, gpu, event, at)?;
            }
        }
        Ok(())
    }
}
