//! What several default policies look for in a window: hangs, stragglers, slow links, idle time and the like;
//! units of rent; and GPU specifications: the table of models in `collector/meter/data`, which documents sources,
//! dates and caveats, as constants.

mod bandwidth;
mod benefit;
mod bounds;
mod collective;
pub mod confidence;
mod contradiction;
mod crash;
mod credibility;
mod framework;
mod hang;
mod hardware;
mod holder;
mod impairment;
mod link;
mod quiet;
mod replay;
pub mod saved;
pub mod share;
mod straggler;
mod taken_over;
mod throttle;
pub mod time;
mod unit;

use std::cmp::Ordering;

use phasemeter_policy::same_model;

pub use bandwidth::{FULL_BANDWIDTH, has_full_bandwidth, has_idle_tensor_cores, reads_weights};
pub use benefit::kind_of_speedup;
pub use bounds::*;
pub use collective::{IN_STEP, waits_for, waits_in_collective};
pub use contradiction::{
    Contradiction, contradictions, has_failed_counters, impossible_power, unpowered_work,
    works_without_memory,
};
pub use crash::{OutOfMemory, out_of_memory};
pub use credibility::{UnexplainedPower, is_credible, unexplained_power};
pub use framework::{Format, computes_in_fp64, framework_need, multiplies_matrices};
pub use hang::{Stall, Waits, hangs, spins, stall, waits};
pub use hardware::{
    SlowLink, hardware_xids, is_lost, is_unlinked, memory_errors, program_xids, slow_link,
};
pub use holder::{Allocation, Untouched, is_untouched, names_holders, shows_holder, untouched};
pub use impairment::{
    does_usual_work, has_defect, is_full, is_held_back, is_impaired, misses_one, needs_repair,
};
pub use link::{BUSY_LINK, carries_exchange, has_nvlink, nvlink, pcie, pcie_traffic};
pub use quiet::QuietTime;
pub use replay::{Replay, seldom};
pub use straggler::{Lag, fastest_clock, is_behind, lag, sibling_temperature};
pub use taken_over::taken_over;
pub use throttle::{
    THROTTLED, capped_below, draws_more_at_times, is_slowed, power_limit, power_share,
    slowed_by_heat, slowed_by_power_supply,
};
pub use unit::{FREQUENT, TOGETHER, Unit, are_independent, are_separate, units, work_together};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// Architectures. Those of one vendor are ordered, oldest first: each supports what its predecessors support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of NVIDIA and AMD")]
pub enum Architecture {
    Kepler,
    Pascal,
    Volta,
    Turing,
    Ampere,
    AdaLovelace,
    Hopper,
    Blackwell,
    BlackwellUltra,
    Cdna2,
    Cdna3,
    Cdna4,
}

impl Architecture {
    const fn is_of_amd(self) -> bool {
        matches!(self, Self::Cdna2 | Self::Cdna3 | Self::Cdna4)
    }
}

impl PartialOrd for Architecture {
    /// `None` for those of two vendors: programs of one do not run on the other as they are.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let is_comparable = self.is_of_amd() == other.is_of_amd();
        is_comparable.then(|| (*self as u8).cmp(&(*other as u8)))
    }
}

/// Specifications of a GPU model: nominal dense peaks. `None` if unknown or not supported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Name as the driver reports it.
    pub name: &'static str,
    /// Architecture.
    pub architecture: Architecture,
    /// Memory; drivers report a few percent less.
    pub memory_gib: Option<f64>,
    /// Peak memory bandwidth, decimal GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// FP32 on CUDA cores.
    pub fp32_tflops: Option<f64>,
    /// BF16 on tensor cores.
    pub bf16_tflops: Option<f64>,
    /// FP16 on tensor cores; on CUDA cores for Pascal.
    pub fp16_tflops: Option<f64>,
    /// FP8 on tensor cores.
    pub fp8_tflops: Option<f64>,
    /// Power that the model is built for, in watts.
    pub watts: Option<f64>,
    /// Maximum number of MIG instances; 0 without MIG.
    pub mig_slices: u8,
    /// Whether NVLink connects all of them in an instance; bridges between pairs of PCIe cards do not count.
    pub has_nvlink: bool,
}

impl Model {
    /// Returns the specifications of a model; `None` if the table does not list it.
    pub fn of(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| same_model(model.name, name))
    }

    /// Whether its memory, bandwidth and peak are no less than those of another one, and it supports what that
    /// supports. `false` if a figure is unknown.
    pub fn replaces(&self, other: &Self) -> bool {
        let is_enough = |own: Option<f64>, least: Option<f64>| {
            own.zip(least).is_some_and(|(own, least)| own >= least)
        };
        self.architecture >= other.architecture
            && is_enough(self.memory_gib, other.memory_gib)
            && is_enough(self.bandwidth_gb_s, other.bandwidth_gb_s)
            && is_enough(self.tflops(), other.tflops())
    }

    /// Returns the peak at 16 bits or more, which most training and serving uses: on tensor cores if
    /// there are any, else on CUDA cores.
    pub fn tflops(&self) -> Option<f64> {
        self.bf16_tflops.or(self.fp16_tflops).or(self.fp32_tflops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_with_no_less_of_anything_replaces_another() {
        let model = |name| Model::of(name).unwrap();
        let (a100, h100) = (model("NVIDIA A100-SXM4-40GB"), model("NVIDIA H100 80GB HBM3"));
        assert!(h100.replaces(a100) && !a100.replaces(h100) && a100.replaces(a100));
        // More memory, half of the bandwidth.
        assert!(!model("NVIDIA L40S").replaces(a100));
        let (mi210, mi300) = (model("AMD Instinct MI210"), model("AMD Instinct MI300X"));
        assert!(mi300.replaces(mi210) && !mi210.replaces(mi300));
        assert!(!mi300.replaces(a100) && !h100.replaces(mi210), "programs are of one vendor");
    }

    #[test]
    fn models_are_found_in_any_spelling() {
        assert_eq!(MODELS.len(), 54);
        let a100 = Model::of("a100-sxm4-80gb").unwrap();
        assert_eq!((a100.bf16_tflops, a100.fp8_tflops, a100.mig_slices), (Some(312.0), None, 7));
        assert!(
            Model::of("A100").is_none()
                && Model::of("").is_none()
                && Model::of("NVIDIÄ A10").is_none()
        );
        assert!(
            Architecture::Volta < Architecture::Ampere
                && Architecture::AdaLovelace < Architecture::Hopper
        );
    }
}
