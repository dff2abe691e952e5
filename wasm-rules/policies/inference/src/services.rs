//! Fewer replicas of services.
//!
//! Replicas on instances of their own can be given back; other ones free their GPUs for other work. Hours in which a
//! replica does nothing are left to the policy `lifecycle`, which stops its instance: no hour is given back twice. How
//! many suffice is replayed from the load of all of them, second by second; without that, nothing is recommended.

use phasemeter_diagnoses::{
    ABOVE, REUSED, Replay, Unit, are_independent, confidence, seldom, share,
};
use phasemeter_policy::format::{count, duration, percent};
use phasemeter_policy::{
    Gpu, Recommendation, RecommendationKind, Remediation, Window, evidence, groups,
};

use crate::hours::Hours;
use crate::replicas::{
    ABOVE_LOW, MIN_KEPT, ON_ITS_OWN, Replicas, SAME_MODEL, SURE, TARGET_LOW, are_replicas,
};
use crate::{Settings, serves};

/// Recommends fewer replicas, if all that serve the same are observed and shown at their busiest. Returned with them
/// are the GPUs of services whose load together is not known.
pub(crate) fn fewer<'a>(
    observed: &[&Gpu],
    units: &[Unit<'a>],
    window: &Window,
    settings: &Settings,
) -> (Vec<Recommendation>, Vec<&'a Gpu>) {
    let is_observed = |gpu: &Gpu| observed.iter().any(|it| std::ptr::eq(*it, gpu));
    let applies = |gpu: &Gpu| {
        gpu.accounts.observed().seconds >= settings.min_size_seconds
            && gpu.lost_underload() + gpu.lost_idle() >= settings.min_lost
            && gpu.quiet_share() < share::NEARLY_ALL
    };
    let serving = units.iter().flat_map(|unit| {
        let is_returned = unit.is_returnable() && unit.gpus.len() == 1;
        servers(unit, applies).into_iter().map(move |gpu| (gpu, is_returned))
    });
    let (mut given, mut hidden) = (Vec::new(), Vec::new());
    let are_together = |a: &Gpu, b: &Gpu| {
        let mut loads = window.load.iter();
        window.load.is_empty() || loads.any(|it| it.gpus.contains(&a.id) && it.gpus.contains(&b.id))
    };
    let is_same = |a: &(&Gpu, bool), b: &(&Gpu, bool)| {
        are_replicas(a.0, b.0) && a.1 == b.1 && are_together(a.0, b.0)
    };
    for group in groups(serving, is_same) {
        let is_returned = group[0].1;
        let gpus: Vec<_> = group.into_iter().map(|(gpu, _)| gpu).collect();
        if !gpus.iter().all(|gpu| is_observed(gpu)) {
            continue;
        }
        // One carries the load, and one is to spare.
        if gpus.len() <= MIN_KEPT {
            continue;
        }
        let replicas = Replicas::new(gpus);
        let Some(replay) = Replay::of(&replicas.gpus, window) else {
            hidden.extend(replicas.gpus);
            continue;
        };
        let fewer = Fewer::of(&replicas, replay, settings.serving_target);
        let saved = replicas.saved(fewer.kept, &fewer.replay);
        let by_hour = Hours::of(&replicas, &fewer.replay, settings.serving_target);
        match by_hour.filter(|it| is_returned && it.saved >= saved + settings.min_lost) {
            Some(hours) => given.push(hours.recommendation(&replicas, window)),
            None if saved > 0.0 => given.push(remove(&replicas, &fewer, is_returned)),
            None => {}
        }
    }
    (given, hidden)
}

/// How many replicas suffice.
struct Fewer<'a> {
    replay: Replay<'a>,
    target: f64,
    /// How many are kept, and how many if all goes badly.
    kept: usize,
    kept_low: usize,
}

impl<'a> Fewer<'a> {
    fn of(replicas: &Replicas<'_>, replay: Replay<'a>, target: f64) -> Self {
        let now = replicas.gpus.len();
        // At most twice the load on each, and one to spare.
        let kept = |needed: usize| (needed + 1).max(MIN_KEPT).clamp(now.div_ceil(2), now);
        Self {
            kept: kept(replay.needed(target, ABOVE)),
            kept_low: kept(replay.needed(TARGET_LOW * target, ABOVE_LOW)),
            replay,
            target,
        }
    }
}

/// The GPUs of a unit that serve, if each is a replica: GPUs of one server rise and fall together.
fn servers<'a>(unit: &Unit<'a>, applies: impl Fn(&Gpu) -> bool) -> Vec<&'a Gpu> {
    let gpus: Vec<_> =
        unit.gpus.iter().copied().filter(|gpu| serves(gpu) && applies(gpu)).collect();
    if gpus.len() > 1 && !are_independent(&gpus) { Vec::new() } else { gpus }
}

fn remove(replicas: &Replicas<'_>, fewer: &Fewer<'_>, is_returned: bool) -> Recommendation {
    let (now, kept) = (replicas.gpus.len(), fewer.kept);
    let returned = now - kept;
    let is_named = replicas.are_named();
    let used = if is_returned { [1.0; 3] } else { REUSED };
    // GPUs that may serve different models promise nothing.
    let low = if is_named { replicas.saved(fewer.kept_low, &fewer.replay) } else { 0.0 };
    let share = replicas.saved(kept, &fewer.replay);
    let parts = [low * used[0], share * used[1], share * used[2]];
    let (gpus, target, saving) = replicas.booked(returned, parts);
    let (few, number) = (gpus.len(), count(kept, "replica"));
    let time = duration(fewer.replay.seconds());
    let total = percent(fewer.replay.exceeded(ABOVE));
    let above = fewer.replay.above(kept as f64, fewer.target);
    let theirs = if few < now {
        let theirs = gpus.iter().map(|gpu| gpu.accounts.observed().level()).sum();
        format!(
            "On average, {few} of {now} replicas carry {} of one GPU together. ",
            percent(theirs)
        )
    } else {
        String::new()
    };
    let (code, kind, then, (doubt, wrong)) = if is_returned {
        let then = format!(" and return {}", count(returned, "instance"));
        let doubt = if is_named { SURE } else { SAME_MODEL };
        ("inference.replicas", RecommendationKind::Saving, then, doubt)
    } else {
        let then = format!("; let other work use {}", count(returned, "GPU"));
        ("inference.spare-replicas", RecommendationKind::Capacity, then, ON_ITS_OWN)
    };
    let is_certain = is_returned && is_named;
    Recommendation {
        title: format!("Serve with {number} instead of {now}"),
        action: format!("Balance the requests over {number}{then}{doubt}. Watch the latency."),
        rationale: format!(
            "{theirs}{now} replicas carry {total} of one GPU together, or less, for 99% of {time}: {kept} of them are \
             above {} for {} of the time, in means of 10 seconds{doubt}.",
            percent(fewer.target),
            seldom(above),
        ),
        saving,
        confidence: if is_certain { confidence::NEARLY_CERTAIN } else { confidence::PROBABLE },
        evidence: evidence([
            ("replicas", now as f64, "{replica}"),
            ("replicas.needed", kept as f64, "{replica}"),
            ("time_above_target", above, "1"),
        ]),
        // GPUs without a name may serve different models.
        remediation: is_named.then(|| {
            Remediation::new("k8s.scale", [("replicas", kept.to_string())]).unless(&format!(
                "{wrong}requests grow, or a replica is kept for when another one fails"
            ))
        }),
        kind,
        ..Recommendation::new(code, target, "replicas", gpus)
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::testing::{gpu, load, load_of_all, price, steady, window};
    use phasemeter_policy::{PatternKind, Plan, Price, Target, Workload};

    use super::*;

    const HOUR: usize = 3_600;

    fn serving(gpu: Gpu) -> Gpu {
        Gpu { workload: Workload::Serving, ..gpu }
    }

    /// On an instance with one GPU.
    fn alone(gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some("p5.4xlarge".to_owned()), ..price() };
        serving(Gpu { price: Some(price), ..gpu })
    }

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let mut window = window(gpus);
        window.load = vec![load_of_all(&window)];
        found_in(&window)
    }

    fn found_in(window: &Window) -> Vec<Recommendation> {
        let observed: Vec<_> = window.gpus.iter().collect();
        fewer(&observed, &units(window), window, &Settings::default()).0
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
        assert!((one.saving.expected - 2.0 / 3.0).abs() < 1e-6, "{:?}", one.saving);
        assert!(
            one.rationale.contains("3 of 4 replicas carry 12% of one GPU together"),
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
        let supposed = "let other work use 2 GPUs, if each of these GPUs serves on its own.";
        assert!(node[0].action.contains(supposed), "{}", node[0].action);
        assert!(node[0].remediation.is_none(), "they may serve different models");
        let named = sticky().map(|gpu| {
            let attributes = vec![("service.name".to_owned(), "chat".to_owned())];
            Gpu { attributes, ..gpu }
        });
        let named = found(named.collect());
        let proposal = named[0].remediation.as_ref().unwrap();
        let unless = "some of these GPUs serve as one, requests grow, or ";
        assert!(proposal.parameters.iter().any(|(_, value)| value.starts_with(unless)));
        let owned = sticky().map(|gpu| {
            let mut gpu = alone(gpu);
            gpu.price.as_mut().unwrap().plan = Some(Plan::Owned);
            gpu
        });
        assert_eq!(found(owned.collect())[0].kind, RecommendationKind::Capacity);
        assert!(found(vec![varying(0.15, 1); 4]).is_empty(), "ranks of one server");
    }

    #[test]
    fn seconds_decide_however_long_the_points_are() {
        // 92% for 3 of every 20 minutes, for a day: points of 256 s show 14%.
        let burst = |second: usize| if second % 1_200 < 180 { 0.92 } else { 0.05 };
        let day = || vec![alone(gpu(PatternKind::Mixed, 24 * HOUR, burst)); 4];
        let all = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"];
        let of = |loads: &[(u32, f64)]| {
            let mut window = window(day());
            window.load = vec![load(&all, loads)];
            found_in(&window)
        };
        let share = 180.0 / 1_200.0 * 86_400.0;
        assert!(of(&[(20, 86_400.0 - share), (368, share)]).is_empty(), "together");
        // The bursts follow one another, so that two carry them, and one is to spare.
        let turns = &of(&[(20, 86_400.0 - 4.0 * share), (107, 4.0 * share)])[0];
        assert!(turns.title.contains("3 replicas instead of 4"), "{}", turns.title);
        assert!(turns.rationale.contains("above 60% for 0.0% of the time"), "{}", turns.rationale);
        let hidden = window(day());
        assert!(found_in(&hidden).is_empty(), "their load together was not recorded");
    }

    #[test]
    fn low_end_is_that_of_a_named_service_with_more_to_spare() {
        let named = |level| {
            let attributes = vec![("service.name".to_owned(), "ranker".to_owned())];
            Gpu { attributes, ..alone(steady(7_200, level)) }
        };
        let of = |level: f64| {
            let one = &found(vec![named(level); 8])[0];
            (one.title.clone(), one.saving)
        };
        let (title, saving) = of(0.15);
        assert!(title.contains("4 replicas instead of 8"), "{title}");
        assert!((saving.low - 0.5).abs() < 1e-6 && saving.high <= 0.5 + 1e-6, "{saving:?}");
        let (title, saving) = of(0.28);
        assert!(title.contains("5 replicas instead of 8"), "{title}");
        assert!(saving.low < saving.expected, "{saving:?}");
    }

    #[test]
    fn hours_in_which_a_replica_does_nothing_are_left_to_lifecycle() {
        // Eight hours, of which the second half is the night.
        let by_half =
            |day: f64, night: f64| {
                alone(gpu(PatternKind::Mixed, 8 * HOUR, move |second| {
                    if second < 4 * HOUR { day } else { night }
                }))
            };
        let of = |always: [f64; 2], others: [f64; 2]| {
            let all = |[day, night]: [f64; 2], count| vec![by_half(day, night); count];
            found([all(always, 4), all(others, 2)].concat())
        };
        assert!(of([0.75, 0.32], [0.75, 0.0]).is_empty(), "its instances are stopped");
        let one = &of([0.28, 0.28], [0.28, 0.0])[0];
        // Four of six are kept, and two are stopped for half of the time: one of the four that always work.
        assert_eq!((one.lever.as_str(), one.gpus.len()), ("replicas", 4));
        assert!((one.saving.high - 0.25).abs() < 0.03, "{:?}", one.saving);
    }
}
