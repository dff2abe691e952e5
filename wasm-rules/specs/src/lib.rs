//! GPU specifications and list prices for the default policies: the tables of
//! `collector/meter/data` as constants. That directory documents their sources, dates and caveats.
//!
//! Must not depend on the policies.

mod unit;

use phasemeter_policy::same_model;

pub use unit::{Unit, quiet_runs, units};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// Architectures, oldest first: each supports what its predecessors support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "NVIDIA's names")]
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
    /// Maximum number of MIG instances; 0 without MIG.
    pub mig_slices: u8,
}

/// An instance type in its cheapest region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Provider.
    pub provider: &'static str,
    /// Region.
    pub region: &'static str,
    /// Instance type.
    pub instance_type: &'static str,
    /// GPU model as the driver reports it.
    pub model: &'static str,
    /// Number of GPUs of an instance.
    pub gpus: u32,
    /// On-demand price of one GPU.
    pub nano_usd_per_gpu_hour: u64,
    /// Date of the price.
    pub as_of: &'static str,
}

/// Spot discount of a model, relative to the on-demand list price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Provider.
    pub provider: &'static str,
    /// GPU model as the driver reports it.
    pub model: &'static str,
    /// Region with the lowest on-demand price.
    pub region: &'static str,
    /// Discount in that region, as a share of the list price.
    pub discount: f64,
    /// Largest discount in any region, usually one with a high list price.
    pub max_discount: f64,
    /// Date of the prices.
    pub as_of: &'static str,
}

impl Model {
    /// Returns the specifications of a model; `None` if the table does not list it.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| same_model(model.name, name))
    }

    /// Returns the peak at 16 bits or more, which most training and serving uses: on tensor cores if
    /// there are any, else on CUDA cores.
    #[must_use]
    pub fn tflops(&self) -> Option<f64> {
        self.bf16_tflops.or(self.fp16_tflops).or(self.fp32_tflops)
    }

    /// Returns the cheapest offer, at one provider or at any.
    #[must_use]
    pub fn lowest(&self, provider: Option<&str>) -> Option<&'static Offer> {
        // Both tables use the same names.
        let matches = |offer: &&Offer| {
            offer.model == self.name && provider.is_none_or(|name| name == offer.provider)
        };
        OFFERS.iter().filter(matches).min_by_key(|offer| offer.nano_usd_per_gpu_hour)
    }

    /// Returns the spot discount, if known.
    #[must_use]
    pub fn spot(&self) -> Option<&'static Spot> {
        SPOTS.iter().find(|spot| spot.model == self.name)
    }
}

/// Returns the cheapest offer of an instance type.
#[must_use]
pub fn instance(provider: &str, instance_type: &str) -> Option<&'static Offer> {
    let matches =
        |offer: &&Offer| offer.provider == provider && offer.instance_type == instance_type;
    OFFERS.iter().find(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_in_any_spelling() {
        assert_eq!(MODELS.len(), 49);
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

    #[test]
    fn lowest_offer_is_from_the_table() {
        let h100 = Model::of("H100 80GB HBM3").unwrap().lowest(Some("aws")).unwrap();
        assert_eq!(
            (h100.instance_type, h100.nano_usd_per_gpu_hour),
            ("p5.48xlarge", 6_880_000_000)
        );
        assert_eq!(instance("aws", "p4d.24xlarge").unwrap().nano_usd_per_gpu_hour, 2_744_705_250);
        let is_known = |offer: &Offer| MODELS.iter().any(|model| model.name == offer.model);
        assert!(OFFERS.iter().all(is_known), "prices and specs use different names");
    }

    #[test]
    fn spot_discounts_match_the_table() {
        let discount = |model| {
            let spot = Model::of(model).and_then(Model::spot).unwrap();
            assert_eq!((spot.provider, spot.region), ("gcp", "us-central1"));
            assert!(spot.discount <= spot.max_discount && spot.max_discount < 0.9, "{spot:?}");
            (spot.discount * 1_000.0).round()
        };
        assert_eq!(discount("NVIDIA H100 80GB HBM3"), 428.0);
        assert_eq!(discount("NVIDIA A100-SXM4-80GB"), 456.0);
        assert_eq!(discount("NVIDIA A100-SXM4-40GB"), 475.0);
        assert!(
            Model::of("Tesla T4").and_then(Model::spot).is_none(),
            "an empty cell is not a price of zero"
        );
    }
}
