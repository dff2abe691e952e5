//! What the command of a live run sends: its spans are priced.
//!
//! Must not depend on how requests are received.

use std::sync::mpsc::{Receiver, TryRecvError};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;

use super::span_pricing::{GpuNumbers, SpanPricing};
use crate::gateway::{Metered, SpanSummary};
use crate::pipeline::{Pipeline, PipelineError};

/// The telemetry of a command.
pub(super) struct ReceivedTelemetry {
    metered: Receiver<Metered>,
    spans: Option<SpanPricing>,
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
    /// Takes what arrives in the channel, and prices the spans among it.
    pub(super) const fn new(metered: Receiver<Metered>, spans: Option<SpanPricing>) -> Self {
        Self { metered, spans }
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

    /// Takes what is left, once the receiver has stopped and the meters have finished.
    pub(super) fn finish(
        mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        now: Timestamp,
    ) -> Result<Option<SpanSummary>, PipelineError> {
        while let Ok(metered) = self.metered.recv() {
            self.take(metered, pipeline, gpus, now);
        }
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
            Metered::Metrics(_) => {}
            Metered::Spans(spans) => {
                if let Some(pricing) = &mut self.spans {
                    pricing.costs().add_gpus(gpus);
                    pricing.take(spans.at(pipeline.wall()), now);
                }
            }
        }
    }
}
