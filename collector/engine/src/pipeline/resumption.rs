//! Continues after an earlier run: the time since what that has billed is announced as a gap.

use std::collections::BTreeMap;

use phasemeter_meter::gpu_name::NamedGpu;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{EventKind, GpuEvent};

use super::Pipeline;

/// Until when each GPU, by its key, is billed, in the time of this run.
pub type BilledUntil = BTreeMap<String, Timestamp>;

/// What is known of earlier runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "full", derive(serde::Serialize, serde::Deserialize))]
pub enum EarlierRuns {
    /// There may have been none.
    None,
    /// What they have billed.
    Billed {
        /// Until when each GPU is billed.
        until: BilledUntil,
        /// Until when the others are, if they belong to the run.
        others: Option<Timestamp>,
    },
    /// There was one. What it has billed is lost.
    Lost,
}

/// Time of a GPU that neither an earlier run nor this one bills, in wall time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGap {
    /// The name of the GPU.
    pub gpu: String,
    /// The end of what an earlier run has billed.
    pub from: Timestamp,
    /// The start of what this run bills.
    pub to: Timestamp,
}

impl Pipeline<'_> {
    /// Continues after earlier runs.
    pub fn resume(&mut self, earlier: EarlierRuns) {
        self.earlier = earlier;
    }

    /// Whether it is known until when an earlier run has billed this GPU.
    #[must_use]
    pub fn continues(&self, identity: &GpuIdentity) -> bool {
        self.billed_before(identity).is_some()
    }

    /// The GPUs that were added since the last call, each with the start of what is billed of it.
    pub fn take_joined(&mut self) -> BilledUntil {
        std::mem::take(&mut self.joined)
    }

    /// Announces the time between what an earlier run has billed of the GPU that was added last and `at`,
    /// where this run begins.
    pub(super) fn announce_gap(&mut self, identity: &GpuIdentity, at: Timestamp) {
        let Some(gpu) = self.gpus.len().checked_sub(1) else { return };
        self.joined.insert(identity.key().to_owned(), at);
        match self.billed_before(identity) {
            Some(from) if from < at => self.announce(gpu, name(identity), from, at),
            Some(from) if from > at => {
                let seconds = from.since(at).as_secs_f64();
                let body = format!(
                    "the system clock is {seconds:.1} s behind what an earlier run has billed; the time \
                     since then is unknown"
                );
                self.start_unknown(gpu, at, body);
            }
            None if self.earlier == EarlierRuns::Lost => {
                self.start_unknown(gpu, at, "what an earlier run has billed is lost".to_owned());
            }
            _ => {}
        }
    }

    fn billed_before(&self, identity: &GpuIdentity) -> Option<Timestamp> {
        match &self.earlier {
            EarlierRuns::Billed { until, others } => until.get(identity.key()).copied().or(*others),
            EarlierRuns::None | EarlierRuns::Lost => None,
        }
    }

    /// Announces a gap of a GPU.
    fn announce(&mut self, gpu: usize, name: String, from: Timestamp, to: Timestamp) {
        let length = to.since(from);
        let seconds = length.as_secs_f64();
        let body = format!("{seconds:.1} s since an earlier run are not billed");
        self.export_event(gpu, &GpuEvent { at: to, kind: EventKind::Gap(length), body });
        let wall = self.wall.offset();
        self.gaps.push(RunGap { gpu: name, from: wall.wall(from), to: wall.wall(to) });
    }

    /// States that it is not known what was billed of a GPU before.
    fn start_unknown(&mut self, gpu: usize, at: Timestamp, body: String) {
        self.export_event(gpu, &GpuEvent { at, kind: EventKind::MeteringStarted, body });
    }

    fn export_event(&mut self, gpu: usize, event: &GpuEvent) {
        if let (Some(exporter), Some(gpu)) = (&mut self.exporter, self.gpus.get_mut(gpu))
            && let Some(export) = &mut gpu.export
        {
            exporter.event(export, event, gpu.meter.begins_at());
        }
    }
}

/// What a GPU is called: by host and index if its host is known.
fn name(gpu: &GpuIdentity) -> String {
    match gpu.node() {
        Some(_) => NamedGpu::from(gpu).qualified(&str::to_owned),
        None => gpu.name.clone(),
    }
}
