//! What the sensors of a GPU measured, in a window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fixture_value::{named, scalar};

/// Clocks, temperature, power, memory, activity and errors of a GPU. `None` if not recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensors {
    /// Mean SM clock while the GPU was at least 90% busy, in MHz.
    #[serde(rename = "sm_clock_mhz", default)]
    pub sm_clock: Option<f64>,
    /// The highest of these clocks.
    #[serde(rename = "max_sm_clock_mhz", default)]
    pub max_sm_clock: Option<f64>,
    /// Mean temperature, in degrees Celsius.
    #[serde(rename = "temperature_celsius", default)]
    pub temperature: Option<f64>,
    /// The highest temperature.
    #[serde(rename = "max_temperature_celsius", default)]
    pub max_temperature: Option<f64>,
    /// Power in watts while the GPU worked.
    #[serde(rename = "busy_power_watts", default)]
    pub busy_power: Option<Percentiles>,
    /// Memory in use in bytes, of the points of the column `memory`.
    #[serde(rename = "memory_in_use_bytes", default)]
    pub memory_in_use: Option<Percentiles>,
    /// Mean SM activity while the GPU worked, 0–1.
    #[serde(default)]
    pub sm_activity: Option<f64>,
    /// The same of tensor cores.
    #[serde(default)]
    pub tensor_activity: Option<f64>,
    /// The same of the memory.
    #[serde(default)]
    pub dram_activity: Option<f64>,
    /// Share of this time in which clocks were reduced, by reason, if recorded.
    #[serde(default)]
    pub throttling: Vec<Throttling>,
    /// Errors by XID code, at most 64.
    #[serde(default)]
    pub xids: BTreeMap<u64, u32>,
}

/// The most XID codes of a GPU.
pub const MAX_XIDS: usize = 64;

/// Percentiles and the maximum of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// The 5th.
    pub p5: f64,
    /// The median.
    pub p50: f64,
    /// The 95th.
    pub p95: f64,
    /// The maximum of the run.
    pub max: f64,
}

/// A reason for reduced clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttling {
    /// The reason.
    #[serde(with = "scalar")]
    pub reason: ThrottleReason,
    /// Share of the time, 0–1.
    pub share: f64,
}

/// Why clocks are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottleReason {
    /// The power limit.
    PowerCap,
    /// The clocks of other GPUs.
    SyncBoost,
    /// Heat, by the driver.
    SoftwareThermal,
    /// Heat, by the hardware.
    HardwareThermal,
    /// The power supply.
    PowerBrake,
}

impl ThrottleReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
    ];

    /// The name in fixture files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerCap => "power_cap",
            Self::SyncBoost => "sync_boost",
            Self::SoftwareThermal => "software_thermal",
            Self::HardwareThermal => "hardware_thermal",
            Self::PowerBrake => "power_brake",
        }
    }
}

named!(ThrottleReason, "reason");
