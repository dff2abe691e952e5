//! What plans take from a report: use of memory, utilization, energy, and the price that all GPUs have.

use phasemeter_meter::date::Date;
use serde::{Deserialize, Deserializer};

use super::{Price, Seconds, Usd};

/// Cost of all GPUs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Cost {
    /// GPU time in hours; `None` if it is unknown.
    pub gpu_hours: Option<f64>,
    /// The rate; `None` unless it is the same for all GPUs.
    pub rate_usd_per_gpu_hour: Option<Usd>,
    /// Its provenance.
    pub price: Option<PriceTag>,
}

/// Provenance of a rate, with its date.
#[derive(Clone, Debug, Deserialize)]
pub struct PriceTag {
    /// Provenance.
    #[serde(flatten)]
    pub price: Price,
    /// Date of the price; `None` if it is unknown.
    #[serde(default, deserialize_with = "date")]
    pub as_of: Option<Date>,
}

/// Memory of a GPU.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct GpuMemory {
    /// The most that was in use, in bytes; `None` if it was not measured.
    pub used_peak_bytes: Option<u64>,
}

/// Utilization of a GPU.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct MeanUtilization {
    /// Its mean in percent; `None` if nothing was observed.
    pub mean: Option<f64>,
}

/// Energy that was measured in one way.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct EnergyOnBasis {
    /// The time that it covers.
    pub seconds: Seconds,
}

fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}
