//! The health of a GPU: `hw.status`.
//!
//! Each state is 0 or 1 by itself: a GPU can be degraded and predicted to fail. Must not depend on
//! how its causes are measured.

use phasemeter_meter::device_metric::Counter;
use phasemeter_meter::reading::{MissingReason, Reading};

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

/// What affects the health of a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// A fatal XID since the GPU was found or recovered.
    has_failed: bool,
    /// Clocks reduced by heat or the power supply, or another XID, since the last export.
    is_degraded: bool,
    /// Memory rows wait for a reset to be remapped, or cannot be.
    is_failing: bool,
}

impl Health {
    /// Records an error reported by the driver.
    pub(super) fn record_xid(&mut self, code: u64) {
        if FATAL_XIDS.contains(&code) {
            self.has_failed = true;
        } else {
            self.is_degraded = true;
        }
    }

    /// Records that a counter rose.
    pub(super) const fn record_rise(&mut self, counter: Counter) {
        match counter {
            Counter::SoftwareThermal | Counter::HardwareThermal | Counter::PowerBrake => {
                self.is_degraded = true;
            }
            Counter::PowerCap
            | Counter::SyncBoost
            | Counter::Received
            | Counter::Transmitted
            | Counter::Corrected
            | Counter::Uncorrected
            | Counter::Replays
            | Counter::Recoveries
            | Counter::CrcErrors => {}
        }
    }

    /// Records whether rows are being remapped.
    pub(super) const fn record_row_remapping(&mut self, pending: bool, failed: bool) {
        self.is_failing = pending || failed;
    }

    /// Records that the GPU was reset and responds again.
    pub(super) const fn recover(&mut self) {
        self.has_failed = false;
    }

    /// Adds the states as of the last reading since the last export, if any.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        let Some(reading) = export.last_reading() else { return };
        for (state, holds) in self.states(reading) {
            let mut attributes = export.attributes.hardware("hw.type", "gpu");
            attributes.push(text("hw.state", state));
            batch.hardware.add(&HW_STATUS, integer(export.start, attributes, u64::from(holds)));
        }
        self.is_degraded = false;
    }

    fn states(&self, reading: &Reading) -> [(&'static str, bool); 4] {
        let Self { has_failed, is_degraded, is_failing } = *self;
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
        for counter in Counter::ALL {
            use Counter::{HardwareThermal, PowerBrake, SoftwareThermal};
            let degrades = [SoftwareThermal, HardwareThermal, PowerBrake].contains(&counter);
            let expected = if degrades { "degraded" } else { "ok" };
            assert_eq!(after(&|health| health.record_rise(counter)), [expected], "{counter:?}");
        }
        for code in [13, 31, 43, 45, 63, 74, 92, 94] {
            assert_eq!(after(&|health| health.record_xid(code)), ["degraded"], "{code}");
        }
        for code in [48, 64, 79, 95, 119] {
            assert_eq!(after(&|health| health.record_xid(code)), ["failed"], "{code}");
        }
        for (pending, failed) in [(true, false), (false, true), (true, true)] {
            let changed = after(&|health| health.record_row_remapping(pending, failed));
            assert_eq!(changed, ["predicted_failure"]);
        }
    }

    #[test]
    fn states_hold_together_and_end_with_their_cause() {
        let reading = Reading::at(Timestamp::default());
        let mut health = Health::default();
        health.record_xid(94);
        health.record_xid(79);
        health.record_row_remapping(true, false);
        assert_eq!(states(&health, &reading), ["degraded", "failed", "predicted_failure"]);
        health.recover();
        health.record_row_remapping(false, false);
        assert_eq!(states(&health, &reading), ["degraded"], "until it is exported");
    }
}
