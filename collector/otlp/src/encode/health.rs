//! The health of a GPU: `hw.status`.
//!
//! Each state is 0 or 1 by itself: a GPU can be degraded and predicted to fail.

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Utilization;

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::instruments::HW_STATUS;
use super::values::{integer, text};

/// XIDs that make a GPU unusable until it is reset: those for which the immediate action in NVIDIA's
/// catalog (<https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>, October 2025) is
/// to reset the GPU or to restart the machine, and 48, an uncorrectable memory error, for which it is
/// a procedure that ends with a reset.
const FATAL_XIDS: [u64; 17] =
    [46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158];

/// Reasons for reduced clocks that show a fault.
const FAULTS: [Quantity; 3] =
    [Quantity::SoftwareThermal, Quantity::HardwareThermal, Quantity::PowerBrake];

/// What affects the health of a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// Whether anything about its health was ever measured.
    is_known: bool,
    /// A fatal XID since the GPU was found or recovered.
    has_failed: bool,
    /// Clocks reduced by heat or the power supply, or another XID, since the last export.
    is_degraded: bool,
    /// Memory rows wait for a reset to be remapped.
    rows_pending: bool,
    /// A memory row could not be remapped.
    rows_failed: bool,
}

impl Health {
    /// Records that errors would have been reported.
    pub(super) const fn watch(&mut self) {
        self.is_known = true;
    }

    /// Records what a reading shows.
    pub(super) fn record_reading(&mut self, reading: &Reading) {
        let faults = FAULTS.map(|reason| reading.device.share(reason));
        let has_errors = reading.device.number(Quantity::MemoryErrors).is_some();
        let is_lost = reading.utilization == Err(MissingReason::Lost);
        self.is_known |= has_errors || is_lost || faults.iter().any(Option::is_some);
        self.is_degraded |= faults.iter().flatten().any(|share| *share > Utilization::ZERO);
    }

    /// Records an error reported by the driver.
    pub(super) fn record_xid(&mut self, code: u64) {
        self.watch();
        if FATAL_XIDS.contains(&code) {
            self.has_failed = true;
        } else {
            self.is_degraded = true;
        }
    }

    /// Records the value of a counter, and whether it rose.
    pub(super) fn record_counter(&mut self, counter: Quantity, rose: bool) {
        let is_fault = FAULTS.contains(&counter);
        self.is_degraded |= is_fault && rose;
        self.is_known |=
            is_fault || matches!(counter, Quantity::CorrectedErrors | Quantity::MemoryErrors);
    }

    /// Records whether rows wait to be remapped, or could not be.
    pub(super) fn record_rows(&mut self, quantity: Quantity, holds: bool) {
        self.watch();
        match quantity {
            Quantity::RowsPending => self.rows_pending = holds,
            _ => self.rows_failed = holds,
        }
    }

    /// Records that the GPU was reset and responds again.
    pub(super) const fn recover(&mut self) {
        self.has_failed = false;
    }

    /// Adds the states as of the last reading since the last export, if any. Without anything that was measured,
    /// nothing is known: a GPU is not healthy for being silent.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        let Some(reading) = export.last_reading().filter(|_| self.is_known) else { return };
        for (state, holds) in self.states(reading) {
            let mut attributes = export.attributes.hardware("hw.type", "gpu");
            attributes.push(text("hw.state", state));
            let point = integer(export.start(), attributes, u64::from(holds));
            batch.add_hardware(export.host, &HW_STATUS, point);
        }
        self.is_degraded = false;
    }

    fn states(&self, reading: &Reading) -> [(&'static str, bool); 4] {
        let Self { has_failed, is_degraded, rows_pending, rows_failed, .. } = *self;
        let is_failing = rows_pending || rows_failed;
        let has_failed = has_failed || reading.utilization == Err(MissingReason::Lost);
        [
            ("ok", !(has_failed || is_degraded || is_failing)),
            ("degraded", is_degraded),
            ("failed", has_failed),
            ("predicted_failure", is_failing),
        ]
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Timestamp;

    use super::*;

    /// The states that hold.
    fn states(health: &Health, reading: &Reading) -> Vec<&'static str> {
        let states = health.states(reading).into_iter();
        states.filter(|(_, holds)| *holds).map(|(state, _)| state).collect()
    }

    #[test]
    fn every_cause_has_its_state() {
        let reading = Reading::at(Timestamp::default());
        let lost = Reading { utilization: Err(MissingReason::Lost), ..reading };
        let after = |change: &dyn Fn(&mut Health)| {
            let mut health = Health::default();
            change(&mut health);
            states(&health, &reading)
        };
        assert_eq!(states(&Health::default(), &reading), ["ok"]);
        assert_eq!(states(&Health::default(), &lost), ["failed"]);
        for counter in Quantity::all() {
            use Quantity::{HardwareThermal, PowerBrake, SoftwareThermal};
            let degrades = [SoftwareThermal, HardwareThermal, PowerBrake].contains(&counter);
            let expected = if degrades { "degraded" } else { "ok" };
            let rise = |health: &mut Health| health.record_counter(counter, true);
            assert_eq!(after(&rise), [expected], "{counter:?}");
        }
        for code in [13, 31, 43, 45, 63, 74, 92, 94] {
            assert_eq!(after(&|health| health.record_xid(code)), ["degraded"], "{code}");
        }
        for code in [48, 64, 79, 95, 119] {
            assert_eq!(after(&|health| health.record_xid(code)), ["failed"], "{code}");
        }
        for rows in [Quantity::RowsPending, Quantity::RowsFailed] {
            assert_eq!(after(&|health| health.record_rows(rows, true)), ["predicted_failure"]);
        }
    }

    /// Guarantee: a GPU of which only utilization, memory and power were measured has no states.
    #[test]
    fn health_is_known_once_something_about_it_was_measured() {
        let mut reading = Reading::at(Timestamp::default());
        reading.utilization = Ok(Utilization::ZERO);
        let known = |change: &dyn Fn(&mut Health)| {
            let mut health = Health::default();
            health.record_reading(&reading);
            change(&mut health);
            health.is_known
        };
        assert!(!known(&|_| {}));
        assert!(!known(&|health| health.record_counter(Quantity::PcieReceived, true)));
        assert!(known(&|health| health.record_counter(Quantity::PowerBrake, false)));
        assert!(known(&|health| health.record_rows(Quantity::RowsFailed, false)));
        assert!(known(&|health| health.record_xid(13)));
        assert!(known(&Health::watch));
        let lost = Reading { utilization: Err(MissingReason::Lost), ..reading };
        assert!(known(&|health| health.record_reading(&lost)));
        for active in [0, 0x40] {
            let mut throttled = reading;
            throttled.device.set_event_reasons(active);
            let mut health = Health::default();
            health.record_reading(&throttled);
            assert_eq!((health.is_known, health.is_degraded), (true, active > 0));
        }
    }

    #[test]
    fn states_hold_together_and_end_with_their_cause() {
        let reading = Reading::at(Timestamp::default());
        let mut health = Health::default();
        health.record_xid(94);
        health.record_xid(79);
        health.record_rows(Quantity::RowsPending, true);
        health.record_rows(Quantity::RowsFailed, false);
        assert_eq!(states(&health, &reading), ["degraded", "failed", "predicted_failure"]);
        health.recover();
        health.record_rows(Quantity::RowsPending, false);
        assert_eq!(states(&health, &reading), ["degraded"], "until it is exported");
    }
}
