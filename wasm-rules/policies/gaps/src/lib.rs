//! Recommends shorter pauses between work.
//!
//! Pauses of equal length with the memory held are checkpoints or evaluation; those that leave the
//! memory empty are restarts, or gaps between jobs, and those with little memory after time without
//! readings are starts. Two groups of GPUs of which one works while the other waits are two roles of
//! one job.

mod cause;
mod roles;
mod text;

use cause::{Cause, cause};
use phasemeter_diagnoses::{
    MOSTLY_FULL, SIMILAR, Unit, are_independent, is_credible, share, units,
};
use phasemeter_policy::{Gpu, HOUR, Need, Pauses, Response, Window, groups};
use roles::Roles;

phasemeter_policy::settings! {
    /// Minimum share of the time in pauses.
    min_share: number = 0.05 in 0.0..=1.0;
    /// Minimum number of pauses.
    min_pauses: number = 3.0 in 1.0..=1000.0;
}

/// Readings in a pause of mean length, so that it is seen: unrelated readings that are idle three times in four show pauses of
/// four. An assumption.
const READINGS_PER_PAUSE: f64 = 5.0;

struct Finding<'a> {
    gpu: &'a Gpu,
    cause: Cause,
}

impl Finding<'_> {
    const fn pauses(&self) -> &Pauses {
        &self.gpu.activity.pauses
    }
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let units = units(window);
    // Its GPUs pause together.
    let is_idle_at_once = |gpu: &Gpu| {
        let own = units.iter().find(|unit| unit.holds(gpu)).filter(|unit| unit.is_whole);
        own.is_some_and(|unit| unit.gpus.len() == 1 || !are_independent(&unit.gpus))
    };
    let pausing: Vec<_> = window
        .gpus
        .iter()
        .filter(|gpu| is_credible(gpu) && !gpu.is_bouncing() && pauses(gpu, settings))
        .collect();
    let roles = roles::roles(&pausing);
    let findings = pausing.iter().filter_map(|gpu| {
        let pauses = &gpu.activity.pauses;
        // An instance that is free for hours is returned, or filled if it is committed: that is for `lifecycle`.
        let is_returned =
            pauses.held_share() < 0.5 && pauses.mean_seconds() >= HOUR && is_idle_at_once(gpu);
        if is_returned || roles.iter().any(|roles| roles.contains(gpu)) {
            return None;
        }
        let cause = cause(gpu, window.step_seconds)?;
        let ends = matches!(cause, Cause::Queue | Cause::Restarts);
        let cause = if ends && is_odd(gpu, window) { Cause::Odd } else { cause };
        Some(Finding { gpu, cause })
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        a.cause == b.cause && (a.gpu.lost_idle() - b.gpu.lost_idle()).abs() <= SIMILAR
    };
    let groups = groups(findings, similar);
    let bounds = window.thresholds();
    let given = groups
        .iter()
        .map(|group| text::recommendation(group, Returned::of(group, &units).as_ref(), bounds));
    let unloaded = groups.iter().flatten().filter(|it| it.cause == Cause::Unloaded);
    let requests = Need::if_any(
        "requests",
        "how many requests come, and how long they may wait, decides whether the model stays loaded, or the server runs at all",
        unloaded.map(|it| it.gpu),
    );
    let odd = groups.iter().flatten().filter(|it| it.cause == Cause::Odd);
    let errors = Need::if_any(
        "ecc.errors.uncorrected.volatile.total",
        "errors of the GPU tell a faulty one from one that gets short jobs",
        odd.map(|it| it.gpu).filter(|gpu| gpu.metric("memory.errors").is_none()),
    );
    let needs = requests.into_iter().chain(errors);
    Response::of(given.chain(roles.iter().map(Roles::recommendation)), needs)
}

/// Whether it hardly does anything for a part of its time, often enough, and long enough for the interval between readings.
fn pauses(gpu: &Gpu, settings: &Settings) -> bool {
    let pauses = &gpu.activity.pauses;
    let interval = gpu.activity.interval_seconds;
    f64::from(pauses.count) >= settings.min_pauses
        && pauses.quiet.seconds >= settings.min_share * gpu.accounts.observed().seconds
        && gpu.accounts.idle().level() <= share::HARDLY_ANY * gpu.accounts.busy().level()
        && interval.is_some_and(|it| READINGS_PER_PAUSE * it <= pauses.mean_seconds())
}

/// Whether most GPUs like it of its node, of which there are several, never pause.
fn is_odd(gpu: &Gpu, window: &Window) -> bool {
    let beside =
        |other: &&Gpu| other.id != gpu.id && other.is_alike(gpu) && other.node() == gpu.node();
    let beside: Vec<_> = window.gpus.iter().filter(beside).collect();
    let full = beside.iter().filter(|other| other.full_share() >= MOSTLY_FULL).count();
    beside.len() > 1 && full as f64 >= share::NEARLY_ALL * beside.len() as f64
}

/// Whole instances that are not needed if work follows work: only they can be given back.
struct Returned {
    /// Instances of these GPUs, and how many hold their work.
    instances: usize,
    needed: usize,
    /// Work of all, in GPUs.
    work: f64,
}

impl Returned {
    fn of(group: &[Finding<'_>], units: &[Unit<'_>]) -> Option<Self> {
        let is_in = |gpu: &Gpu| group.iter().any(|finding| std::ptr::eq(finding.gpu, gpu));
        let own: Vec<_> =
            units.iter().filter(|unit| unit.gpus.iter().any(|gpu| is_in(gpu))).collect();
        let size = own.first()?.gpus.len();
        let whole = |unit: &&Unit<'_>| {
            unit.is_returnable()
                && unit.gpus.len() == size
                && unit.gpus.iter().all(|gpu| is_in(gpu))
        };
        let work: f64 = group.iter().map(|finding| 1.0 - finding.gpu.quiet_share()).sum();
        let needed = (work.ceil() as usize).div_ceil(size).max(1);
        let instances = own.len();
        let is_less = needed < instances && own.iter().all(whole);
        is_less.then_some(Self { instances, needed, work })
    }

    /// Share of their bill.
    fn share(&self) -> f64 {
        (self.instances - self.needed) as f64 / self.instances as f64
    }
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, price, steady, window};
    use phasemeter_policy::{PatternKind, Plan, Price, RecommendationKind, Workload};

    use super::*;

    /// Works for `work` seconds, then pauses for `pause`.
    fn pausing(work: usize, pause: usize) -> Gpu {
        gpu(PatternKind::Mixed, 7_200, move |second| {
            f64::from(u8::from(second % (work + pause) < work)) * 0.97
        })
    }

    fn levers(gpus: Vec<Gpu>) -> Vec<String> {
        let found = recommend(&Settings::default(), &window(gpus)).recommendations;
        found.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn cause_follows_from_memory_and_workload() {
        let held = pausing(1_200, 180);
        let mut empty = held.clone();
        empty.activity.pauses.quiet.held_seconds = 0.0;
        let batch = Gpu { workload: Workload::Batch, ..empty.clone() };
        let unknown = Gpu { workload: Workload::Unknown, ..held.clone() };
        let serving = Gpu { workload: Workload::Serving, ..held.clone() };
        assert_eq!(levers(vec![held]), ["checkpoint_interval"]);
        assert_eq!(levers(vec![empty]), ["restart"]);
        assert_eq!(levers(vec![batch]), ["bin_pack"]);
        assert_eq!(levers(vec![unknown]), ["measure"]);
        assert!(levers(vec![serving]).is_empty());
    }

    /// Reclaimed every two hours: away for 15 minutes, then 15 minutes until it works.
    fn reclaimed(gib: f64) -> Gpu {
        let mut gpu = gpu(PatternKind::Mixed, 15 * 7_200, |second| match second % 7_200 {
            ..5_400 => 0.97,
            5_400..6_300 => f64::NAN,
            _ => 0.01 * (second % 3) as f64,
        });
        hold(&mut gpu, gib);
        Gpu { interruptible: true, ..gpu }
    }

    /// Memory in use in its pauses, and 71 GB at work.
    fn hold(gpu: &mut Gpu, gigabytes: f64) {
        gpu.activity.pauses.memory_bytes = Some(gigabytes * 1e9);
        gpu.activity.pauses.memory_at_work_bytes = Some(71e9);
    }

    #[test]
    fn memory_tells_start_up_from_checkpoints() {
        let of = |gpu| recommend(&Settings::default(), &window(vec![gpu])).recommendations;
        let start = &of(reclaimed(3.0))[0];
        assert_eq!((start.code.as_str(), start.lever.as_str()), ("gaps.starts", "storage"));
        assert!(start.rationale.starts_with("The GPU started 14 times"), "{}", start.rationale);
        let saves = &of(reclaimed(71.0))[0];
        assert_eq!(saves.code, "gaps.checkpoints");
        let texts = [&*saves.title, &saves.action].concat();
        assert!(texts.contains("not less often"), "interruptible: {texts}");
        let logged = |gib: f64| {
            let mut gpu = pausing(1_200, 180);
            hold(&mut gpu, gib);
            of(gpu).remove(0).code
        };
        assert_eq!(logged(3.0), "gaps.restarts");
        assert_eq!(logged(70.0), "gaps.checkpoints");
    }

    #[test]
    fn server_that_unloads_its_model_is_told_to_keep_it() {
        let mut serving = Gpu { workload: Workload::Serving, ..pausing(60, 240) };
        assert!(levers(vec![serving.clone()]).is_empty(), "memory is not known");
        hold(&mut serving, 71.0);
        assert!(levers(vec![serving.clone()]).is_empty(), "it waits for requests");
        hold(&mut serving, 4.0);
        let found = recommend(&Settings::default(), &window(vec![serving])).recommendations;
        let one = &found[0];
        assert_eq!((one.code.as_str(), one.kind), ("gaps.unloaded", RecommendationKind::Capacity));
        assert!(
            one.saving.high == 0.0 && one.rationale.contains("3.7 GiB then"),
            "{}",
            one.rationale
        );
    }

    #[test]
    fn light_work_that_ends_between_pauses_may_be_separate_runs() {
        let level = |second: usize| if second % 1_200 < 900 { 0.4 } else { 0.0 };
        let mut runs = gpu(PatternKind::Mixed, 36_000, level);
        runs.activity.pauses.quiet.held_seconds = 0.0;
        let found = recommend(&Settings::default(), &window(vec![runs])).recommendations;
        assert_eq!(found[0].lever, "restart");
        assert!(found[0].action.starts_with("If these are separate runs"), "{}", found[0].action);
    }

    #[test]
    fn batch_job_that_mostly_waits_is_fed_faster() {
        let of = |workload| {
            let waits = pausing(100, 500);
            levers(vec![Gpu { workload, ..waits }])
        };
        assert_eq!(of(Workload::Batch), ["overlap"]);
        assert!(of(Workload::Training).is_empty(), "nearly idle");
    }

    #[test]
    fn gpus_that_work_in_turn_are_roles() {
        let first =
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second % 280 < 150)));
        let other =
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second % 280 >= 150)));
        let found = recommend(&Settings::default(), &window(vec![first, other])).recommendations;
        assert_eq!((found[0].lever.as_str(), found[0].gpus.len()), ("overlap", 2));
        assert!(found[0].saving.expected < 0.3 && found[0].saving.low == 0.0);
    }

    #[test]
    fn bursts_and_rare_pauses_are_no_gaps() {
        assert!(levers(vec![pausing(30, 270)]).is_empty(), "idle with bursts");
        assert!(levers(vec![pausing(3_000, 180)]).is_empty(), "two pauses");
        assert!(levers(vec![steady(7_200, 0.97), steady(7_200, 0.0)]).is_empty());
        let mut slow = pausing(1_200, 180);
        slow.activity.interval_seconds = Some(120.0);
        assert!(levers(vec![slow]).is_empty(), "a pause needs several readings");
    }

    #[test]
    fn process_that_ends_after_each_start_is_a_risk() {
        let crashes = gpu(PatternKind::Mixed, 9 * 3_600, |second| match second {
            ..9_000 => 0.6,
            second if second % 270 < 60 => 0.15,
            _ => 0.0,
        });
        let free = |mut gpu: Gpu| {
            gpu.activity.pauses.quiet.held_seconds = 0.0;
            Gpu { workload: Workload::Unknown, ..gpu }
        };
        let of =
            |gpu: Gpu| recommend(&Settings::default(), &window(vec![free(gpu)])).recommendations;
        let found = of(crashes);
        assert_eq!(
            (found[0].code.as_str(), found[0].kind),
            ("gaps.crash-loop", RecommendationKind::Risk)
        );
        // Short jobs that work as much as ever.
        let jobs = gpu(PatternKind::Mixed, 9 * 3_600, |second| match second % 270 {
            ..180 => 0.9,
            _ => 0.0,
        });
        assert_eq!(of(jobs)[0].code, "gaps.queue");
    }

    #[test]
    fn instance_that_is_free_for_hours_is_left_to_lifecycle() {
        let node = |later: usize| -> Vec<_> {
            let gpu = move |index: usize| {
                let mut gpu = gpu(PatternKind::Mixed, 172_800, move |second| {
                    let second = second + index * later;
                    f64::from(u8::from((second / 21_600).is_multiple_of(2))) * 0.95
                });
                gpu.activity.pauses.quiet.held_seconds = 0.0;
                Gpu { workload: Workload::Batch, ..gpu }
            };
            (0..8).map(gpu).collect()
        };
        assert!(levers(node(0)).is_empty());
        assert_eq!(levers(node(10_800)), ["bin_pack"], "some of its GPUs always work");
    }

    #[test]
    fn only_whole_instances_are_returned() {
        // Each GPU works for 65% of the time.
        let node = |name: &'static str, plan: Plan| {
            let gpu = move |index: usize| {
                let mut gpu = gpu(PatternKind::Mixed, 86_400, move |second| {
                    f64::from(u8::from((second + index * 701) % 6_000 < 3_900)) * 0.95
                });
                gpu.activity.pauses.quiet.held_seconds = 0.0;
                let price = Price { plan: Some(plan), ..price() };
                let attributes = vec![("host.name".to_owned(), name.to_owned())];
                Gpu { workload: Workload::Batch, price: Some(price), attributes, ..gpu }
            };
            (0..8).map(gpu).collect::<Vec<_>>()
        };
        let of = |plan| {
            let gpus = ["a", "b", "c"].map(|name| node(name, plan)).concat();
            recommend(&Settings::default(), &window(gpus)).recommendations
        };
        let found = of(Plan::OnDemand);
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("gaps.queue", 24));
        // 15.6 GPUs of work need two of three.
        assert!((found[0].saving.high - 1.0 / 3.0).abs() < 1e-9, "{:?}", found[0].saving);
        assert!(found[0].rationale.contains("fits 2 of 3 instances"), "{}", found[0].rationale);
        assert_eq!(of(Plan::Owned)[0].kind, RecommendationKind::Capacity);
        let one = recommend(&Settings::default(), &window(node("a", Plan::OnDemand)));
        assert_eq!(one.recommendations[0].kind, RecommendationKind::Capacity);
    }

    #[test]
    fn process_that_waits_for_tasks_is_overlapped() {
        let worker = Gpu { workload: Workload::Batch, ..pausing(270, 390) };
        assert_eq!(levers(vec![worker]), ["overlap"]);
        let writes = Gpu { workload: Workload::Batch, ..pausing(1_200, 90) };
        assert_eq!(levers(vec![writes]), ["checkpoint_interval"]);
    }
}
