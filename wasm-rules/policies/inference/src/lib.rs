//! Recommends how many replicas a service needs, and more requests for each.
//!
//! Fewer replicas come first: none needs more requests while there are too many. A full service can do more where
//! memory bandwidth limits it or its power is low, or else has no reserve. Batch jobs that preallocate their memory
//! as servers do are inference too. What must be tried has a low saving of 0. Other GPUs for a service are left to
//! the policy `sizing`.

mod bandwidth;
mod hours;
mod overload;
mod replicas;
mod requests;
mod services;

use phasemeter_diagnoses::{does_usual_work, units};
use phasemeter_policy::{Gpu, Recommendation, Response, Window, Workload};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 900.0 in 0.0..=86400.0;
    /// Minimum observed time for another number of replicas, in seconds.
    min_size_seconds: number = 3600.0 in 0.0..=604800.0;
    /// Utilization that a replica of a service should have.
    serving_target: number = 0.6 in 0.1..=0.9;
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let mut observed = window.observed_gpus(settings.min_seconds);
    observed.retain(|gpu| does_usual_work(gpu, window));
    let units = units(window);
    let (given, hidden) = services::fewer(&observed, &units, window, settings);
    let has_fewer = |gpu: &Gpu| {
        let is_hidden = hidden.iter().any(|other| other.is_alike(gpu));
        is_hidden || observed.iter().any(|other| other.is_alike(gpu) && names(&given, other))
    };
    let mut response =
        requests::recommend(&observed, &units, window, settings, has_fewer, !hidden.is_empty());
    response.extend(bandwidth::recommend(&observed, window));
    let more = |gpu: &Gpu| names(&response.recommendations, gpu);
    let overloaded = overload::recommend(&observed, window.thresholds(), settings, more);
    response.recommendations.extend(overloaded);
    response.recommendations.extend(given);
    response
}

/// Whether one of these recommendations is for a GPU.
fn names(recommendations: &[Recommendation], gpu: &Gpu) -> bool {
    recommendations.iter().any(|one| one.gpus.contains(&gpu.id))
}

fn serves(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Serving
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{load_of_all, price, steady, window, with_memory};
    use phasemeter_policy::{Percentiles, Price, RecommendationKind};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let mut window = window(gpus);
        window.load.push(load_of_all(&window));
        recommend(&Settings::default(), &window).recommendations
    }

    fn serving(gpu: Gpu) -> Gpu {
        Gpu { workload: Workload::Serving, ..gpu }
    }

    /// On an instance with one GPU.
    fn alone(gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some("p5.4xlarge".to_owned()), ..price() };
        Gpu { price: Some(price), ..gpu }
    }

    #[test]
    fn load_selects_the_action() {
        let levers = |gpu| {
            let found = recommendations(vec![gpu]);
            found.into_iter().map(|one| one.lever).collect::<Vec<_>>()
        };
        assert_eq!(levers(serving(with_memory(steady(3_600, 0.3), 44.0))), ["dynamic_batching"]);
        assert!(levers(serving(with_memory(steady(3_600, 0.68), 44.0))).is_empty());
        assert!(levers(with_memory(steady(3_600, 0.3), 44.0)).is_empty(), "training");
    }

    #[test]
    fn service_is_saturated_by_a_second_signal() {
        let at = |watts: f64| {
            let mut gpu = Gpu { power_limit_watts: Some(700.0), ..serving(steady(7_200, 0.99)) };
            gpu.sensors.busy_power =
                Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
            gpu
        };
        let found = |gpu: Gpu| {
            let found = recommendations(vec![gpu; 2]);
            found.iter().map(|it| (it.code.clone(), it.kind)).collect::<Vec<_>>()
        };
        let overload = vec![("inference.overload".to_owned(), RecommendationKind::Risk)];
        assert_eq!(found(at(650.0)), overload);
        assert_eq!(found(serving(steady(7_200, 0.99))), [], "utilization alone");
        assert_eq!(found(at(450.0)), []);
        let more = vec![("inference.low-power".to_owned(), RecommendationKind::Capacity)];
        let mut varying = at(225.0);
        varying.sensors.busy_power =
            varying.sensors.busy_power.map(|it| Percentiles { p95: 260.0, ..it });
        assert_eq!(found(varying), more);
        let spins = vec![("inference.spins".to_owned(), RecommendationKind::Saving)];
        assert_eq!([found(at(225.0)), found(at(150.0))], [spins.clone(), spins]);
        let mut active = at(450.0);
        active.sensors.sm_activity = Some(0.95);
        assert_eq!(found(active.clone()), overload);
        // More requests share each read of the weights: no replica is needed.
        active.sensors.dram_activity = Some(0.95);
        active.sensors.tensor_activity = Some(0.06);
        assert_eq!(found(active)[0].0, "inference.bandwidth");
    }

    #[test]
    fn batched_requests_save_only_replicas_that_can_be_given_back() {
        let replica = |level| alone(serving(with_memory(steady(7_200, level), 44.0)));
        let found = |gpus| {
            let found = recommendations(gpus);
            let one = found.iter().find(|one| one.lever == "dynamic_batching");
            one.map(|one| (one.kind, one.saving.high > 0.0))
        };
        assert_eq!(found(vec![replica(0.35); 2]), Some((RecommendationKind::Saving, true)));
        assert_eq!(found(vec![replica(0.35)]), Some((RecommendationKind::Capacity, false)));
        assert_eq!(found(vec![replica(0.3); 4]), None, "fewer suffice as they are");
    }
}
