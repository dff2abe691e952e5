//! Values of a reading, the units that they can be mapped from, and their conversion.
//!
//! A unit is stated, never guessed from values: values that contradict it are an error. Must not
//! depend on the names of metrics.

use phasemeter_meter::device_state::DeviceColumn;
use phasemeter_meter::device_totals::LinkDirection;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, PPM, Utilization,
};
use serde::Deserialize;

use super::value::Value;

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Utilization of a basis.
    Utilization,
    /// Memory in use.
    MemoryUsed,
    /// Memory that is not in use. With the memory in use it is the size, unless that is measured.
    MemoryFree,
    /// Size of the memory.
    MemoryTotal,
    /// Power draw.
    Power,
    /// Energy counter.
    Energy,
    /// Temperature.
    Temperature,
    /// SM clock.
    SmClock,
    /// Memory clock.
    MemoryClock,
    /// The last XID error, zero if there was none.
    Xid,
    /// Multiprocessors with at least one warp.
    SmActivity,
    /// Activity of the tensor cores.
    TensorActivity,
    /// Use of the memory's bandwidth.
    DramActivity,
    /// Share of the time in which memory was read or written.
    MemoryUtilization,
    /// Use of the video encoder.
    Encoder,
    /// Use of the video decoder.
    Decoder,
    /// Speed of the fan.
    FanSpeed,
    /// Active reasons for reduced clocks, as a bit mask.
    EventReasons,
    /// Current generation of the PCIe link.
    PcieGeneration,
    /// Current lanes of the PCIe link.
    PcieWidth,
    /// Maximum lanes of the PCIe link.
    PcieMaxWidth,
    /// Rate over the PCIe link to the GPU.
    PcieReceived,
    /// Rate over the PCIe link from the GPU.
    PcieTransmitted,
    /// Rate over all NVLink links to the GPU.
    NvlinkReceived,
    /// Rate over all NVLink links from the GPU.
    NvlinkTransmitted,
}

/// The unit of a metric, in UCUM's notation if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// 0 to 100.
    #[serde(rename = "percent")]
    Percent,
    /// 0 to 1.
    #[serde(rename = "ratio")]
    Ratio,
    /// Percent or ratio, by the version of the sender: the user must state it.
    #[serde(rename = "ambiguous")]
    Ambiguous,
    /// Bytes.
    By,
    /// Mebibytes.
    MiBy,
    /// Bytes per second.
    #[serde(rename = "By/s")]
    BytesPerSecond,
    /// Watts.
    W,
    /// Milliwatts.
    #[serde(rename = "mW")]
    Milliwatts,
    /// Joules.
    J,
    /// Millijoules.
    #[serde(rename = "mJ")]
    Millijoules,
    /// Degrees Celsius.
    Cel,
    /// Hertz.
    Hz,
    /// Megahertz.
    MHz,
    /// A number that identifies or counts something, or a bit mask.
    #[serde(rename = "code")]
    Code,
}

/// Why a value contradicts its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A ratio where a percent was declared.
    #[error("is declared as percent, but is a ratio; declare unit = \"ratio\" in a mapping")]
    NotPercent,
    /// A percent where a ratio was declared.
    #[error("is declared as ratio, but exceeds 1; declare unit = \"percent\" in a mapping")]
    NotRatio,
    /// The unit depends on the version of the sender.
    #[error("is percent or ratio, by the version of its sender; declare its unit in a mapping")]
    Ambiguous,
    /// The value is outside the range of its quantity.
    #[error("is out of range; check the unit in its mapping")]
    OutOfRange,
}

/// Hardware counters can exceed 1 by the error of their clocks.
const RATIO_TOLERANCE: f64 = 1.01;

impl Quantity {
    /// Whether values can have this unit.
    #[must_use]
    pub const fn permits(self, unit: Unit) -> bool {
        match self {
            Self::Utilization
            | Self::SmActivity
            | Self::TensorActivity
            | Self::DramActivity
            | Self::MemoryUtilization
            | Self::Encoder
            | Self::Decoder => matches!(unit, Unit::Percent | Unit::Ratio | Unit::Ambiguous),
            Self::MemoryUsed | Self::MemoryFree | Self::MemoryTotal => {
                matches!(unit, Unit::By | Unit::MiBy)
            }
            Self::PcieReceived
            | Self::PcieTransmitted
            | Self::NvlinkReceived
            | Self::NvlinkTransmitted => matches!(unit, Unit::BytesPerSecond),
            Self::Power => matches!(unit, Unit::W | Unit::Milliwatts),
            Self::Energy => matches!(unit, Unit::J | Unit::Millijoules),
            Self::Temperature => matches!(unit, Unit::Cel),
            Self::SmClock | Self::MemoryClock => matches!(unit, Unit::Hz | Unit::MHz),
            Self::FanSpeed => matches!(unit, Unit::Percent),
            Self::Xid
            | Self::EventReasons
            | Self::PcieGeneration
            | Self::PcieWidth
            | Self::PcieMaxWidth => matches!(unit, Unit::Code),
        }
    }

    /// The value of a number in this unit.
    pub(super) fn convert(self, unit: Unit, basis: Basis, number: f64) -> Result<Value, UnitError> {
        let scaled = |by: f64| whole(number * by).ok_or(UnitError::OutOfRange);
        let clock = |hertz: f64| {
            let megahertz = u32::try_from(scaled(hertz)?);
            megahertz.map(Megahertz).map_err(|_| UnitError::OutOfRange)
        };
        let bytes = |by: f64| Bytes::new(scaled(by)?).ok_or(UnitError::OutOfRange);
        let link = |column| {
            let number = u32::try_from(scaled(1.0)?).map_err(|_| UnitError::OutOfRange)?;
            Ok(Value::Number(column, number))
        };
        let rate = |link| Ok(Value::Rate(link, scaled(1.0)?));
        let share = |column| Ok(Value::Device(column, utilization(unit, number)?));
        let by = match unit {
            Unit::MiBy => 1_048_576.0,
            Unit::W | Unit::J => 1e3,
            Unit::Hz => 1e-6,
            _ => 1.0,
        };
        Ok(match self {
            Self::Utilization => Value::Utilization(basis, utilization(unit, number)?),
            Self::MemoryUsed => Value::MemoryUsed(bytes(by)?),
            Self::MemoryFree => Value::MemoryFree(bytes(by)?),
            Self::MemoryTotal => Value::MemoryTotal(bytes(by)?),
            Self::Power => {
                let milliwatts = u32::try_from(scaled(by)?).ok().and_then(Milliwatts::new);
                Value::Power(milliwatts.ok_or(UnitError::OutOfRange)?)
            }
            Self::Energy => Value::Energy(Millijoules(scaled(by)?)),
            Self::Temperature => Value::Temperature(celsius(number).ok_or(UnitError::OutOfRange)?),
            Self::SmClock => Value::SmClock(clock(by)?),
            Self::MemoryClock => Value::MemoryClock(clock(by)?),
            Self::Xid => Value::Xid(scaled(by)?),
            Self::SmActivity => share(DeviceColumn::Sm)?,
            Self::TensorActivity => share(DeviceColumn::Tensor)?,
            Self::DramActivity => share(DeviceColumn::Dram)?,
            Self::MemoryUtilization => share(DeviceColumn::MemoryUtilization)?,
            Self::Encoder => share(DeviceColumn::Encoder)?,
            Self::Decoder => share(DeviceColumn::Decoder)?,
            // A fan may exceed its nominal maximum.
            Self::FanSpeed => {
                let speed = utilization(unit, number.min(100.0))?;
                Value::Device(DeviceColumn::Fan, speed)
            }
            Self::EventReasons => Value::EventReasons(scaled(by)?),
            Self::PcieGeneration => link(DeviceColumn::PcieGeneration)?,
            Self::PcieWidth => link(DeviceColumn::PcieWidth)?,
            Self::PcieMaxWidth => link(DeviceColumn::PcieMaxWidth)?,
            Self::PcieReceived => rate(LinkDirection::PcieReceived)?,
            Self::PcieTransmitted => rate(LinkDirection::PcieTransmitted)?,
            Self::NvlinkReceived => rate(LinkDirection::NvLinkReceived)?,
            Self::NvlinkTransmitted => rate(LinkDirection::NvLinkTransmitted)?,
        })
    }
}

fn utilization(unit: Unit, number: f64) -> Result<Utilization, UnitError> {
    let ppm = match unit {
        Unit::Ambiguous => return Err(UnitError::Ambiguous),
        // Drivers report whole percents, and no mean of them is in between.
        Unit::Percent if number > 0.0 && number < 1.0 => return Err(UnitError::NotPercent),
        Unit::Percent => number * 1e4,
        _ if number > RATIO_TOLERANCE => return Err(UnitError::NotRatio),
        _ => number.min(1.0) * f64::from(PPM),
    };
    let ppm = whole(ppm).and_then(|ppm| u32::try_from(ppm).ok());
    ppm.and_then(Utilization::from_ppm).ok_or(UnitError::OutOfRange)
}

/// The nearest whole number; `None` if it is negative or too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the range that a double represents exactly"
)]
fn whole(number: f64) -> Option<u64> {
    let number = number.round();
    (0.0..=9_007_199_254_740_992.0).contains(&number).then_some(number as u64)
}

#[expect(clippy::cast_possible_truncation, reason = "within the range of i16")]
fn celsius(number: f64) -> Option<Celsius> {
    let number = number.round();
    (-273.0..=1_000.0).contains(&number).then_some(Celsius(number as i16))
}
