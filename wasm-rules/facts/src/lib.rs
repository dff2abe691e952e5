//! What the policies that ship know of GPUs and their list prices: the tables of
//! `collector/meter/data`, as constants. Their sources, days and doubts are told there.
//!
//! This crate must not know what anyone advises.

use phasemeter_policy::same_model;

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The architectures, the oldest first: each can do what those before it can.
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

/// A GPU model: nominal peaks of one GPU, dense. `None` is unknown, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// As the driver names it.
    pub name: &'static str,
    /// Its architecture.
    pub architecture: Architecture,
    /// Its memory; a driver reports a few per cent less.
    pub memory_gib: Option<f64>,
    /// Peak memory bandwidth, decimal GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// FP32 of the ordinary cores.
    pub fp32_tflops: Option<f64>,
    /// BF16 of the tensor cores.
    pub bf16_tflops: Option<f64>,
    /// FP16 of the tensor cores; of the ordinary cores on Pascal.
    pub fp16_tflops: Option<f64>,
    /// FP8 of the tensor cores.
    pub fp8_tflops: Option<f64>,
    /// The most MIG instances it can be divided into; 0 without MIG.
    pub mig_slices: u8,
}

/// An instance type in the region that lists it lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Who sells it.
    pub provider: &'static str,
    /// Where.
    pub region: &'static str,
    /// In what.
    pub instance_type: &'static str,
    /// The GPU it carries, as the driver names it.
    pub model: &'static str,
    /// On demand, of one GPU.
    pub nano_usd_per_gpu_hour: u64,
    /// The day it was listed so.
    pub day: &'static str,
}

/// How far the spot prices of a model lay below what was listed on demand, on one day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Whose prices.
    pub provider: &'static str,
    /// The GPU, as the driver names it.
    pub model: &'static str,
    /// Where it is listed lowest on demand.
    pub region: &'static str,
    /// The difference there, as a share of the list price.
    pub off: f64,
    /// The largest difference in any region: mostly where the list price is high.
    pub most: f64,
    /// The day.
    pub day: &'static str,
}

impl Model {
    /// The facts of a model; `None` for one that is not in the table. Nothing is guessed.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| same_model(model.name, name))
    }

    /// The fastest that its tensor cores, or where there are none its cores, multiply at 16 bits
    /// or more: what most training and serving runs at.
    #[must_use]
    pub fn tflops(&self) -> Option<f64> {
        self.bf16_tflops.or(self.fp16_tflops).or(self.fp32_tflops)
    }

    /// Where it is listed lowest, with one provider or with any.
    #[must_use]
    pub fn lowest(&self, provider: Option<&str>) -> Option<&'static Offer> {
        // The tables spell a model in one way.
        let fits = |offer: &&Offer| {
            offer.model == self.name && provider.is_none_or(|name| name == offer.provider)
        };
        OFFERS.iter().filter(fits).min_by_key(|offer| offer.nano_usd_per_gpu_hour)
    }

    /// Its spot prices.
    #[must_use]
    pub fn spot(&self) -> Option<&'static Spot> {
        SPOTS.iter().find(|spot| spot.model == self.name)
    }
}

/// Where an instance type is listed lowest.
#[must_use]
pub fn instance(provider: &str, instance_type: &str) -> Option<&'static Offer> {
    let fits = |offer: &&Offer| offer.provider == provider && offer.instance_type == instance_type;
    OFFERS.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_there_and_found_as_any_driver_spells_it() {
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
    fn the_lowest_price_is_of_the_table() {
        let h100 = Model::of("H100 80GB HBM3").unwrap().lowest(Some("aws")).unwrap();
        assert_eq!(
            (h100.instance_type, h100.nano_usd_per_gpu_hour),
            ("p5.48xlarge", 6_880_000_000)
        );
        assert_eq!(instance("aws", "p4d.24xlarge").unwrap().nano_usd_per_gpu_hour, 2_744_705_250);
        let spelled = |offer: &Offer| MODELS.iter().any(|model| model.name == offer.model);
        assert!(OFFERS.iter().all(spelled), "prices and facts spell a model alike");
    }

    #[test]
    fn spot_prices_lay_less_far_below_the_list_than_is_often_said() {
        let off = |model| {
            let spot = Model::of(model).and_then(Model::spot).unwrap();
            assert_eq!((spot.provider, spot.region), ("gcp", "us-central1"));
            assert!(spot.off <= spot.most && spot.most < 0.9, "{spot:?}");
            (spot.off * 1_000.0).round()
        };
        assert_eq!(off("NVIDIA H100 80GB HBM3"), 428.0);
        assert_eq!(off("NVIDIA A100-SXM4-80GB"), 456.0);
        assert_eq!(off("NVIDIA A100-SXM4-40GB"), 475.0);
        assert!(
            Model::of("Tesla T4").and_then(Model::spot).is_none(),
            "an empty cell is no price of zero"
        );
    }
}
