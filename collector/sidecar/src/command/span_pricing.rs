//! Prices the spans that a live command receives: passes what GPUs cost to the spans that wait, and
//! exports what follows them.

use std::time::{Duration, Instant};

use phasemeter_engine::gateway::{ReceivedSpans, SpanCosts, SpanSummary};
use phasemeter_engine::pipeline::{GpuCharge, Pipeline, PipelineError};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::DividedCost;
use phasemeter_report::{Attribution, Usd};

use super::senders::named;

/// How often time is divided.
const INTERVAL: Duration = Duration::from_secs(1);

/// Spans that are priced while a command runs.
pub(super) struct SpanPricing {
    costs: SpanCosts,
    /// When time is divided next.
    due: Instant,
}

/// The GPUs that spans are charged for, whose numbers may differ from those of the pipeline.
pub(super) trait GpuNumbers {
    /// The number of a GPU of the pipeline.
    fn number(&self, gpu: usize) -> Option<usize>;

    /// The number in the pipeline; `None` if it is not metered.
    fn metered(&self, gpu: usize) -> Option<usize>;
}

impl SpanPricing {
    /// Prices the spans that `costs` will take.
    pub(super) fn start(costs: SpanCosts, pipeline: &mut Pipeline<'_>) -> Self {
        pipeline.log_charges();
        Self { costs, due: Instant::now() }
    }

    /// What spans cost, to add GPUs.
    pub(super) const fn costs(&mut self) -> &mut SpanCosts {
        &mut self.costs
    }

    /// Whether so many spans are on their way that no more must be taken.
    pub(super) fn is_full(&self) -> bool {
        self.costs.is_full()
    }

    /// Takes the spans of a request.
    pub(super) fn take(&mut self, spans: ReceivedSpans, now: Timestamp) {
        self.costs.take(spans, now);
    }

    /// Whether time should be divided.
    pub(super) fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// Divides the time that is final.
    pub(super) fn advance(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &impl GpuNumbers,
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
    pub(super) fn finish(
        mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &impl GpuNumbers,
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
    fn priced(&self, pipeline: &Pipeline<'_>, gpus: &impl GpuNumbers) -> Vec<bool> {
        let is_priced = |gpu| gpus.metered(gpu).is_none_or(|gpu| pipeline.is_priced(gpu));
        (0..self.costs.gpus()).map(is_priced).collect()
    }

    fn charge(&mut self, pipeline: &mut Pipeline<'_>, gpus: &impl GpuNumbers) {
        for GpuCharge { gpu, slice } in pipeline.take_charges() {
            if let Some(gpu) = gpus.number(gpu) {
                self.costs.charge(gpu, slice);
            }
        }
    }
}

/// The section of the report.
pub(super) fn attribution(summary: &SpanSummary) -> Attribution {
    Attribution {
        priced: summary.priced,
        followed: summary.followed,
        unpriced: summary.without_time + summary.unplaced + summary.rejected.values().sum::<u64>(),
        of_unknown_sampling: summary.of_unknown_sampling,
        spans_usd: Usd(summary.divided.spans),
        unsampled_usd: Usd(summary.divided.unsampled),
        unattributed_usd: Usd(summary.divided.unattributed),
    }
}

/// What became of spans, in sentences.
pub(super) fn sentences(summary: &SpanSummary) -> Vec<String> {
    let SpanSummary {
        priced,
        followed,
        without_time,
        unplaced,
        exempt,
        unproved,
        rejected,
        of_unknown_sampling,
        divided: DividedCost { spans, unsampled, unattributed },
    } = summary;
    let mut sentences = vec![
        format!("{priced} spans left with their cost, the cost of {followed} followed"),
        format!("spans cost ${spans}; ${unattributed} of the bill is unattributed"),
    ];
    if *unsampled > NanoUsd::ZERO {
        sentences.push(format!("requests whose spans were not sampled cost ${unsampled}"));
    }
    if *of_unknown_sampling > 0 {
        sentences.push(format!(
            "{of_unknown_sampling} spans have no sampling threshold (ot=th: in tracestate): if only a part of the \
             requests was sampled, they also have the cost of the others; send all spans, or sample with a \
             consistent probability sampler"
        ));
    }
    for (senders, what) in [
        (exempt, "not priced: Phasemeter's, or priced by a meter whose cost passes here"),
        (unproved, "arrived with phasemeter.span.* of no such meter, which were removed"),
    ] {
        if let Some(named) = named(senders, "span") {
            sentences.push(format!("{} spans {what}; from {named}", senders.total()));
        }
    }
    if *without_time > 0 {
        sentences.push(format!("{without_time} spans had no GPU time of their own"));
    }
    if *unplaced > 0 {
        sentences.push(format!(
            "{unplaced} spans have no cost: their resource names no GPU, pod or host that is known"
        ));
    }
    let mut rejected: Vec<_> = rejected.iter().map(|(reason, n)| (reason.to_string(), n)).collect();
    rejected.sort_unstable();
    let rejected = rejected.into_iter();
    sentences.extend(rejected.map(|(reason, n)| format!("{n} spans have no cost: {reason}")));
    sentences
}
