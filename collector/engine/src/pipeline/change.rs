//! What changes a live run, in order: the same changes make the same run, its accounts and its requests, again.
//!
//! A journal keeps them, so that a run that was killed can be continued.

use phasemeter_meter::device_metric::DeviceMetric;
use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::reading::{GpuIdentity, Interval, Reading};
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_meter::work_unit::WorkUnit;
use phasemeter_otlp::encode::GpuEvent;
use phasemeter_sources::clock::Step;
use serde::{Deserialize, Serialize};

use super::{Pipeline, PipelineError};

/// A change of a run. GPUs are named by their places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// See [`Pipeline::add`].
    Gpu(GpuIdentity, Timestamp),
    /// See [`Pipeline::ingest`].
    Reading(usize, Reading),
    /// See [`Pipeline::ingest_interval`].
    Interval(usize, Interval),
    /// See [`Pipeline::ingest_interval_of_parts`].
    IntervalOfParts(usize, Interval),
    /// See [`Pipeline::divide_into_parts`].
    Parts(usize, bool),
    /// See [`Pipeline::export_metric`].
    Metric(usize, DeviceMetric),
    /// See [`Pipeline::count_xids`]: when, the code and the number.
    Xids(usize, Timestamp, u64, u64),
    /// See [`Pipeline::emit_event`].
    Event(usize, GpuEvent),
    /// See [`Pipeline::export_hardware_after`].
    HardwareAfter(usize, Timestamp),
    /// See [`Pipeline::change_holders`].
    Holders(usize, HolderChange),
    /// See [`Pipeline::hold_part`].
    HoldPart(usize),
    /// See [`Pipeline::record_work`].
    Work(Timestamp, WorkUnit, WorkGroup, u64),
    /// See [`Pipeline::price_unpriced`].
    Prices,
    /// See [`Pipeline::step_wall_clock`].
    WallClock(Step),
    /// See [`Pipeline::set_utc_offset`].
    UtcOffset(Option<i32>),
    /// Requests left that are not made again, so many: results of policies, and notices of interruptions.
    Left(u64),
}

/// What changes a run beside each [`Change`]: it is not made again from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherChange {
    /// See [`Pipeline::change_prices`] and [`Pipeline::take_price`].
    #[error("prices have changed")]
    Prices,
    /// See [`Pipeline::change_alerts`].
    #[error("alerts have changed")]
    Alerts,
    /// See [`Pipeline::begin_experiment`].
    #[error("the workload has begun an experiment")]
    Experiment,
    /// See [`Pipeline::log_charges`].
    #[error("spans are priced")]
    Charges,
    /// See [`Pipeline::leave_metrics`].
    #[error("the agent of the node exports metrics of its GPUs")]
    HandOver,
    /// See [`Pipeline::end_part_at`].
    #[error("it is reported in parts")]
    Part,
    /// Work in a unit that is not known.
    #[error("work has another unit")]
    WorkUnit,
}

/// The changes of a run that are to be kept.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Those since they were last taken.
    new: Vec<Change>,
    /// What else has changed the run, if anything has.
    other: Option<OtherChange>,
}

impl Pipeline<'_> {
    /// Keeps all changes from now on, until they are taken. To be called before the first one, of a run that meters the
    /// GPUs of its machine: a gateway makes other changes.
    pub fn keep_changes(&mut self) {
        self.changes = Some(Changes::default());
        self.record(|this| Change::UtcOffset(this.meter.utc_offset));
    }

    /// The changes since the last call, if they are kept.
    ///
    /// # Errors
    /// Returns what else has changed the run, if anything has: its changes do not make it again.
    pub fn take_changes(&mut self) -> Result<Vec<Change>, OtherChange> {
        let Some(changes) = &mut self.changes else { return Ok(Vec::new()) };
        changes.other.map_or_else(|| Ok(std::mem::take(&mut changes.new)), Err)
    }

    /// Keeps no changes any more: nobody takes them.
    pub fn discard_changes(&mut self) {
        self.changes = None;
    }

    /// Changes the run as another one was changed. `identities` are the GPUs that were added.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn apply(
        &mut self,
        change: Change,
        identities: &mut Vec<GpuIdentity>,
    ) -> Result<(), PipelineError> {
        match change {
            Change::Gpu(identity, start) => {
                self.add(&identity, start);
                identities.push(identity);
            }
            // What was late then is late again.
            Change::Reading(gpu, reading) => _ = self.ingest(gpu, &reading, identities)?,
            Change::Interval(gpu, interval) => _ = self.ingest_interval(gpu, interval),
            Change::IntervalOfParts(gpu, interval) => {
                self.ingest_interval_of_parts(gpu, interval);
            }
            Change::Parts(gpu, are_apart) => self.divide_into_parts(gpu, are_apart),
            Change::Metric(gpu, metric) => self.export_metric(gpu, metric),
            Change::Xids(gpu, at, code, count) => self.count_xids(gpu, at, code, count),
            Change::Event(gpu, event) => self.emit_event(gpu, &event)?,
            Change::HardwareAfter(gpu, at) => self.export_hardware_after(gpu, at),
            Change::Holders(gpu, change) => self.change_holders(gpu, change),
            Change::HoldPart(gpu) => self.hold_part(gpu),
            Change::Work(at, unit, group, count) => {
                self.record_work(at, unit.name(), &group, count);
            }
            Change::Prices => self.price_unpriced(),
            Change::WallClock(step) => self.step_wall_clock(&step)?,
            Change::UtcOffset(offset) => self.set_utc_offset(offset),
            Change::Left(_) => self.send()?,
        }
        Ok(())
    }

    /// Keeps a change that is about to be made, if they are kept.
    pub(super) fn record(&mut self, change: impl FnOnce(&Self) -> Change) {
        if self.changes.as_ref().is_some_and(|changes| changes.other.is_none()) {
            let change = change(self);
            if let Some(changes) = &mut self.changes {
                changes.new.push(change);
            }
        }
    }

    /// The run is changed by something else.
    pub(super) fn stop_changes(&mut self, other: OtherChange) {
        if let Some(changes) = self.changes.as_mut().filter(|changes| changes.other.is_none()) {
            *changes = Changes { new: Vec::new(), other: Some(other) };
        }
    }
}
