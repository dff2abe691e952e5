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
#[rustfmt::skip]
pub(super) const ALL: [Instrument; 33] = [
    row("hw.gpu.utilization", "1", Kind::Gauge, MetricSet::Default,
        "Time-weighted mean utilization since the last export."),
    row("hw.gpu.memory.limit", "By", Kind::UpDownCounter, MetricSet::Default,
        "Size of the GPU memory."),
    row("hw.gpu.memory.usage", "By", Kind::UpDownCounter, MetricSet::Default,
        "GPU memory in use."),
    row("hw.gpu.memory.utilization", "1", Kind::Gauge, MetricSet::Default,
        "Fraction of GPU memory in use."),
    row("hw.energy", "J", Kind::Counter, MetricSet::Default,
        "Energy consumed since the first reading."),
    row("hw.power", "W", Kind::Gauge, MetricSet::Default,
        "Power draw."),
    row("hw.temperature", "Cel", Kind::Gauge, MetricSet::Default,
        "Temperature of the die (gpu) or the memory."),
    row("hw.temperature.limit", "Cel", Kind::Gauge, MetricSet::All,
        "Die temperature at which the hardware slows down (high.degraded) or shuts down (high.critical)."),
    row("hw.fan.speed_ratio", "1", Kind::Gauge, MetricSet::All,
        "Fan speed as a fraction of its maximum."),
    row("hw.gpu.io", "By", Kind::Counter, MetricSet::All,
        "PCIe traffic since the first reading."),
    row("hw.network.io", "By", Kind::Counter, MetricSet::All,
        "NVLink traffic since the first reading, without protocol overhead."),
    row("hw.errors", "{error}", Kind::Counter, MetricSet::Default,
        "Errors of a GPU's memory and of its links since the first reading."),
    row("hw.status", "1", Kind::UpDownCounter, MetricSet::Default,
        "1 for each state that holds, 0 for the others."),
    row(metric::GPU_TIME, "s", Kind::Counter, MetricSet::Minimal,
        "Time per phase; phases and unobserved sum to the total."),
    row(metric::GPU_EFFECTIVE_TIME, "s", Kind::Counter, MetricSet::Minimal,
        "Observed time × utilization. Its billed series sum to that of the bill."),
    row(metric::GPU_COST, "{USD}", Kind::Counter, MetricSet::Minimal,
        "Cost per phase; phases and unobserved sum to the bill."),
    row(metric::GPU_WASTE, "{USD}", Kind::Counter, MetricSet::Minimal,
        "Wasted cost per phase: cost × (1 − utilization)."),
    row(metric::GPU_PRICE, "{USD}/h", Kind::Gauge, MetricSet::Default,
        "Price of the GPU per hour."),
    row(metric::GPU_CLOCK_FREQUENCY, "Hz", Kind::Gauge, MetricSet::All,
        "Clock frequency."),
    row(metric::GPU_POWER_LIMIT, "W", Kind::Gauge, MetricSet::Default,
        "Power limit in force."),
    row(metric::GPU_SM_ACTIVITY, "1", Kind::Gauge, MetricSet::Default,
        "Time-weighted mean SM activity since the last export."),
    row(metric::GPU_TENSOR_ACTIVITY, "1", Kind::Gauge, MetricSet::Default,
        "Time-weighted mean tensor core activity since the last export."),
    row(metric::GPU_DRAM_ACTIVITY, "1", Kind::Gauge, MetricSet::Default,
        "Time-weighted mean memory bandwidth utilization since the last export."),
    row(metric::GPU_PIPE_ACTIVITY, "1", Kind::Gauge, MetricSet::All,
        "Time-weighted mean activity of an arithmetic pipe since the last export."),
    row(metric::GPU_THROTTLE_TIME, "s", Kind::Counter, MetricSet::Default,
        "Time with throttled clocks per reason; reasons can overlap."),
    row(metric::GPU_XID_ERRORS, "{event}", Kind::Counter, MetricSet::Default,
        "XID errors per code."),
    row(metric::WORK_DONE, "{unit}", Kind::Counter, MetricSet::Minimal,
        "Work done, by unit."),
    row(metric::WORK_UNIT_COST, "{USD}", Kind::Gauge, MetricSet::Minimal,
        "Cost per unit of work, since the last export with any: of all GPUs, or of those of a group."),
    row(metric::WORK_GPU_COST, "{USD}", Kind::Counter, MetricSet::Minimal,
        "Cost of GPUs that do the work of a group, by group."),
    row(metric::ATTRIBUTION_COST, "{USD}", Kind::Counter, MetricSet::Minimal,
        "Cost of GPU time that spans of the workload have, and that none will have."),
    row(metric::ATTRIBUTION_PENDING, "{USD}", Kind::UpDownCounter, MetricSet::Minimal,
        "Cost of GPU time that is not divided yet. With phasemeter.attribution.cost it is the bill."),
    row(metric::RECOMMENDATION_ACTIVE, "{recommendation}", Kind::Gauge, MetricSet::Default,
        "1 while a recommendation stands, 0 once it no longer does."),
    row(metric::GPU_UTILIZATION, "1", Kind::Histogram, MetricSet::All,
        "Distribution of utilization; each reading counts once."),
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
pub(super) const PIPE_ACTIVITY: Instrument = named(metric::GPU_PIPE_ACTIVITY);
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

const fn row(
    name: &'static str,
    unit: &'static str,
    kind: Kind,
    set: MetricSet,
    description: &'static str,
) -> Instrument {
    Instrument { name, unit, kind, description, set }
}

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
