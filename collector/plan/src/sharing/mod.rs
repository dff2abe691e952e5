//! `sharing`: how few GPUs hold some workloads with MIG, MPS or time-slicing.

mod commands;
mod packing;
mod workload;
mod write;

use phasemeter_meter::mig::{MigLayout, Profile};
use phasemeter_meter::money::Rate;

use crate::error::PlanError;
use crate::units::{Ratio, Size};

use self::packing::{largest_first, pack};
pub use self::workload::Workload;

/// The most workloads that are packed.
const MAX_WORKLOADS: usize = 10_000;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Model of the GPUs.
    pub model: String,
    /// Nominal memory of each.
    pub memory: Size,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Part of each GPU's or instance's memory to keep free.
    pub headroom: Ratio,
    /// The most utilization that workloads together may have on one GPU.
    pub target: Ratio,
    /// GPUs in use today; one per workload if `None`.
    pub today: Option<u64>,
    /// Price of a GPU-hour, if known.
    pub price: Option<Rate>,
    /// Profiles of an existing partition whose bill is to be divided.
    pub partition: Vec<String>,
}

/// A way to share a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Instances of the hardware.
    Mig,
    /// One CUDA context of several processes.
    Mps,
    /// Contexts in turn.
    TimeSlicing,
}

impl Mode {
    /// The name in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mig => "MIG",
            Self::Mps => "MPS",
            Self::TimeSlicing => "time-slicing",
        }
    }

    /// What workloads cannot take from each other, and what they can.
    const fn isolation(self) -> (&'static str, &'static str) {
        match self {
            Self::Mig => ("memory, cache, SMs, most errors", "no peer-to-peer between instances"),
            Self::Mps => ("address spaces (Volta and later)", "a fatal fault of one ends all"),
            Self::TimeSlicing => ("address spaces", "memory is not limited; latency adds up"),
        }
    }
}

/// Workloads on GPUs in one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The mode.
    pub mode: Mode,
    /// Indices of the workloads on each GPU; or why they cannot be shared so.
    pub gpus: Result<Vec<Vec<usize>>, String>,
    /// The MIG profile of each workload; empty in other modes.
    pub profiles: Vec<Profile>,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    request: Request,
    layout: Option<MigLayout>,
    partition: Vec<Profile>,
    /// One entry per mode.
    pub packings: Vec<Packing>,
}

impl Request {
    /// Packs the workloads in each mode.
    ///
    /// # Errors
    /// Returns an error if a value is missing or out of range.
    pub fn compute(self) -> Result<Sharing, PlanError> {
        if self.workloads.is_empty() && self.partition.is_empty() {
            return Err(PlanError::missing(
                "workload",
                "sharing depends on what each workload needs",
                "give --workload name=chat,memory=8GiB,utilization=20% for each, or --from with a report",
            ));
        }
        if self.workloads.len() > MAX_WORKLOADS {
            let fix = format!("give at most {MAX_WORKLOADS}");
            return Err(PlanError::invalid("workload", self.workloads.len(), "too many", fix));
        }
        for (option, value) in [("headroom", self.headroom), ("target", self.target)] {
            if value > Ratio::ONE || (option == "target" && value == Ratio::ZERO) {
                let fix = "give a percentage up to 100%";
                return Err(PlanError::invalid(option, value, "nothing would fit", fix));
            }
        }
        let layout = MigLayout::of(&self.model);
        let partition = self.given_partition(layout.as_ref())?;
        let packings = if self.workloads.is_empty() {
            Vec::new()
        } else {
            vec![
                self.with_mig(layout.as_ref()),
                self.together(Mode::Mps),
                self.together(Mode::TimeSlicing),
            ]
        };
        Ok(Sharing { layout, partition, packings, request: self })
    }

    fn given_partition(&self, layout: Option<&MigLayout>) -> Result<Vec<Profile>, PlanError> {
        if self.partition.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.partition.join(",");
        let Some(layout) = layout else {
            let problem = format!("{} has no MIG profiles", self.model);
            let fix = "name a GPU with MIG in --gpu";
            return Err(PlanError::invalid("partition", names, problem, fix));
        };
        let profile = |name: &String| {
            layout.profile(name).cloned().ok_or_else(|| {
                let names: Vec<_> = layout.profiles.iter().map(|it| it.name.as_str()).collect();
                let fix = format!("use {}", names.join(", "));
                PlanError::invalid("partition", name, "not a profile of this GPU", fix)
            })
        };
        let profiles = self.partition.iter().map(profile);
        let profiles = profiles.collect::<Result<Vec<_>, _>>()?;
        if !layout.holds(&profiles.iter().collect::<Vec<_>>()) {
            let fix = "remove an instance, or use smaller profiles";
            return Err(PlanError::invalid("partition", names, "one GPU cannot hold it", fix));
        }
        Ok(profiles)
    }

    /// Memory without the headroom.
    fn usable(&self, slices: u64, all: u64) -> u64 {
        let kept = u128::from(1_000_000_u64.saturating_sub(self.headroom.ppm()));
        let bytes = u128::from(self.memory.0) * u128::from(slices) / u128::from(all.max(1));
        u64::try_from(bytes * kept / 1_000_000).unwrap_or_default()
    }

    /// The smallest profile with the memory and at least the measured part of the SMs.
    fn profile_for<'a>(&self, layout: &'a MigLayout, workload: &Workload) -> Option<&'a Profile> {
        layout.profiles.iter().find(|profile| {
            let enough_memory = workload.memory.0 <= self.usable(profile.memory, layout.memory);
            enough_memory
                && workload.utilization.ppm() * layout.compute <= profile.compute * 1_000_000
        })
    }

    fn with_mig(&self, layout: Option<&MigLayout>) -> Packing {
        let mode = Mode::Mig;
        let Some(layout) = layout else {
            let reason = format!("{} has no MIG, or its profiles are unknown", self.model);
            return Packing { mode, gpus: Err(reason), profiles: Vec::new() };
        };
        let chosen: Result<Vec<Profile>, &Workload> = self
            .workloads
            .iter()
            .map(|it| self.profile_for(layout, it).cloned().ok_or(it))
            .collect();
        match chosen {
            Err(workload) => {
                let gpus = Err(format!("{} fits no instance", workload.name));
                Packing { mode, gpus, profiles: Vec::new() }
            }
            Ok(profiles) => {
                let order = largest_first(&profiles, |it| (it.memory, it.compute));
                let gpus = pack(&order, |gpu, item| {
                    let all = gpu.iter().chain([&item]).filter_map(|&it| profiles.get(it));
                    layout.holds(&all.collect::<Vec<_>>())
                });
                let gpus = gpus.map_err(|_| "an instance fits no GPU".to_owned());
                Packing { mode, gpus, profiles }
            }
        }
    }

    /// Without partitions: memory and utilization add up.
    fn together(&self, mode: Mode) -> Packing {
        let usable = self.usable(1, 1);
        let of = |index: usize| {
            self.workloads.get(index).map_or((0, 0), |it| (it.memory.0, it.utilization.ppm()))
        };
        let order = largest_first(&self.workloads, |it| (it.memory, it.utilization));
        let gpus = pack(&order, |gpu, item| {
            let all = gpu.iter().chain([&item]).map(|&it| of(it));
            let (memory, utilization) =
                all.fold((0_u64, 0), |sum, it| (sum.0.saturating_add(it.0), sum.1 + it.1));
            memory <= usable && utilization <= self.target.ppm()
        });
        let gpus = gpus.map_err(|index| {
            let name = self.workloads.get(index).map_or("", |it| it.name.as_str());
            format!("{name} exceeds the memory or the target of one GPU")
        });
        Packing { mode, gpus, profiles: Vec::new() }
    }
}

impl Sharing {
    /// The packing with the fewest GPUs; of equals the best isolated.
    #[must_use]
    pub fn best(&self) -> Option<(&Packing, u64)> {
        let counted = self.packings.iter().filter_map(|packing| {
            let gpus = packing.gpus.as_ref().ok()?.len();
            Some((packing, u64::try_from(gpus).ok()?))
        });
        counted.min_by_key(|(_, gpus)| *gpus)
    }
}
