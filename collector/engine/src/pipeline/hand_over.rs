//! The hand-over of a GPU's metrics between a sidecar and the agent of its node, which both meter it: each second is
//! exported by one of them.

use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::ExportedTime;

use super::Pipeline;

/// How long before an export may leave its time counts as billed: several times the interval at which it is stated.
const STATED_AHEAD: Nanos = Nanos::from_secs(2);

/// The time of a GPU that this run bills, in the time of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BilledTime {
    /// Where its sums start.
    pub from: Timestamp,
    /// Until when exports have time, or will within two seconds.
    pub until: Timestamp,
    /// Until when the next export will have time.
    pub next: Timestamp,
}

/// The time of a GPU that is in its accounts for good.
#[derive(Clone, Copy, Debug)]
pub struct AccountedTime<'a> {
    /// Where they begin.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// The price of the GPU, or why there is none.
    pub price: &'a Result<Price, Unpriced>,
}

impl Pipeline<'_> {
    /// The time of a GPU that this run has billed by `now`; `None` if it exports nothing.
    #[must_use]
    pub fn billed(&self, gpu: usize, now: Timestamp) -> Option<BilledTime> {
        let gpu = self.gpus.get(gpu)?;
        let ExportedTime { from, to } = gpu.export.as_ref()?.exported()?;
        if let Some(end) = self.end {
            return Some(BilledTime { from, until: end, next: end });
        }
        let next = gpu.meter.next_export();
        let leaves = next + self.meter.allowed_lateness;
        let until = if now + STATED_AHEAD < leaves { to } else { next };
        Some(BilledTime { from, until, next })
    }

    /// The time of a GPU whose accounts are final, and its price.
    #[must_use]
    pub fn accounted(&self, gpu: usize) -> Option<AccountedTime<'_>> {
        let gpu = self.gpus.get(gpu)?;
        let (from, until) = (gpu.meter.begins_at()?, gpu.meter.charged_until()?);
        Some(AccountedTime { from, until, price: &gpu.price })
    }

    /// Leaves the metrics of a GPU from `at` on to another program, which bills it, too. If time after `at` is metered
    /// already, from now on. Returns until when this run has exported them.
    pub fn leave_metrics(&mut self, gpu: usize, at: Timestamp) -> Timestamp {
        self.stop_changes(super::OtherChange::HandOver);
        let Some(gpu) = self.gpus.get_mut(gpu) else { return at };
        let Some(export) = &mut gpu.export else { return at };
        if gpu.meter.request_boundary(at) {
            export.leave_metrics_at(at);
            return at;
        }
        export.leave_metrics().unwrap_or(at)
    }

    /// Keeps the totals of a GPU at this instant, from which its metrics may be taken over.
    pub fn keep_totals(&mut self, gpu: usize, at: Timestamp) {
        self.stop_changes(super::OtherChange::HandOver);
        if let Some(gpu) = self.gpus.get_mut(gpu)
            && let Some(export) = &mut gpu.export
            && gpu.meter.request_boundary(at)
        {
            export.keep_totals_at(at);
        }
    }

    /// Takes the metrics of a GPU over from `at` on, or from the first instant after it whose totals are known. Returns
    /// that instant.
    pub fn take_metrics(&mut self, gpu: usize, at: Timestamp) -> Timestamp {
        self.stop_changes(super::OtherChange::HandOver);
        let Some(gpu) = self.gpus.get_mut(gpu) else { return at };
        let Some(export) = &mut gpu.export else { return at };
        if gpu.meter.request_boundary(at) {
            export.take_metrics_at(at);
            return at;
        }
        export.take_metrics(at).unwrap_or_else(|| {
            let next = gpu.meter.next_export();
            export.take_metrics_at(next);
            next
        })
    }
}
