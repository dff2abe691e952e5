//! GPUs that are far too large, without a price to compare with others: what is missing to do so.

use phasemeter_diagnoses::{Unit, share};
use phasemeter_policy::{Gpu, Memory, Need, Plan, Window};

use crate::Settings;
use crate::current::{are_alike, together};
use crate::profile::Profile;

/// What is missing to choose a smaller GPU: the provider, or what is rented there.
pub(crate) fn needs(
    observed: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
) -> Vec<Need> {
    let oversized = units.iter().filter(|unit| {
        unit.is_returnable()
            && unit.price().is_none()
            && is_oversized(&unit.gpus, observed, window, settings)
    });
    let with = |provider: bool| {
        let gpus = oversized.clone().flat_map(|unit| &unit.gpus).copied();
        gpus.filter(move |gpu| is_on_demand(gpu) && has_provider(gpu) == provider)
    };
    let provider = Need::if_any(
        "provider",
        "by its load and memory in use a smaller GPU most likely suffices: --provider and --region show which are \
         offered there, and at what price",
        with(false),
    );
    let instance = Need::if_any(
        "instance-type",
        "by its load and memory in use a smaller GPU most likely suffices: --instance-type, or the price paid, \
         shows what that saves",
        with(true),
    );
    provider.into_iter().chain(instance).collect()
}

/// Whether it has a price, and is not committed.
fn is_on_demand(gpu: &Gpu) -> bool {
    let price = gpu.price.as_ref();
    price.is_some_and(|price| matches!(price.plan, None | Some(Plan::OnDemand)))
}

fn has_provider(gpu: &Gpu) -> bool {
    gpu.price.as_ref().is_some_and(|price| price.provider.is_some())
}

/// Whether load and memory in use are low, as the profile defines it.
fn is_oversized(gpus: &[&Gpu], observed: &[&Gpu], window: &Window, settings: &Settings) -> bool {
    let profile = Profile::of(settings.profile);
    let (max_level, max_memory) = profile.oversized;
    let load = |gpu: &Gpu| gpu.sensors.sm_activity.unwrap_or(gpu.accounts.busy().level());
    let is_low = |gpu: &&Gpu| {
        load(gpu) < share::MOST * max_level.min(profile.underutilized)
            && gpu.lost_underload() >= settings.min_lost
    };
    let memory = || together(gpus.iter().map(|gpu| gpu.memory_use(window.step_seconds)));
    are_alike(gpus, observed, window, settings)
        && gpus.iter().all(is_low)
        && memory().and_then(Memory::in_use).is_some_and(|share| share < max_memory)
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::Price;
    use phasemeter_policy::testing::{price, steady, window, with_memory};

    use super::*;

    fn missing(level: f64, gib: f64, change: impl Fn(&mut Price)) -> Vec<String> {
        let mut price = price();
        change(&mut price);
        let gpu = Gpu { price: Some(price), ..with_memory(steady(7_200, level), gib) };
        let window = window(vec![gpu]);
        let observed: Vec<_> = window.gpus.iter().collect();
        let found = needs(&observed, &units(&window), &window, &Settings::default());
        found.into_iter().map(|need| need.missing).collect()
    }

    #[test]
    fn oversized_gpu_lacks_a_price_to_compare() {
        let unknown = |price: &mut Price| {
            (price.provider, price.instance_type) = (None, None);
        };
        let estimated = |price: &mut Price| {
            (price.estimated, price.instance_type) = (true, None);
        };
        assert_eq!(missing(0.2, 12.0, unknown), ["provider"]);
        assert_eq!(missing(0.2, 12.0, estimated), ["instance-type"]);
        assert!(missing(0.2, 12.0, |price| price.instance_type = None).is_empty(), "it is known");
        assert!(missing(0.5, 12.0, unknown).is_empty(), "busier");
        assert!(missing(0.2, 70.0, unknown).is_empty(), "more memory");
        let owned = |price: &mut Price| {
            (price.provider, price.plan) = (None, Some(Plan::Owned));
        };
        assert!(missing(0.2, 12.0, owned).is_empty());
    }
}
