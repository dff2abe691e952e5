//! Measurements: what a source knows of a GPU beside its readings.
//!
//! They go on the wire and into no account, so nothing waits for them. This room must not know what
//! they are called there.

use phasemeter_meter::units::{Timestamp, Utilization};

/// What was measured by an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// When it was true; of a mean, where its stretch ends.
    pub at: Timestamp,
    /// What.
    pub value: Measured,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The mean of a share over a stretch of time.
    Mean {
        /// What was in use.
        share: Share,
        /// Where the stretch begins.
        from: Timestamp,
        /// How much of it.
        mean: Utilization,
    },
    /// What a counter stood at. Its zero is nobody's: only what it rises by means anything.
    Stood {
        /// Which.
        counter: Counter,
        /// In its own unit.
        at: u64,
    },
}

/// A part of a GPU that is in use for a share of the time, or of what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Multiprocessors that had work (GPM `SmUtil`).
    Sm,
    /// Tensor cores at work (GPM `AnyTensorUtil`).
    Tensor,
    /// Memory bandwidth (GPM `DramBwUtil`).
    Dram,
    /// The video encoder (`nvmlDeviceGetEncoderUtilization`).
    Encoder,
    /// The video decoder (`nvmlDeviceGetDecoderUtilization`).
    Decoder,
}

impl Share {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sm, Self::Tensor, Self::Dram, Self::Encoder, Self::Decoder];
}

/// A counter of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Nanoseconds in which clocks were held back: the power limit was reached.
    PowerCap,
    /// Nanoseconds in which clocks were held back to those of other GPUs.
    SyncBoost,
    /// Nanoseconds in which the driver held clocks back because of heat.
    SoftwareThermal,
    /// Nanoseconds in which the hardware held clocks back because of heat.
    HardwareThermal,
    /// Nanoseconds in which clocks were held back by a signal from the power supply.
    PowerBrake,
    /// Bytes that came over PCIe.
    Received,
    /// Bytes that went over PCIe.
    Transmitted,
    /// Errors of memory that were corrected.
    Corrected,
    /// Errors of memory that were not.
    Uncorrected,
}

impl Counter {
    /// All of them.
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
