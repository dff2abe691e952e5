//! A value of a reading.

use phasemeter_meter::energy_source::{EnergyCounter, PowerBasis};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Timestamp, Utilization,
};

use super::holder_metrics::HolderValue;

/// A value of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Utilization of a basis.
    Utilization(Basis, Utilization),
    /// Memory in use.
    MemoryUsed(Bytes),
    /// Memory that is not in use.
    MemoryFree(Bytes),
    /// Size of the memory.
    MemoryTotal(Bytes),
    /// Power draw.
    Power(Milliwatts, PowerBasis),
    /// Energy counter.
    Energy(Millijoules, EnergyCounter),
    /// By how much an energy counter increased, and since when, if that is known.
    EnergyIncrease(Millijoules, EnergyCounter, Option<Timestamp>),
    /// Temperature.
    Temperature(Celsius),
    /// SM clock.
    SmClock(Megahertz),
    /// Memory clock.
    MemoryClock(Megahertz),
    /// The last XID error, zero if there was none.
    Xid(u64),
    /// One that is kept with a reading, in the unit of its quantity.
    Kept(Quantity, u32),
    /// Bytes per second over a link.
    Rate(Quantity, u64),
    /// One of the holder that labels name, not of the GPU.
    Holder(HolderValue),
    /// The active reasons for reduced clocks, as a bit mask.
    EventReasons(u64),
}
