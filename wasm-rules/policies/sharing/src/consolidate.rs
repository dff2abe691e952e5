//! Instances whose work fits fewer of them: only then can free GPUs beside busy ones be given back.
//!
//! Must not depend on GPUs that share work.

use phasemeter_policy::{Gpu, same_model};
use phasemeter_specs::Unit;

/// Instances of one type that are each in use in part.
pub(crate) struct Pack<'a> {
    /// The GPUs without work.
    pub(crate) free: Vec<&'a Gpu>,
    /// Number of GPUs with work.
    pub(crate) busy: usize,
    /// Number of instances, and how many hold the work.
    pub(crate) instances: usize,
    pub(crate) needed: usize,
}

impl Pack<'_> {
    /// Whether a GPU is one of those without work.
    pub(crate) fn holds(&self, gpu: &Gpu) -> bool {
        self.free.iter().any(|free| std::ptr::eq(*free, gpu))
    }

    /// What giving back the other instances saves, relative to the free GPUs.
    pub(crate) fn returned(&self) -> f64 {
        let size = (self.free.len() + self.busy) as f64 / self.instances as f64;
        let returned = (self.instances - self.needed) as f64 * size;
        (returned / self.free.len() as f64).min(1.0)
    }
}

/// The instances whose work fits fewer of them. Those that are free as a whole are given back as they are.
pub(crate) fn packs<'a>(units: &[Unit<'a>], is_free: impl Fn(&Gpu) -> bool) -> Vec<Pack<'a>> {
    let in_part = |unit: &&Unit<'a>| {
        unit.is_returnable() && unit.gpus.len() > 1 && !unit.gpus.iter().all(|gpu| is_free(gpu))
    };
    let parts: Vec<_> = units.iter().filter(in_part).collect();
    let groups = phasemeter_policy::groups(parts, |a, b| is_same_type(a, b));
    let pack = |group: &Vec<&Unit<'a>>| {
        let size = group.first()?.gpus.len();
        let all = group.iter().flat_map(|unit| unit.gpus.iter().copied());
        let (free, busy): (Vec<_>, Vec<_>) = all.partition(|gpu| is_free(gpu));
        let (instances, needed) = (group.len(), busy.len().div_ceil(size));
        let fits = needed < instances && !free.is_empty();
        fits.then_some(Pack { free, busy: busy.len(), instances, needed })
    };
    groups.iter().filter_map(pack).collect()
}

/// Whether work of one instance runs on the other: the same known type, and as many GPUs of one model.
fn is_same_type(a: &Unit<'_>, b: &Unit<'_>) -> bool {
    let kind = |gpu: &Gpu| {
        let price = gpu.price.clone()?;
        Some((price.provider, price.region, price.instance_type?))
    };
    let (Some(first), Some(second)) = (a.gpus.first(), b.gpus.first()) else { return false };
    let alike = |gpu: &&Gpu| same_model(&gpu.model, &first.model);
    a.gpus.len() == b.gpus.len()
        && kind(first).is_some()
        && kind(first) == kind(second)
        && a.gpus.iter().chain(&b.gpus).all(alike)
}
