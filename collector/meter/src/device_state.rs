//! Values of a GPU that only some sources have: activity of its engines, reasons for reduced clocks,
//! fan, PCIe link, memory errors. A reading carries them in a byte each.

pub use super::device_means::DeviceMeans;
use crate::quantity::Quantity;
use crate::units::{PPM, Utilization};

/// Values of shares are kept in steps of half a percent.
pub(crate) const STEP: u32 = PPM / 200;

/// The bit of each reason for reduced clocks.
const EVENT_REASONS: [(Quantity, u64); 5] = [
    (Quantity::PowerCap, 0x04),
    (Quantity::SyncBoost, 0x10),
    (Quantity::SoftwareThermal, 0x20),
    (Quantity::HardwareThermal, HEAT),
    (Quantity::PowerBrake, POWER_BRAKE),
];

/// The bits of clocks that the hardware reduced: because of heat, because of the power supply, or either.
const HEAT: u64 = 0x40;

const POWER_BRAKE: u64 = 0x80;

const HARDWARE_SLOWDOWN: u64 = 0x08;

const HARDWARE: u64 = HARDWARE_SLOWDOWN | HEAT | POWER_BRAKE;

/// The values of the kept quantities: a missing one is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceState([u8; Quantity::KEPT]);

impl DeviceState {
    /// All values missing.
    pub const NONE: Self = Self([0; Quantity::KEPT]);

    /// Whether all values are missing.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == Self::NONE.0
    }

    /// A share, rounded to half a percent; the whole if it is more.
    #[must_use]
    pub fn share(&self, quantity: Quantity) -> Option<Utilization> {
        self.steps(quantity).and_then(|steps| Utilization::from_ppm((steps * STEP).min(PPM)))
    }

    /// A number.
    #[must_use]
    pub fn number(&self, quantity: Quantity) -> Option<u32> {
        self.steps(quantity)
    }

    /// Sets a value in the unit of its quantity, if that is kept. A share above the whole is the whole; a number
    /// above 254 is 254.
    #[inline]
    pub fn set(&mut self, quantity: Quantity, value: Option<u32>) {
        let steps = |value: u32| match quantity.is_share() {
            true => (value.min(PPM) + STEP / 2) / STEP,
            false => value.min(254),
        };
        let kept = value.and_then(|value| u8::try_from(steps(value)).ok()?.checked_add(1));
        if let Some(place) = self.0.get_mut(quantity.place()) {
            *place = kept.unwrap_or_default();
        }
    }

    /// Sets the reasons for reduced clocks that are active, as the bit mask of NVML and DCGM
    /// (`nvmlClocksEventReason…`).
    pub fn set_event_reasons(&mut self, active: u64) {
        // Older drivers have only the sum of the last two, which is mostly heat.
        let active = if active & HARDWARE == HARDWARE_SLOWDOWN { active | HEAT } else { active };
        for (reason, bit) in EVENT_REASONS {
            self.set(reason, Some(if active & bit == 0 { 0 } else { PPM }));
        }
    }

    /// These values, and those of `other` for the missing ones.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        for (value, other) in self.0.iter_mut().zip(other.0) {
            if *value == 0 {
                *value = other;
            }
        }
        self
    }

    /// In half percents, or the number; 0 is missing, so that the default is.
    pub(crate) fn steps(&self, quantity: Quantity) -> Option<u32> {
        self.0.get(quantity.place())?.checked_sub(1).map(u32::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn percent(percent: u32) -> u32 {
        percent * 10_000
    }

    #[test]
    fn values_are_kept_and_missing_is_not_zero() {
        let mut state = DeviceState::NONE;
        assert!(state.is_none() && state.share(Quantity::SmActivity).is_none());
        let shares = || Quantity::kept().filter(|it| it.is_share());
        for (quantity, value) in shares().zip((0..).step_by(5)) {
            state.set(quantity, Some(percent(value)));
        }
        for (quantity, value) in shares().zip((0..).step_by(5)) {
            assert_eq!(state.share(quantity), Utilization::from_percent(value), "{quantity:?}");
        }
        state.set(Quantity::FanSpeed, Some(percent(104)));
        assert_eq!(state.share(Quantity::FanSpeed), Some(Utilization::FULL));
        state.set(Quantity::Temperature, Some(50));
        assert_eq!(state.number(Quantity::Temperature), None, "it is not kept");
        state.set(Quantity::PcieWidth, Some(16));
        assert_eq!(state.number(Quantity::PcieWidth), Some(16));
        state.set(Quantity::PcieWidth, Some(300));
        assert_eq!(state.number(Quantity::PcieWidth), Some(254));
        state.set(Quantity::SmActivity, Some(123_456));
        assert_eq!(state.share(Quantity::SmActivity), Utilization::from_ppm(125_000));
    }

    #[test]
    fn video_engine_works_beside_kernels() {
        let mut means = DeviceMeans::default();
        let mut record = |decoder, works| {
            let mut state = DeviceState::NONE;
            state.set(Quantity::Decoder, Some(percent(decoder)));
            state.set(Quantity::NvlinkActivity, Some(percent(decoder)));
            means.record(&state, works);
            means.mean(Quantity::Decoder)
        };
        assert_eq!(record(0, false), None, "it rests");
        assert_eq!(record(80, false), Some(0.8), "it decodes, without kernels");
        assert_eq!(record(40, true), Some(0.6));
        assert_eq!(record(0, true), Some(0.4), "the job does not need it");
        assert_eq!(means.mean(Quantity::NvlinkActivity), Some(0.2));
    }

    #[test]
    fn mean_of_activity_is_that_of_work() {
        let mut state = DeviceState::NONE;
        state.set(Quantity::TensorActivity, Some(percent(40)));
        state.set(Quantity::FanSpeed, Some(percent(40)));
        let (mut means, idle) = (DeviceMeans::default(), DeviceState::NONE);
        means.record(&state, true);
        let before = means;
        state.set(Quantity::TensorActivity, Some(percent(0)));
        state.set(Quantity::FanSpeed, Some(percent(20)));
        means.record(&state, false);
        means.record(&idle, true);
        assert_eq!(means.mean(Quantity::TensorActivity), Some(0.4));
        assert_eq!(means.mean(Quantity::FanSpeed), Some(0.3));
        assert_eq!(means.mean(Quantity::SmActivity), None);
        let since = means.since(&before);
        assert_eq!(
            (since.mean(Quantity::FanSpeed), since.max(Quantity::FanSpeed)),
            (Some(0.2), Some(0.4))
        );
        assert_eq!(since.mean(Quantity::TensorActivity), None);
    }
}
