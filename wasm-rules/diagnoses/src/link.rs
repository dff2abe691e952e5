//! Links of a GPU: how much of their bandwidth is in use.

use phasemeter_policy::{Gpu, Vendor, same_model};

use crate::{Architecture, Model};

/// Share of the link capacity from which links are busy, as a default of policies.
pub const BUSY_LINK: f64 = 0.5;

/// Bytes per second of all NVLink links of a module in both directions (NVIDIA's datasheets).
const NVLINK: [(Architecture, f64); 5] = [
    (Architecture::Volta, 300e9),
    (Architecture::Ampere, 600e9),
    (Architecture::Hopper, 900e9),
    (Architecture::Blackwell, 1_800e9),
    (Architecture::BlackwellUltra, 1_800e9),
];

/// The same of modules with fewer links (NVIDIA's datasheets of A800 and H800).
const EXPORT_NVLINK: f64 = 400e9;
const EXPORT_MODELS: [&str; 2] = ["NVIDIA A800-SXM4-80GB", "NVIDIA H800"];

/// Lanes of a full PCIe link, and of one whose width was not recorded. The latter is an assumption.
const LANES: f64 = 16.0;

/// Bytes per second of as many lanes in both directions, of PCIe 1 to 7 (PCI-SIG).
const PCIE: [f64; 7] = [8e9, 16e9, 31.5e9, 63e9, 126e9, 252e9, 504e9];

/// Use of the NVLink links, 0–1. Only GPUs of NVIDIA have them.
pub fn nvlink(gpu: &Gpu) -> Option<f64> {
    let of_capacity =
        || Some(gpu.metric("nvlink.bytes_per_second")? / nvlink_capacity(&gpu.model)?);
    let share = gpu.metric("nvlink.activity").or_else(of_capacity)?;
    (gpu.vendor() == Vendor::Nvidia).then(|| share.min(1.0))
}

/// Use of the PCIe link, 0–1.
pub fn pcie(gpu: &Gpu) -> Option<f64> {
    let of_capacity = || Some(gpu.metric("pcie.bytes_per_second")? / pcie_capacity(gpu)?);
    gpu.metric("pcie.activity").or_else(of_capacity).map(|share| share.min(1.0))
}

/// Traffic over the PCIe link in both directions, in bytes per second.
pub fn pcie_traffic(gpu: &Gpu) -> Option<f64> {
    let of_share = || Some(gpu.metric("pcie.activity")? * pcie_capacity(gpu)?);
    gpu.metric("pcie.bytes_per_second").or_else(of_share)
}

/// Whether the GPUs of an instance with another model can exchange what this GPU does: it has NVLink too, this
/// one has none, or the measured traffic would fit the other's PCIe link. Without a measurement it is unknown.
pub fn carries_exchange(gpu: &Gpu, other: &str) -> bool {
    let fits = || {
        let of_share = || Some(gpu.metric("nvlink.activity")? * nvlink_capacity(&gpu.model)?);
        let traffic = gpu.metric("nvlink.bytes_per_second").or_else(of_share)?;
        Some(traffic <= BUSY_LINK * sixteen_lanes(generation(other)?.into()))
    };
    !has_nvlink(&gpu.model) || has_nvlink(other) || fits().unwrap_or(false)
}

/// Whether NVLink is known to connect the GPUs of an instance. Bridges between pairs of cards do not count.
pub fn has_nvlink(model: &str) -> bool {
    Model::of(model).is_some_and(|model| model.has_nvlink)
}

/// Bytes per second of all NVLink links in both directions. `None` for cards, whose bridges have other capacities
/// and may be absent.
fn nvlink_capacity(model: &str) -> Option<f64> {
    let model = Model::of(model).filter(|model| model.has_nvlink)?;
    if EXPORT_MODELS.iter().any(|name| same_model(name, model.name)) {
        return Some(EXPORT_NVLINK);
    }
    NVLINK.iter().find(|(of, _)| *of == model.architecture).map(|(_, bytes)| *bytes)
}

/// Bytes per second of the PCIe link in both directions, of sixteen lanes and the generation of the
/// model if the link was not recorded.
fn pcie_capacity(gpu: &Gpu) -> Option<f64> {
    let lanes = gpu.metric("pcie.link.width").unwrap_or(LANES);
    let generation =
        gpu.metric("pcie.link.generation").or_else(|| generation(&gpu.model).map(f64::from))?;
    Some(sixteen_lanes(generation) * lanes.max(1.0) / LANES)
}

/// PCIe generation of a model (datasheets of NVIDIA and AMD).
fn generation(model: &str) -> Option<u8> {
    let architecture = Model::of(model)?.architecture;
    let begins = |first| architecture >= first;
    Some(if begins(Architecture::Hopper) || begins(Architecture::Cdna3) {
        5
    } else if begins(Architecture::Ampere) || begins(Architecture::Cdna2) {
        4
    } else {
        3
    })
}

/// Bytes per second of sixteen lanes in both directions.
fn sixteen_lanes(generation: f64) -> f64 {
    PCIE[(generation.max(1.0) as usize).min(PCIE.len()) - 1]
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::steady;

    use super::*;

    fn with(metrics: &[(&str, f64)]) -> Gpu {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Gpu { metrics, ..steady(60, 0.9) }
    }

    #[test]
    fn traffic_counts_against_the_capacity_of_the_link() {
        let near = |found: Option<f64>, share: f64| (found.unwrap_or(0.0) - share).abs() < 0.01;
        // Of 900 GB/s on an H100.
        assert!(near(nvlink(&with(&[("nvlink.bytes_per_second", 630e9)])), 0.7));
        // Of 126 GB/s over sixteen lanes of generation 5, and of 15.8 GB/s over eight of generation 3.
        assert!(near(pcie(&with(&[("pcie.bytes_per_second", 88.2e9)])), 0.7));
        let narrow = [("pcie.link.width", 8.0), ("pcie.link.generation", 3.0)];
        assert!(near(pcie(&with(&[narrow[0], narrow[1], ("pcie.bytes_per_second", 11e9)])), 0.7));
        assert_eq!(nvlink(&with(&[])), None);
    }

    #[test]
    fn capacity_is_that_of_the_module() {
        let share = |model: &str| {
            let gpu = with(&[("nvlink.bytes_per_second", 200e9)]);
            nvlink(&Gpu { model: model.to_owned(), ..gpu })
        };
        assert_eq!(share("NVIDIA H800"), Some(0.5));
        assert_eq!(share("NVIDIA A100-SXM4-80GB"), Some(1.0 / 3.0));
        for card in ["NVIDIA A40", "NVIDIA A30", "NVIDIA H100 NVL", "NVIDIA L40S"] {
            assert_eq!(share(card), None, "{card}");
        }
    }

    #[test]
    fn share_of_the_link_is_traffic_and_the_reverse() {
        let near = |found: Option<f64>, gb: f64| (found.unwrap_or(0.0) / 1e9 - gb).abs() < 0.1;
        assert!(near(pcie_traffic(&with(&[("pcie.activity", 0.04)])), 5.0));
        assert!(near(pcie_traffic(&with(&[("pcie.bytes_per_second", 3e9)])), 3.0));
        assert_eq!(pcie(&with(&[("pcie.activity", 0.04)])), Some(0.04));
        assert_eq!(pcie_traffic(&with(&[])), None);
    }

    #[test]
    fn other_links_must_carry_the_exchange() {
        let a100 = |metrics: &[(&str, f64)]| Gpu {
            model: "NVIDIA A100-SXM4-40GB".to_owned(),
            ..with(metrics)
        };
        assert!(carries_exchange(&a100(&[]), "NVIDIA H100 80GB HBM3"));
        assert!(!carries_exchange(&a100(&[]), "NVIDIA L40S"), "not measured");
        assert!(!carries_exchange(&a100(&[]), "NVIDIA H100 NVL"));
        // Half of 63 GB/s over sixteen lanes of generation 4.
        assert!(carries_exchange(&a100(&[("nvlink.bytes_per_second", 30e9)]), "NVIDIA L40S"));
        assert!(!carries_exchange(&a100(&[("nvlink.activity", 0.1)]), "NVIDIA L40S"), "60 GB/s");
        let a10g = Gpu { model: "NVIDIA A10G".to_owned(), ..with(&[]) };
        assert!(carries_exchange(&a10g, "NVIDIA L4"));
    }
}
