//! What the command of a live run sends: its spans are priced, its work is counted.
//!
//! Must not depend on how requests are received.

use std::sync::mpsc::{Receiver, TryRecvError};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_workload::held::WorkDone;

use super::span_pricing::{GpuNumbers, SpanPricing};
use crate::gateway::{CounterIntake, Metered, SpanSummary};
use crate::pipeline::{Pipeline, PipelineError};

/// The telemetry of a command.
pub(super) struct ReceivedTelemetry {
    metered: Receiver<Metered>,
    spans: Option<SpanPricing>,
    counters: CounterIntake,
    /// Work that was counted and not taken.
    work: Vec<WorkDone>,
}

/// GPUs are found by the pipeline.
struct SameNumbers;

impl GpuNumbers for SameNumbers {
    fn number(&self, gpu: usize) -> Option<usize> {
        Some(gpu)
    }

    fn metered(&self, gpu: usize) -> Option<usize> {
        Some(gpu)
    }
}

impl ReceivedTelemetry {
    /// Takes what arrives in the channel.
    pub(super) const fn new(
        metered: Receiver<Metered>,
        spans: Option<SpanPricing>,
        counters: CounterIntake,
    ) -> Self {
        Self { metered, spans, counters, work: Vec::new() }
    }

    /// Takes all that is left, once the receiver has stopped.
    pub(super) fn take_rest(
        &mut self,
        pipeline: &Pipeline<'_>,
        gpus: &[GpuIdentity],
        now: Timestamp,
    ) {
        while let Ok(metered) = self.metered.recv() {
            self.take(metered, pipeline, gpus, now);
        }
    }

    /// Takes the work that was counted.
    pub(super) fn take_work(&mut self) -> Vec<WorkDone> {
        std::mem::take(&mut self.work)
    }

    /// Takes what arrived since the last call, and prices the spans whose cost is final.
    pub(super) fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        now: Timestamp,
    ) -> Result<(), PipelineError> {
        while !self.spans.as_ref().is_some_and(SpanPricing::is_full) {
            match self.metered.try_recv() {
                Ok(metered) => self.take(metered, pipeline, gpus, now),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        match self.spans.as_mut().filter(|it| it.is_due()) {
            Some(spans) => spans.advance(pipeline, &SameNumbers, now),
            None => Ok(()),
        }
    }

    /// Prices the spans that are left, once the meters have finished.
    pub(super) fn finish(
        self,
        pipeline: &mut Pipeline<'_>,
    ) -> Result<Option<SpanSummary>, PipelineError> {
        self.spans.map(|spans| spans.finish(pipeline, &SameNumbers)).transpose()
    }

    fn take(
        &mut self,
        metered: Metered,
        pipeline: &Pipeline<'_>,
        gpus: &[GpuIdentity],
        now: Timestamp,
    ) {
        match metered {
            Metered::Metrics(received) => {
                // It was decoded before it was accepted.
                let Ok(request) = received.decode() else { return };
                let wall = pipeline.wall();
                let done = self.counters.take(&request).into_iter();
                self.work.extend(done.map(|it| WorkDone { at: wall.instant(it.at), ..it }));
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
