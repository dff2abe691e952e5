//! Charges spans and exports their cost.

use std::time::{Duration, Instant};

use phasemeter_meter::units::Timestamp;

use super::{FilteredSpans, SpanCosts, SpanSummary};
use crate::pipeline::{GpuCharge, Pipeline, PipelineError};

/// How often time is divided.
const INTERVAL: Duration = Duration::from_secs(1);

/// Spans that are priced while a command runs.
pub struct SpanPricing {
    costs: SpanCosts,
    /// When time is divided next.
    due: Instant,
}

/// The two indices of GPUs: spans are charged for those of the buffer, and the pipeline meters.
pub trait GpuIndices {
    /// The index in the buffer of a GPU of the pipeline.
    fn buffer_index(&self, pipeline_index: usize) -> Option<usize>;

    /// The index in the pipeline of a GPU of the buffer; `None` if it is not metered.
    fn pipeline_index(&self, buffer_index: usize) -> Option<usize>;
}

impl SpanPricing {
    /// Prices the spans that `costs` will take.
    pub fn start(costs: SpanCosts, pipeline: &mut Pipeline<'_>) -> Self {
        pipeline.log_charges();
        Self { costs, due: Instant::now() }
    }

    /// What spans cost, to add GPUs.
    pub const fn costs(&mut self) -> &mut SpanCosts {
        &mut self.costs
    }

    /// Whether so many spans are on their way that no more must be taken.
    pub fn is_full(&self) -> bool {
        self.costs.is_full()
    }

    /// Takes the spans of a request.
    pub fn take(&mut self, spans: FilteredSpans, now: Timestamp) {
        self.costs.take(spans, now);
    }

    /// Whether time should be divided.
    pub fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// Divides the time that is final.
    pub fn advance(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &impl GpuIndices,
        now: Timestamp,
    ) -> Result<(), PipelineError> {
        self.due = Instant::now() + INTERVAL;
        self.charge(pipeline, gpus);
        let priced = self.priced(pipeline, gpus);
        let mut exported = Ok(());
        self.costs.advance(now, &priced, &mut |costs| {
            if exported.is_ok() {
                exported = pipeline.export_span_costs(costs);
            }
        });
        pipeline.set_attribution(self.costs.divided());
        exported
    }

    /// Divides all time at the end, once all GPUs have finished.
    pub fn finish(
        mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &impl GpuIndices,
    ) -> Result<SpanSummary, PipelineError> {
        self.charge(pipeline, gpus);
        let priced = self.priced(pipeline, gpus);
        let mut exported = Ok(());
        self.costs.finish(pipeline.bill(), &priced, &mut |costs| {
            if exported.is_ok() {
                exported = pipeline.export_span_costs(costs);
            }
        });
        let summary = self.costs.summary();
        pipeline.set_attribution(summary.divided);
        exported.map(|()| summary)
    }

    /// Whether each GPU has a price. One that is not metered yet prevents none.
    fn priced(&self, pipeline: &Pipeline<'_>, gpus: &impl GpuIndices) -> Vec<bool> {
        let is_priced = |gpu| gpus.pipeline_index(gpu).is_none_or(|gpu| pipeline.is_priced(gpu));
        (0..self.costs.gpus()).map(is_priced).collect()
    }

    fn charge(&mut self, pipeline: &mut Pipeline<'_>, gpus: &impl GpuIndices) {
        for GpuCharge { gpu, holder, slice } in pipeline.take_charges() {
            if let Some(gpu) = gpus.buffer_index(gpu) {
                self.costs.charge(gpu, holder.as_deref(), slice);
            }
        }
    }
}
