//! Meters the readings of a gateway: each GPU from its first reading on, except for time that another
//! meter has billed.

use std::collections::BTreeMap;

use phasemeter_meter::gpu_name::NamedGpu;
use phasemeter_meter::presence::ABSENT_AFTER;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::{EventKind, GpuEvent};
use phasemeter_sources::mapping::{HeldReading, HostSilence, ReadingBuffer};
use tracing::{info, warn};

use super::span_pricing::GpuIndices;
use crate::pipeline::{Pipeline, PipelineError};

/// Meters released readings.
#[derive(Debug, Default)]
pub struct GatewayBilling {
    /// By the index in the buffer.
    pipeline_indices: BTreeMap<usize, usize>,
    /// The GPUs in the order of the pipeline.
    gpus: Vec<GpuIdentity>,
    /// In the order of the pipeline.
    buffer_indices: Vec<usize>,
    /// The newest reading, and that at which unlisted GPUs were advanced.
    newest: Timestamp,
    advanced: Timestamp,
    /// When hosts were silent, if another gateway may have them then.
    silence: Option<HostSilence>,
    /// Until when time of a GPU is left out, in the order of the pipeline.
    left_out_until: Vec<Timestamp>,
    summary: GatewaySummary,
}

/// How often the time of unlisted GPUs is posted, by the time of readings.
const ADVANCE_EVERY: Nanos = Nanos::from_secs(10);

/// What a gateway did not bill, or could not observe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewaySummary {
    /// GPUs of which it is not known what was billed before their first reading.
    pub started: u64,
    /// Pauses between readings that are unobserved.
    pub unobserved: Pauses,
    /// Pauses between readings that are not billed, since the GPU was absent.
    pub absent: Pauses,
    /// Time that other meters have billed.
    pub billed_elsewhere: Nanos,
    /// Time that was billed before another meter's cost for it arrived.
    pub billed_twice: Nanos,
    /// Readings that arrived after their time was billed.
    pub late: u64,
}

/// Pauses between readings, of all GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How many there were.
    pub count: u64,
    /// Their length together.
    pub time: Nanos,
}

/// Spans are charged for the GPUs of the buffer, which are known before their first reading is metered.
impl GpuIndices for GatewayBilling {
    fn buffer_index(&self, pipeline_index: usize) -> Option<usize> {
        self.buffer_indices.get(pipeline_index).copied()
    }

    fn pipeline_index(&self, buffer_index: usize) -> Option<usize> {
        self.pipeline_indices.get(&buffer_index).copied()
    }
}

impl GatewayBilling {
    /// Meters nothing so far. `is_routed`: a host that is silent may be another gateway's.
    #[must_use]
    pub fn new(is_routed: bool) -> Self {
        Self { silence: is_routed.then(HostSilence::default), ..Self::default() }
    }

    /// Whether a host that is silent may be another gateway's.
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        self.silence.is_some()
    }

    /// The GPUs that are metered, in the order of the pipeline.
    #[must_use]
    pub fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
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
        let HeldReading {
            buffer_index,
            reading,
            basis,
            stale_after,
            billed_elsewhere,
            pauses,
            holder_changes,
            ..
        } = held;
        let next = self.gpus.len();
        let index = *self.pipeline_indices.entry(*buffer_index).or_insert(next);
        if index == next {
            let model = identity.model.as_deref().unwrap_or("unknown model");
            let (name, by, stale) = (name(identity), basis.name(), stale_after.as_secs_f64());
            info!(gpu = identity.name, "{name}: metering {model} by {by}; stale after {stale} s");
            pipeline.add_reported(identity, reading.at, *basis, *stale_after);
            self.gpus.push(identity.clone());
            self.buffer_indices.push(*buffer_index);
            self.left_out_until.push(Timestamp::default());
            self.start(pipeline, index, reading.at)?;
        } else if let Some(known) = self.gpus.get_mut(index) {
            known.update(identity);
        }
        pipeline.note_received(index, &held.own_names, held.reports_errors);
        for (from, to) in billed_elsewhere {
            self.exempt(pipeline, index, *from, *to);
        }
        self.newest = self.newest.max(reading.at);
        for change in holder_changes {
            pipeline.change_holders(index, change.clone());
        }
        self.leave_out_silence(pipeline, held, identity)?;
        let left_out_until = self.left_out_until.get(index).copied().unwrap_or_default();
        for (from, to) in pauses {
            let from = left_out_until.max(*from);
            if from < *to {
                self.pause(pipeline, index, (from, *to), pipeline.bills_pause(reading))?;
            }
        }
        let accepted = pipeline.ingest(index, reading, &self.gpus)?;
        self.summary.late += u64::from(accepted.is_err());
        pipeline.record_rates(index, reading.at, &held.rates);
        match held.xid {
            Some(code) => pipeline.emit_xid(index, reading.at, code),
            None => Ok(()),
        }
    }

    /// Leaves out the silence of a host that a reading ends, of all its GPUs, whether they come back or not: another
    /// gateway may have billed it.
    fn leave_out_silence(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        HeldReading { buffer_index, reading, stale_after, billed_elsewhere, .. }: &HeldReading,
        identity: &GpuIdentity,
    ) -> Result<(), PipelineError> {
        let Some(silence) = &mut self.silence else { return Ok(()) };
        let (host, until) =
            (identity.node_or_itself(), billed_elsewhere.iter().map(|(_, to)| *to).max());
        let found = silence.note(host, *buffer_index, reading.at, until, *stale_after);
        let Some((from, to)) = found else { return Ok(()) };
        for gpu in 0..self.gpus.len() {
            if self.gpus.get(gpu).is_some_and(|it| it.node_or_itself() == host)
                && let Some(left_out) = pipeline.leave_out(gpu, from, to)
            {
                self.left_out_until.iter_mut().skip(gpu).take(1).for_each(|it| *it = to);
                self.pause(pipeline, gpu, left_out, false)?;
            }
        }
        Ok(())
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

    /// Posts the time of GPUs that are no longer listed, as far as it is known. `buffer` is where their
    /// readings come from.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn advance(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        buffer: &mut ReadingBuffer,
    ) -> Result<(), PipelineError> {
        if self.newest < self.advanced + ADVANCE_EVERY {
            return Ok(());
        }
        self.advanced = self.newest;
        self.end_holding(pipeline, buffer, self.newest.saturating_sub(ABSENT_AFTER));
        self.hand_over(pipeline, buffer);
        let buffer = &*buffer;
        let holds = |gpu: usize| self.buffer_index(gpu).is_some_and(|index| buffer.holds(index));
        pipeline.advance_unlisted(&self.gpus, holds)
    }

    /// Ends the holding of GPUs whose last reading is long before `now`.
    pub fn end_holding(
        &self,
        pipeline: &mut Pipeline<'_>,
        buffer: &mut ReadingBuffer,
        now: Timestamp,
    ) {
        for (gpu, buffer_index) in self.buffer_indices.iter().enumerate() {
            let changes = buffer.end_holding(*buffer_index, now);
            changes.into_iter().for_each(|change| pipeline.change_holders(gpu, change));
        }
    }

    /// The newest reading.
    #[must_use]
    pub const fn newest(&self) -> Timestamp {
        self.newest
    }

    /// Ends the spans of GPUs that other meters have by now.
    pub fn hand_over(&self, pipeline: &mut Pipeline<'_>, buffer: &ReadingBuffer) {
        for (gpu, buffer_index) in self.buffer_indices.iter().enumerate() {
            pipeline.end_span_at(gpu, buffer.handed_over(*buffer_index));
        }
    }

    /// Bills nothing for time that another meter has billed.
    fn exempt(&mut self, pipeline: &mut Pipeline<'_>, gpu: usize, from: Timestamp, to: Timestamp) {
        let exempt_from = pipeline.exempt(gpu, from, to);
        let summary = &mut self.summary;
        let billed = overlap(from, exempt_from, to);
        summary.billed_twice = sum(summary.billed_twice, billed);
        summary.billed_elsewhere = sum(summary.billed_elsewhere, to.since(from));
    }

    /// Counts a pause between readings, which is unobserved. If it is not billed, it is an event.
    fn pause(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpu: usize,
        (from, to): (Timestamp, Timestamp),
        is_billed: bool,
    ) -> Result<(), PipelineError> {
        let length = to.since(from);
        let summary = &mut self.summary;
        let pauses = if is_billed { &mut summary.unobserved } else { &mut summary.absent };
        *pauses = Pauses { count: pauses.count + 1, time: sum(pauses.time, length) };
        let Some(identity) = self.gpus.get(gpu) else { return Ok(()) };
        let (id, name) = (&identity.name, name(identity));
        let seconds = length.as_secs_f64();
        if is_billed {
            warn!(gpu = id, "{name}: no reading for {seconds:.1} s, which are unobserved");
            return Ok(());
        }
        let body = format!("no reading for {seconds:.1} s, which are not billed");
        warn!(gpu = id, "{name}: {body}");
        let event = GpuEvent { at: to, kind: EventKind::Gap(length), body };
        pipeline.emit_event(gpu, &event)
    }
}

/// What a GPU is called, which may be one of several hosts.
fn name(gpu: &GpuIdentity) -> String {
    NamedGpu::from(gpu).qualified(&str::to_owned)
}

/// The part of `from`..`to` before `until`.
fn overlap(from: Timestamp, until: Timestamp, to: Timestamp) -> Nanos {
    until.min(to).since(from)
}

const fn sum(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_add(b.0))
}
