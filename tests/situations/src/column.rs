//! Columns of `nvidia-smi`, their headers and cells.

use crate::level::{Thousandths, Unit};

/// Columns that every log has unless a situation leaves them out.
pub(crate) const USUAL: [&str; 11] = [
    "timestamp",
    "index",
    "uuid",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "power.draw",
    "enforced.power.limit",
    "temperature.gpu",
    "clocks.sm",
];

/// Further columns that a situation may set. `nvidia-smi` has all but the last nine, which are
/// profiling metrics of DCGM and GPM, and the driver's last error.
pub(crate) const OPTIONAL: [&str; 27] = [
    "utilization.memory",
    "utilization.encoder",
    "utilization.decoder",
    "clocks.mem",
    "clocks.max.sm",
    "power.default_limit",
    "temperature.memory",
    "fan.speed",
    "pstate",
    "clocks_event_reasons.sw_power_cap",
    "clocks_event_reasons.hw_thermal_slowdown",
    "clocks_event_reasons.sw_thermal_slowdown",
    "clocks_event_reasons.hw_power_brake_slowdown",
    "pcie.link.gen.gpucurrent",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "sm.activity",
    "tensor.activity",
    "dram.activity",
    "fp64.activity",
    "fp32.activity",
    "fp16.activity",
    "nvlink.activity",
    "pcie.activity",
    "xid",
];

/// The column as its header names it.
pub(crate) fn header(name: &str) -> String {
    let unit = match name {
        "memory.used" | "memory.total" => " [MiB]",
        "clocks.sm" | "clocks.mem" | "clocks.max.sm" => " [MHz]",
        "fan.speed" => " [%]",
        name if name.starts_with("utilization.") || name.ends_with(".activity") => " [%]",
        name if name.contains("power.") && !name.contains("clocks_event") => " [W]",
        _ => "",
    };
    format!("{name}{unit}")
}

/// A number as `nvidia-smi` prints it.
pub(crate) fn number(value: Thousandths, unit: Unit) -> String {
    let rounded = (value + 500) / 1_000;
    match unit {
        Unit::Percent => rounded.to_string() + " %",
        Unit::Gibibytes => format!("{} MiB", mebibytes(value)),
        Unit::Watts => format!("{}.{:02} W", value / 1_000, value % 1_000 / 10),
        Unit::Megahertz => format!("{rounded} MHz"),
        Unit::Celsius | Unit::Count => rounded.to_string(),
    }
}

/// Thousandths of a GiB in MiB.
pub(crate) const fn mebibytes(gibibytes: Thousandths) -> u64 {
    gibibytes * 1_024 / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_match_nvidia_smi() {
        assert_eq!(number(45_600, Unit::Percent), "46 %");
        assert_eq!(number(70_000, Unit::Gibibytes), "71680 MiB");
        assert_eq!(number(125_250, Unit::Watts), "125.25 W");
        assert_eq!(number(38_000, Unit::Celsius), "38");
        assert_eq!(header("power.draw"), "power.draw [W]");
        assert_eq!(
            header("clocks_event_reasons.sw_power_cap"),
            "clocks_event_reasons.sw_power_cap"
        );
    }
}
