//! Instance types and GPU models, from the price book and the specifications of this repository.
//!
//! Their numbers are facts, read with code of its own.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Instance types that fleets consist of, with one, four and eight GPUs: provider and type. The region
/// is the first one that lists it below.
const SINGLE: [(&str, &str); 8] = [
    ("aws", "g4dn.xlarge"),
    ("aws", "g5.xlarge"),
    ("aws", "g6.xlarge"),
    ("aws", "p5.4xlarge"),
    ("gcp", "g2-standard-8"),
    ("gcp", "a2-highgpu-1g"),
    ("gcp", "a2-ultragpu-1g"),
    ("gcp", "a3-highgpu-1g"),
];
const SEVERAL: [(&str, &str); 6] = [
    ("aws", "g6.12xlarge"),
    ("aws", "g5.12xlarge"),
    ("gcp", "a2-highgpu-4g"),
    ("aws", "p4d.24xlarge"),
    ("aws", "p4de.24xlarge"),
    ("aws", "p5.48xlarge"),
];
const REGIONS: [&str; 2] = ["us-east-1", "us-central1"];

/// An instance type in a region.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) provider: String,
    pub(crate) region: String,
    pub(crate) instance_type: String,
    pub(crate) model: &'static Model,
    /// GPUs of an instance.
    pub(crate) gpus: usize,
    /// Dollars per GPU-hour.
    pub(crate) price: f64,
    /// The same of spot capacity.
    pub(crate) spot: Option<f64>,
}

/// A GPU model.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) memory_gib: f64,
    pub(crate) bandwidth: f64,
    /// 16 bits on tensor cores.
    pub(crate) half: f64,
    pub(crate) watts: f64,
    /// Whether NVLink connects all of them in an instance.
    pub(crate) has_nvlink: bool,
}

static MODELS: LazyLock<BTreeMap<String, Model>> = LazyLock::new(|| {
    let text = include_str!("../../../collector/meter/data/gpus.csv");
    let models = text.lines().skip(1).filter_map(|line| {
        let cells: Vec<_> = line.split(',').collect();
        let number = |index: usize| cells.get(index)?.parse::<f64>().ok();
        let half = number(6).or_else(|| number(7))?;
        let model = Model {
            name: (*cells.first()?).to_owned(),
            memory_gib: number(3)?,
            bandwidth: number(4)?,
            half,
            watts: number(10)?,
            has_nvlink: cells.get(12) == Some(&"yes") && cells.get(13) != Some(&"PCIe"),
        };
        Some((model.name.clone(), model))
    });
    models.collect()
});

static OFFERS: LazyLock<Vec<Offer>> = LazyLock::new(|| {
    let text = include_str!("../../../collector/meter/data/gpu-instances.csv");
    let offers = text.lines().skip(1).filter_map(|line| {
        let cells: Vec<_> = line.split(',').collect();
        let text = |index: usize| Some((*cells.get(index)?).to_owned());
        let number = |index: usize| cells.get(index)?.parse::<f64>().ok();
        let gpus = number(4)?;
        Some(Offer {
            provider: text(0)?,
            region: text(1)?,
            instance_type: text(2)?,
            model: MODELS.get(*cells.get(3)?)?,
            gpus: gpus as usize,
            price: number(6)? / gpus,
            spot: number(7).map(|price| price / gpus),
        })
    });
    offers.collect()
});

/// All offers.
pub(crate) fn all() -> &'static [Offer] {
    &OFFERS
}

/// The offer of an instance type in a region.
pub(crate) fn at(provider: &str, region: &str, instance_type: &str) -> Option<&'static Offer> {
    OFFERS.iter().find(|offer| {
        offer.instance_type == instance_type && offer.provider == provider && offer.region == region
    })
}

/// An instance type with one GPU, or with several.
pub(crate) fn choose(several: bool, index: f64) -> Option<&'static Offer> {
    let types = if several { &SEVERAL[..] } else { &SINGLE };
    let (provider, instance_type) = types.get((index * types.len() as f64) as usize)?;
    OFFERS.iter().find(|offer| {
        let is_type = offer.provider == *provider && offer.instance_type == *instance_type;
        is_type && REGIONS.contains(&&*offer.region)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_types_are_listed() {
        for (several, types) in [(false, SINGLE.len()), (true, SEVERAL.len())] {
            for index in 0..types {
                let offer = choose(several, index as f64 / types as f64).unwrap();
                assert_eq!(offer.gpus > 1, several, "{offer:?}");
                assert!(offer.price > 0.1 && offer.model.half > 1.0, "{offer:?}");
            }
        }
        assert!(all().len() > 800);
    }
}
