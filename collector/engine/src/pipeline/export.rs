//! Export of a run: events, device metrics and results of policies, and passing requests to the sink.

use std::collections::BTreeSet;
use std::io;

use phasemeter_meter::device_metric::DeviceMetric;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::{CommandExit, ExportSettings, Exporter, GpuEvent, Outgoing};

use super::{Pipeline, PipelineError};
use crate::policies::PolicyResults;

/// Receives requests.
pub type RequestSink<'a> = Box<dyn FnMut(Outgoing) -> io::Result<()> + 'a>;

impl Pipeline<'_> {
    /// Exports a device metric; windows have it too. Ignored before the first
    /// reading of any GPU.
    pub fn export_metric(&mut self, gpu: usize, metric: DeviceMetric) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Metric(gpu, metric));
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.measure(metric);
        }
    }

    /// Exports an event of a GPU.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn emit_event(&mut self, gpu: usize, event: &GpuEvent) -> Result<(), PipelineError> {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Event(gpu, event.clone()));
        if let Some(gpu) = self.gpus.get_mut(gpu)
            && let (Some(exporter), Some(export)) = (&mut self.exporter, &mut gpu.export)
        {
            exporter.event(export, event, gpu.meter.begins_at());
        }
        self.send()
    }

    /// Notes of a GPU of which quantities another program sends the `hw.*` metrics, which are left out from now on,
    /// and whether errors of its driver would be reported.
    pub fn note_received(
        &mut self,
        gpu: usize,
        own_names: &BTreeSet<Quantity>,
        reports_errors: bool,
    ) {
        for export in self.gpus.get_mut(gpu).into_iter().filter_map(|gpu| gpu.export.as_mut()) {
            export.leave_out(own_names);
            if reports_errors {
                export.watch_errors();
            }
        }
    }

    /// Exports a GPU as hardware after this time only; before, another program does.
    pub fn export_hardware_after(&mut self, gpu: usize, at: Timestamp) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::HardwareAfter(gpu, at));
        if let Some(export) = self.gpus.get_mut(gpu).and_then(|gpu| gpu.export.as_mut()) {
            export.export_hardware_after(at);
        }
    }

    /// Counts XID errors of a GPU. Their events may follow later.
    pub fn count_xids(&mut self, gpu: usize, at: Timestamp, code: u64, count: u64) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Xids(gpu, at, code, count));
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.meter.device_mut().totals.count_xids(at, code, count);
            gpu.export.iter_mut().for_each(|export| export.count_xids(code, count));
        }
    }

    /// Counts an XID error of a GPU, and exports it as an event.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn emit_xid(&mut self, gpu: usize, at: Timestamp, code: u64) -> Result<(), PipelineError> {
        self.count_xids(gpu, at, code, 1);
        self.emit_event(gpu, &GpuEvent::xid(at, code))
    }

    /// Exports recommendations and errors of policies.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn export_results(
        &mut self,
        results: &PolicyResults,
        identities: &[GpuIdentity],
        at: Timestamp,
    ) -> Result<(), PipelineError> {
        self.leave(|this| {
            if let Some(exporter) = &mut this.exporter {
                let (recommendations, errors) =
                    (results.recommendation_events(), results.error_events());
                exporter.policy_results(&recommendations, &errors, identities, &this.host, at);
            }
        })
    }

    /// Lets what is complete leave, then what `export` makes, which no [`Change`](super::Change) makes again.
    pub(super) fn leave(&mut self, export: impl FnOnce(&mut Self)) -> Result<(), PipelineError> {
        self.send()?;
        #[cfg(feature = "full")]
        let before = self.sent;
        export(self);
        self.send()?;
        #[cfg(feature = "full")]
        self.record(|this| super::Change::Left(this.sent - before));
        Ok(())
    }

    /// Keeps results of policies for reports of the run so far.
    pub fn keep_results(&mut self, results: PolicyResults) {
        self.results = results;
    }

    /// Exports how the command ended, with the experiment.
    pub fn end_command(&mut self, exit: CommandExit) {
        if let Some(exporter) = &mut self.exporter {
            exporter.end_command(exit);
        }
    }

    /// Passes complete requests to the sink. What is known of silent GPUs leaves with the others.
    pub(super) fn send(&mut self) -> Result<(), PipelineError> {
        if let Some(exporter) = &mut self.exporter
            && exporter.leaves_silent()
        {
            for gpu in &mut self.gpus {
                if !gpu.export.as_ref().is_some_and(|export| exporter.leaves_out(export)) {
                    continue;
                }
                // Nothing older is waited for.
                if self.meter.allowed_lateness == Nanos::ZERO {
                    self.buffered -= gpu.meter.buffered();
                    gpu.release(0, Some(exporter));
                }
                if let Some(export) = &mut gpu.export {
                    exporter.add_silent(&gpu.meter, export);
                }
            }
        }
        self.sent += send(&mut self.exporter, &mut self.export)?;
        Ok(())
    }
}

/// Passes complete requests to the sink, and returns how often it was called.
pub(super) fn send(
    exporter: &mut Option<Exporter>,
    export: &mut Option<(ExportSettings, RequestSink<'_>)>,
) -> Result<u64, PipelineError> {
    let mut sent = 0;
    if let (Some(exporter), Some((_, sink))) = (exporter, export) {
        for outgoing in exporter.outgoing() {
            sink(outgoing).map_err(PipelineError::Export)?;
            sent += 1;
        }
    }
    Ok(sent)
}
