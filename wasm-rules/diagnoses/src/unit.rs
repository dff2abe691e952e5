//! Units: GPUs that are rented and given back together.
//!
//! An instance is paid for as long as one of its GPUs is needed. So a free GPU is money only if all
//! GPUs of its instance are free; otherwise it is capacity for other work.

use crate::bounds::JOBS;
use phasemeter_policy::column::mean_correlation;
use phasemeter_policy::{Gpu, Plan, Price, Window, Workload, same_model};

use crate::{is_credible, is_lost};

/// Mean correlation of utilization from which GPUs work together: 1 if they all do, 0 if they are unrelated. An assumption.
pub const TOGETHER: f64 = 0.5;

/// Stretches without work from which it is not a coincidence that two GPUs work at the same times, and a session works again
/// and again. An assumption.
pub const FREQUENT: u32 = 10;

/// GPUs that are given back together.
#[derive(Clone, Debug)]
pub struct Unit<'a> {
    /// Its GPUs in the window.
    pub gpus: Vec<&'a Gpu>,
    /// Whether these are all GPUs of the instance, as far as that is known.
    pub is_whole: bool,
    /// Whether the number of GPUs of the instance is known.
    pub has_known_size: bool,
    /// Whether its hours are paid for, used or not: purchased or committed.
    pub is_committed: bool,
}

impl<'a> Unit<'a> {
    /// Whether giving it back reduces the bill.
    pub fn is_returnable(&self) -> bool {
        self.is_whole && !self.is_committed
    }

    /// Whether a GPU is one of its own.
    pub fn holds(&self, gpu: &Gpu) -> bool {
        self.gpus.iter().any(|own| std::ptr::eq(*own, gpu))
    }

    /// Whether idle time of its GPUs may be free time, as far as their power shows.
    pub fn is_credible(&self) -> bool {
        self.gpus.iter().all(|gpu| is_credible(gpu))
    }

    /// What runs on it, if it is the same on all its GPUs.
    pub fn workload(&self) -> Workload {
        let first = self.gpus.first().map_or(Workload::Unknown, |gpu| gpu.workload);
        let is_same = self.gpus.iter().all(|gpu| gpu.workload == first);
        if is_same { first } else { Workload::Unknown }
    }

    /// The price per GPU, if it can be compared with offers: on demand, of a known provider, not estimated, and
    /// the same for all GPUs, which are of one model. Of several, the type of their instance is known.
    pub fn price(&self) -> Option<&'a Price> {
        let first = *self.gpus.first()?;
        let paid = first.price.as_ref().filter(|price| {
            matches!(price.plan, None | Some(Plan::OnDemand))
                && price.provider.is_some()
                && !price.estimated
                && (self.gpus.len() == 1 || price.instance_type.is_some())
        })?;
        let is_same = |gpu: &&Gpu| {
            let own = gpu.price.as_ref();
            same_model(&gpu.model, &first.model)
                && own.is_some_and(|own| own.nano_usd_per_gpu_hour == paid.nano_usd_per_gpu_hour)
        };
        self.gpus.iter().all(is_same).then_some(paid)
    }
}

/// Whether the hours of a GPU are paid for, used or not.
fn is_committed(gpu: &Gpu) -> bool {
    let plan = gpu.price.as_ref().and_then(|price| price.plan);
    matches!(plan, Some(Plan::Owned | Plan::ReservedOneYear | Plan::ReservedThreeYears))
}

/// Number of GPUs of the instance type paid for, if the window has an offer of it.
fn instance_gpus(gpu: &Gpu, window: &Window) -> Option<u32> {
    let paid = gpu.price.as_ref()?;
    let instance_type = paid.instance_type.as_deref()?;
    let same = window.offers.iter().find(|offer| {
        offer.price.instance_type.as_deref() == Some(instance_type)
            && offer.price.provider == paid.provider
    });
    Some(same?.gpus)
}

/// The units of a window. GPUs of unknown nodes are of one node.
pub fn units(window: &Window) -> Vec<Unit<'_>> {
    // Each with the number of GPUs of its instance type.
    let mut units: Vec<(Unit<'_>, Option<u32>)> = Vec::new();
    for gpu in &window.gpus {
        let size = instance_gpus(gpu, window);
        let same = |(unit, other): &&mut (Unit<'_>, Option<u32>)| {
            *other == size && unit.gpus.first().is_some_and(|other| other.node() == gpu.node())
        };
        match units.iter_mut().find(same).filter(|_| size != Some(1)) {
            Some((unit, _)) => {
                unit.gpus.push(gpu);
                unit.is_committed &= is_committed(gpu);
            }
            None => {
                let is_committed = is_committed(gpu);
                let unit = Unit {
                    gpus: vec![gpu],
                    is_whole: true,
                    has_known_size: size.is_some(),
                    is_committed,
                };
                units.push((unit, size));
            }
        }
    }
    for (unit, size) in &mut units {
        // What a GPU does that is lost, or no longer read, is as unknown as that of one that was never recorded.
        let known = unit.gpus.iter().filter(|gpu| !is_lost(gpu)).count();
        unit.is_whole = known == unit.gpus.len() && size.is_none_or(|size| known >= size as usize);
    }
    units.into_iter().map(|(unit, _)| unit).collect()
}

/// Whether both are known to run different jobs.
pub fn are_separate(a: &Gpu, b: &Gpu) -> bool {
    JOBS.iter().any(|name| {
        let both = a.attribute(name).zip(b.attribute(name));
        both.is_some_and(|(a, b)| a != b)
    })
}

/// Whether both work as one, as far as is known: their loads rise and fall together, again and again.
pub fn work_together(a: &Gpu, b: &Gpu) -> bool {
    let correlation = || mean_correlation(&[&a.utilization, &b.utilization]);
    let are_frequent = u32::min(a.activity.stretches, b.activity.stretches) >= FREQUENT;
    are_frequent && !are_separate(a, b) && correlation().is_some_and(|it| it >= TOGETHER)
}

/// Whether these GPUs do not work as one: they are of different jobs, or their loads rise and fall independently.
pub fn are_independent(gpus: &[&Gpu]) -> bool {
    let pairs = gpus.iter().zip(gpus.iter().skip(1));
    if pairs.clone().all(|(a, b)| are_separate(a, b)) {
        return true;
    }
    // Ranks wait for one another, so their loads may hardly differ.
    let columns: Vec<_> = gpus.iter().map(|gpu| gpu.utilization.as_slice()).collect();
    gpus.iter().all(|gpu| gpu.workload != Workload::Training)
        && mean_correlation(&columns).is_some_and(|mean| mean < TOGETHER)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, price, steady, window};
    use phasemeter_policy::{PatternKind, Price};

    use super::*;

    fn on(instance_type: &str, node: &str, gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some(instance_type.to_owned()), ..price() };
        let attributes = vec![("host.name".to_owned(), node.to_owned())];
        Gpu { price: Some(price), attributes, ..gpu }
    }

    #[test]
    fn gpus_of_one_instance_are_one_unit() {
        let free = || steady(3_600, 0.0);
        let eight = |node| (0..8).map(move |_| on("p5.48xlarge", node, steady(3_600, 0.0)));
        let of = |gpus: Vec<Gpu>| {
            let window = window(gpus);
            let units = units(&window);
            units.iter().map(|unit| (unit.gpus.len(), unit.is_whole)).collect::<Vec<_>>()
        };
        assert_eq!(of(eight("a").chain(eight("b")).collect()), [(8, true), (8, true)]);
        assert_eq!(of(eight("a").take(3).collect()), [(3, false)]);
        assert_eq!(
            of(vec![on("p5.4xlarge", "a", free()), on("p5.4xlarge", "a", free())]),
            [(1, true), (1, true)]
        );
        assert_eq!(of(vec![on("unknown", "a", free())]), [(1, true)]);
    }

    #[test]
    fn ranks_of_a_job_work_together() {
        let at = |minute: usize| {
            gpu(
                PatternKind::Mixed,
                7_200,
                move |second| {
                    if second % 600 / 60 == minute { 0.6 } else { 0.0 }
                },
            )
        };
        assert!(work_together(&at(3), &at(3)));
        assert!(!work_together(&at(3), &at(7)));
        let pod = |name: &str| Gpu {
            attributes: vec![("k8s.pod.name".to_owned(), name.to_owned())],
            ..at(3)
        };
        assert!(!work_together(&pod("a"), &pod("b")));
    }

    #[test]
    fn committed_units_are_not_returnable() {
        let plan = |plan| {
            let price = Price { plan: Some(plan), ..price() };
            let window = window(vec![Gpu { price: Some(price), ..steady(3_600, 0.0) }; 8]);
            units(&window)[0].is_returnable()
        };
        assert!(plan(Plan::OnDemand));
        assert!(!plan(Plan::Owned) && !plan(Plan::ReservedOneYear));
    }

    #[test]
    fn gpus_of_one_job_are_not_independent() {
        let with =
            |workload, phase: usize| Gpu {
                workload,
                ..gpu(PatternKind::Mixed, 6_000, move |second| {
                    if (second + phase) % 1_200 < 600 { 0.9 } else { 0.4 }
                })
            };
        let (a, b) = (with(Workload::Batch, 0), with(Workload::Batch, 300));
        assert!(are_independent(&[&a, &b]));
        assert!(!are_independent(&[&a, &a]), "in step");
        let trains = [with(Workload::Training, 0), with(Workload::Training, 300)];
        assert!(!are_independent(&[&trains[0], &trains[1]]));
        let pod = |gpu: &Gpu, name: &str| Gpu {
            attributes: vec![("k8s.pod.name".to_owned(), name.to_owned())],
            ..gpu.clone()
        };
        assert!(are_independent(&[&pod(&trains[0], "a"), &pod(&trains[0], "b")]));
    }
}
