//! Recommends more work per GPU, or other GPUs, for underloaded and overloaded ones.
//!
//! Training gets larger batches. Of several GPUs of one training job at different levels, the slower ones wait
//! for the others. Another GPU is chosen from the offers of the window. Filling is at most one doubling. Must be
//! tried, so the low saving is 0. What services do with their requests and replicas is left to the policy `inference`.

mod balance;
mod current;
mod host;
mod kernels;
mod load;
mod other_gpu;
mod other_gpu_price;
mod other_gpu_text;
mod profile;

use phasemeter_diagnoses::{Replay, SEES_BURSTS, does_usual_work, share, units};
use phasemeter_policy::{Gpu, HOUR, Response, Window, Workload};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 900.0 in 0.0..=86400.0;
    /// Minimum observed time for another GPU, in seconds.
    min_size_seconds: number = 3600.0 in 0.0..=604800.0;
    /// Thresholds for another GPU. right-sizing: SM activity 60 and 85%, memory 40 and 80%. optimization:
    /// utilization 25 and 60%, memory 85%. analytics: utilization 50%, memory 85%. compute-optimizer: the
    /// 99.5th percentile with a headroom of 20%.
    profile: text = "right-sizing" of ["right-sizing", "optimization", "analytics", "compute-optimizer"];
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let mut observed = window.observed_gpus(settings.min_seconds);
    // A job that stands since its last work is ended or resumed first.
    let stands = |gpu: &Gpu| gpu.workload.is_job() && gpu.activity.after_work.held_seconds >= HOUR;
    observed.retain(|gpu| does_usual_work(gpu, window) && !stands(gpu));
    let units = units(window);
    let (others, open) = other_gpu::choose(&observed, &units, window, settings);
    let is_replaced = |gpu: &Gpu| others.iter().any(|found| std::ptr::eq(found.gpu, gpu));
    let hosts = host::recommend(&observed, &units, window, settings, is_replaced);
    let mut response = balance::recommend(&observed, window, settings);
    response.recommendations.extend(load::recommend(&observed, window, settings));
    response.extend(other_gpu_text::response(others, open));
    response.needs.extend(other_gpu_price::needs(&observed, &units, window, settings));
    response.recommendations.extend(hosts);
    response.extend(kernels::recommend(&observed, window));
    response
}

/// Difference between the loads that a steady one exceeds for 10% and for 90% of the time. An assumption, as wide as the
/// pattern `steady`.
const STEADY: f64 = 0.3;

/// Whether the load is steady, as far as the GPU works.
fn is_steady(gpu: &Gpu, window: &Window) -> bool {
    gpu.is_steady() || works_steadily(gpu, window)
}

/// Whether a training job has a steady load while it works, second by second, with idle time before or after it.
fn works_steadily(gpu: &Gpu, window: &Window) -> bool {
    let activity = &gpu.activity;
    let is_quiet_for_minutes =
        activity.minutes_seconds >= share::NEARLY_ALL * activity.quiet.seconds;
    let sees_steps = activity.interval_seconds.is_some_and(|interval| interval <= SEES_BURSTS);
    let trains = gpu.workload == Workload::Training && !gpu.is_bouncing();
    let spread = || Some(Replay::of(&[gpu], window)?.spread(window.thresholds().idle));
    trains && is_quiet_for_minutes && sees_steps && spread().is_some_and(|spread| spread <= STEADY)
}

fn serves(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Serving
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{
        bouncing, gpu, load, price, steady, window, with_memory, with_offers, with_varying_memory,
    };
    use phasemeter_policy::{
        Offer, PatternKind, Plan, Price, Recommendation, ThrottleReason, Throttling,
    };

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let window = with_offers(window(gpus));
        recommend(&Settings::default(), &window).recommendations
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    /// On an instance with one GPU.
    fn alone(gpu: Gpu) -> Gpu {
        let price = Price {
            instance_type: Some("p5.4xlarge".to_owned()),
            nano_usd_per_gpu_hour: 6_880_000_000,
            ..price()
        };
        Gpu { price: Some(price), ..gpu }
    }

    fn serving(gpu: Gpu) -> Gpu {
        Gpu { workload: Workload::Serving, ..gpu }
    }

    #[test]
    fn only_steady_load_is_underload() {
        assert!(recommendations(vec![bouncing(3_600, 40, 0.5)]).is_empty());
        let found = recommendations(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        assert_eq!(levers(&found), ["batch"]);
        // A doubling halves the overhead of each step.
        assert!((found[0].saving.expected - 0.2).abs() < 1e-3, "{:?}", found[0].saving);
        assert_eq!(found[0].saving.low, 0.0);
    }

    #[test]
    fn filling_is_at_most_one_doubling() {
        let found = recommendations(vec![with_memory(steady(3_600, 0.18), 6.0)]);
        assert!(found[0].saving.high <= 0.5 + 1e-9, "{:?}", found[0].saving);
    }

    #[test]
    fn workload_and_memory_select_the_action() {
        let lever = |gpu| levers(&recommendations(vec![gpu])).join(" ");
        let full = with_varying_memory(steady(3_600, 0.5), 75.0);
        assert_eq!(lever(full), "", "left to the policy memory");
        assert_eq!(lever(with_memory(steady(3_600, 0.5), 60.0)), "batch", "a pool: a trial");
        assert_eq!(lever(steady(3_600, 0.5)), "batch");
        assert_eq!(lever(serving(with_memory(steady(3_600, 0.3), 44.0))), "", "left to inference");
        let unknown = Gpu { workload: Workload::Unknown, ..with_memory(steady(3_600, 0.5), 33.0) };
        assert_eq!(lever(unknown), "", "as a condition, by the host");
    }

    #[test]
    fn productive_load_has_headroom_only() {
        let found = recommendations(vec![with_memory(steady(3_600, 0.8), 60.0)]);
        assert_eq!(levers(&found), ["overlap"]);
        assert!(found[0].saving.high <= 0.1 && found[0].saving.low == 0.0);
        assert!(recommendations(vec![steady(3_600, 0.97)]).is_empty());
    }

    #[test]
    fn unequal_stages_of_a_job_are_balanced() {
        let stages = [0.95, 0.62, 0.31].map(|level| with_memory(steady(3_600, level), 50.0));
        let found = recommendations(stages.to_vec());
        assert_eq!(levers(&found), ["other"]);
        let service = |gpu: Gpu, name: &str| Gpu {
            attributes: vec![("service.name".to_owned(), name.to_owned())],
            ..gpu
        };
        let [first, second, _] = stages;
        let found = recommendations(vec![service(first, "a"), service(second, "b")]);
        assert_eq!(levers(&found), ["batch"], "two jobs");
    }

    #[test]
    fn impaired_gpus_and_those_that_miss_one_get_no_more_work() {
        let hot = || {
            let mut hot = with_memory(steady(3_600, 0.5), 33.0);
            hot.sensors.throttling =
                vec![Throttling { reason: ThrottleReason::HardwareThermal, share: 0.4 }];
            hot
        };
        let recommended = |gpus: Vec<Gpu>| {
            let found = recommendations(gpus);
            found.into_iter().flat_map(|one| one.gpus).collect::<Vec<_>>()
        };
        let other = || with_memory(steady(3_600, 0.5), 33.0);
        assert_eq!(recommended(vec![hot(), other()]), ["GPU-1"]);
        let lost = Gpu { metrics: vec![("lost.seconds".to_owned(), 600.0)], ..hot() };
        assert!(recommended(vec![lost, other()]).is_empty());
    }

    #[test]
    fn load_is_steady_while_a_job_works() {
        let job = |level: fn(usize) -> f64| {
            let gpu = gpu(PatternKind::Mixed, 7_200, move |second| {
                if (600..5_400).contains(&second) { level(second) } else { 0.0 }
            });
            with_memory(gpu, 30.0)
        };
        assert_eq!(levers(&recommendations(vec![job(|_| 0.4)])), ["batch"]);
        let varying = job(|second| if second % 600 < 300 { 0.2 } else { 0.9 });
        assert!(recommendations(vec![varying]).is_empty());
        let mut window = window(vec![job(|_| 0.4)]);
        let seconds =
            |part: f64| [(0, 2_400.0), (20, 4_800.0 * part), (60, 4_800.0 * (1.0 - part))];
        let mut found = |part: f64| {
            window.load = vec![load(&["GPU-0"], &seconds(part))];
            recommend(&Settings::default(), &window).recommendations.len()
        };
        assert_eq!((found(0.5), found(0.05)), (0, 1), "points are means of seconds that vary");
    }

    #[test]
    fn smaller_gpu_must_fit_and_cost_less() {
        let mut oversized = alone(with_memory(steady(3_600, 0.15), 12.0));
        let found = recommendations(vec![oversized.clone()]);
        assert_eq!(levers(&found), ["batch", "smaller_gpu"]);
        assert!(found[1].rationale.contains("per hour there"), "{}", found[1].rationale);
        assert_eq!(found[1].saving.low, 0.0);
        let has = |gpu: Gpu| levers(&recommendations(vec![gpu])).contains(&"smaller_gpu");
        assert!(!has(Gpu { memory: vec![70e9; oversized.memory.len()], ..oversized.clone() }));
        assert!(!has(Gpu { memory: Vec::new(), ..oversized.clone() }));
        assert!(!has(with_memory(steady(3_600, 0.15), 12.0)), "one of eight");
        let estimated = oversized.price.clone().map(|price| Price { estimated: true, ..price });
        oversized.price = estimated;
        assert!(!has(oversized));
    }

    #[test]
    fn smaller_gpu_is_one_that_is_offered_there() {
        let oversized = alone(with_memory(steady(3_600, 0.15), 12.0));
        let found = |change: fn(&mut Offer)| {
            let mut window = with_offers(window(vec![oversized.clone()]));
            window.offers.iter_mut().for_each(change);
            let found = recommend(&Settings::default(), &window).recommendations;
            levers(&found).contains(&"smaller_gpu")
        };
        assert!(found(|_| {}));
        assert!(!found(|offer| offer.price.region = Some("eu-west-1".to_owned())));
        assert!(!found(|offer| offer.price.provider = Some("gcp".to_owned())));
        assert!(!found(|offer| offer.price.plan = Some(Plan::Spot)));
        assert!(!found(|offer| offer.price.nano_usd_per_gpu_hour = 7_000_000_000));
        assert!(!found(|offer| offer.gpus = 8), "an instance of eight GPUs");
    }

    #[test]
    fn short_windows_are_skipped() {
        assert!(recommendations(vec![steady(50, 0.5), steady(600, 0.5)]).is_empty());
    }
}
