//! Values of a GPU that only some sources have: activity of its engines, reasons for reduced clocks,
//! fan, PCIe link, memory errors. A reading carries them in a byte each.

use crate::quantity::{Quantity, Unit};
use crate::units::{PPM, Utilization};

/// One of these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceColumn {
    /// Share of the time in which memory was read or written (`utilization.memory`).
    MemoryUtilization,
    /// Use of the video encoder (`utilization.encoder`).
    Encoder,
    /// Use of the video decoder (`utilization.decoder`).
    Decoder,
    /// Fan speed, relative to its maximum (`fan.speed`).
    Fan,
    /// Multiprocessors with at least one warp.
    Sm,
    /// Time in which the graphics or compute engine worked.
    GrEngine,
    /// Tensor cores.
    Tensor,
    /// Memory bandwidth.
    Dram,
    /// Bandwidth of the NVLink links.
    NvLink,
    /// Bandwidth of the PCIe link, of both directions together.
    Pcie,
    /// Current generation of the PCIe link.
    PcieGeneration,
    /// Current lanes of the PCIe link.
    PcieWidth,
    /// Maximum lanes of the PCIe link.
    PcieMaxWidth,
    /// Uncorrected memory errors since the driver was loaded (`ecc.errors.uncorrected.volatile.total`).
    MemoryErrors,
    /// Clocks reduced because the power limit was reached.
    PowerCap,
    /// Clocks reduced to those of other GPUs.
    SyncBoost,
    /// Clocks that the driver reduced because of heat.
    SoftwareThermal,
    /// Clocks that the hardware reduced because of heat.
    HardwareThermal,
    /// Clocks reduced by a signal from the power supply.
    PowerBrake,
}

/// Values of shares are kept in steps of half a percent.
const STEP: u32 = PPM / 200;

impl DeviceColumn {
    /// Number of columns.
    pub const COUNT: usize = Self::ALL.len();

    /// All columns.
    pub const ALL: [Self; 19] = [
        Self::MemoryUtilization,
        Self::Encoder,
        Self::Decoder,
        Self::Fan,
        Self::Sm,
        Self::GrEngine,
        Self::Tensor,
        Self::Dram,
        Self::NvLink,
        Self::Pcie,
        Self::PcieGeneration,
        Self::PcieWidth,
        Self::PcieMaxWidth,
        Self::MemoryErrors,
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
    ];

    /// The reasons for reduced clocks.
    pub const THROTTLING: [Self; 5] = [
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
    ];

    /// Whether it is a share, and not a number.
    #[must_use]
    pub const fn is_share(self) -> bool {
        matches!(self.quantity().unit(), Unit::Ppm)
    }

    /// Whether its mean is that of the time in which the GPU worked: idle time does not show what
    /// a job needs.
    #[must_use]
    pub const fn is_of_work(self) -> bool {
        self.is_share() && !matches!(self, Self::Fan)
    }

    /// The quantity of its values.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::MemoryUtilization => Quantity::MemoryUtilization,
            Self::Encoder => Quantity::Encoder,
            Self::Decoder => Quantity::Decoder,
            Self::Fan => Quantity::FanSpeed,
            Self::Sm => Quantity::SmActivity,
            Self::GrEngine => Quantity::GraphicsActivity,
            Self::Tensor => Quantity::TensorActivity,
            Self::Dram => Quantity::DramActivity,
            Self::NvLink => Quantity::NvlinkActivity,
            Self::Pcie => Quantity::PcieActivity,
            Self::PcieGeneration => Quantity::PcieGeneration,
            Self::PcieWidth => Quantity::PcieWidth,
            Self::PcieMaxWidth => Quantity::PcieMaxWidth,
            Self::MemoryErrors => Quantity::MemoryErrors,
            Self::PowerCap
            | Self::SyncBoost
            | Self::SoftwareThermal
            | Self::HardwareThermal
            | Self::PowerBrake => Quantity::Throttling,
        }
    }

    /// Whether it is of a video engine, which works beside kernels: utilization does not show its work.
    const fn is_video(self) -> bool {
        matches!(self, Self::Encoder | Self::Decoder)
    }
}

/// The bit of each reason for reduced clocks.
const EVENT_REASONS: [(DeviceColumn, u64); 5] = [
    (DeviceColumn::PowerCap, 0x04),
    (DeviceColumn::SyncBoost, 0x10),
    (DeviceColumn::SoftwareThermal, 0x20),
    (DeviceColumn::HardwareThermal, HEAT),
    (DeviceColumn::PowerBrake, POWER_BRAKE),
];

/// The bits of clocks that the hardware reduced: because of heat, because of the power supply, or either.
const HEAT: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;
const HARDWARE_SLOWDOWN: u64 = 0x08;
const HARDWARE: u64 = HARDWARE_SLOWDOWN | HEAT | POWER_BRAKE;

/// The values of all columns: a missing one is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState([u8; DeviceColumn::COUNT]);

impl DeviceState {
    /// All values missing.
    pub const NONE: Self = Self([0; DeviceColumn::COUNT]);

    /// Whether all values are missing.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == Self::NONE.0
    }

    /// The share in this column, rounded to half a percent.
    #[must_use]
    pub fn share(&self, column: DeviceColumn) -> Option<Utilization> {
        self.steps(column).and_then(|steps| Utilization::from_ppm((steps * STEP).min(PPM)))
    }

    /// The number in this column.
    #[must_use]
    pub fn number(&self, column: DeviceColumn) -> Option<u32> {
        self.steps(column)
    }

    /// Sets a share.
    #[inline]
    pub fn set_share(&mut self, column: DeviceColumn, share: Option<Utilization>) {
        self.set(column, share.map(|share| (share.ppm() + STEP / 2) / STEP));
    }

    /// Sets a number; one above 254 is 254.
    #[inline]
    pub fn set_number(&mut self, column: DeviceColumn, number: Option<u32>) {
        self.set(column, number.map(|number| number.min(254)));
    }

    /// Sets the reasons for reduced clocks that are active, as the bit mask of NVML and DCGM
    /// (`nvmlClocksEventReason…`).
    pub fn set_event_reasons(&mut self, active: u64) {
        // Older drivers have only the sum of the last two, which is mostly heat.
        let active = if active & HARDWARE == HARDWARE_SLOWDOWN { active | HEAT } else { active };
        for (reason, bit) in EVENT_REASONS {
            let share = if active & bit == 0 { Utilization::ZERO } else { Utilization::FULL };
            self.set_share(reason, Some(share));
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
    pub(crate) fn steps(&self, column: DeviceColumn) -> Option<u32> {
        self.0[column as usize].checked_sub(1).map(u32::from)
    }

    #[inline]
    fn set(&mut self, column: DeviceColumn, value: Option<u32>) {
        let value = value.and_then(|value| u8::try_from(value).ok()?.checked_add(1));
        self.0[column as usize] = value.unwrap_or_default();
    }
}

/// Means and maxima of the columns over readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMeans([Mean; DeviceColumn::COUNT]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mean {
    sum: u64,
    count: u64,
    max: u8,
}

impl DeviceMeans {
    /// Records the values of a reading; `works` is whether the GPU worked then.
    #[inline(never)]
    pub(crate) fn record(&mut self, state: &DeviceState, works: bool) {
        for (column, mean) in DeviceColumn::ALL.into_iter().zip(&mut self.0) {
            if let Some(value) = state.steps(column)
                && (works || !column.is_of_work() || (column.is_video() && value > 0))
            {
                mean.sum += u64::from(value);
                mean.count += 1;
                mean.max = mean.max.max(u8::try_from(value).unwrap_or(u8::MAX));
            }
        }
    }

    /// The readings since an earlier state. Maxima are of the whole run.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        for (mean, earlier) in self.0.iter_mut().zip(earlier.0) {
            mean.sum -= earlier.sum;
            mean.count -= earlier.count;
        }
        self
    }

    /// The mean: of shares 0–1; `None` without readings.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn mean(&self, column: DeviceColumn) -> Option<f64> {
        let Mean { sum, count, .. } = self.0[column as usize];
        (count > 0).then(|| sum as f64 / count as f64 / scale(column))
    }

    /// The maximum: of shares 0–1; `None` without readings.
    #[must_use]
    pub fn max(&self, column: DeviceColumn) -> Option<f64> {
        let Mean { count, max, .. } = self.0[column as usize];
        (count > 0).then(|| f64::from(max) / scale(column))
    }
}

fn scale(column: DeviceColumn) -> f64 {
    if column.is_share() { f64::from(PPM / STEP) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(percent: u32) -> Option<Utilization> {
        Utilization::from_percent(percent)
    }

    #[test]
    fn values_are_kept_and_missing_is_not_zero() {
        let mut state = DeviceState::NONE;
        assert!(state.is_none() && state.share(DeviceColumn::Sm).is_none());
        for (column, value) in DeviceColumn::ALL.into_iter().zip((0..).step_by(5)) {
            state.set_share(column, percent(value));
        }
        for (column, value) in DeviceColumn::ALL.into_iter().zip((0..).step_by(5)) {
            assert_eq!(state.share(column), percent(value), "{column:?}");
        }
        state.set_number(DeviceColumn::PcieWidth, Some(16));
        assert_eq!(state.number(DeviceColumn::PcieWidth), Some(16));
        state.set_number(DeviceColumn::PcieWidth, Some(300));
        assert_eq!(state.number(DeviceColumn::PcieWidth), Some(254));
        state.set_share(DeviceColumn::Sm, Utilization::from_ppm(123_456));
        assert_eq!(state.share(DeviceColumn::Sm), Utilization::from_ppm(125_000));
    }

    #[test]
    fn video_engine_works_beside_kernels() {
        let mut means = DeviceMeans::default();
        let mut record = |decoder, works| {
            let mut state = DeviceState::NONE;
            state.set_share(DeviceColumn::Decoder, percent(decoder));
            state.set_share(DeviceColumn::NvLink, percent(decoder));
            means.record(&state, works);
            means.mean(DeviceColumn::Decoder)
        };
        assert_eq!(record(0, false), None, "it rests");
        assert_eq!(record(80, false), Some(0.8), "it decodes, without kernels");
        assert_eq!(record(40, true), Some(0.6));
        assert_eq!(record(0, true), Some(0.4), "the job does not need it");
        assert_eq!(means.mean(DeviceColumn::NvLink), Some(0.2));
    }

    #[test]
    fn mean_of_activity_is_that_of_work() {
        let mut state = DeviceState::NONE;
        state.set_share(DeviceColumn::Tensor, percent(40));
        state.set_share(DeviceColumn::Fan, percent(40));
        let (mut means, idle) = (DeviceMeans::default(), DeviceState::NONE);
        means.record(&state, true);
        let before = means;
        state.set_share(DeviceColumn::Tensor, percent(0));
        state.set_share(DeviceColumn::Fan, percent(20));
        means.record(&state, false);
        means.record(&idle, true);
        assert_eq!(means.mean(DeviceColumn::Tensor), Some(0.4));
        assert_eq!(means.mean(DeviceColumn::Fan), Some(0.3));
        assert_eq!(means.mean(DeviceColumn::Sm), None);
        let since = means.since(&before);
        assert_eq!(
            (since.mean(DeviceColumn::Fan), since.max(DeviceColumn::Fan)),
            (Some(0.2), Some(0.4))
        );
        assert_eq!(since.mean(DeviceColumn::Tensor), None);
    }
}
