//! Recommends the cheapest GPU on offer that holds the memory of a GPU with little load.

use phasemeter_policy::column::{peak, percentile};
use phasemeter_policy::format::{gib, percent, usd};
use phasemeter_policy::{
    Effort, Gpu, Need, Offer, Plan, Policy, Recommendation, Recommender, Remediation, Response,
    Saving, Target, Window, evidence,
};

phasemeter_policy::settings! {
    /// Utilization that a GPU with little load does not exceed 95% of the time.
    max_load: number = 0.3 in 0.0..=1.0;
}

/// GPUs with this attribute are left alone: `--resource`, or a label of the pod.
const TIER: (&str, &str) = ("tier", "critical");

/// Share of an offered GPU's memory that may be in use: drivers reserve a part.
const MAX_MEMORY: f64 = 0.9;

struct Mine;

impl Policy for Mine {
    const NAME: &'static str = "my-policy";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    type Settings = Settings;
}

impl Recommender for Mine {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let gpus: Vec<_> = window.gpus.iter().filter(|gpu| !is_critical(gpu, window)).collect();
        let found = gpus.iter().filter_map(|gpu| recommend(settings, gpu, window));
        let recommendations = found.collect();
        // What cannot be told is a need, and not a guess.
        let unknown: Vec<_> = gpus.into_iter().filter(|gpu| gpu.memory.is_empty()).collect();
        let need = (!unknown.is_empty()).then(|| {
            Need::new("memory.used", "memory in use decides which GPUs are large enough", unknown)
        });
        Response { recommendations, needs: need.into_iter().collect() }
    }
}

/// An attribute of the GPU, else of the whole run.
fn is_critical(gpu: &Gpu, window: &Window) -> bool {
    gpu.attribute(TIER.0).or_else(|| window.attribute(TIER.0)) == Some(TIER.1)
}

fn recommend(settings: &Settings, gpu: &Gpu, window: &Window) -> Option<Recommendation> {
    // Columns have a point per step: at most 600 for the whole window.
    let load = percentile(&gpu.utilization, 95).filter(|load| *load <= settings.max_load)?;
    let memory = peak(&gpu.memory)?;
    // A commitment costs the same without use, and an estimate is not the price paid.
    let price = gpu.price.as_ref().filter(|price| {
        !price.estimated && matches!(price.plan, None | Some(Plan::OnDemand))
    })?;
    // Instances are given back whole: moving one GPU's work from a larger one saves nothing.
    let own = |offer: &&Offer| offer.price.instance_type == price.instance_type;
    window.offers_beside(price).find(own).filter(|own| own.gpus == 1)?;
    let fits = |offer: &&Offer| {
        offer.gpus == 1
            && offer.memory_bytes.is_some_and(|bytes| memory <= MAX_MEMORY * bytes as f64)
            && offer.price.nano_usd_per_gpu_hour < price.nano_usd_per_gpu_hour
    };
    // The same provider and region as the price paid.
    let offers = window.offers_beside(price).filter(fits);
    let offer = offers.min_by_key(|offer| offer.price.nano_usd_per_gpu_hour)?;
    let (now, then) = (price.nano_usd_per_gpu_hour, offer.price.nano_usd_per_gpu_hour);
    let difference = 1.0 - then as f64 / now as f64;
    let instance = offer.price.instance_type.as_deref().unwrap_or(&offer.model);
    Some(Recommendation {
        title: "Try a smaller GPU".into(),
        action: format!("Run it on {} ({instance}), and compare the cost per unit of work.", offer.model),
        rationale: format!(
            "It is at most {} busy 95% of the time, and uses up to {}. {} costs {} per hour instead of {}.",
            percent(load),
            gib(memory),
            offer.model,
            usd(then),
            usd(now),
        ),
        // A trial: nothing is saved for certain, and never more than what is wasted.
        saving: Saving::part(difference.min(gpu.lost_idle() + gpu.lost_underload()), [0.0, 0.5, 1.0]),
        confidence: 0.5 * gpu.confidence(),
        evidence: evidence([
            ("utilization.p95", load, "1"),
            ("memory.peak", memory, "By"),
            ("current.price", now as f64 / 1e9, "{USD}/h"),
            ("smaller.price", then as f64 / 1e9, "{USD}/h"),
        ]),
        effort: Effort::Medium,
        // For automation, which Phasemeter does not do itself.
        remediation: Some(Remediation::new("instance.resize", [("instance_type", instance.into())])),
        ..Recommendation::new("resize.smaller", Target::Underload, "smaller_gpu", [gpu])
    })
}

phasemeter_policy::recommender!(Mine);

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_policy::testing::{price, steady, window, with_memory, with_offers};

    fn actions(gpu: Gpu, gpus_of_instance: u32) -> Vec<String> {
        let mut window = with_offers(window(vec![gpu]));
        let own = price().instance_type;
        for offer in window.offers.iter_mut().filter(|offer| offer.price.instance_type == own) {
            offer.gpus = gpus_of_instance;
        }
        let found = Mine::recommend(&Settings::default(), &window);
        found.recommendations.into_iter().map(|one| one.action).collect()
    }

    #[test]
    fn cheapest_offer_that_fits_is_recommended() {
        let of = |load, gib| with_memory(steady(3_600, load), gib);
        assert!(actions(of(0.2, 12.0), 1)[0].contains("NVIDIA L4 (g6.xlarge)"));
        assert!(actions(of(0.2, 30.0), 1)[0].contains("NVIDIA L40S"));
        assert!(actions(of(0.2, 70.0), 1).is_empty());
        assert!(actions(of(0.8, 12.0), 1).is_empty());
        let critical = vec![(TIER.0.to_owned(), TIER.1.to_owned())];
        assert!(actions(Gpu { attributes: critical, ..of(0.2, 12.0) }, 1).is_empty());
    }

    #[test]
    fn gpu_of_a_larger_instance_is_not_moved() {
        assert!(actions(with_memory(steady(3_600, 0.2), 12.0), 8).is_empty());
    }
}
