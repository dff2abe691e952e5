//! The GPUs of an instance that may be replaced, and what another model must have to do their work.

use phasemeter_diagnoses::{
    Architecture, LOW_POWER, Model, Replay, SMALLEST, Unit, carries_exchange, computes_in_fp64,
    has_full_bandwidth, has_idle_tensor_cores, power_share, share, time,
};
use phasemeter_policy::{Gpu, Memory, Offer, Price, Window, Workload, same_model};

use crate::profile::Profile;
use crate::{Settings, is_steady, serves};

/// Peaks of a GPU that is as fast, relative to this one. An assumption.
pub(crate) const AS_FAST: f64 = 0.95;

/// The GPUs of an instance, with the price of each.
pub(crate) struct Current<'a, 'b> {
    /// The first of them.
    pub(crate) gpu: &'a Gpu,
    pub(crate) gpus: &'b [&'a Gpu],
    pub(crate) paid: &'a Price,
    pub(crate) model: &'static Model,
    pub(crate) memory: Memory,
    pub(crate) window: &'a Window,
    pub(crate) settings: &'b Settings,
    pub(crate) profile: &'static Profile,
}

impl<'a, 'b> Current<'a, 'b> {
    /// Conditions that take the least come first.
    pub(crate) fn of(
        unit: &'b Unit<'a>,
        observed: &[&Gpu],
        window: &'a Window,
        settings: &'b Settings,
    ) -> Option<Self> {
        let (gpu, gpus) = (*unit.gpus.first()?, unit.gpus.as_slice());
        let paid = unit.price().filter(|_| unit.is_returnable())?;
        if !are_alike(gpus, observed, window, settings) {
            return None;
        }
        Self::new(gpu, gpus, paid, window, settings)
    }

    /// A GPU of a session: a person works on it, or it is of unknown kind and works now and then.
    pub(crate) fn session(
        unit: &'b Unit<'a>,
        observed: &[&Gpu],
        window: &'a Window,
        settings: &'b Settings,
    ) -> Option<Self> {
        let [gpu] = unit.gpus.as_slice() else { return None };
        let is_session = match gpu.workload {
            Workload::Interactive => true,
            Workload::Unknown => gpu.quiet_share() >= share::MOST && !gpu.is_bouncing(),
            _ => false,
        };
        let is_shown = observed.iter().any(|it| std::ptr::eq(*it, *gpu))
            && gpu.accounts.observed().seconds >= settings.min_size_seconds
            && gpu.accounts.busy().seconds >= time::USUAL;
        let paid = unit.price().filter(|_| is_session && is_shown && unit.is_returnable())?;
        Self::new(gpu, unit.gpus.as_slice(), paid, window, settings)
    }

    fn new(
        gpu: &'a Gpu,
        gpus: &'b [&'a Gpu],
        paid: &'a Price,
        window: &'a Window,
        settings: &'b Settings,
    ) -> Option<Self> {
        let model = Model::of(&gpu.model)?;
        let memory = together(gpus.iter().map(|gpu| gpu.memory_use(window.step_seconds)))?;
        let profile = Profile::of(settings.profile);
        Some(Self { gpu, gpus, paid, model, memory, window, settings, profile })
    }

    /// The level of the busiest.
    pub(crate) fn level(&self) -> f64 {
        self.gpus.iter().map(|gpu| gpu.accounts.busy().level()).fold(0.0, f64::max)
    }

    /// Share of the bill lost to underload, of the one that loses the least.
    pub(crate) fn lost(&self) -> f64 {
        self.gpus.iter().map(|gpu| gpu.lost_underload()).fold(1.0, f64::min)
    }

    /// Mean activity of the SMs while they work, of the busiest, if all were measured.
    pub(crate) fn sm_activity(&self) -> Option<f64> {
        let all: Option<Vec<_>> = self.gpus.iter().map(|gpu| gpu.sensors.sm_activity).collect();
        Some(all?.into_iter().fold(0.0, f64::max))
    }

    pub(crate) fn memory_peak(&self) -> Option<f64> {
        self.gpus.iter().filter_map(|gpu| gpu.memory_peak()).reduce(f64::max)
    }

    /// Instances with as many GPUs of another model, with their price relative to the one paid. If the same
    /// GPUs cost less with another host, that is the price to compare with.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (&'a Offer, f64)> {
        let (own, gpus) = (self.model.name, self.gpus);
        let paid = self.paid.nano_usd_per_gpu_hour.max(1) as f64;
        let relative = move |offer: &'a Offer| offer.price.nano_usd_per_gpu_hour as f64 / paid;
        let as_many = || {
            let offers = self.window.offers_beside(self.paid);
            offers.filter(move |offer| offer.gpus as usize == gpus.len())
        };
        let same = as_many().filter(|offer| same_model(&offer.model, own)).map(relative);
        let cheapest = same.fold(1.0, f64::min);
        let others = as_many().filter(move |offer| {
            let exchanges = gpus.len() > 1;
            !same_model(&offer.model, own)
                && (!exchanges || gpus.iter().all(|gpu| carries_exchange(gpu, &offer.model)))
        });
        let others = others.map(move |offer| (offer, relative(offer)));
        others.filter(move |(_, price)| *price < cheapest || *price >= 1.0)
    }

    /// The ratios of the peaks of arithmetic and bandwidth there to those here. `None` if it lacks formats that
    /// this one has, or they are unknown.
    pub(crate) fn peaks(&self, offer: &Offer) -> Option<(f64, f64)> {
        self.ratios(offer).filter(|_| !lacks_bf16(self.gpu, offer))
    }

    /// The same, whatever formats it has. Peaks in FP64 are unknown: cards have a 64th of them, modules half.
    pub(crate) fn ratios(&self, offer: &Offer) -> Option<(f64, f64)> {
        if self.gpus.iter().any(|gpu| computes_in_fp64(gpu)) {
            return None;
        }
        let other = Model::of(&offer.model)?;
        let flops = other.tflops()? / self.model.tflops()?;
        let bandwidth = other.bandwidth_gb_s? / self.model.bandwidth_gb_s?;
        // From Turing on, all have what is in use.
        let own = self.model.architecture;
        let least = if own >= Architecture::Turing { Architecture::Turing } else { own };
        (other.architecture >= least).then_some((flops, bandwidth))
    }

    /// The least and the most by which the other model is faster, as its peaks bound it.
    pub(crate) fn speed(&self, offer: &Offer) -> Option<(f64, f64)> {
        let (flops, bandwidth) = self.peaks(offer)?;
        Some((flops.min(bandwidth), flops.max(bandwidth)))
    }

    /// Whether what is in use now fits, and does not limit the work there. Of a preallocated block, all of it.
    pub(crate) fn fits(&self, offer: &Offer) -> bool {
        let needed = match self.memory {
            Memory::InUse(_) => self.memory_peak().map(|it| it / self.profile.memory_short),
            _ => self.gpu.memory_total_bytes.map(|total| total as f64),
        };
        let has = offer.memory_bytes.map(|bytes| bytes as f64);
        // Drivers report a few percent less than datasheets.
        needed.zip(has).is_some_and(|(needed, has)| needed <= has)
    }

    /// Whether the work of a full GPU fits: memory does not limit it, and no more of it is in use there than here.
    pub(crate) fn holds(&self, offer: &Offer) -> bool {
        let has_as_much = |total| offer.memory_bytes.is_some_and(|has| total <= has);
        self.fits(offer) || self.gpu.memory_total_bytes.is_some_and(has_as_much)
    }

    /// The load that a smaller GPU must carry at least, relative to the peaks of arithmetic and bandwidth here: measured
    /// activity, else utilization, which is at least as high. Peaks only exclude what cannot be enough.
    pub(crate) fn load(&self) -> Option<(f64, f64)> {
        let (above, _) = self.profile.load;
        let peak = |gpu: &&Gpu| Some(Replay::of(&[*gpu], self.window)?.exceeded_at_least(above));
        let loads = self.gpus.iter().map(peak);
        let load = loads.collect::<Option<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
        let Some(activity) = self.sm_activity() else { return Some((load, load)) };
        // At its busiest, relative to the mean while it works.
        let most = load / self.level().max(SMALLEST);
        let dram = self.gpus.iter().map(|gpu| gpu.sensors.dram_activity.unwrap_or(activity));
        Some((activity * most, dram.fold(0.0, f64::max) * most))
    }

    /// Whether arithmetic or bandwidth limits the work, as far as activity or else power shows it.
    pub(crate) fn is_full(&self) -> bool {
        let limits = |gpu: &Gpu| {
            let has_power = power_share(gpu).is_none_or(|share| share >= LOW_POWER);
            let has_active_sms = |activity| activity >= self.profile.full;
            has_full_bandwidth(gpu) || gpu.sensors.sm_activity.map_or(has_power, has_active_sms)
        };
        let is_full = |gpu: &Gpu| gpu.full_share() >= share::NEARLY_ALL;
        self.gpus.iter().all(|gpu| is_full(gpu) && limits(gpu))
    }

    /// Whether memory bandwidth limits the work of all, and arithmetic on tensor cores does not.
    pub(crate) fn waits_for_bytes(&self) -> bool {
        self.gpus.iter().all(|gpu| has_full_bandwidth(gpu) && has_idle_tensor_cores(gpu))
    }

    /// Whether arithmetic does not limit work there that waits for bytes here: CUDA cores are as fast, and tensor cores
    /// carry what runs on them.
    pub(crate) fn carries_arithmetic(&self, offer: &Offer) -> Option<bool> {
        let (flops, _) = self.peaks(offer)?;
        let cores = Model::of(&offer.model)?.fp32_tflops? / self.model.fp32_tflops?;
        let tensor = self.gpus.iter().filter_map(|gpu| gpu.sensors.tensor_activity);
        let (_, max_load) = self.profile.load;
        Some(cores >= AS_FAST && tensor.fold(0.0, f64::max) <= max_load * flops)
    }

    /// Whether the price relative to the one paid is within what its service needs: replicas that do the same, and
    /// one more. A job of any size ends sooner.
    pub(crate) fn is_affordable(&self, price: f64) -> bool {
        let alike = self.window.gpus.iter().filter(|other| other.is_alike(self.gpu)).count();
        !serves(self.gpu) || price <= (alike / self.gpus.len() + 1) as f64
    }
}

/// Whether a GPU has BF16 and the other one has not: only in FP16 are its peaks what is compared.
pub(crate) fn lacks_bf16(gpu: &Gpu, offer: &Offer) -> bool {
    let has = |model: &str| Model::of(model).is_some_and(|model| model.bf16_tflops.is_some());
    has(&gpu.model) && !has(&offer.model)
}

/// Whether these GPUs do the same, were observed for long enough, and have a load that can be compared.
pub(crate) fn are_alike(
    gpus: &[&Gpu],
    observed: &[&Gpu],
    window: &Window,
    settings: &Settings,
) -> bool {
    gpus.iter().all(|gpu| {
        observed.iter().any(|it| std::ptr::eq(*it, *gpu))
            && gpu.workload == gpus[0].workload
            && gpu.accounts.observed().seconds >= settings.min_size_seconds
            && gpu.workload != Workload::Interactive
            // Of a service, demand changes the load: its peak decides.
            && (is_steady(gpu, window) || serves(gpu))
    })
}

/// The memory use of several GPUs: in use, a preallocated block if one of them has one, and unknown if one is.
/// `None` if one rises.
pub(crate) fn together(mut uses: impl Iterator<Item = Memory>) -> Option<Memory> {
    let first = uses.next()?;
    uses.chain([first]).try_fold(first, |all, one| match (all, one) {
        (_, Memory::Rising { .. }) => None,
        (Memory::InUse(a), Memory::InUse(b)) => Some(Memory::InUse(a.max(b))),
        (Memory::Unknown, _) | (_, Memory::Unknown) => Some(Memory::Unknown),
        (Memory::Pool(share), _) | (_, Memory::Pool(share)) => Some(Memory::Pool(share)),
        (Memory::Rising { .. }, _) => None,
    })
}
