//! What the command of a live run sends: its spans are priced, its work is counted.

use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_process::ProcessTable;
use phasemeter_sources::clock::wall_time;
use phasemeter_work::held::WorkDone;

use super::span_pricing::{GpuIndices, SpanPricing};
use super::{CounterIntake, Metered, SpanCosts, SpanSummary};
use crate::pipeline::{Pipeline, PipelineError};
use crate::work::WorkIntake;

/// The telemetry of a command.
pub struct CommandTelemetry {
    metered: Receiver<Metered>,
    spans: Option<SpanPricing>,
    counters: CounterIntake,
    /// Whether process IDs of the command are those that the driver has.
    has_host_pids: bool,
}

/// The indices of a run without a reorder buffer: those of the pipeline.
struct SameIndices;

impl GpuIndices for SameIndices {
    fn buffer_index(&self, gpu: usize) -> Option<usize> {
        Some(gpu)
    }

    fn pipeline_index(&self, gpu: usize) -> Option<usize> {
        Some(gpu)
    }
}

impl CommandTelemetry {
    /// Takes what arrives in the channel. `costs`: what prices spans, if any are to be.
    pub fn start(
        metered: Receiver<Metered>,
        costs: Option<SpanCosts>,
        counters: CounterIntake,
        pipeline: &mut Pipeline<'_>,
    ) -> Self {
        let spans = costs.map(|costs| SpanPricing::start(costs, pipeline));
        let has_host_pids = ProcessTable::at(Path::new(ProcessTable::OWN)).is_of_host();
        Self { metered, spans, counters, has_host_pids }
    }

    /// Notes that a process, by its ID on the host, uses a GPU.
    pub fn note_process(&mut self, gpu: usize, pid: u32, gpus: &[GpuIdentity]) {
        if let (true, Some(spans)) = (self.has_host_pids, &mut self.spans) {
            spans.costs().add_gpus(gpus);
            spans.costs().add_process(gpu, pid);
        }
    }

    /// Takes all that is left, once the receiver has stopped.
    pub fn take_rest(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        work: &mut WorkIntake,
        now: Timestamp,
    ) {
        while let Ok(metered) = self.metered.recv() {
            self.take(metered, pipeline, gpus, work, now);
        }
    }

    /// Takes what arrived since the last call, and prices the spans whose cost is final.
    pub fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        work: &mut WorkIntake,
        now: Timestamp,
    ) -> Result<(), PipelineError> {
        while !self.spans.as_ref().is_some_and(SpanPricing::is_full) {
            match self.metered.try_recv() {
                Ok(metered) => self.take(metered, pipeline, gpus, work, now),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        match self.spans.as_mut().filter(|it| it.is_due()) {
            Some(spans) => spans.advance(pipeline, &SameIndices, now),
            None => Ok(()),
        }
    }

    /// Prices the spans that are left, once the meters have finished. `None` if none are priced.
    ///
    /// # Errors
    /// Returns an error if a sink fails.
    pub fn finish(self, pipeline: &mut Pipeline<'_>) -> Result<Option<SpanSummary>, PipelineError> {
        self.spans.map(|spans| spans.finish(pipeline, &SameIndices)).transpose()
    }

    fn take(
        &mut self,
        metered: Metered,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        work: &mut WorkIntake,
        now: Timestamp,
    ) {
        match metered {
            Metered::Metrics(received) => {
                // It was decoded before it was accepted.
                let Ok(request) = received.decode() else { return };
                let wall = pipeline.wall();
                for done in self.counters.take(&request, wall_time()) {
                    let done = WorkDone { at: wall.instant(done.at), ..done };
                    work.record(pipeline, &done);
                }
            }
            Metered::Spans(spans) => {
                if let Some(pricing) = &mut self.spans {
                    pricing.costs().add_gpus(gpus);
                    pricing.take(spans.at(pipeline.wall()), now);
                }
            }
        }
    }
}
