//! The input of a report.

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Absence, ExperimentLog, WorkByGroup};
use phasemeter_engine::policies::{PolicyResults, PricerStats};
use phasemeter_engine::pricing::EarlierPrices;
use phasemeter_engine::work::{InterruptionLog, WorkByHour};
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::encode::ServedCost;

use super::attribution::Attribution;
use super::experiment::Experiment;
use super::rejected_row::RejectedRow;

/// Everything a report is built from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What was metered: `train.csv`, `3 logs`, `demo, seed 7`.
    pub title: String,
    /// The experiment.
    pub experiment: Experiment,
    /// The phase thresholds of the meters.
    pub thresholds: Thresholds,
    /// The wall time at the end of the run, by which all of it is labeled.
    pub wall: WallOffset,
    /// The GPUs, by index or first appearance; their meters have finished.
    pub gpus: Vec<GpuInput<'a>>,
    /// Work done, by unit: `("samples", 200_000)`. The last entry of a unit wins.
    pub work: Vec<(String, u64)>,
    /// Work by group, as far as it is counted.
    pub work_by_group: WorkByGroup,
    /// What each GPU costs by group.
    pub served: Vec<&'a ServedCost>,
    /// Whether the bill is that of all GPUs that do the work.
    pub has_unit_costs: bool,
    /// Work done by UTC hour and unit, if known.
    pub work_by_hour: WorkByHour,
    /// Experiments that ended during the run, if any began.
    pub experiments: Option<&'a ExperimentLog>,
    /// What the cloud announced, if that was watched.
    pub interruptions: Option<InterruptionLog>,
    /// The first rejected rows; those beyond [`MAX_REJECTED_ROWS`] are omitted.
    ///
    /// [`MAX_REJECTED_ROWS`]: super::MAX_REJECTED_ROWS
    pub rejected_rows: Vec<RejectedRow>,
    /// Number of rejected rows.
    pub rejected_total: u64,
    /// Assumptions about the input, each a sentence without its full stop.
    pub assumptions: Vec<String>,
    /// Quality of live sampling, in the same form.
    pub sampling: Vec<String>,
    /// How the bill is divided among spans of the workload, if it is.
    pub attribution: Option<Attribution>,
    /// Outcome of OTLP delivery, in the same form.
    pub delivery: Vec<String>,
    /// Rules for alerts.
    pub alerts: &'a AlertRules,
    /// The results of policies.
    pub policies: PoliciesInput<'a>,
}

/// The results of policies.
#[derive(Clone, Copy, Debug)]
pub struct PoliciesInput<'a> {
    /// The results of the last window.
    pub results: &'a PolicyResults,
    /// The pricers that were queried.
    pub pricers: &'a [PricerStats],
    /// Whether durations are reported. They are not for logs, whose reports are reproducible.
    pub timed: bool,
}

/// One GPU of a report.
#[derive(Clone, Copy, Debug)]
pub struct GpuInput<'a> {
    /// Its identity.
    pub identity: &'a GpuIdentity,
    /// Its meter, whose rate is that of `price`, if any.
    pub meter: &'a GpuMeter,
    /// Its current price, or why there is none.
    pub price: &'a Result<Price, Unpriced>,
    /// Its earlier prices.
    pub earlier: &'a EarlierPrices,
    /// Until when it had no price, if it has one now, and why.
    pub unpriced_until: Option<&'a (Timestamp, Unpriced)>,
    /// Unobserved time at its end, in which its source no longer listed it.
    pub unlisted: Nanos,
    /// Time that is not billed, since the GPU was not there.
    pub absence: Absence,
    /// Its memory as measured by the driver or in the log; never from a table of models.
    pub memory_total: Option<Bytes>,
}

impl GpuInput<'_> {
    /// Whether this activity was measured: by counters of the driver, or in a column.
    #[must_use]
    pub fn measures(&self, basis: Basis, quantity: Quantity) -> bool {
        let is_read = self.meter.feeds().any(|feed| feed.basis() == basis && feed.is_measured());
        let has_column =
            |end| self.meter.window_totals(end).sensors.device.mean(quantity).is_some();
        is_read || self.meter.reached().is_some_and(has_column)
    }
}
