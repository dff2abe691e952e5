//! Units: GPUs that are rented and given back together.
//!
//! An instance is paid for as long as one of its GPUs is needed. So a free GPU is money only if all
//! GPUs of its instance are free; otherwise it is capacity for other work. Must not depend on what is
//! recommended.

use phasemeter_policy::{Gpu, Plan, Price, Window, Workload, same_model};

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
    #[must_use]
    pub fn is_returnable(&self) -> bool {
        self.is_whole && !self.is_committed
    }

    /// What runs on it, if it is the same on all its GPUs.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let first = self.gpus.first().map_or(Workload::Unknown, |gpu| gpu.workload);
        let is_same = self.gpus.iter().all(|gpu| gpu.workload == first);
        if is_same { first } else { Workload::Unknown }
    }

    /// The price per GPU, if it can be compared with offers: on demand, of a known provider, not estimated, and
    /// the same for all GPUs, which are of one model. Of several, the type of their instance is known.
    #[must_use]
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
#[must_use]
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
        unit.is_whole = size.is_none_or(|size| unit.gpus.len() >= size as usize);
    }
    units.into_iter().map(|(unit, _)| unit).collect()
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Price;
    use phasemeter_policy::testing::{price, steady, window};

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
    fn committed_units_are_not_returnable() {
        let plan = |plan| {
            let price = Price { plan: Some(plan), ..price() };
            let window = window(vec![Gpu { price: Some(price), ..steady(3_600, 0.0) }; 8]);
            units(&window)[0].is_returnable()
        };
        assert!(plan(Plan::OnDemand));
        assert!(!plan(Plan::Owned) && !plan(Plan::ReservedOneYear));
    }
}
