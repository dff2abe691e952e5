//! The roofline of a GPU: from which arithmetic intensity it is limited by compute, not by memory.
//!
//! Nominal peaks are an upper bound, and never stand in for a measured throughput.

use phasemeter_meter::gpu_specs::GpuSpecs;

/// Bytes per weight in 16 bits.
const WEIGHT_BYTES: f64 = 2.0;

/// The two roofs of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Peak of the tensor cores in FLOP/s, dense, BF16 or FP16.
    pub peak: f64,
    /// Memory bandwidth in bytes per second.
    pub bandwidth: f64,
}

/// What limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Memory bandwidth.
    Memory,
    /// Compute.
    Compute,
}

impl Side {
    /// For tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
        }
    }
}

impl Roofline {
    /// From a GPU's specifications; `None` if one of the peaks is unknown.
    #[must_use]
    pub fn of(specs: &GpuSpecs) -> Option<Self> {
        let peak = specs.bf16_tflops.or(specs.fp16_tflops)? * 1e12;
        Some(Self { peak, bandwidth: specs.memory_bandwidth_gb_s? * 1e9 })
    }

    /// FLOP per byte at which both limit alike.
    #[must_use]
    pub fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// What limits a kernel of this intensity in FLOP per byte.
    #[must_use]
    pub fn side(&self, intensity: f64) -> Side {
        if intensity < self.ridge() { Side::Memory } else { Side::Compute }
    }

    /// Seconds to read all weights once, in 16 bits: the least time of a token at batch size 1.
    #[must_use]
    pub fn weights_read(&self, parameters: u64) -> f64 {
        parameters as f64 * WEIGHT_BYTES / self.bandwidth
    }

    /// Seconds to compute a token: 2 FLOP per parameter.
    #[must_use]
    pub fn token_compute(&self, parameters: u64) -> f64 {
        2.0 * parameters as f64 / self.peak
    }
}
