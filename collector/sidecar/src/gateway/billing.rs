//! Meters the readings of a gateway: each GPU from its first reading on, except for time that another
//! meter has billed, or may have.
//!
//! Must not depend on how readings arrive.

use std::collections::BTreeMap;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::{EventKind, GpuEvent};
use phasemeter_sources::mapping::{Exemption, ExemptionReason, HeldReading};
use tracing::{info, warn};

use crate::pipeline::{Pipeline, PipelineError};

/// Meters released readings.
#[derive(Debug, Default)]
pub struct GatewayBilling {
    /// The index in the pipeline of each GPU, by its index in the buffer.
    indices: BTreeMap<usize, usize>,
    /// The GPUs in the order of the pipeline.
    gpus: Vec<GpuIdentity>,
    /// The index in the buffer of each.
    sources: Vec<usize>,
    summary: GatewaySummary,
}

/// What a gateway did not bill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewaySummary {
    /// GPUs of which it is not known what was billed before their first reading.
    pub started: u64,
    /// Pauses between readings, of all GPUs.
    pub gaps: u64,
    /// Their length.
    pub gap_time: Nanos,
    /// Time that other meters have billed.
    pub billed_elsewhere: Nanos,
    /// Time that was billed before another meter's cost for it arrived.
    pub billed_twice: Nanos,
    /// Readings that arrived after their time was billed.
    pub late: u64,
}

impl GatewayBilling {
    /// The GPUs that are metered, in the order of the pipeline.
    #[must_use]
    pub fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// The index in the buffer of a GPU of the pipeline.
    #[must_use]
    pub fn source(&self, gpu: usize) -> Option<usize> {
        self.sources.get(gpu).copied()
    }

    /// The index in the pipeline of a GPU of the buffer, once it is metered.
    #[must_use]
    pub fn metered(&self, source: usize) -> Option<usize> {
        self.indices.get(&source).copied()
    }

    /// What was not billed so far.
    #[must_use]
    pub const fn summary(&self) -> GatewaySummary {
        self.summary
    }

    /// Meters a reading. `identity` is that of its GPU.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn meter(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        held: &HeldReading,
        identity: &GpuIdentity,
    ) -> Result<(), PipelineError> {
        let HeldReading { gpu, reading, basis, stale_after, exempt, xid, rates } = held;
        let next = self.gpus.len();
        let index = *self.indices.entry(*gpu).or_insert(next);
        if index == next {
            let model = identity.model.as_deref().unwrap_or("unknown model");
            let (name, by, stale) = (&identity.name, basis.name(), stale_after.as_secs_f64());
            info!(gpu = name, "{name}: metering {model} by {by}; stale after {stale} s");
            pipeline.add_reported(identity, reading.at, *basis, *stale_after);
            self.gpus.push(identity.clone());
            self.sources.push(*gpu);
            self.start(pipeline, index, reading.at)?;
        } else if let Some(known) = self.gpus.get_mut(index) {
            known.update(identity);
        }
        for exemption in exempt {
            self.exempt(pipeline, index, exemption)?;
        }
        let accepted = pipeline.ingest(index, reading, &self.gpus)?;
        self.summary.late += u64::from(accepted.is_err());
        pipeline.record_rates(index, reading.at, rates);
        match *xid {
            Some(code) => pipeline.emit_xid(index, reading.at, code),
            None => Ok(()),
        }
    }

    /// States where the sums of a GPU begin, unless it is known what was billed before.
    fn start(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpu: usize,
        at: Timestamp,
    ) -> Result<(), PipelineError> {
        let Some(identity) = self.gpus.get(gpu) else { return Ok(()) };
        if pipeline.continues(identity) {
            return Ok(());
        }
        self.summary.started += 1;
        let body = "billed from here on; earlier time is not billed by this gateway".to_owned();
        let event = GpuEvent { at, kind: EventKind::MeteringStarted, body };
        pipeline.emit_event(gpu, &event)
    }

    fn exempt(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpu: usize,
        exemption: &Exemption,
    ) -> Result<(), PipelineError> {
        let Exemption { from, to, reason } = *exemption;
        let exempt_from = pipeline.exempt(gpu, from, to);
        let name = self.gpus.get(gpu).map_or("unknown GPU", |gpu| &gpu.name);
        match reason {
            ExemptionReason::NoReading => {
                let length = to.since(from);
                self.summary.gaps += 1;
                self.summary.gap_time = sum(self.summary.gap_time, length);
                let seconds = length.as_secs_f64();
                let body = format!("no reading for {seconds:.1} s, which are not billed");
                warn!(gpu = name, "{name}: {body}");
                let event = GpuEvent { at: to, kind: EventKind::Gap(length), body };
                pipeline.emit_event(gpu, &event)
            }
            ExemptionReason::BilledElsewhere => {
                let summary = &mut self.summary;
                let billed = overlap(from, exempt_from, to);
                summary.billed_twice = sum(summary.billed_twice, billed);
                summary.billed_elsewhere = sum(summary.billed_elsewhere, to.since(from));
                Ok(())
            }
        }
    }
}

/// The part of `from`..`to` before `until`.
fn overlap(from: Timestamp, until: Timestamp, to: Timestamp) -> Nanos {
    until.min(to).since(from)
}

const fn sum(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_add(b.0))
}
