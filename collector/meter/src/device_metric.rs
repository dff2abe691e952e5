//! Device metrics: what a source measures of a GPU beside its readings.
//!
//! They are exported and posted to no account. Must not depend on their names on the wire.

use crate::units::{Timestamp, Utilization};

/// One device metric at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMetric {
    /// When the value was true; for a mean, the end of its interval.
    pub at: Timestamp,
    /// The value.
    pub value: DeviceValue,
}

/// The value of a device metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceValue {
    /// The mean activity of an engine over an interval.
    Activity {
        /// The engine.
        engine: Engine,
        /// Start of the interval; it ends at [`DeviceMetric::at`].
        from: Timestamp,
        /// The share of the interval, or of the engine's capacity, in use.
        mean: Utilization,
    },
    /// A cumulative counter. Its zero is arbitrary: only its increase has a meaning.
    Count {
        /// The counter.
        counter: Counter,
        /// Its value, in the counter's unit.
        total: u64,
    },
    /// Remapping of faulty memory rows.
    RowRemapping {
        /// Rows are remapped at the next reset of the GPU.
        pending: bool,
        /// A row could not be remapped.
        failed: bool,
    },
}

/// A part of a GPU whose activity the driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Streaming multiprocessors with at least one warp (GPM `SmUtil`).
    Sm,
    /// Tensor cores (GPM `AnyTensorUtil`).
    Tensor,
    /// Memory bandwidth (GPM `DramBwUtil`).
    Dram,
    /// The video encoder (`nvmlDeviceGetEncoderUtilization`).
    Encoder,
    /// The video decoder (`nvmlDeviceGetDecoderUtilization`).
    Decoder,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Self; 5] = [Self::Sm, Self::Tensor, Self::Dram, Self::Encoder, Self::Decoder];
}

/// A cumulative counter of the driver (`nvmlDeviceGetFieldValues`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Nanoseconds of reduced clocks because the power limit was reached.
    PowerCap,
    /// Nanoseconds of clocks reduced to those of other GPUs.
    SyncBoost,
    /// Nanoseconds of clocks that the driver reduced because of heat.
    SoftwareThermal,
    /// Nanoseconds of clocks that the hardware reduced because of heat.
    HardwareThermal,
    /// Nanoseconds of clocks reduced by a signal from the power supply.
    PowerBrake,
    /// Bytes received over PCIe.
    Received,
    /// Bytes transmitted over PCIe.
    Transmitted,
    /// Corrected memory errors.
    Corrected,
    /// Uncorrected memory errors.
    Uncorrected,
}

impl Counter {
    /// Every counter.
    pub const ALL: [Self; 9] = [
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
        Self::Received,
        Self::Transmitted,
        Self::Corrected,
        Self::Uncorrected,
    ];
}
