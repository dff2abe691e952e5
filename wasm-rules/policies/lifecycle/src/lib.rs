//! Recommends giving back instances for the hours in which nothing runs on them.
//!
//! Only whole instances can be given back: an instance with a busy GPU is left to the policy
//! `sharing`. Hours are those in which no GPU of the instance works at all; a GPU at 3% answers
//! requests. Committed and purchased instances cost the same when they are off, so their hours are
//! capacity for other work.

mod idle;
mod schedule;

use idle::{Idle, When};
use phasemeter_policy::format::{count, decimal, duration, percent};
use phasemeter_policy::{
    Effort, Gpu, Policy, Recommendation, RecommendationKind, Recommender, Remediation, Response,
    Saving, Target, Window, Workload, evidence,
};
use phasemeter_specs::{Unit, units};
use schedule::Schedule;

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to hours without work.
    min_lost: number = 0.1 in 0.0..=1.0;
    /// Minimum length of a period without work, in seconds.
    min_period_seconds: number = 3600.0 in 600.0..=86400.0;
    /// Time without work after which an instance is given back, in seconds.
    release_after_seconds: number = 600.0 in 10.0..=86400.0;
}

/// Confidence in what is free and given back, in sessions that their owners end, in a schedule, in a job that
/// can be prepared elsewhere, in other work for unused hours, and in an instance for each use. Assumptions.
const SURE: f64 = 0.95;
const SURE_HELD: f64 = 0.8;
const SURE_SCHEDULE: f64 = 0.8;
const SURE_PREPARED: f64 = 0.75;
const SURE_FILLED: f64 = 0.65;
const SURE_ON_DEMAND: f64 = 0.4;

/// Share of the time without work up to which another replica works. An assumption.
const BUSY_REPLICA: f64 = 0.5;

/// How many times as late, and as early, instances are given back for the low and the high saving. An
/// assumption.
const LATE: f64 = 3.0;

/// Shortest time without work after which a session is ended, in seconds. An assumption.
const MIN_SESSION_SECONDS: f64 = 600.0;

/// Shortest period without work for which an instance of a session is given back, and the time that its next
/// start takes: expected. Assumptions.
const MIN_ON_DEMAND_SECONDS: f64 = 1_200.0;
const START_SECONDS: f64 = 300.0;

const HOUR: f64 = 3_600.0;

/// Share of the idle time that lies in hours which are idle on every day, from which these hours are a
/// schedule; and the seconds by which each stop is shorter: at worst, expected, and at best. An assumption.
const SCHEDULED_SHARE: f64 = 0.5;
const STARTS: [f64; 3] = [3_600.0, 600.0, 0.0];

/// Share of the time before the first work that is saved if it is prepared elsewhere: low, expected,
/// high. An assumption.
const PREPARED: [f64; 3] = [0.0, 0.5, 0.9];

/// Share of unused hours that other work fills: low, expected, high. An assumption.
const FILLED: [f64; 3] = [0.0, 0.45, 0.7];

struct Lifecycle;

impl Policy for Lifecycle {
    const NAME: &'static str = "lifecycle";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds hours in which a whole instance does nothing, and recommends giving it back.";
    type Settings = Settings;
}

impl Recommender for Lifecycle {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let units = units(window);
        let mut found = Vec::new();
        for unit in &units {
            let observed = |gpu: &&Gpu| gpu.accounts.observed().seconds > 0.0;
            if !unit.is_whole || !unit.gpus.iter().all(observed) {
                continue;
            }
            let idle = Idle::of(unit, window, settings.min_period_seconds);
            if idle.saved(settings.release_after_seconds) >= settings.min_lost {
                found.push(recommend(unit, &idle, window, &units, settings));
            } else {
                found.extend(on_demand(unit, window, settings));
            }
        }
        merge(&mut found);
        found.into()
    }
}

fn recommend(
    unit: &Unit<'_>,
    idle: &Idle,
    window: &Window,
    units: &[Unit<'_>],
    settings: &Settings,
) -> Recommendation {
    let gpus = || unit.gpus.iter().copied();
    let (seconds, share) = (idle.seconds(), idle.seconds() / idle.length);
    let after = settings.release_after_seconds;
    let session = f64::max(after, MIN_SESSION_SECONDS);
    let when = idle.when(window.step_seconds);
    let free = if idle.is_held { "did nothing, held by a process," } else { "had no work" };
    let held = if !idle.is_held && idle.held_seconds >= HOUR {
        [", and a process held a GPU for ", &duration(idle.held_seconds), " of it"].concat()
    } else {
        String::new()
    };
    let rationale = format!(
        "The instance {free} for {} of {}, {} of its bill{held}; the longest period was {}.",
        duration(seconds),
        duration(idle.length),
        percent(share),
        duration(idle.longest()),
    );
    let kind = gpus().next().map_or(Workload::Unknown, |gpu| gpu.workload);
    // Released three times as late, as set, and after a third of that, in shorter periods too.
    let mut saved = [LATE * after, after, after / LATE].map(|after| idle.saved(after));
    saved[2] = saved[2].max(idle.stretches);
    let schedule = Schedule::of(unit);
    let mut scheduled = STARTS.map(|start| schedule.saved(start));
    // What is held in between needs its owner.
    (saved[0], scheduled[0]) = (saved[0].min(idle.free), scheduled[0].min(idle.free));
    if idle.is_held || !unit.has_known_size || when == When::Before {
        // Its owner must agree, or it may have other GPUs, which work, or its host prepares the job.
        (saved[0], scheduled[0]) = (0.0, 0.0);
    }
    let sure = if idle.is_held { SURE_HELD } else { SURE };
    let draft = |code: &str, lever: &str, title: String, action: String| Recommendation {
        title,
        action,
        rationale: rationale.clone(),
        saving: idle_saving(unit, saved),
        confidence: sure * confidence(unit),
        evidence: evidence([
            ("idle.time", seconds, "s"),
            ("idle.longest", idle.longest(), "s"),
            ("idle.share_of_time", share, "1"),
        ]),
        ..Recommendation::new(code, Target::Idle, lever, gpus())
    };
    if unit.is_committed {
        return Recommendation {
            saving: idle_saving(unit, FILLED.map(|part| part * share)),
            confidence: SURE_FILLED * confidence(unit),
            kind: RecommendationKind::Capacity,
            ..draft(
                "lifecycle.fill",
                "bin_pack",
                "Give the unused hours to other jobs".to_owned(),
                "Let a queue place other jobs on them. The hours are paid for, used or not, so this \
                 frees capacity and saves no money."
                    .to_owned(),
            )
        };
    }
    let is_alike = |other: &Gpu| gpus().all(|gpu| gpu.is_alike(other));
    let replicas = || units.iter().filter(|it| it.gpus.iter().all(|gpu| is_alike(gpu))).count();
    let replica = kind == Workload::Serving
        && when == When::Always
        && units
            .iter()
            .flat_map(|other| &other.gpus)
            .any(|other| other.quiet_share() < BUSY_REPLICA && is_alike(other));
    match when {
        When::Always if replica => draft(
            "lifecycle.replica",
            "replicas",
            "Remove this replica".to_owned(),
            "Serve with one replica less and return its instance, unless it is a standby that is worth \
             its price."
                .to_owned(),
        ),
        When::Daily if schedule.share >= SCHEDULED_SHARE * share => Recommendation {
            saving: idle_saving(unit, scheduled),
            confidence: SURE_SCHEDULE * confidence(unit),
            effort: Effort::Medium,
            remediation: Some(schedule.remediation(window)),
            ..draft(
                "lifecycle.schedule",
                "schedule",
                "Stop instances outside the hours of use".to_owned(),
                format!(
                    "Stop them by a schedule: {}. Start them in time for the next use.",
                    schedule.text(window)
                ),
            )
        },
        When::Before if idle.is_held && kind != Workload::Serving => Recommendation {
            saving: idle_saving(unit, PREPARED.map(|part| part * share)),
            confidence: SURE_PREPARED * confidence(unit),
            effort: Effort::Medium,
            ..draft(
                "lifecycle.prepare",
                "storage",
                "Prepare the job before it takes GPUs".to_owned(),
                "Stage data and images, and compile, before the GPUs are rented, or keep them on \
                 storage beside them."
                    .to_owned(),
            )
        },
        _ if idle.is_held && kind == Workload::Serving => Recommendation {
            effort: Effort::Medium,
            remediation: Some(Remediation::new(
                "k8s.autoscale",
                [("min_replicas", "0".to_owned()), ("max_replicas", replicas().to_string())],
            )),
            ..draft(
                "lifecycle.scale-to-zero",
                "autoscale",
                "Scale this service to zero while it gets no requests".to_owned(),
                "Stop the server and return its instance while no requests come, if users accept to wait for \
                 its start."
                    .to_owned(),
            )
        },
        _ if idle.is_held => Recommendation {
            remediation: Some(after_idle("process.end", session)),
            reversible: false,
            ..draft(
                "lifecycle.end-session",
                "release_memory",
                "End what holds these GPUs and give them back".to_owned(),
                format!(
                    "End processes and sessions after {} without work, and return their instance. First save \
                     what they hold.",
                    duration(session),
                ),
            )
        },
        _ => Recommendation {
            remediation: Some(after_idle("instance.release", after)),
            ..draft(
                "lifecycle.release",
                "autoscale",
                "Return idle instances".to_owned(),
                format!(
                    "Start an instance with its job, and return it {} after the job ends.",
                    duration(after)
                ),
            )
        },
    }
}

/// A session that is used now and then: an instance for each use, instead of one that waits for the next.
fn on_demand(unit: &Unit<'_>, window: &Window, settings: &Settings) -> Option<Recommendation> {
    let is_session = unit.gpus.iter().all(|gpu| gpu.workload == Workload::Interactive);
    let idle = Idle::of(unit, window, MIN_ON_DEMAND_SECONDS);
    let after = settings.release_after_seconds;
    let expected = idle.saved(after + START_SECONDS);
    if !is_session || unit.is_committed || expected < settings.min_lost {
        return None;
    }
    let session = f64::max(after, MIN_SESSION_SECONDS);
    Some(Recommendation {
        title: "Start an instance for each use of this session".to_owned(),
        action: format!(
            "End the session after {} without work, and return the instance. The next use starts another, and \
             waits for it.",
            duration(session),
        ),
        rationale: format!(
            "{} did nothing for {} of {}, in {} of at most {}.",
            count(unit.gpus.len(), "GPU"),
            duration(idle.seconds()),
            duration(idle.length),
            count(idle.periods.len(), "period"),
            duration(idle.longest()),
        ),
        saving: idle_saving(unit, [0.0, expected, idle.saved(after).max(idle.stretches)]),
        confidence: SURE_ON_DEMAND * confidence(unit),
        evidence: evidence([
            ("idle.time", idle.seconds(), "s"),
            ("idle.longest", idle.longest(), "s"),
        ]),
        effort: Effort::Medium,
        reversible: false,
        remediation: Some(after_idle("process.end", session)),
        ..Recommendation::new(
            "lifecycle.on-demand",
            Target::Idle,
            "autoscale",
            unit.gpus.iter().copied(),
        )
    })
}

/// An action for automation after this time without work.
fn after_idle(kind: &str, seconds: f64) -> Remediation {
    Remediation::new(kind, [("idle_seconds", decimal(seconds, 0).replace(',', ""))])
}

/// Merges recommendations for units that are idle alike.
fn merge(found: &mut Vec<Recommendation>) {
    let mut merged: Vec<Recommendation> = Vec::new();
    for one in found.drain(..) {
        let same = |other: &&mut Recommendation| {
            other.code == one.code
                && other.action == one.action
                && other.rationale == one.rationale
                && other.saving.expected == one.saving.expected
        };
        match merged.iter_mut().find(same) {
            Some(other) => other.gpus.extend(one.gpus),
            None => merged.push(one),
        }
    }
    *found = merged;
}

/// These shares of the bill of each GPU, but not more than its idle waste.
fn idle_saving(unit: &Unit<'_>, shares: [f64; 3]) -> Saving {
    let each = |gpu: &Gpu| shares.map(|share| share.min(gpu.lost_idle()));
    Saving::combined(unit.gpus.iter().map(|gpu| (*gpu, Saving::part(1.0, each(gpu)))))
}

fn confidence(unit: &Unit<'_>) -> f64 {
    unit.gpus.iter().map(|gpu| gpu.confidence()).sum::<f64>() / unit.gpus.len().max(1) as f64
}

phasemeter_policy::recommender!(Lifecycle);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, price, steady, window};
    use phasemeter_policy::{HourOfWeek, PatternKind, Plan, Price};

    use super::*;

    const HOUR: usize = 3_600;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Lifecycle::recommend(&Settings::default(), &window(gpus)).recommendations
    }

    fn single(gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some("p5.4xlarge".to_owned()), ..price() };
        Gpu { price: Some(price), ..gpu }
    }

    /// Works in these hours.
    fn works(hours: usize, from: usize, to: usize) -> Gpu {
        single(gpu(PatternKind::Mixed, hours * HOUR, move |second| {
            if (from * HOUR..to * HOUR).contains(&second) { 0.97 } else { 0.0 }
        }))
    }

    fn free(mut gpu: Gpu) -> Gpu {
        gpu.activity.quiet.held_seconds = 0.0;
        gpu
    }

    fn levers(gpus: Vec<Gpu>) -> Vec<String> {
        recommendations(gpus).into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn idle_hours_around_a_job_are_saved() {
        let found = recommendations(vec![free(works(7, 2, 5))]);
        assert_eq!(found[0].lever, "autoscale");
        assert!((0.45..0.572).contains(&found[0].saving.expected), "{:?}", found[0].saving);
        assert!(found[0].saving.low > 0.0);
        let release = found[0].remediation.as_ref().unwrap();
        assert_eq!(release.kind, "instance.release");
        assert_eq!(release.parameters, [("idle_seconds".to_owned(), "600".to_owned())]);
        assert_eq!(after_idle("process.end", 3_600.0).parameters[0].1, "3600");
        assert_eq!(levers(vec![works(7, 0, 2)]), ["release_memory"]);
        assert_eq!(levers(vec![works(5, 2, 5)]), ["storage"]);
        assert!(recommendations(vec![works(5, 2, 5)])[0].saving.low == 0.0, "needs a trial");
    }

    #[test]
    fn days_of_use_give_a_schedule() {
        let day = |second: usize| (8..18).contains(&(second / HOUR % 24));
        let weekly = gpu(PatternKind::Mixed, 7 * 24 * HOUR, |second| {
            if second / HOUR / 24 < 5 && day(second) { 0.4 } else { 0.0 }
        });
        let mut weekly = free(single(weekly));
        let hour = |hour: usize| {
            let works = hour < 120 && (8..18).contains(&(hour % 24));
            let idle_seconds = if works { 0.0 } else { 3_600.0 };
            HourOfWeek { observed_seconds: 3_600.0, idle_seconds }
        };
        weekly.activity.week = (0..168).map(hour).collect();
        let found = recommendations(vec![weekly.clone()]);
        assert_eq!(found[0].lever, "schedule");
        let stop = found[0].remediation.as_ref().unwrap();
        let stop: Vec<_> = stop.parameters.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(stop, ["0-8,18-24", "true", "0"]);
        assert!(found[0].saving.expected < 0.71, "{:?}", found[0].saving);
        assert!(found[0].saving.low > 0.6, "{:?}", found[0].saving);
        assert!(found[0].action.contains("18:00 to 8:00"), "{}", found[0].action);
        // Hours of work that differ from day to day are not a schedule.
        for at in (0..7).flat_map(|day| (0..17).map(move |hour| day * 24 + (day * 3 + hour) % 24)) {
            weekly.activity.week[at].idle_seconds = 0.0;
        }
        assert_eq!(levers(vec![weekly]), ["autoscale"]);
    }

    #[test]
    fn only_whole_unused_instances_are_returned() {
        let node = |free: usize| {
            (0..8).map(|index| steady(6 * HOUR, if index < free { 0.0 } else { 0.95 })).collect()
        };
        assert!(levers(node(3)).is_empty(), "five GPUs are busy");
        assert_eq!(levers(node(8)), ["release_memory"]);
        assert!(levers(vec![single(steady(6 * HOUR, 0.06))]).is_empty(), "6% is in use");
        let burst = |second: usize| if second % 300 < 30 { 0.9 } else { 0.0 };
        assert!(levers(vec![single(gpu(PatternKind::Mixed, 6 * HOUR, burst))]).is_empty());
    }

    #[test]
    fn instance_of_unknown_size_promises_nothing() {
        let unknown = |gpu: Gpu| {
            let price = gpu.price.clone().map(|price| Price { instance_type: None, ..price });
            Gpu { price, ..gpu }
        };
        let found = recommendations(vec![unknown(free(works(7, 2, 5)))]);
        assert_eq!((found[0].lever.as_str(), found[0].saving.low), ("autoscale", 0.0));
    }

    #[test]
    fn start_and_end_of_a_run_count_from_twenty_minutes() {
        let run = |from: usize, to: usize| {
            free(single(gpu(PatternKind::Mixed, 3 * HOUR, move |second| {
                if (from..to).contains(&(second / 60)) { 0.97 } else { 0.0 }
            })))
        };
        let after = recommendations(vec![run(0, 140)]);
        assert!(
            after[0].lever == "autoscale" && after[0].saving.low > 0.0,
            "{:?}",
            after[0].saving
        );
        let before = recommendations(vec![run(40, 180)]);
        assert_eq!((before[0].lever.as_str(), before[0].saving.low), ("autoscale", 0.0));
        assert!(levers(vec![run(0, 165)]).is_empty(), "15 minutes");
    }

    #[test]
    fn time_that_a_process_holds_is_not_promised() {
        let mut partly = works(20, 0, 2);
        partly.activity.quiet.held_seconds = 8.0 * 3_600.0;
        let found = recommendations(vec![partly]);
        assert_eq!(found[0].lever, "autoscale");
        assert!((found[0].saving.low - 0.5).abs() < 0.03, "{:?}", found[0].saving);
        assert!(found[0].rationale.contains("held a GPU for 8 h"), "{}", found[0].rationale);
    }

    #[test]
    fn idle_service_is_scaled_to_zero() {
        let serving = |gpu: Gpu| Gpu { workload: Workload::Serving, ..gpu };
        let found = recommendations(vec![serving(works(7, 5, 7))]);
        assert_eq!((found[0].code.as_str(), found[0].saving.low), ("lifecycle.scale-to-zero", 0.0));
    }

    #[test]
    fn session_with_pauses_is_started_for_each_use() {
        let pauses = |second: usize| if second % (HOUR / 2) < 120 { 0.4 } else { 0.0 };
        let session =
            |workload| Gpu { workload, ..single(gpu(PatternKind::Idle, 6 * HOUR, pauses)) };
        let found = recommendations(vec![session(Workload::Interactive)]);
        assert_eq!(found[0].code, "lifecycle.on-demand");
        // 28 of 30 minutes, but the first ten are waited for and five start the next.
        assert!((found[0].saving.expected - 13.0 / 30.0).abs() < 0.04, "{:?}", found[0].saving);
        assert_eq!(found[0].saving.low, 0.0);
        assert!(recommendations(vec![session(Workload::Serving)]).is_empty(), "users would wait");
    }

    #[test]
    fn committed_hours_are_capacity() {
        let mut gpu = works(24, 0, 6);
        gpu.price = Some(Price { plan: Some(Plan::ReservedOneYear), ..price() });
        let gpus = vec![gpu; 8];
        let found = recommendations(gpus);
        assert_eq!((found[0].lever.as_str(), found[0].gpus.len()), ("bin_pack", 8));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Capacity, 0.0));
    }

    #[test]
    fn short_windows_and_unobserved_gpus_are_skipped() {
        assert!(levers(vec![single(steady(1_200, 0.0))]).is_empty());
        assert!(levers(vec![single(gpu(PatternKind::Idle, 6 * HOUR, |_| f64::NAN))]).is_empty());
    }
}
