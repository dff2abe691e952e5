//! Work that was done during the run.
//!
//! Must not depend on its sender.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::Exporter;

use super::Pipeline;

impl Pipeline<'_> {
    /// States no cost per unit of work: other meters have a part of the GPUs that do it.
    pub fn leave_out_unit_costs(&mut self) {
        self.has_unit_costs = false;
        self.exporter.iter_mut().for_each(Exporter::leave_out_unit_costs);
    }

    /// Adds work that was done at this instant.
    pub fn record_work(&mut self, at: Timestamp, unit: &'static str, count: u64) {
        let sum = self.work.entry(unit.to_owned()).or_default();
        *sum = sum.saturating_add(count);
        if let Some(exporter) = &mut self.exporter {
            exporter.record_work(at, unit, count);
        }
    }

    /// Sets the work of the whole run.
    pub fn set_work(&mut self, work: BTreeMap<String, u64>) {
        self.work = work;
    }
}
