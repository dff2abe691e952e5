//! MIG profiles by GPU model, as in NVIDIA's MIG User Guide, and how instances divide a bill.

use crate::gpu_specs::same_model;
use crate::holder::Share;
use crate::money::NanoUsd;
use crate::units::Bytes;

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

    /// The layout of a model that is unknown or not in the table: that of most GPUs, with profiles named by their
    /// compute slices.
    #[must_use]
    pub fn usual() -> Self {
        let profile = |&(compute, memory, starts): &(u64, u64, &'static [u64])| Profile {
            name: format!("{compute}g"),
            compute,
            memory,
            starts,
        };
        Self { compute: 7, memory: 8, profiles: SEVENTHS.iter().map(profile).collect() }
    }

    /// The profile of this name.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// The weight of an instance among [`Self::shares`], by the name of its profile as drivers have it (`1g.10gb`,
    /// `1g.10gb+me`, `1c.3g.40gb`), which may be one with as many compute slices as one of these; else by its memory
    /// and that of the GPU. `None` if neither is known.
    #[must_use]
    pub fn weight(&self, name: Option<&str>, memory: Option<(Bytes, Bytes)>) -> Option<u64> {
        let of_name = name.and_then(|name| {
            let name = name.split('+').next()?;
            let name = name.split_once("c.").map_or(name, |(_, of_instance)| of_instance);
            self.profile(name).or_else(|| {
                let compute: u64 = name.split_once('g')?.0.parse().ok()?;
                self.profiles.iter().find(|profile| profile.compute == compute)
            })
        });
        if let Some(profile) = of_name {
            return Some(self.weight_of(profile));
        }
        let (memory, total) = memory?;
        // Each lacks what the driver reserves, so that the quotient is near that of slices.
        let twice = (2 * self.memory).checked_mul(memory.get())?.checked_div(total.get())?;
        let slices = twice.div_ceil(2).clamp(1, self.memory);
        Some(slices * self.compute)
    }

    /// The larger of its compute and memory, in units of `compute × memory`.
    fn weight_of(&self, profile: &Profile) -> u64 {
        (profile.compute * self.memory).max(profile.memory * self.compute)
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
        let weights: Vec<u64> = profiles.iter().map(|it| self.weight_of(it)).collect();
        let all = self.all(&weights);
        (weights, all)
    }

    /// The share of each of the instances of a GPU of this model, by the name of its profile. All are unknown if one
    /// is.
    #[must_use]
    pub fn shares_of(model: Option<&str>, profiles: &[Option<String>]) -> Vec<Option<Share>> {
        let layout = model.and_then(Self::of).unwrap_or_else(Self::usual);
        let weights = profiles.iter().map(|profile| layout.weight(profile.as_deref(), None));
        let Some(weights) = weights.collect::<Option<Vec<u64>>>() else {
            return vec![None; profiles.len()];
        };
        let of = u32::try_from(layout.all(&weights)).ok();
        let share = |weight: u64| Share::new(u32::try_from(weight).ok()?, of?);
        weights.into_iter().map(share).collect()
    }

    /// The denominator of the shares of instances with these weights.
    #[must_use]
    pub fn all(&self, weights: &[u64]) -> u64 {
        weights.iter().sum::<u64>().max(self.compute * self.memory)
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
    use super::*;
    use crate::gpu_specs::GpuSpecs;

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

    #[test]
    fn weight_of_an_instance_is_the_larger_of_its_slices() {
        let layout = MigLayout::of("NVIDIA A100-SXM4-80GB").unwrap();
        let named = |layout: &MigLayout, name| layout.weight(Some(name), None);
        for (name, weight) in [
            ("1g.10gb", 8),
            ("1g.10gb+me", 8),
            ("1g.20gb", 14),
            ("3g.40gb", 28),
            ("1c.3g.40gb", 28),
            ("4g.40gb", 32),
            ("7g.80gb", 56),
            ("2g.21gb", 16),
        ] {
            assert_eq!(named(&layout, name), Some(weight), "{name}");
        }
        assert_eq!(named(&MigLayout::usual(), "3g.71gb"), Some(28));
        assert_eq!(named(&MigLayout::of("NVIDIA A30").unwrap(), "1g.6gb"), Some(4));
        let gib = |gib: u64| Bytes::from_mebibytes(gib * 1_024).unwrap();
        let by_memory = |memory| layout.weight(None, Some((gib(memory), gib(80))));
        assert_eq!([9, 19, 39, 79].map(by_memory), [7, 14, 28, 56].map(Some));
        assert_eq!([layout.weight(None, None), named(&layout, "big")], [None, None]);
        assert_eq!(layout.all(&[28, 28]), 56);
        assert_eq!(layout.all(&[32, 28]), 60);
        let shares = |profiles: &[Option<&str>]| {
            let profiles: Vec<_> = profiles.iter().map(|it| it.map(str::to_owned)).collect();
            MigLayout::shares_of(Some("NVIDIA A100-SXM4-80GB"), &profiles)
        };
        assert_eq!(shares(&[Some("3g.40gb"); 2]), [Share::new(28, 56); 2]);
        assert_eq!(shares(&[Some("3g.40gb"), None]), [None, None]);
    }
}
