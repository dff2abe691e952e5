//! Exports and logs the events of GPUs in a live run, those that repeat a limited number of times.
//!
//! A faulty GPU reports thousands of XID errors. All count at once; the first of a code per GPU and minute is
//! an event and a message, and so is the number of the others when the minute is over, even if none follows.

use std::time::Instant;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::LogLimiter;
use phasemeter_otlp::encode::GpuEvent;
use phasemeter_sources::live::Event;
use tracing::info;
use tracing::level_filters::LevelFilter;

use super::event as live_event;
use crate::pipeline::{Pipeline, PipelineError};

/// What was exported and logged lately.
pub struct EventLog {
    /// Messages by GPU and kind of event.
    messages: LogLimiter<(usize, &'static str)>,
    /// XID errors by GPU and code.
    xids: LogLimiter<(usize, u64)>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { messages: LogLimiter::default(), xids: LogLimiter::with_burst(1) }
    }
}

impl EventLog {
    /// Exports and logs an event of the GPU at this index of `gpus`.
    pub fn record(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        gpu: usize,
        event: Event,
        at: Timestamp,
    ) -> Result<(), PipelineError> {
        if let Event::Xid { code, count } = event {
            pipeline.count_xids(gpu, at, code, count);
            return match self.xids.permit_about((gpu, code), count, Instant::now()) {
                None => Ok(()),
                Some(before) => {
                    let event = Event::Xid { code, count: count.saturating_add(before) };
                    live_event::log(event, gpus.get(gpu), 0);
                    export(pipeline, gpu, event, event.to_string(), at)
                }
            };
        }
        // A message below the level is not suppressed.
        if live_event::level(event) <= LevelFilter::current()
            && let Some(suppressed) = self.messages.permit((gpu, event.kind()), Instant::now())
        {
            live_event::log(event, gpus.get(gpu), suppressed);
        }
        export(pipeline, gpu, event, event.to_string(), at)
    }

    /// Exports and logs how many were suppressed in minutes that are over. To be called now and then.
    pub fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        at: Timestamp,
    ) -> Result<(), PipelineError> {
        let now = Instant::now();
        for ((gpu, kind), count) in self.messages.take_passed(now) {
            let name = live_event::name(gpus.get(gpu));
            info!(suppressed = count, "{name}: {count} more messages suppressed ({kind})");
        }
        let xids = self.xids.take_passed(now);
        report_more(xids, pipeline, gpus, at)
    }

    /// Exports and logs how many were suppressed last.
    pub fn finish(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        at: Timestamp,
    ) -> Result<(), PipelineError> {
        match self.messages.suppressed() {
            0 => {}
            some => info!(suppressed = some, "{some} more messages of the same kinds suppressed"),
        }
        report_more(self.xids.take_all(), pipeline, gpus, at)
    }
}

/// Exports and logs XID errors that have followed a first one.
fn report_more(
    xids: Vec<((usize, u64), u64)>,
    pipeline: &mut Pipeline<'_>,
    gpus: &[GpuIdentity],
    at: Timestamp,
) -> Result<(), PipelineError> {
    for ((gpu, code), count) in xids {
        let body = live_event::log_more_xids(gpus.get(gpu), code, count);
        export(pipeline, gpu, Event::Xid { code, count }, body, at)?;
    }
    Ok(())
}

/// Exports an event, if it is one of the GPU.
fn export(
    pipeline: &mut Pipeline<'_>,
    gpu: usize,
    event: Event,
    body: String,
    at: Timestamp,
) -> Result<(), PipelineError> {
    live_event::exported(event)
        .map_or(Ok(()), |kind| pipeline.emit_event(gpu, &GpuEvent { at, kind, body }))
}
