//! An instance of the same provider with the same GPUs and a smaller host.
//!
//! The difference of their prices pays for CPUs and host memory, of which a window has nothing. Must not
//! depend on how busy a GPU is, except that it does not wait for its host.

use phasemeter_diagnoses::{Unit, confidence, saved, share};
use phasemeter_policy::format::{subject, usd};
use phasemeter_policy::{
    Effort, Gpu, Offer, Price, Recommendation, Remediation, Saving, Target, Window, evidence,
    groups, mean, same_model,
};

use crate::Settings;

/// A GPU, and the cheapest instance with as many like it.
#[derive(Clone, Copy)]
struct Finding<'a> {
    gpu: &'a Gpu,
    paid: &'a Price,
    offer: &'a Offer,
}

/// Recommends smaller hosts, except for GPUs that are to be replaced.
pub(crate) fn recommend(
    observed: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
    is_replaced: impl Fn(&Gpu) -> bool,
) -> Vec<Recommendation> {
    let applies = |unit: &&Unit<'_>| {
        let needs_no_cpus = |gpu: &&Gpu| {
            observed.iter().any(|it| std::ptr::eq(*it, *gpu))
                && gpu.accounts.observed().seconds >= settings.min_size_seconds
                && !gpu.is_bouncing()
                && gpu.lost_starvation() + held_idle(gpu) < share::HARDLY_ANY
                && !is_replaced(gpu)
        };
        unit.is_returnable() && unit.gpus.iter().all(needs_no_cpus)
    };
    let findings = units.iter().filter(applies).flat_map(|unit| {
        let found = find(unit, window, settings);
        found
            .into_iter()
            .flat_map(|(paid, offer)| unit.gpus.iter().map(move |gpu| Finding { gpu, paid, offer }))
    });
    let rate = |finding: &Finding<'_>| finding.paid.nano_usd_per_gpu_hour;
    let same =
        |a: &Finding<'_>, b: &Finding<'_>| std::ptr::eq(a.offer, b.offer) && rate(a) == rate(b);
    groups(findings, same).iter().filter_map(|group| recommend_for(group)).collect()
}

/// Share of the time without work in which a process holds the GPU: it may wait for its host.
fn held_idle(gpu: &Gpu) -> f64 {
    let quiet = gpu.activity.quiet;
    quiet.held_seconds / gpu.accounts.observed().seconds.max(1.0)
}

/// The cheapest instance with as many of the same GPUs.
fn find<'a>(
    unit: &Unit<'a>,
    window: &'a Window,
    settings: &Settings,
) -> Option<(&'a Price, &'a Offer)> {
    let paid = unit.price().filter(|price| price.instance_type.is_some())?;
    let model = &unit.gpus.first()?.model;
    let offers = window
        .offers_beside(paid)
        .filter(|offer| offer.gpus as usize == unit.gpus.len() && same_model(&offer.model, model));
    let cheapest = offers.min_by_key(|offer| offer.price.nano_usd_per_gpu_hour)?;
    (saved(paid, cheapest) >= settings.min_lost).then_some((paid, cheapest))
}

/// Share of the price paid.
fn saved(paid: &Price, offer: &Offer) -> f64 {
    let [now, then] = [paid, &offer.price].map(|price| price.nano_usd_per_gpu_hour as f64);
    1.0 - then / now.max(1.0)
}

fn recommend_for(group: &[Finding<'_>]) -> Option<Recommendation> {
    let Finding { paid, offer, .. } = *group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let [own, other] =
        [paid, &offer.price].map(|it| it.instance_type.as_deref().unwrap_or_default());
    let [now, then] = [paid, &offer.price].map(|price| price.nano_usd_per_gpu_hour);
    Some(Recommendation {
        title: ["Rent the same GPUs with a smaller host: ", other].concat(),
        action: format!(
            "Check how much of the CPUs and host memory of {own} is in use, and choose the smallest instance \
             type that has enough.",
        ),
        rationale: format!(
            "{} costs {} per hour on {own}, and {} on {other} ({}). The difference pays for CPUs and host \
             memory, and the data does not show whether they are needed.",
            subject(group.len()),
            usd(now),
            usd(then),
            offer.price.source,
        ),
        saving: Saving::part(saved(paid, offer), saved::HALF),
        confidence: confidence::EVEN * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("current.price", now as f64 / 1e9, "{USD}/h"),
            ("other.price", then as f64 / 1e9, "{USD}/h"),
        ]),
        effort: Effort::Medium,
        remediation: Some(
            Remediation::to_place("instance.resize", &offer.price)
                .unless("the work needs the CPU cores, the memory or the storage of this host"),
        ),
        ..Recommendation::new("sizing.host", Target::Rate, "smaller_instance", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::testing::{bouncing, price, steady, window};

    use super::*;

    const A10G: &str = "NVIDIA A10G";

    fn on(instance_type: &str, nano_usd_per_gpu_hour: u64, gpu: Gpu) -> Gpu {
        let instance_type = Some(instance_type.to_owned());
        let price = Price { nano_usd_per_gpu_hour, instance_type, ..price() };
        Gpu { price: Some(price), model: A10G.to_owned(), ..gpu }
    }

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let offer = |instance_type: &str, gpus, nano_usd| {
            let gpu = on(instance_type, nano_usd, steady(60, 0.5));
            let price = gpu.price.unwrap_or_else(price);
            Offer { model: A10G.to_owned(), gpus, memory_bytes: Some(24 << 30), price }
        };
        let offers = vec![
            offer("g5.8xlarge", 1, 2_448_000_000),
            offer("g5.xlarge", 1, 1_006_000_000),
            offer("g5.24xlarge", 4, 2_036_000_000),
            offer("g5.12xlarge", 4, 1_418_000_000),
        ];
        let window = Window { offers, ..window(gpus) };
        let observed: Vec<_> = window.gpus.iter().collect();
        recommend(&observed, &units(&window), &window, &Settings::default(), |_| false)
    }

    #[test]
    fn same_gpu_with_a_smaller_host_costs_less() {
        let found_on = |name: &str, nano_usd| found(vec![on(name, nano_usd, steady(7_200, 0.6))]);
        let one = found_on("g5.8xlarge", 2_448_000_000);
        assert!(one[0].title.ends_with("g5.xlarge"), "{}", one[0].title);
        let saving = one[0].saving;
        assert!(saving.low == 0.0 && (saving.high - 0.589).abs() < 1e-3, "{saving:?}");
        assert!(found_on("g5.xlarge", 1_006_000_000).is_empty(), "the smallest");
        assert!(found_on("g5.xlarge", 1_000_000_000).is_empty(), "a negotiated price");
    }

    #[test]
    fn gpus_of_an_instance_are_rented_together() {
        let gpu = |level| on("g5.24xlarge", 2_036_000_000, steady(7_200, level));
        let four = found(vec![gpu(0.6), gpu(0.6), gpu(0.7), gpu(0.5)]);
        assert!(four[0].title.ends_with("g5.12xlarge"), "{}", four[0].title);
        assert_eq!(four[0].gpus.len(), 4);
        assert!(found(vec![gpu(0.6); 3]).is_empty(), "one GPU was not observed");
    }

    #[test]
    fn gpu_that_waits_for_its_host_keeps_it() {
        let waiting = on("g5.8xlarge", 2_448_000_000, bouncing(7_200, 40, 0.5));
        assert!(found(vec![waiting]).is_empty());
        let mut held = on("g5.8xlarge", 2_448_000_000, steady(7_200, 0.5));
        held.activity.quiet.held_seconds = 1_000.0;
        assert!(found(vec![held]).is_empty(), "its process may wait");
        assert!(found(vec![on("g5.8xlarge", 2_448_000_000, steady(600, 0.5))]).is_empty());
    }
}
