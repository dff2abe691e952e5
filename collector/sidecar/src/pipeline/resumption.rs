//! Continues after an earlier run: the time since what that has billed is announced as a gap.
//!
//! Must not depend on where it is kept what an earlier run has billed.

use std::collections::BTreeMap;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{EventKind, Exporter, GpuEvent, GpuExport};

use super::Pipeline;

/// Until when each GPU, by its key, is billed, in wall time.
pub type BilledUntil = BTreeMap<String, Timestamp>;

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
    /// Continues after an earlier run.
    pub fn resume(&mut self, billed: BilledUntil) {
        self.billed_before = billed;
    }

    /// Whether it is known until when an earlier run has billed this GPU.
    #[must_use]
    pub fn continues(&self, identity: &GpuIdentity) -> bool {
        self.billed_before.contains_key(identity.key())
    }

    /// Until when exported sums bill each of these GPUs, and earlier runs the others. `None` if a part of
    /// them waits to be exported.
    #[must_use]
    pub fn billed_until(&self, identities: &[GpuIdentity]) -> Option<BilledUntil> {
        if self.exporter.as_ref().is_none_or(Exporter::is_waiting) {
            return None;
        }
        let mut billed = self.billed_before.clone();
        let wall = self.wall.offset();
        for (gpu, identity) in self.gpus.iter().zip(identities) {
            let until = gpu.export.as_ref().and_then(GpuExport::exported_until);
            if let Some(until) = until {
                let until = wall.wall(until);
                let known = billed.entry(identity.key().to_owned()).or_insert(until);
                *known = until.max(*known);
            }
        }
        Some(billed)
    }

    /// Announces the time between what an earlier run has billed of the GPU that was added last and `at`,
    /// where this run begins.
    pub(super) fn announce_gap(&mut self, identity: &GpuIdentity, at: Timestamp) {
        let from = self.billed_before.get(identity.key()).copied();
        let to = self.wall.offset().wall(at);
        let Some(from) = from.filter(|from| *from < to) else { return };
        let length = to.since(from);
        let seconds = length.as_secs_f64();
        let body = format!("{seconds:.1} s since an earlier run are not billed");
        let event = GpuEvent { at, kind: EventKind::Gap(length), body };
        if let (Some(exporter), Some(gpu)) = (&mut self.exporter, self.gpus.last_mut())
            && let Some(export) = &mut gpu.export
        {
            exporter.event(export, &event, gpu.meter.begins_at());
        }
        self.gaps.push(RunGap { gpu: identity.name.clone(), from, to });
    }
}
