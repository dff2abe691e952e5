//! Opens the experiment of a run, and its export.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::Exporter;
use phasemeter_otlp::experiment::{
    Attributes, Experiment, ExperimentKind, ExperimentRequest, gpu_id,
};

use super::{MAX_BUFFERED, Pipeline};
use phasemeter_environment::resource;

/// The experiment of the run. The trace ID of a log may be derived from its first readings, so the
/// experiment is opened once the allowed lateness has passed; meters emit nothing before.
pub(super) enum ExperimentState {
    Pending { request: ExperimentRequest, first: Timestamp, readings: usize },
    Open(Experiment),
}

impl Pipeline<'_> {
    /// Opens the experiment if that is due at a reading at this instant.
    pub(super) fn open_if_due(&mut self, at: Timestamp, identities: &[GpuIdentity]) {
        if let ExperimentState::Pending { first, readings, .. } = &mut self.experiment {
            if at.since(*first) > self.meter.allowed_lateness || *readings == MAX_BUFFERED {
                self.open(identities.get(..self.gpus.len()).unwrap_or(identities));
            } else {
                *first = at.min(*first);
                *readings += 1;
            }
        }
    }

    /// Opens the experiment of these GPUs.
    pub(super) fn open(&mut self, identities: &[GpuIdentity]) -> Experiment {
        let (request, first) = match &self.experiment {
            ExperimentState::Open(experiment) => return experiment.clone(),
            ExperimentState::Pending { request, first, .. } => (request.clone(), *first),
        };
        let ids: Vec<_> = identities.iter().map(gpu_id).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        let experiment = request.open(first, ExperimentKind::Log { gpus: &ids });
        self.experiment = ExperimentState::Open(experiment.clone());
        self.begin_export(experiment.clone(), &resource::for_log(&experiment));
        if let Some(exporter) = &mut self.exporter {
            for (gpu, identity) in self.gpus.iter_mut().zip(identities) {
                gpu.begin_export(exporter, identity);
            }
        }
        experiment
    }

    pub(super) fn begin_export(&mut self, experiment: Experiment, hardware: &Attributes) {
        let begin = |(settings, _): &(_, _)| Exporter::new(experiment, hardware, *settings);
        self.exporter = self.export.as_ref().map(begin);
    }
}
