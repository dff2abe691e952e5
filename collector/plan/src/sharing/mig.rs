//! MIG profiles by GPU model, as in NVIDIA's MIG User Guide, and how instances divide a bill.

use phasemeter_meter::gpu_specs::same_model;
use phasemeter_meter::money::NanoUsd;

use crate::error::PlanError;

/// The partitions that a GPU supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigLayout {
    /// Compute slices of the whole GPU.
    pub compute: u64,
    /// Memory slices of the whole GPU.
    pub memory: u64,
    /// Its profiles, smallest first.
    pub profiles: Vec<Profile>,
}

/// One MIG profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// As of `nvidia-smi mig`: `3g.40gb`.
    pub name: String,
    /// Compute slices.
    pub compute: u64,
    /// Memory slices.
    pub memory: u64,
    /// The first memory slices at which it can be placed.
    pub starts: &'static [u64],
}

impl Profile {
    /// The most instances of this profile alone.
    #[must_use]
    pub const fn instances(&self) -> usize {
        self.starts.len()
    }
}

/// Compute slices, memory slices and placements of the profiles of most GPUs. Profiles with media
/// extensions have the same sizes and are left out.
const SEVENTHS: [(u64, u64, &[u64]); 6] = [
    (1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    (1, 2, &[0, 2, 4, 6]),
    (2, 2, &[0, 2, 4]),
    (3, 4, &[0, 4]),
    (4, 4, &[0]),
    (7, 8, &[0]),
];

/// The same of GPUs with four slices of each.
const QUARTERS: [(u64, u64, &[u64]); 3] = [(1, 1, &[0, 1, 2, 3]), (2, 2, &[0, 2]), (4, 4, &[0])];

/// Gigabytes in the names of the profiles, in the order of the tables above.
const GIGABYTES: [(&[&str], &[u64]); 13] = [
    (&["NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"], &[5, 10, 10, 20, 20, 40]),
    (
        &["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "NVIDIA A800-SXM4-80GB"],
        &[10, 20, 20, 40, 40, 80],
    ),
    (&["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H800"], &[10, 20, 20, 40, 40, 80]),
    (&["NVIDIA H100 NVL"], &[12, 24, 24, 47, 47, 94]),
    (&["NVIDIA H20", "NVIDIA GH200 480GB"], &[12, 24, 24, 48, 48, 96]),
    (&["NVIDIA H200", "NVIDIA H200 NVL"], &[18, 35, 35, 71, 71, 141]),
    (&["NVIDIA GH200 144G HBM3e"], &[18, 36, 36, 72, 72, 144]),
    (&["NVIDIA B200"], &[23, 45, 45, 90, 90, 180]),
    (&["NVIDIA GB200"], &[23, 47, 47, 93, 93, 186]),
    (&["NVIDIA B300", "NVIDIA B300 SXM6 AC"], &[34, 67, 67, 135, 135, 269]),
    (&["NVIDIA A30"], &[6, 12, 24]),
    (&["NVIDIA RTX PRO 6000 Blackwell Server Edition"], &[24, 48, 96]),
    (&["NVIDIA RTX PRO 6000 Blackwell Workstation Edition"], &[24, 48, 96]),
];

impl MigLayout {
    /// The layout of a model; `None` if it has no MIG, or its profiles are not in the table.
    #[must_use]
    pub fn of(model: &str) -> Option<Self> {
        let is_model = |models: &[&str]| models.iter().any(|known| same_model(known, model));
        let (_, gigabytes) = GIGABYTES.iter().find(|(models, _)| is_model(models))?;
        let shapes: &[(u64, u64, &'static [u64])] =
            if gigabytes.len() == SEVENTHS.len() { &SEVENTHS } else { &QUARTERS };
        let profiles = shapes.iter().zip(*gigabytes).map(|(&(compute, memory, starts), gb)| {
            Profile { name: format!("{compute}g.{gb}gb"), compute, memory, starts }
        });
        let profiles: Vec<_> = profiles.collect();
        let whole = profiles.last()?;
        Some(Self { compute: whole.compute, memory: whole.memory, profiles })
    }

    /// The profile of this name.
    ///
    /// # Errors
    /// Returns an error that lists the profiles if there is none.
    pub fn profile(&self, name: &str) -> Result<&Profile, PlanError> {
        self.profiles.iter().find(|profile| profile.name == name).ok_or_else(|| {
            let names: Vec<_> = self.profiles.iter().map(|it| it.name.as_str()).collect();
            let fix = format!("use {}", names.join(", "));
            PlanError::invalid("partition", name, "not a profile of this GPU", fix)
        })
    }

    /// Whether these profiles fit one GPU at their placements.
    #[must_use]
    pub fn holds(&self, profiles: &[&Profile]) -> bool {
        let compute: u64 = profiles.iter().map(|profile| profile.compute).sum();
        let memory: u64 = profiles.iter().map(|profile| profile.memory).sum();
        let mut largest_first = profiles.to_vec();
        largest_first.sort_by_key(|profile| std::cmp::Reverse(profile.memory));
        compute <= self.compute && memory <= self.memory && place(&largest_first, 0)
    }

    /// The share of a GPU's bill of each instance in units of `compute × memory`, and their
    /// denominator: the larger of its compute and memory, scaled down if all together exceed the GPU.
    #[must_use]
    pub fn shares(&self, profiles: &[&Profile]) -> (Vec<u64>, u64) {
        let weight = |it: &&Profile| (it.compute * self.memory).max(it.memory * self.compute);
        let weights: Vec<u64> = profiles.iter().map(weight).collect();
        let all = weights.iter().sum::<u64>().max(self.compute * self.memory);
        (weights, all)
    }

    /// Divides a bill among instances; the last value is that of slices left over. The values sum to
    /// the bill.
    #[must_use]
    pub fn divide(&self, bill: NanoUsd, profiles: &[&Profile]) -> (Vec<NanoUsd>, NanoUsd) {
        let (weights, all) = self.shares(profiles);
        let (mut cumulative, mut before) = (0, NanoUsd::ZERO);
        let parts: Vec<NanoUsd> = weights
            .iter()
            .map(|weight| {
                cumulative += weight;
                // Rounding the running sum keeps the total exact.
                let upto = bill.ratio(i128::from(cumulative), i128::from(all)).unwrap_or(bill);
                upto - std::mem::replace(&mut before, upto)
            })
            .collect();
        (parts, bill - before)
    }
}

/// Whether the profiles can be placed beside the memory slices that are in use.
fn place(profiles: &[&Profile], used: u64) -> bool {
    let Some((first, rest)) = profiles.split_first() else { return true };
    let slices = (1 << first.memory) - 1;
    first.starts.iter().any(|&start| {
        let wanted = slices << start;
        used & wanted == 0 && place(rest, used | wanted)
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::gpu_specs::GpuSpecs;

    use super::*;

    #[test]
    fn every_layout_is_of_a_known_model_with_as_many_instances() {
        for specs in GpuSpecs::all() {
            let layout = MigLayout::of(specs.model);
            // The profiles of the newest superchip are not published.
            if specs.model == "NVIDIA GB300" {
                continue;
            }
            let most = layout.map(|it| it.profiles[0].instances());
            assert_eq!(most, specs.mig_instances.map(usize::from), "{}", specs.model);
        }
        for (models, _) in GIGABYTES {
            assert!(models.iter().all(|model| GpuSpecs::of(model).is_some()), "{models:?}");
        }
    }

    #[test]
    fn a100_80gb_holds_its_documented_instances() {
        let layout = MigLayout::of("NVIDIA A100-SXM4-80GB").unwrap();
        let counts: Vec<_> =
            layout.profiles.iter().map(|it| (it.name.as_str(), it.instances())).collect();
        assert_eq!(
            counts,
            [
                ("1g.10gb", 7),
                ("1g.20gb", 4),
                ("2g.20gb", 3),
                ("3g.40gb", 2),
                ("4g.40gb", 1),
                ("7g.80gb", 1)
            ]
        );
        for profile in &layout.profiles {
            let most = vec![profile; profile.instances()];
            assert!(layout.holds(&most), "{}", profile.name);
            assert!(!layout.holds(&vec![profile; profile.instances() + 1]), "{}", profile.name);
        }
        let of = |name| layout.profile(name).unwrap();
        assert!(layout.holds(&[of("4g.40gb"), of("3g.40gb")]));
        assert!(!layout.holds(&[of("4g.40gb"), of("3g.40gb"), of("1g.10gb")]));
        assert!(!layout.holds(&[of("3g.40gb"), of("3g.40gb"), of("1g.10gb")]));
    }
}
