//! Metrics: name, unit, kind and description.
//!
//! `hw.*` follow OpenTelemetry's hardware conventions 1.44; the others are Phasemeter's.

use super::metric_set::MetricSet;
use crate::names::metric;

/// How the points of a metric relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each point is independent.
    Gauge,
    /// A sum that only grows.
    Counter,
    /// A sum that can fall.
    UpDownCounter,
    /// A distribution.
    Histogram,
}

/// A metric, or those of its streams that are in one set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    pub(super) description: &'static str,
    /// The smallest set that has them.
    pub(super) set: MetricSet,
}

/// All metrics.
pub(super) const ALL: [Instrument; 32] = [
    Instrument {
        name: "hw.gpu.utilization",
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Time-weighted mean utilization since the last export.",
    },
    Instrument {
        name: "hw.gpu.memory.limit",
        unit: "By",
        kind: Kind::UpDownCounter,
        set: MetricSet::Default,
        description: "Size of the GPU memory.",
    },
    Instrument {
        name: "hw.gpu.memory.usage",
        unit: "By",
        kind: Kind::UpDownCounter,
        set: MetricSet::Default,
        description: "GPU memory in use.",
    },
    Instrument {
        name: "hw.gpu.memory.utilization",
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Fraction of GPU memory in use.",
    },
    Instrument {
        name: "hw.energy",
        unit: "J",
        kind: Kind::Counter,
        set: MetricSet::Default,
        description: "Energy consumed since the first reading.",
    },
    Instrument {
        name: "hw.power",
        unit: "W",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Power draw.",
    },
    Instrument {
        name: "hw.temperature",
        unit: "Cel",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Temperature of the die (gpu) or the memory.",
    },
    Instrument {
        name: "hw.temperature.limit",
        unit: "Cel",
        kind: Kind::Gauge,
        set: MetricSet::All,
        description: "Die temperature at which the hardware slows down (high.degraded) or shuts down \
                      (high.critical).",
    },
    Instrument {
        name: "hw.fan.speed_ratio",
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::All,
        description: "Fan speed as a fraction of its maximum.",
    },
    Instrument {
        name: "hw.gpu.io",
        unit: "By",
        kind: Kind::Counter,
        set: MetricSet::All,
        description: "PCIe traffic since the first reading.",
    },
    Instrument {
        name: "hw.network.io",
        unit: "By",
        kind: Kind::Counter,
        set: MetricSet::All,
        description: "NVLink traffic since the first reading, without protocol overhead.",
    },
    Instrument {
        name: "hw.errors",
        unit: "{error}",
        kind: Kind::Counter,
        set: MetricSet::Default,
        description: "Errors of a GPU's memory and of its links since the first reading.",
    },
    Instrument {
        name: "hw.status",
        unit: "1",
        kind: Kind::UpDownCounter,
        set: MetricSet::Default,
        description: "1 for each state that holds, 0 for the others.",
    },
    Instrument {
        name: metric::GPU_TIME,
        unit: "s",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Time per phase; phases and unobserved sum to the total.",
    },
    Instrument {
        name: metric::GPU_EFFECTIVE_TIME,
        unit: "s",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Observed time × utilization. Its billed series sum to that of the bill.",
    },
    Instrument {
        name: metric::GPU_COST,
        unit: "{USD}",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Cost per phase; phases and unobserved sum to the bill.",
    },
    Instrument {
        name: metric::GPU_WASTE,
        unit: "{USD}",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Wasted cost per phase: cost × (1 − utilization).",
    },
    Instrument {
        name: metric::GPU_PRICE,
        unit: "{USD}/h",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Price of the GPU per hour.",
    },
    Instrument {
        name: metric::GPU_CLOCK_FREQUENCY,
        unit: "Hz",
        kind: Kind::Gauge,
        set: MetricSet::All,
        description: "Clock frequency.",
    },
    Instrument {
        name: metric::GPU_POWER_LIMIT,
        unit: "W",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Power limit in force.",
    },
    Instrument {
        name: metric::GPU_SM_ACTIVITY,
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Time-weighted mean SM activity since the last export.",
    },
    Instrument {
        name: metric::GPU_TENSOR_ACTIVITY,
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Time-weighted mean tensor core activity since the last export.",
    },
    Instrument {
        name: metric::GPU_DRAM_ACTIVITY,
        unit: "1",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "Time-weighted mean memory bandwidth utilization since the last export.",
    },
    Instrument {
        name: metric::GPU_THROTTLE_TIME,
        unit: "s",
        kind: Kind::Counter,
        set: MetricSet::Default,
        description: "Time with throttled clocks per reason; reasons can overlap.",
    },
    Instrument {
        name: metric::GPU_XID_ERRORS,
        unit: "{event}",
        kind: Kind::Counter,
        set: MetricSet::Default,
        description: "XID errors per code.",
    },
    Instrument {
        name: metric::WORK_DONE,
        unit: "{unit}",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Work done, by unit.",
    },
    Instrument {
        name: metric::WORK_UNIT_COST,
        unit: "{USD}",
        kind: Kind::Gauge,
        set: MetricSet::Minimal,
        description: "Cost per unit of work, since the last export with any: of all GPUs, or of those of a group.",
    },
    Instrument {
        name: metric::WORK_GPU_COST,
        unit: "{USD}",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Cost of GPUs that do the work of a group, by group.",
    },
    Instrument {
        name: metric::ATTRIBUTION_COST,
        unit: "{USD}",
        kind: Kind::Counter,
        set: MetricSet::Minimal,
        description: "Cost of GPU time that spans of the workload have, and that none will have.",
    },
    Instrument {
        name: metric::ATTRIBUTION_PENDING,
        unit: "{USD}",
        kind: Kind::UpDownCounter,
        set: MetricSet::Minimal,
        description: "Cost of GPU time that is not divided yet. With phasemeter.attribution.cost it is the bill.",
    },
    Instrument {
        name: metric::RECOMMENDATION_ACTIVE,
        unit: "{recommendation}",
        kind: Kind::Gauge,
        set: MetricSet::Default,
        description: "1 while a recommendation stands, 0 once it no longer does.",
    },
    Instrument {
        name: metric::GPU_UTILIZATION,
        unit: "1",
        kind: Kind::Histogram,
        set: MetricSet::All,
        description: "Distribution of utilization; each reading counts once.",
    },
];

pub(super) const HW_UTILIZATION: Instrument = named("hw.gpu.utilization");
pub(super) const HW_MEMORY_LIMIT: Instrument = named("hw.gpu.memory.limit");
pub(super) const HW_MEMORY_USAGE: Instrument = named("hw.gpu.memory.usage");
pub(super) const HW_MEMORY_UTILIZATION: Instrument = named("hw.gpu.memory.utilization");
pub(super) const HW_ENERGY: Instrument = named("hw.energy");
pub(super) const HW_POWER: Instrument = named("hw.power");
pub(super) const HW_TEMPERATURE: Instrument = named("hw.temperature");
pub(super) const HW_TEMPERATURE_LIMIT: Instrument = named("hw.temperature.limit");
pub(super) const HW_FAN_SPEED: Instrument = named("hw.fan.speed_ratio");
pub(super) const HW_IO: Instrument = named("hw.gpu.io");
pub(super) const HW_NETWORK_IO: Instrument = named("hw.network.io");
pub(super) const HW_ERRORS: Instrument = named("hw.errors");
pub(super) const HW_STATUS: Instrument = named("hw.status");
pub(super) const TIME: Instrument = named(metric::GPU_TIME);
pub(super) const EFFECTIVE_TIME: Instrument = named(metric::GPU_EFFECTIVE_TIME);
pub(super) const COST: Instrument = named(metric::GPU_COST);
pub(super) const WASTE: Instrument = named(metric::GPU_WASTE);
pub(super) const PRICE: Instrument = named(metric::GPU_PRICE);
pub(super) const CLOCK: Instrument = named(metric::GPU_CLOCK_FREQUENCY);
pub(super) const POWER_LIMIT: Instrument = named(metric::GPU_POWER_LIMIT);
pub(super) const SM_ACTIVITY: Instrument = named(metric::GPU_SM_ACTIVITY);
pub(super) const TENSOR_ACTIVITY: Instrument = named(metric::GPU_TENSOR_ACTIVITY);
pub(super) const DRAM_ACTIVITY: Instrument = named(metric::GPU_DRAM_ACTIVITY);
pub(super) const THROTTLE_TIME: Instrument = named(metric::GPU_THROTTLE_TIME);
pub(super) const XID: Instrument = named(metric::GPU_XID_ERRORS);
pub(super) const WORK: Instrument = named(metric::WORK_DONE);
pub(super) const WORK_COST: Instrument = named(metric::WORK_UNIT_COST);
pub(super) const WORK_GPU_COST: Instrument = named(metric::WORK_GPU_COST);
pub(super) const ATTRIBUTION_COST: Instrument = named(metric::ATTRIBUTION_COST);
pub(super) const ATTRIBUTION_PENDING: Instrument = named(metric::ATTRIBUTION_PENDING);
pub(super) const RECOMMENDATION: Instrument = named(metric::RECOMMENDATION_ACTIVE);
pub(super) const UTILIZATION: Instrument = named(metric::GPU_UTILIZATION);

/// Utilization of the video engines.
pub(super) const HW_UTILIZATION_OF_VIDEO: Instrument = in_all(HW_UTILIZATION);
/// Temperature of the memory.
pub(super) const HW_TEMPERATURE_OF_MEMORY: Instrument = in_all(HW_TEMPERATURE);
/// Errors of links.
pub(super) const HW_ERRORS_OF_LINKS: Instrument = in_all(HW_ERRORS);
/// Effective time that is not billed.
pub(super) const EFFECTIVE_TIME_BESIDE: Instrument = in_all(EFFECTIVE_TIME);

/// Streams of a metric that only [`MetricSet::All`] has.
const fn in_all(metric: Instrument) -> Instrument {
    Instrument { set: MetricSet::All, ..metric }
}

/// The metric with this name. One that is not among all does not compile.
const fn named(name: &str) -> Instrument {
    let mut place = 0;
    while !is_same(ALL[place].name.as_bytes(), name.as_bytes()) {
        place += 1;
    }
    ALL[place]
}

const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, rest @ ..], [other, others @ ..]) = (a, b)
        && *first == *other
    {
        (a, b) = (rest, others);
    }
    a.is_empty() && b.is_empty()
}
