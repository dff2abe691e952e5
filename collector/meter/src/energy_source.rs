//! Where values of power and energy come from.

/// The source of a power value. The sources differ in their averaging window; a log may have several,
/// of which each reading takes the first that it can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PowerBasis {
    /// `power.draw` of `nvidia-smi`: the latest measurement, or the mean over one second on most
    /// GPUs since Ampere.
    Draw,
    /// `power.draw.average`: the mean over one second.
    Average,
    /// `power.draw.instant`: the latest measurement.
    Instant,
    /// `nvmlDeviceGetPowerUsage`, which `nvidia-smi` prints as `power.draw`.
    NvmlUsage,
    /// A metric of DCGM (`DCGM_FI_DEV_POWER_USAGE`).
    Dcgm,
    /// The metric `hw.power`.
    Hw,
    /// Another metric.
    Metric,
}

impl PowerBasis {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draw => "power.draw",
            Self::Average => "power.draw.average",
            Self::Instant => "power.draw.instant",
            Self::NvmlUsage => "nvml.power_usage",
            Self::Dcgm => "dcgm.power_usage",
            Self::Hw => "hw.power",
            Self::Metric => "metric.power",
        }
    }
}

/// The source of an energy counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EnergyCounter {
    /// `nvmlDeviceGetTotalEnergyConsumption`.
    Nvml,
    /// The column `total_energy_consumption` of a log.
    Log,
    /// A metric of DCGM (`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION`).
    Dcgm,
    /// The metric `hw.energy`.
    Hw,
    /// Another metric.
    Metric,
}

impl EnergyCounter {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvml => "nvml.total_energy_consumption",
            Self::Log => "total_energy_consumption",
            Self::Dcgm => "dcgm.total_energy_consumption",
            Self::Hw => "hw.energy",
            Self::Metric => "metric.energy",
        }
    }
}

/// The sources of power and energy of metrics with this name: DCGM's through any exporter, those of OpenTelemetry's
/// conventions by any program, or those of another program.
#[must_use]
pub fn of_metric(name: &str) -> (PowerBasis, EnergyCounter) {
    if name.starts_with("hw.") {
        (PowerBasis::Hw, EnergyCounter::Hw)
    } else if name.to_ascii_lowercase().contains("dcgm") {
        (PowerBasis::Dcgm, EnergyCounter::Dcgm)
    } else {
        (PowerBasis::Metric, EnergyCounter::Metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_is_named_by_its_exporter_and_never_by_the_driver() {
        let names = |metric| {
            let (power, energy) = of_metric(metric);
            (power.name(), energy.name())
        };
        let dcgm = ("dcgm.power_usage", "dcgm.total_energy_consumption");
        assert_eq!(names("DCGM_FI_DEV_POWER_USAGE"), dcgm);
        assert_eq!(names("gpu.dcgm.energy_consumption"), dcgm);
        assert_eq!(names("hw.power"), ("hw.power", "hw.energy"));
        assert_eq!(names("nvml.gpu.power"), ("metric.power", "metric.energy"));
    }
}
