//! The metrics there are: name, unit, kind, meaning.
//!
//! `hw.*` follow the hardware conventions of OpenTelemetry 1.44; the rest is ours. This room must
//! not know when or of which GPU a point is.

/// The conventions that `hw.*` follow.
pub(super) const HARDWARE_SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// How points of a metric relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each stands for itself.
    Gauge,
    /// A sum that only grows.
    Counter,
    /// A sum that moves either way.
    UpDownCounter,
}

/// A metric whose points are numbers.
#[derive(Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    pub(super) description: &'static str,
}

pub(super) const HW_UTILIZATION: Instrument = Instrument {
    name: "hw.gpu.utilization",
    unit: "1",
    kind: Kind::Gauge,
    description: "Mean utilization since the last export, weighted by time.",
};
pub(super) const HW_MEMORY_LIMIT: Instrument = Instrument {
    name: "hw.gpu.memory.limit",
    unit: "By",
    kind: Kind::UpDownCounter,
    description: "Memory of the GPU.",
};
pub(super) const HW_MEMORY_USAGE: Instrument = Instrument {
    name: "hw.gpu.memory.usage",
    unit: "By",
    kind: Kind::UpDownCounter,
    description: "Memory in use.",
};
pub(super) const HW_MEMORY_UTILIZATION: Instrument = Instrument {
    name: "hw.gpu.memory.utilization",
    unit: "1",
    kind: Kind::Gauge,
    description: "Fraction of the memory in use.",
};
pub(super) const HW_ENERGY: Instrument = Instrument {
    name: "hw.energy",
    unit: "J",
    kind: Kind::Counter,
    description: "Energy used since the first reading.",
};
pub(super) const HW_POWER: Instrument =
    Instrument { name: "hw.power", unit: "W", kind: Kind::Gauge, description: "Power drawn." };
pub(super) const HW_TEMPERATURE: Instrument = Instrument {
    name: "hw.temperature",
    unit: "Cel",
    kind: Kind::Gauge,
    description: "Temperature of the die.",
};
pub(super) const HW_TEMPERATURE_LIMIT: Instrument = Instrument {
    name: "hw.temperature.limit",
    unit: "Cel",
    kind: Kind::Gauge,
    description: "Temperature of the die at which the hardware slows down (high.degraded), or turns \
                  itself off (high.critical).",
};
pub(super) const HW_IO: Instrument = Instrument {
    name: "hw.gpu.io",
    unit: "By",
    kind: Kind::Counter,
    description: "Bytes over PCIe since the first reading.",
};
pub(super) const HW_ERRORS: Instrument = Instrument {
    name: "hw.errors",
    unit: "{error}",
    kind: Kind::Counter,
    description: "Errors of memory since the first reading.",
};
pub(super) const HW_STATUS: Instrument = Instrument {
    name: "hw.status",
    unit: "1",
    kind: Kind::UpDownCounter,
    description: "1 for the state that the GPU is in, 0 for the others.",
};
pub(super) const TIME: Instrument = Instrument {
    name: "phasemeter.gpu.time",
    unit: "s",
    kind: Kind::Counter,
    description: "Time in each phase; the phases and unobserved sum to the whole time.",
};
pub(super) const EFFECTIVE_TIME: Instrument = Instrument {
    name: "phasemeter.gpu.effective_time",
    unit: "s",
    kind: Kind::Counter,
    description: "Utilization times observed time.",
};
pub(super) const COST: Instrument = Instrument {
    name: "phasemeter.gpu.cost",
    unit: "{USD}",
    kind: Kind::Counter,
    description: "What the time in each phase cost; the phases and unobserved sum to the bill.",
};
pub(super) const WASTE: Instrument = Instrument {
    name: "phasemeter.gpu.waste",
    unit: "{USD}",
    kind: Kind::Counter,
    description: "The part of the cost of each phase that was paid for nothing.",
};
pub(super) const PRICE: Instrument = Instrument {
    name: "phasemeter.gpu.price",
    unit: "{USD}/h",
    kind: Kind::Gauge,
    description: "What an hour of the GPU costs.",
};
pub(super) const CLOCK: Instrument = Instrument {
    name: "phasemeter.gpu.clock.frequency",
    unit: "Hz",
    kind: Kind::Gauge,
    description: "Frequency of a clock.",
};
pub(super) const SM_ACTIVITY: Instrument = Instrument {
    name: "phasemeter.gpu.sm.activity",
    unit: "1",
    kind: Kind::Gauge,
    description: "Mean share of multiprocessors that had work since the last export, weighted by time.",
};
pub(super) const TENSOR_ACTIVITY: Instrument = Instrument {
    name: "phasemeter.gpu.tensor.activity",
    unit: "1",
    kind: Kind::Gauge,
    description: "Mean share of time of tensor cores at work since the last export, weighted by time.",
};
pub(super) const DRAM_ACTIVITY: Instrument = Instrument {
    name: "phasemeter.gpu.dram.activity",
    unit: "1",
    kind: Kind::Gauge,
    description: "Mean share of the memory bandwidth in use since the last export, weighted by time.",
};
pub(super) const THROTTLE_TIME: Instrument = Instrument {
    name: "phasemeter.gpu.throttle.time",
    unit: "s",
    kind: Kind::Counter,
    description: "Time in which clocks were held back, by reason; reasons may hold at once.",
};
pub(super) const XID: Instrument = Instrument {
    name: "phasemeter.gpu.xid",
    unit: "{event}",
    kind: Kind::Counter,
    description: "Errors that the driver reported, by code.",
};

/// The one metric whose points are histograms.
pub(super) const UTILIZATION: (&str, &str, &str) =
    ("phasemeter.gpu.utilization", "1", "Utilization, each reading counted once.");
