//! The number of replicas of services: fewer, or as many as the hour needs.
//!
//! Replicas on instances of their own can be given back; other ones free their GPUs for other work. Hours in
//! which a replica does nothing are left to the policy `lifecycle`, which stops its instance: no hour is
//! given back twice. Must not depend on how a replica is made faster.

use phasemeter_policy::format::{count, percent};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Remediation, Window, evidence, groups,
};
use phasemeter_specs::{Unit, are_independent};

use crate::replicas::{Replicas, are_replicas, load_of};
use crate::{Settings, serves};

/// Share of the replicas that are not needed which is given back: low, expected, high. An assumption.
const RETURNED: [f64; 3] = [0.0, 0.9, 1.0];

/// Share of a freed GPU that other work uses: low, expected, high. An assumption.
const USED: [f64; 3] = [0.0, 0.45, 0.7];

/// Confidence in fewer replicas of one service, and of GPUs that may serve different models, in a number that follows
/// the load down to one, and in fewer on GPUs that are not given back. Assumptions.
const SURE: f64 = 0.9;
const SURE_UNNAMED: f64 = 0.6;
const SURE_ALONE: f64 = 0.6;
const SURE_FREED: f64 = 0.6;

/// Utilization that a replica has at most, if its service accepts the most.
const MAX_TARGET: f64 = 0.8;

/// Share of the time without work from which a replica is a standby. An assumption.
const STANDBY: f64 = 0.9;

/// Attributes that name a service.
const SERVICES: [&str; 2] = ["service.name", "k8s.deployment.name"];

/// Observed time that shows how the load follows the day, in seconds.
const DAY: f64 = 86_400.0;

/// The fewest replicas of a service whose number follows the load; of two, one. An assumption.
const FEWEST: usize = 2;

/// Further saving from which the number of replicas should follow the load.
const MIN_FURTHER: f64 = 0.1;

/// Recommends fewer replicas, or as many as the hour needs, if all that serve the same are observed.
pub(crate) fn fewer(
    observed: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
) -> Vec<Recommendation> {
    let is_observed = |gpu: &Gpu| observed.iter().any(|it| std::ptr::eq(*it, gpu));
    let applies = |gpu: &Gpu| {
        gpu.accounts.observed().seconds >= settings.min_size_seconds
            && gpu.lost_underload() + gpu.lost_idle() >= settings.min_lost
            && gpu.quiet_share() < STANDBY
    };
    let serving = units.iter().flat_map(|unit| {
        let is_returned = unit.is_returnable() && unit.gpus.len() == 1;
        servers(unit, applies).into_iter().map(move |gpu| (gpu, is_returned))
    });
    let mut found = Vec::new();
    for group in groups(serving, |a, b| are_replicas(a.0, b.0) && a.1 == b.1) {
        let is_returned = group[0].1;
        let gpus: Vec<_> = group.into_iter().map(|(gpu, _)| gpu).collect();
        if !gpus.iter().all(|gpu| is_observed(gpu)) {
            continue;
        }
        let replicas = Replicas::new(gpus, window);
        let now = replicas.count();
        // At most twice the load on each, and one to spare.
        let needed = replicas.needed(replicas.total, settings.serving_target, 1);
        let kept = (needed + 1).clamp(now.div_ceil(2), now);
        let share = replicas.saved_by_hour(|_| kept);
        found.extend((share > 0.0).then(|| remove(&replicas, kept, share, is_returned)));
        found.extend(is_returned.then(|| follow(&replicas, share, settings)).flatten());
    }
    found
}

/// The GPUs of a unit that serve, if each is a replica: GPUs of one server rise and fall together.
fn servers<'a>(unit: &Unit<'a>, applies: impl Fn(&Gpu) -> bool) -> Vec<&'a Gpu> {
    let gpus: Vec<_> =
        unit.gpus.iter().copied().filter(|gpu| serves(gpu) && applies(gpu)).collect();
    if gpus.len() > 1 && !are_independent(&gpus) { Vec::new() } else { gpus }
}

fn remove(replicas: &Replicas<'_>, kept: usize, share: f64, is_returned: bool) -> Recommendation {
    let (now, total) = (replicas.count(), replicas.total);
    let returned = now - kept;
    let used = if is_returned { [1.0; 3] } else { USED };
    let parts = std::array::from_fn(|at| share * RETURNED[at] * used[at]);
    let booked = replicas.booked(returned, parts);
    let (few, number) = (booked.gpus.len(), count(kept, "replica"));
    let (how, carried) = if few < now {
        let theirs = percent(load_of(&booked.gpus));
        let carried = format!(
            "Together, {few} of {now} replicas carry {theirs} of one GPU, and all of them {}",
            percent(total)
        );
        ("Balance the requests over", carried)
    } else {
        (
            "Scale the service to",
            format!("{now} replicas carry {} of one GPU together", percent(total)),
        )
    };
    let is_named =
        booked.gpus.iter().all(|gpu| SERVICES.iter().any(|it| gpu.attribute(it).is_some()));
    let (then, doubt) = if is_returned {
        let doubt = if is_named { "" } else { ", if all serve the same model" };
        (format!(" and return {}", count(returned, "instance")), doubt)
    } else {
        let freed = format!("; let other work use {}", count(returned, "GPU"));
        (freed, ", if each of these GPUs serves on its own")
    };
    Recommendation {
        title: format!("Serve with {number} instead of {now}"),
        action: format!("{how} {number}{then}. Watch the latency."),
        rationale: format!(
            "{carried}, at their 95th percentile: {kept} carry that at {} each{doubt}.",
            percent(total / kept as f64),
        ),
        saving: booked.saving,
        confidence: match is_returned {
            true if is_named => SURE,
            true => SURE_UNNAMED,
            false => SURE_FREED,
        },
        evidence: evidence([
            ("replicas", now as f64, "{replica}"),
            ("replicas.needed", kept as f64, "{replica}"),
        ]),
        remediation: Some(Remediation::new("k8s.scale", [("replicas", kept.to_string())])),
        kind: if is_returned { RecommendationKind::Saving } else { RecommendationKind::Capacity },
        ..Recommendation::new(
            if is_returned { "inference.replicas" } else { "inference.spare-replicas" },
            booked.target,
            "replicas",
            booked.gpus,
        )
    }
}

/// Recommends a number of replicas that follows the load, if that saves more than a constant number.
fn follow(replicas: &Replicas<'_>, constant: f64, settings: &Settings) -> Option<Recommendation> {
    let now = replicas.count();
    // No replica carries more than it does in the busiest hour.
    let busiest = replicas.busiest() / now as f64;
    let target = settings.serving_target.min(busiest.max(0.01));
    let kept = |load: f64| replicas.needed(load, target, FEWEST.min(now - 1).max(1));
    let expected = replicas.saved_by_hour(kept);
    let seconds = replicas.gpus().iter().map(|gpu| gpu.accounts.observed().seconds);
    if seconds.fold(f64::INFINITY, f64::min) < DAY || expected < constant + MIN_FURTHER {
        return None;
    }
    let fewest = replicas.loads().map(kept).min()?;
    let hours = replicas.loads().filter(|load| kept(*load) == fewest);
    let share = hours.count() as f64 / replicas.loads().count().max(1) as f64;
    let high = replicas.saved_by_hour(|load| replicas.needed(load, MAX_TARGET, 1));
    let booked = replicas.booked(now - fewest, [0.0, expected, high]);
    let (verb, doubt) = if fewest == 1 {
        ("carries", ": one has no spare, and a start takes minutes")
    } else {
        ("carry", "")
    };
    Some(Recommendation {
        title: "Let the number of replicas follow the load".to_owned(),
        action: format!(
            "Scale between {fewest} and {now} replicas by requests in flight or at fixed hours{doubt}. Return the \
             other instances, and start replicas before the load rises."
        ),
        rationale: format!(
            "{fewest} of {now} replicas {verb} the load for {} of the time.",
            percent(share),
        ),
        saving: booked.saving,
        confidence: if fewest == 1 { SURE_ALONE } else { SURE },
        evidence: evidence([
            ("replicas", now as f64, "{replica}"),
            ("replicas.fewest", fewest as f64, "{replica}"),
            ("replicas.fewest_share_of_time", share, "1"),
        ]),
        remediation: Some(Remediation::new(
            "k8s.autoscale",
            [("min_replicas", fewest.to_string()), ("max_replicas", now.to_string())],
        )),
        effort: Effort::Medium,
        ..Recommendation::new("inference.autoscale", booked.target, "autoscale", booked.gpus)
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, price, steady, window};
    use phasemeter_policy::{PatternKind, Plan, Price, Target, Workload};
    use phasemeter_specs::units;

    use super::*;

    const HOUR: usize = 3_600;
    const NIGHT: f64 = 11.0 / 24.0;

    fn serving(gpu: Gpu) -> Gpu {
        Gpu { workload: Workload::Serving, ..gpu }
    }

    /// On an instance with one GPU.
    fn alone(gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some("p5.4xlarge".to_owned()), ..price() };
        serving(Gpu { price: Some(price), ..gpu })
    }

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let window = window(gpus);
        let observed: Vec<_> = window.gpus.iter().collect();
        fewer(&observed, &units(&window), &window, &Settings::default())
    }

    /// Two days of a load from 7:00 to 20:00, and another one in the eleven hours of each night.
    fn by_day(day: f64, night: f64) -> Gpu {
        alone(gpu(PatternKind::Mixed, 48 * HOUR, move |second| {
            if (7..20).contains(&(second / HOUR % 24)) { day } else { night }
        }))
    }

    /// A load that varies by itself.
    fn varying(level: f64, seed: usize) -> Gpu {
        serving(gpu(PatternKind::Mixed, 4 * HOUR, move |second| {
            let random = (second / 30 + 7 * seed).wrapping_mul(0x9e37_79b9) >> 8;
            level * (0.8 + 0.4 * (random % 1_000) as f64 / 1_000.0)
        }))
    }

    #[test]
    fn fewer_replicas_carry_the_load_of_all() {
        let replica = |level| alone(steady(7_200, level));
        let all = found(vec![replica(0.15); 4]);
        assert!(all[0].title.contains("2 replicas instead of 4"), "{}", all[0].title);
        assert_eq!(all[0].gpus.len(), 4);
        assert!(all[0].saving.expected <= 0.5 && all[0].saving.low == 0.0);
        assert!(found(vec![replica(0.5); 4]).is_empty());
        assert!(found(vec![replica(0.15); 2]).is_empty());
    }

    #[test]
    fn replicas_with_most_waste_are_returned() {
        let replica = |level| alone(steady(7_200, level));
        let one = &found(vec![replica(0.4), replica(0.04), replica(0.04), replica(0.04)])[0];
        assert_eq!((one.target, one.gpus.len()), (Target::Idle, 3));
        // Two of the three.
        assert!((one.saving.expected - 0.9 * 2.0 / 3.0).abs() < 1e-6, "{:?}", one.saving);
        assert!(
            one.rationale.contains("3 of 4 replicas carry 12% of one GPU"),
            "{}",
            one.rationale
        );
    }

    #[test]
    fn gpus_that_stay_paid_for_are_capacity() {
        let sticky = || (0..4).map(|seed| varying(if seed == 0 { 0.4 } else { 0.04 }, seed));
        let node = found(sticky().collect());
        assert_eq!((node[0].kind, node[0].gpus.len()), (RecommendationKind::Capacity, 3));
        assert_eq!(node[0].saving.low, 0.0);
        let owned = sticky().map(|gpu| {
            let mut gpu = alone(gpu);
            gpu.price.as_mut().unwrap().plan = Some(Plan::Owned);
            gpu
        });
        assert_eq!(found(owned.collect())[0].kind, RecommendationKind::Capacity);
        assert!(found(vec![varying(0.15, 1); 4]).is_empty(), "ranks of one server");
    }

    #[test]
    fn replicas_follow_a_load_that_follows_the_day() {
        let all = found(vec![by_day(0.55, 0.05); 4]);
        let follow = all.iter().find(|one| one.lever == "autoscale").unwrap();
        // Two of four replicas, at night.
        assert!((follow.saving.expected - NIGHT / 2.0).abs() < 0.02, "{:?}", follow.saving);
        assert_eq!(follow.saving.low, 0.0);
        assert!(follow.action.contains("between 2 and 4 replicas"), "{}", follow.action);
        // At night no replica carries more than the 40% of the busiest hour, though two would carry it at 60%.
        let ten = found(vec![by_day(0.4, 0.12); 10]);
        let follow = ten.iter().find(|one| one.lever == "autoscale").unwrap();
        assert!(follow.action.contains("between 3 and 10 replicas"), "{}", follow.action);
        let has = |gpus| found(gpus).iter().any(|one| one.lever == "autoscale");
        assert!(!has(vec![by_day(0.55, 0.05)]), "one replica");
        assert!(!has(vec![serving(steady(48 * HOUR, 0.5)); 4]), "one node");
        assert!(!has(vec![alone(steady(48 * HOUR, 0.5)); 4]), "constant load");
    }

    #[test]
    fn one_of_two_replicas_has_no_spare() {
        let two = found(vec![by_day(0.55, 0.05); 2]);
        assert_eq!((two[0].lever.as_str(), two[0].confidence), ("autoscale", SURE_ALONE));
        assert!(two[0].action.contains("no spare"), "{}", two[0].action);
        assert!(found(vec![by_day(0.15, 0.15); 2]).is_empty());
    }

    #[test]
    fn hours_in_which_a_replica_does_nothing_are_left_to_lifecycle() {
        let of = |always: [f64; 2], others: [f64; 2]| {
            let two = |[day, night]: [f64; 2]| vec![by_day(day, night); 2];
            [two(always), two(others)].concat()
        };
        assert!(found(of([0.75, 0.32], [0.75, 0.0])).is_empty(), "its instances are stopped");
        let six = [of([0.75, 0.05], [0.75, 0.05]), vec![by_day(0.75, 0.0); 2]].concat();
        let follow = &found(six)[0];
        // Two of the four that work at night.
        assert_eq!((follow.lever.as_str(), follow.gpus.len()), ("autoscale", 4));
        assert!((follow.saving.expected - NIGHT * 2.0 / 4.0).abs() < 0.02, "{:?}", follow.saving);
        let one = &found(of([0.28, 0.28], [0.28, 0.0]))[0];
        // One of four, by day: half of each of those that lose most.
        assert_eq!((one.lever.as_str(), one.gpus.len()), ("replicas", 2));
        assert!((one.saving.high - (1.0 - NIGHT) / 2.0).abs() < 0.02, "{:?}", one.saving);
    }
}
