//! Device metrics: what a source measures of a GPU and of its components beside its readings.
//!
//! They are exported and posted to no account.

use std::fmt;

use crate::units::{Bytes, Celsius, Milliwatts, Timestamp, Utilization};

/// One device metric at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMetric {
    /// When the value was true; for a mean, the end of its interval.
    pub at: Timestamp,
    /// What was measured.
    pub component: Component,
    /// The value.
    pub value: DeviceValue,
}

/// A GPU or a component of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The GPU itself.
    Gpu,
    /// Its PCIe link.
    Pcie,
    /// One of its NVLink links, by number.
    NvLink(u8),
    /// One of its fans, by number.
    Fan(u8),
    /// One of its MIG instances.
    Mig(MigId),
}

/// The UUID of a MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigId([u8; 16]);

impl MigId {
    /// Parses `MIG-` and a UUID, as drivers from 470 on write it; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix("MIG-")?;
        let is_valid = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if uuid.len() != 36 || !uuid.bytes().enumerate().all(is_valid) {
            return None;
        }
        let digits: String = uuid.split('-').collect();
        u128::from_str_radix(&digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// `MIG-` and the UUID, as the driver writes it.
impl fmt::Display for MigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MIG-")?;
        for (at, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
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
    /// Remapping of faulty memory rows (`NVML_FI_DEV_REMAPPED_…`).
    RowRemapping {
        /// Rows are remapped at the next reset of the GPU.
        pending: bool,
        /// A row could not be remapped.
        failed: bool,
    },
    /// An instantaneous value.
    Gauge(Gauge),
    /// The power limit in force, until the next value (`nvmlDeviceGetEnforcedPowerLimit`).
    PowerLimit(Milliwatts),
}

/// An instantaneous value of a GPU or component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// The temperature of a GPU's memory (`NVML_FI_DEV_MEMORY_TEMP`).
    MemoryTemperature(Celsius),
    /// The speed of a fan in percent of its maximum (`nvmlDeviceGetFanSpeed_v2`). It can exceed 100.
    FanSpeed(u32),
    /// The memory of a MIG instance (`nvmlDeviceGetMemoryInfo`).
    Memory {
        /// In use.
        used: Bytes,
        /// Its size.
        total: Bytes,
    },
}

/// A part of a GPU whose activity the driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// A cumulative counter of the driver (`nvmlDeviceGetFieldValues`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Bytes received over a link.
    Received,
    /// Bytes transmitted over a link.
    Transmitted,
    /// Corrected memory errors.
    Corrected,
    /// Uncorrected memory errors.
    Uncorrected,
    /// Packets that a link transmitted again.
    Replays,
    /// Recoveries of a link from an error.
    Recoveries,
    /// Packets with an invalid checksum that a link received.
    CrcErrors,
}

impl Counter {
    /// Every counter.
    pub const ALL: [Self; 12] = [
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
        Self::Received,
        Self::Transmitted,
        Self::Corrected,
        Self::Uncorrected,
        Self::Replays,
        Self::Recoveries,
        Self::CrcErrors,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mig_id_reads_back_as_written() {
        let text = "MIG-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f";
        assert_eq!(MigId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
    }

    #[test]
    fn invalid_mig_id_is_rejected() {
        for text in [
            "",
            "MIG-",
            "GPU-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f",
            // Before driver 470.
            "MIG-GPU-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f/1/0",
            "MIG-4b9c1bd50e1f-5a2b-8c3d--00000000007f",
            "MIG-4b9c1bd5-0e1f-5a2b-8c3d-00000000007",
            "MIG-+b9c1bd5-0e1f-5a2b-8c3d-00000000007f",
            "MIG-4b9c1bd5-0e1f-5a2b-8c3d-0000000000é",
        ] {
            assert_eq!(MigId::parse(text), None, "{text}");
        }
    }
}
