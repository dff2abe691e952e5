//! Units of senders, and the values of their numbers.
//!
//! A unit is stated, never guessed from values.

use phasemeter_meter::energy_source::of_metric;
use phasemeter_meter::quantity::{self, Quantity};
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, PPM, Utilization,
};
use serde::Deserialize;

use super::holder_metrics::HolderMetric;
use super::value::Value;

/// The unit of a metric, in UCUM's notation if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum MetricUnit {
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

impl MetricUnit {
    /// Whether numbers of this quantity can have the unit.
    pub(super) fn is_of(self, quantity: Quantity) -> bool {
        let (unit, _) = self.scale();
        unit == quantity.unit()
    }

    /// The name of a unit of shares in mapping files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Percent => "percent",
            _ => "ratio",
        }
    }

    /// The unit that the meter keeps, and the factor to it.
    const fn scale(self) -> (quantity::Unit, f64) {
        match self {
            Self::Percent => (quantity::Unit::Ppm, 1e4),
            Self::Ratio | Self::Ambiguous => (quantity::Unit::Ppm, PPM as f64),
            Self::By => (quantity::Unit::Bytes, 1.0),
            Self::MiBy => (quantity::Unit::Bytes, 1_048_576.0),
            Self::BytesPerSecond => (quantity::Unit::BytesPerSecond, 1.0),
            Self::W => (quantity::Unit::Milliwatts, 1e3),
            Self::Milliwatts => (quantity::Unit::Milliwatts, 1.0),
            Self::J => (quantity::Unit::Millijoules, 1e3),
            Self::Millijoules => (quantity::Unit::Millijoules, 1.0),
            Self::Cel => (quantity::Unit::Celsius, 1.0),
            Self::Hz => (quantity::Unit::Megahertz, 1e-6),
            Self::MHz => (quantity::Unit::Megahertz, 1.0),
            Self::Code => (quantity::Unit::Number, 1.0),
        }
    }

    /// The value of a holder of a number in this unit; `None` if it is out of range.
    pub(super) fn of_holder(self, metric: HolderMetric, number: f64) -> Option<Value> {
        let (_, factor) = self.scale();
        metric.value(number * factor).map(Value::Holder)
    }

    /// The value of a number in this unit, of this metric; `None` if it is out of the range of its quantity.
    pub(super) fn value(
        self,
        quantity: Quantity,
        basis: Option<Basis>,
        metric: &str,
        number: f64,
    ) -> Option<Value> {
        let (_, factor) = self.scale();
        let number = number * factor;
        let share = |of: Quantity| of.admit_nearest(number).and_then(Utilization::from_ppm);
        let bytes = || quantity.admit_nearest(number).and_then(Bytes::new);
        let clock = || quantity.admit_nearest(number).map(Megahertz);
        match quantity {
            Quantity::Utilization => {
                basis.and_then(|basis| Some(Value::Utilization(basis, share(measured(basis))?)))
            }
            Quantity::MemoryUsed => bytes().map(Value::MemoryUsed),
            Quantity::MemoryFree => bytes().map(Value::MemoryFree),
            Quantity::MemoryTotal => bytes().map(Value::MemoryTotal),
            Quantity::Power => {
                let power = quantity.admit_nearest(number).and_then(Milliwatts::new);
                power.map(|power| Value::Power(power, of_metric(metric).0))
            }
            Quantity::Energy => {
                let energy = Millijoules(quantity.admit_nearest(number)?);
                Some(Value::Energy(energy, of_metric(metric).1))
            }
            Quantity::Temperature => {
                Some(Value::Temperature(Celsius(quantity.admit_nearest(number)?)))
            }
            Quantity::SmClock => clock().map(Value::SmClock),
            Quantity::MemoryClock => clock().map(Value::MemoryClock),
            Quantity::Xid => quantity.admit_nearest(number).map(Value::Xid),
            Quantity::EventReasons => quantity.admit_nearest(number).map(Value::EventReasons),
            Quantity::PcieReceived
            | Quantity::PcieTransmitted
            | Quantity::NvlinkReceived
            | Quantity::NvlinkTransmitted => {
                Some(Value::Rate(quantity, quantity.admit_nearest(number)?))
            }
            kept => Some(Value::Kept(kept, kept.admit_nearest(number)?)),
        }
    }
}

/// The quantity of a utilization of this basis.
const fn measured(basis: Basis) -> Quantity {
    match basis {
        Basis::DcgmGrEngine => Quantity::GraphicsActivity,
        Basis::DcgmSm | Basis::GpmSm => Quantity::SmActivity,
        Basis::GpmTensor => Quantity::TensorActivity,
        Basis::NvmlGpu | Basis::NvmlSamples | Basis::DcgmGpu | Basis::HwGpu => {
            Quantity::Utilization
        }
    }
}
