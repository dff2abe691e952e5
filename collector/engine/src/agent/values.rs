//! Readings and intervals in the protocol's form, and back.

use phasemeter_meter::energy_source::{EnergyCounter, PowerBasis};
use phasemeter_meter::reading::{Basis, Interval, MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Celsius, Millijoules, Milliwatts, Nanos, Utilization};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::Metric;

use super::protocol::{AgentInterval, AgentReading};

/// The bases of intervals that drivers measure.
const BASES: [Basis; 3] = [Basis::NvmlSamples, Basis::GpmSm, Basis::GpmTensor];

/// A reading of a GPU.
pub(super) fn reading(gpu: &str, reading: &Reading, clock: &Clock) -> AgentReading {
    AgentReading {
        gpu: gpu.to_owned(),
        boot_ns: clock.boot_at(reading.at).0,
        utilization_ppm: reading.utilization.ok().map(Utilization::ppm),
        memory_used_bytes: reading.memory_used.map(Bytes::get),
        compute_processes: reading.compute_processes,
        power_mw: reading.power.map(Milliwatts::get),
        energy_mj: reading.energy.map(|energy| energy.0),
        temperature_celsius: reading.temperature.map(|temperature| temperature.0),
    }
}

/// An interval of a GPU.
pub(super) fn interval(gpu: &str, interval: &Interval, clock: &Clock) -> AgentInterval {
    AgentInterval {
        gpu: gpu.to_owned(),
        basis: interval.basis.name().to_owned(),
        from_boot_ns: clock.boot_at(interval.from).0,
        to_boot_ns: clock.boot_at(interval.to).0,
        utilization_ppm: interval.utilization.ppm(),
    }
}

/// Whether readings of an agent have the values of a metric.
pub(super) const fn is_carried(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Utilization
            | Metric::Memory
            | Metric::Power
            | Metric::Energy
            | Metric::Temperature
            | Metric::Processes
    )
}

/// Stores the values of a metric in a reading. Returns whether it has any.
pub(super) fn store(metric: Metric, from: &AgentReading, values: &mut Reading) -> bool {
    match metric {
        Metric::Utilization => {
            let utilization = from.utilization_ppm.and_then(Utilization::from_ppm);
            values.utilization = utilization.ok_or(MissingReason::NotCollected);
            utilization.is_some()
        }
        Metric::Memory => {
            values.memory_used = from.memory_used_bytes.and_then(Bytes::new);
            values.memory_used.is_some()
        }
        Metric::Power => {
            values.power = from.power_mw.and_then(Milliwatts::new);
            values.power_basis = PowerBasis::NvmlUsage;
            values.power.is_some()
        }
        Metric::Energy => {
            values.energy = from.energy_mj.map(Millijoules);
            values.energy_counter = EnergyCounter::Nvml;
            values.energy.is_some()
        }
        Metric::Temperature => {
            values.temperature = from.temperature_celsius.map(Celsius);
            values.temperature.is_some()
        }
        Metric::Processes => {
            values.compute_processes = from.compute_processes;
            values.compute_processes.is_some()
        }
        _ => false,
    }
}

/// The interval in the time of a run; `None` if it is invalid.
pub(super) fn interval_of(from: &AgentInterval, clock: &Clock) -> Option<Interval> {
    let basis = BASES.into_iter().find(|basis| basis.name() == from.basis)?;
    let utilization = Utilization::from_ppm(from.utilization_ppm)?;
    let at = |boot| clock.at_boot(Nanos(boot));
    let (from, to) = (at(from.from_boot_ns), at(from.to_boot_ns));
    (from < to).then_some(Interval { basis, from, to, utilization })
}
