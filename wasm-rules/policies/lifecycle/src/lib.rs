//! Recommends giving back instances for the hours in which nothing runs on them.
//!
//! Only whole instances can be given back. Hours are those in which no GPU of the instance works at all; a
//! GPU at 3% answers requests. Committed and purchased instances cost the same when they are off, so their
//! hours are capacity for other work, and so are the hours in which some GPUs of an instance never work. What
//! else is free beside busy GPUs is left to the policy `sharing`.

mod action;
mod idle;
mod on_demand;
mod schedule;
mod text;

use action::{Action, choose};
use idle::{Idle, When};
use phasemeter_diagnoses::{
    Allocation, SIMILAR, Unit, is_credible, is_untouched, taken_over, units,
};
use phasemeter_policy::{Gpu, Need, Response, Saving, Window, Workload, groups};
use schedule::Schedule;

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to hours without work.
    min_lost: number = 0.1 in 0.0..=1.0;
    /// Minimum length of a period without work, in seconds.
    min_period_seconds: number = 3600.0 in 600.0..=86400.0;
    /// Time without work after which an instance is given back, in seconds.
    release_after_seconds: number = 600.0 in 10.0..=86400.0;
    /// Time without work after which what holds an instance is ended, such as a person's session, in seconds.
    end_after_seconds: number = 3600.0 in 600.0..=604800.0;
}

/// Why it must be known what holds a GPU.
const HOLDER: &str = "idle time of which it is unknown whether something holds the GPU: memory in use, a process list or \
                      an allocation shows whether the instance can be returned";

/// An action for one instance.
struct Finding<'a> {
    unit: &'a Unit<'a>,
    workload: Workload,
    idle: Idle,
    when: When,
    action: Action,
    /// The hours to stop in, if they are the same every day.
    schedule: Option<Schedule>,
    /// Shares of the bill: low, expected, high.
    saved: [f64; 3],
    /// What its GPUs are allocated to: other work cannot use them meanwhile.
    allocation: Option<Allocation>,
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let units = units(window);
    let (mut found, mut sessions, mut light) = (Vec::new(), Vec::new(), Vec::new());
    let mut unknown = Vec::new();
    for unit in &units {
        let is_known = |gpu: &&Gpu| gpu.accounts.observed().seconds > 0.0 && is_credible(gpu);
        // `sharing` names the holders of what nothing has touched.
        let has_holder = unit.gpus.iter().any(|gpu| is_untouched(gpu, window));
        // Whose work it is comes first.
        let is_taken = unit.gpus.iter().any(|gpu| taken_over(gpu, window).is_some());
        if !unit.is_whole || has_holder || is_taken || !unit.gpus.iter().all(is_known) {
            continue;
        }
        let idle = Idle::of(unit, window, settings.min_period_seconds);
        let schedule = Schedule::of(unit);
        let is_quiet = schedule.as_ref().is_none_or(|it| it.is_quiet(&idle));
        let is_open = !idle.is_known && idle.share() >= settings.min_lost;
        match choose(unit, idle, schedule, &units, window, settings) {
            Some(finding) => found.push(finding),
            None if is_open => unknown.extend(unit.gpus.iter().copied()),
            None if on_demand::applies(unit) => {
                sessions.extend(on_demand::recommend(unit, window, settings));
            }
            None if unit.workload() == Workload::Serving && !is_quiet => {
                light.extend(unit.gpus.iter().copied());
            }
            None => {}
        }
    }
    let is_found = |unit: &Unit<'_>| found.iter().any(|it| std::ptr::eq(it.unit, unit));
    let parts: Vec<_> =
        units.iter().filter(|unit| !is_found(unit)).flat_map(schedule::parts).collect();
    for part in &parts {
        let idle = Idle::of(part, window, settings.min_period_seconds);
        let schedule = Schedule::of(part);
        let finding = choose(part, idle, schedule, &[], window, settings);
        found.extend(finding.filter(|finding| finding.schedule.is_some()));
    }
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        a.action == b.action
            && a.workload == b.workload
            && a.when == b.when
            && a.is_allocated_like(b)
            && a.unit.is_committed == b.unit.is_committed
            && a.unit.is_whole == b.unit.is_whole
            && a.hours(window) == b.hours(window)
            && (a.saved[1] - b.saved[1]).abs() <= SIMILAR
    };
    let waits = |it: &&Finding<'_>| it.workload == Workload::Serving && it.idle.is_held;
    let servers: Vec<_> =
        found.iter().filter(waits).flat_map(|it| it.unit.gpus.iter().copied()).collect();
    let waiting = Need::if_any(
        "requests",
        "the server holds its GPUs without work: how many requests come, and how long they may wait, decides whether it can \
         stop, or unload what it holds",
        servers,
    );
    let groups = groups(found, similar);
    let given = groups.iter().map(|group| text::recommendation(group, settings, window));
    let requests = Need::if_any(
        "requests",
        "light load, below the bound of idle, in the same hours every day: whether these are requests that users wait for \
         decides whether instances can stop or do other work then",
        light,
    );
    let (without, with): (Vec<&Gpu>, Vec<_>) =
        unknown.iter().partition(|gpu| gpu.memory.is_empty());
    let used = Need::if_any("memory.used", HOLDER, without);
    let total = Need::if_any("memory.total", HOLDER, with);
    let needs = used.into_iter().chain(total).chain(requests).chain(waiting);
    Response::of(given.chain(sessions), needs)
}

impl Finding<'_> {
    /// Whether both are allocated by the same kind of scheduler, or neither is.
    fn is_allocated_like(&self, other: &Self) -> bool {
        match (&self.allocation, &other.allocation) {
            (Some(a), Some(b)) => a.release() == b.release(),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// The hours to stop in as text; empty if there are none.
    fn hours(&self, window: &Window) -> String {
        self.schedule.as_ref().map_or_else(String::new, |schedule| schedule.text(window))
    }
}

/// These shares of the bill of each GPU, but not more than its idle waste.
fn idle_saving<'a>(
    unit: &'a Unit<'a>,
    shares: [f64; 3],
) -> impl Iterator<Item = (&'a Gpu, Saving)> {
    let each = move |gpu: &Gpu| shares.map(|share| share.min(gpu.lost_idle()));
    unit.gpus.iter().map(move |gpu| (*gpu, Saving::part(1.0, each(gpu))))
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, holder, price, steady, window};
    use phasemeter_policy::{
        Activity, Holder, HourOfWeek, PatternKind, Plan, Price, Recommendation, RecommendationKind,
    };

    use super::*;

    const HOUR: usize = 3_600;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus)).recommendations
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

    /// A pod that held it has left it, as an agent of the node knows.
    fn left(gpu: Gpu) -> Gpu {
        let pod = holder("trainer-0", 3_600.0, 0.0, 0.0);
        Gpu { holders: vec![Holder { is_current: false, ..pod }], ..gpu }
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
        assert!(found[0].remediation.is_none(), "its host may work: {found:?}");
        let found = recommendations(vec![left(free(works(7, 2, 5)))]);
        assert!((0.45..0.572).contains(&found[0].saving.expected), "{:?}", found[0].saving);
        assert!(found[0].saving.low > 0.0);
        let release = found[0].remediation.as_ref().unwrap();
        assert_eq!(release.kind, "instance.release");
        assert_eq!(release.parameters[0], ("idle_seconds".to_owned(), "600".to_owned()));
        assert_eq!(text::after_idle("process.end", 3_600.0).parameters[0].1, "3600");
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
        let found = recommendations(vec![left(weekly.clone())]);
        assert_eq!(found[0].lever, "schedule");
        let stop = found[0].remediation.as_ref().unwrap();
        let stop: Vec<_> = stop.parameters.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(stop[..3], ["0-8,18-24", "0-24", "0"]);
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
    fn larger_saving_is_recommended() {
        // Works from 1:00 to 4:30 every day, so a schedule stops 20 of the 20.5 idle hours.
        let nightly = gpu(PatternKind::Mixed, 8 * 24 * HOUR, |second| {
            f64::from(u8::from((2..9).contains(&(second / (HOUR / 2) % 48))))
        });
        let mut nightly = single(nightly);
        let hour = |hour: usize| {
            let idle_seconds = if (1..5).contains(&(hour % 24)) { 0.0 } else { 3_600.0 };
            HourOfWeek { observed_seconds: 3_600.0, idle_seconds }
        };
        nightly.activity.week = (0..168).map(hour).collect();
        let found = recommendations(vec![free(nightly.clone())]);
        assert_eq!(found[0].code, "lifecycle.release");
        assert!((found[0].saving.expected - 0.847).abs() < 0.002, "{:?}", found[0].saving);
        // A held one asks no one if it is stopped by a schedule.
        let found = recommendations(vec![nightly.clone()]);
        assert_eq!((found[0].code.as_str(), found[0].saving.low), ("lifecycle.schedule", 0.0));
        assert!((found[0].saving.expected - 0.826).abs() < 0.002, "{:?}", found[0].saving);
        assert!(found[0].action.contains("from 5:00 to 1:00 UTC every day"), "{}", found[0].action);
        // Alike instances get one recommendation.
        let found = recommendations(vec![nightly.clone(), nightly]);
        assert_eq!((found.len(), found[0].gpus.len()), (1, 2));
    }

    #[test]
    fn week_of_a_sidecar_decides_for_its_last_day() {
        // A weekend: the day has no work at all, and the week has office hours.
        let mut weekend = single(steady(24 * HOUR, 0.0));
        let hour = |hour: usize| {
            let works = hour < 120 && (8..18).contains(&(hour % 24));
            let idle_seconds = if works { 0.0 } else { 3_600.0 };
            HourOfWeek { observed_seconds: 3_600.0, idle_seconds }
        };
        weekend.activity.week = (0..168).map(hour).collect();
        let found = recommendations(vec![weekend.clone()]);
        assert_eq!(found[0].code, "lifecycle.schedule");
        // A day without idle time has none to save.
        let busy = single(steady(24 * HOUR, 0.95));
        let busy =
            Gpu { activity: Activity { week: weekend.activity.week, ..busy.activity }, ..busy };
        assert!(recommendations(vec![busy]).is_empty());
    }

    #[test]
    fn nightly_hours_of_some_gpus_are_capacity() {
        let by_day = |second: usize| if second / HOUR % 24 < 11 { 0.0 } else { 0.7 };
        let mut by_day = single(gpu(PatternKind::Mixed, 5 * 24 * HOUR, by_day));
        let hour = |hour: usize| {
            let idle_seconds = if hour % 24 < 11 { 3_600.0 } else { 0.0 };
            HourOfWeek { observed_seconds: 3_600.0, idle_seconds }
        };
        by_day.activity.week = (0..168).map(hour).collect();
        let on_eight = |gpu: Gpu| {
            let price = Price { instance_type: Some("p5.48xlarge".to_owned()), ..price() };
            Gpu { price: Some(price), workload: Workload::Serving, ..gpu }
        };
        let node = |nightly: usize| {
            (0..8).map(move |index| match index < nightly {
                true => on_eight(by_day.clone()),
                false => on_eight(steady(5 * 24 * HOUR, 0.5)),
            })
        };
        let found = recommendations(node.clone()(2).collect());
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("lifecycle.fill", 2));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Capacity, 0.0));
        assert!(found[0].action.starts_with("Scale the service down from 0:00 to 11:00"));
        assert!(found[0].rationale.contains("Other GPUs of the instance work then"));
        // All of them stop as one.
        let found = recommendations(node(8).collect());
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("lifecycle.schedule", 8));
    }

    #[test]
    fn light_load_of_a_service_is_a_need() {
        let light = |second: usize| if second / HOUR % 24 < 7 { 0.02 } else { 0.3 };
        let mut light = single(gpu(PatternKind::Mixed, 5 * 24 * HOUR, light));
        let hour = |hour: usize| {
            let idle_seconds = if hour % 24 < 7 { 3_600.0 } else { 0.0 };
            HourOfWeek { observed_seconds: 3_600.0, idle_seconds }
        };
        light.activity.week = (0..168).map(hour).collect();
        light.workload = Workload::Serving;
        let found = recommend(&Settings::default(), &window(vec![light]));
        assert!(found.recommendations.is_empty());
        assert_eq!(found.needs[0].missing, "requests");
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
            left(free(single(gpu(PatternKind::Mixed, 3 * HOUR, move |second| {
                if (from..to).contains(&(second / 60)) { 0.97 } else { 0.0 }
            }))))
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
        let found = recommendations(vec![left(partly)]);
        assert_eq!(found[0].lever, "autoscale");
        assert!((found[0].saving.low - 0.5).abs() < 0.03, "{:?}", found[0].saving);
        assert!(found[0].rationale.contains("held it for 8 h of that"), "{}", found[0].rationale);
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
        let held = recommendations(vec![session(Workload::Interactive)]);
        assert!(held.is_empty(), "a person's session lasts for an hour");
        let found = recommendations(vec![free(session(Workload::Interactive))]);
        assert_eq!(found[0].code, "lifecycle.on-demand");
        // 28 of 30 minutes, but the first ten are waited for and five start the next.
        assert!((found[0].saving.expected - 13.0 / 30.0).abs() < 0.04, "{:?}", found[0].saving);
        assert_eq!(found[0].saving.low, 0.0);
        assert!(recommendations(vec![session(Workload::Serving)]).is_empty(), "users would wait");
        let run = recommendations(vec![free(session(Workload::Batch))]);
        assert_eq!((run[0].code.as_str(), run[0].saving.low), ("lifecycle.on-demand", 0.0));
        assert!(run[0].title.contains("for each use"), "{}", run[0].title);
    }

    #[test]
    fn committed_hours_are_capacity() {
        let mut gpu = works(24, 0, 6);
        gpu.price = Some(Price { plan: Some(Plan::ReservedOneYear), ..price() });
        let found = recommendations(vec![free(gpu.clone()); 8]);
        assert_eq!((found[0].lever.as_str(), found[0].gpus.len()), ("bin_pack", 8));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Capacity, 0.0));
        // No job fits beside what is held.
        let held = recommendations(vec![gpu.clone(); 8]);
        assert_eq!(
            (held[0].lever.as_str(), held[0].kind),
            ("release_memory", RecommendationKind::Capacity)
        );
        assert!(held[0].rationale.contains("since its last work"), "{}", held[0].rationale);
        gpu.attributes = vec![("slurm.job.id".to_owned(), "1".to_owned())];
        let slurm = recommendations(vec![gpu; 8]);
        assert!(slurm[0].action.contains("time limit"), "{}", slurm[0].action);
    }

    #[test]
    fn short_windows_and_unobserved_gpus_are_skipped() {
        assert!(levers(vec![single(steady(1_200, 0.0))]).is_empty());
        assert!(levers(vec![single(gpu(PatternKind::Idle, 6 * HOUR, |_| f64::NAN))]).is_empty());
    }

    /// Moves idle time to the account of unknown holders, as without memory, processes and allocations.
    fn unknown(mut gpu: Gpu) -> Gpu {
        std::mem::swap(&mut gpu.accounts.idle_held, &mut gpu.accounts.idle_unknown);
        free(gpu)
    }

    #[test]
    fn idle_time_of_unknown_holders_is_a_need() {
        let respond = |gpu: Gpu| recommend(&Settings::default(), &window(vec![gpu]));
        for shape in [works(7, 2, 5), works(7, 0, 2), works(7, 4, 7), single(steady(7_200, 0.0))] {
            for workload in [Workload::Training, Workload::Batch, Workload::Serving] {
                let found = respond(Gpu { workload, ..unknown(shape.clone()) });
                let codes: Vec<_> = found.recommendations.iter().map(|it| &it.code).collect();
                assert!(codes.is_empty(), "{codes:?}");
                assert_eq!(found.needs[0].missing, "memory.used");
            }
        }
        assert!(!respond(free(works(7, 0, 2))).recommendations.is_empty(), "known as free");
    }

    #[test]
    fn allocated_instance_is_released_by_its_holder() {
        let pod = |gpu: Gpu| Gpu {
            attributes: vec![("k8s.pod.name".to_owned(), "trainer-0".to_owned())],
            ..gpu
        };
        let one = recommendations(vec![pod(free(works(7, 0, 2)))]).remove(0);
        assert_eq!((one.code.as_str(), one.saving.low), ("lifecycle.end-session", 0.0));
        assert!(one.action.contains("trainer-0: delete the pod"), "{}", one.action);
        assert_eq!(one.remediation.unwrap().kind, "process.end");
        let empty = phasemeter_policy::testing::with_memory(single(steady(7_200, 0.0)), 0.0);
        assert!(recommendations(vec![pod(empty)]).is_empty(), "never touched: `sharing` names it");
    }

    #[test]
    fn job_that_goes_on_is_not_ended() {
        let of = |workload, is_held: bool| {
            let mut gpu = single(gpu(PatternKind::Mixed, 20 * HOUR, |second| {
                if second % 4_200 < 3_600 { 0.0 } else { 0.95 }
            }));
            gpu.workload = workload;
            levers(vec![if is_held { gpu } else { free(gpu) }])
        };
        for workload in [Workload::Batch, Workload::Training] {
            assert!(of(workload, true).is_empty(), "{workload:?}");
            assert_eq!(of(workload, false), ["autoscale"], "{workload:?}");
        }
        assert_eq!(of(Workload::Interactive, true), ["release_memory"], "a person's session");
    }

    #[test]
    fn instance_that_holds_nothing_is_no_replica() {
        let service = |gpu| Gpu { workload: Workload::Serving, ..single(gpu) };
        let of = |unused| {
            let found = recommendations(vec![service(steady(7_200, 0.5)), service(unused)]);
            found.into_iter().map(|one| one.code).collect::<Vec<_>>()
        };
        assert_eq!(of(steady(7_200, 0.0)), ["lifecycle.replica"]);
        assert_eq!(of(free(steady(7_200, 0.0))), ["lifecycle.release"]);
    }
}
