//! Work that was done during the run, and the groups whose work GPUs do.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;
#[cfg(feature = "full")]
use phasemeter_meter::work_unit::WorkUnit;
use phasemeter_otlp::encode::Exporter;

use super::Pipeline;

/// Counts by group and unit.
pub type WorkByGroup = BTreeMap<WorkGroup, BTreeMap<&'static str, u64>>;

impl Pipeline<'_> {
    /// States no cost per unit of work: other meters have a part of the GPUs that do it.
    pub fn leave_out_unit_costs(&mut self) {
        self.has_unit_costs = false;
        self.exporter.iter_mut().for_each(Exporter::leave_out_unit_costs);
    }

    /// Adds work of a group that was done at this instant.
    pub fn record_work(
        &mut self,
        at: Timestamp,
        unit: &'static str,
        group: &WorkGroup,
        count: u64,
    ) {
        #[cfg(feature = "full")]
        match WorkUnit::from_name(unit) {
            Some(unit) => self.record(|_| super::Change::Work(at, unit, group.clone(), count)),
            None => self.stop_changes(super::OtherChange::WorkUnit),
        }
        let sum = self.work.entry(unit.to_owned()).or_default();
        *sum = sum.saturating_add(count);
        let of_group = self.work_by_group.entry(group.clone()).or_default();
        let sum = of_group.entry(unit).or_default();
        *sum = sum.saturating_add(count);
        if let Some(exporter) = &mut self.exporter {
            exporter.record_work(at, unit, group, count);
        }
    }

    /// A GPU does the work of this group, too, in this time, which is not metered yet.
    pub fn serve(&mut self, gpu: usize, group: WorkGroup, from: Timestamp, until: Timestamp) {
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.serving.add(group, from, until);
        }
    }

    /// Sets the work of the whole run.
    pub fn set_work(&mut self, work: BTreeMap<String, u64>) {
        self.work = work;
    }
}
