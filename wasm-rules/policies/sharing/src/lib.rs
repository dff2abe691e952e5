//! Recommends sharing GPUs that are mostly idle or small in time and memory, and using free ones.
//!
//! A GPU that is idle with bursts cannot be switched off, but its task can share a GPU, in a slice of
//! MIG where there is one. Memory decides whether it fits, so nothing is recommended without it. A
//! free GPU of a busy instance cannot be given back: it is capacity for others, unless the work fits fewer
//! instances, or one with fewer GPUs. Instances of which nothing works are left to the policy `lifecycle`.

mod consolidate;
mod divide;
mod owners;
mod resize;
mod text;

use consolidate::{Pack, packs};
use divide::{SMALL_MEMORY, divide};
use phasemeter_policy::{
    Accounts, Gpu, Memory, PatternKind, Policy, Quiet, RecommendationKind, Recommender, Response,
    Saving, Window, Workload, groups,
};
use phasemeter_specs::{QuietTime, Unit, hangs, units};
use resize::Resize;

phasemeter_policy::settings! {
    /// Minimum share of the bill that others could use.
    min_lost: number = 0.1 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 1500.0 in 0.0..=86400.0;
}

/// Difference of shares up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.1;

/// The longest stretch without work, as a share of the time, from which a GPU is free, and the share of it in
/// which a process holds it, from which one does. Assumptions.
const LONGEST: f64 = 0.5;
const HELD: f64 = 0.5;

/// Share of the time before the first work and after the last from which a GPU is free then, while others of its
/// instance work. An assumption.
const MIN_ENDS: f64 = 0.2;

/// Intervals between readings up to which bursts are seen, and those of a load that is the same all day, in
/// seconds. Assumptions.
const SEES_BURSTS: f64 = 10.0;
const SEES_LOAD: f64 = 60.0;

/// Share of the free capacity that others use: low, expected, high. An assumption; nothing is saved
/// without a tenant.
const REUSED: [f64; 3] = [0.0, 0.45, 0.7];

/// Share of the time without work from which a GPU is unused.
const UNUSED: f64 = 0.95;

/// Idle share of the time from which a GPU is idle with bursts, and the same for training and batch,
/// whose short pauses no tenant can use.
const MOSTLY_IDLE: f64 = 0.5;
const NEARLY_IDLE: f64 = 0.8;

/// Share of the time in which all GPUs of an instance are quiet for an hour or more, from which the
/// instance itself is the matter.
const LIFECYCLE: f64 = 0.1;
const HOUR: f64 = 3_600.0;

/// Utilization up to which a steady task is small enough to share.
const SMALL_UTILIZATION: f64 = 0.4;

struct Sharing;

impl Policy for Sharing {
    const NAME: &'static str = "sharing";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Finds GPUs that others could use, as a whole or in part.";
    type Settings = Settings;
}

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    action: Action,
    kind: RecommendationKind,
    why: Capacity,
    /// Time for which others could use it, in seconds.
    free_seconds: f64,
    lost: f64,
    saving: Saving,
}

/// Why giving others the GPU saves no money by itself.
#[derive(Clone, Copy, PartialEq)]
enum Capacity {
    /// Other GPUs of its instance work.
    Busy,
    /// Other GPUs of its instance were not recorded.
    Unrecorded,
    /// Its hours are paid for, used or not.
    Committed,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    /// Other jobs use it as a whole, or only before its first work and after its last (`ends`); `held` by a
    /// process that does nothing.
    Use { held: bool, ends: bool },
    /// The work of its instances moves to fewer of them.
    Pack { busy: usize, instances: usize, needed: usize },
    /// Other tasks use a part of it.
    Divide { parts: usize, lever: &'static str, idle: bool },
}

impl Recommender for Sharing {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let units = units(window);
        let packs = packs(&units, |gpu| unused(gpu) == Some(false));
        let is_packed = |gpu: &Gpu| packs.iter().any(|pack| pack.holds(gpu));
        let rented: Vec<_> = units.iter().filter(|unit| !is_quiet(unit, window)).collect();
        let resizes: Vec<_> = rented
            .iter()
            .filter_map(|unit| Resize::of(unit, window, |gpu| unused(gpu) == Some(false)))
            .filter(|resize| !resize.free.iter().any(|gpu| is_packed(gpu)))
            .collect();
        let is_resized = |gpu: &Gpu| {
            resizes.iter().flat_map(|resize| &resize.free).any(|it| std::ptr::eq(*it, gpu))
        };
        let findings = rented.iter().flat_map(|unit| {
            let others = unit.gpus.iter().filter(|gpu| !is_resized(gpu));
            others.filter_map(|gpu| Some(find(gpu, unit, window, settings)?.packed(&packs)))
        });
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            let is_near =
                (a.lost - b.lost).abs() <= SIMILAR || matches!(a.action, Action::Use { .. });
            a.action == b.action && a.kind == b.kind && a.why == b.why && is_near
        };
        let groups = groups(findings, similar);
        let resized = resizes.iter().map(Resize::recommendation);
        let shared = groups.iter().filter_map(|group| text::recommendation(group));
        resized.chain(shared).chain(owners::recommend(window)).collect::<Vec<_>>().into()
    }
}

/// Whether the instance itself is the matter, since no GPU of it works for hours.
fn is_quiet(unit: &Unit<'_>, window: &Window) -> bool {
    if !unit.is_whole {
        return false;
    }
    let time = QuietTime::of(unit, window);
    let hours = time.at_least(unit, HOUR, HOUR);
    hours.iter().map(|period| period.1 - period.0).sum::<f64>() >= LIFECYCLE * time.length
}

/// Whether a GPU without work is held by a process; `None` if it worked.
fn unused(gpu: &Gpu) -> Option<bool> {
    let quiet = gpu.activity.quiet;
    let long = gpu.activity.longest_seconds >= LONGEST * gpu.accounts.observed().seconds;
    (gpu.quiet_share() >= UNUSED && long).then_some(quiet.held_seconds > HELD * quiet.seconds)
}

impl Finding<'_> {
    /// The same for a free GPU of instances whose work fits fewer of them.
    fn packed(self, packs: &[Pack<'_>]) -> Self {
        let pack = packs.iter().find(|pack| pack.holds(self.gpu));
        match pack.filter(|_| self.action == Action::Use { held: false, ends: false }) {
            Some(pack) => Self {
                action: Action::Pack {
                    busy: pack.busy,
                    instances: pack.instances,
                    needed: pack.needed,
                },
                kind: RecommendationKind::Saving,
                saving: Saving::part(self.lost * pack.returned(), REUSED),
                ..self
            },
            None => self,
        }
    }
}

fn find<'a>(
    gpu: &'a Gpu,
    unit: &Unit<'_>,
    window: &Window,
    settings: &Settings,
) -> Option<Finding<'a>> {
    let observed = gpu.accounts.observed().seconds;
    let unobserved = gpu.accounts.unobserved.seconds;
    if observed < settings.min_seconds || unobserved > observed || gpu.is_bouncing() {
        return None;
    }
    let waits = |other: &&Gpu| other.is_alike(gpu) && hangs(other, window);
    if gpu.activity.after_work.seconds > 0.0 && unit.gpus.iter().any(waits) {
        // A rank that is gone: its job needs it again.
        return None;
    }
    let alone = unit.is_returnable() && unit.gpus.len() == 1;
    let kind = if alone { RecommendationKind::Saving } else { RecommendationKind::Capacity };
    let why = match unit {
        unit if unit.is_committed => Capacity::Committed,
        unit if !unit.is_whole => Capacity::Unrecorded,
        _ => Capacity::Busy,
    };
    let idle = gpu.lost_idle();
    let usable = |held, ends, free_seconds: f64, lost| Finding {
        gpu,
        action: Action::Use { held, ends },
        kind: RecommendationKind::Capacity,
        why,
        free_seconds,
        lost,
        saving: Saving::part(lost, REUSED),
    };
    if let Some(held) = unused(gpu) {
        return Some(usable(held, false, gpu.activity.quiet.seconds, idle));
    }
    let ends = ends(gpu, unit);
    let has_others = unit.gpus.len() > 1 || !unit.is_whole;
    if has_others && ends.seconds >= f64::max(HOUR, MIN_ENDS * observed) {
        let held = ends.held_seconds > HELD * ends.seconds;
        let lost = f64::min(idle, ends.seconds / observed);
        return Some(usable(held, true, ends.seconds, lost));
    }
    let share = match gpu.memory_use(window.step_seconds) {
        Memory::InUse(share) => share,
        Memory::Pool(share) if idle >= MOSTLY_IDLE => share,
        _ => return None,
    };
    let idle_share = gpu.share(Accounts::idle);
    let patient = matches!(gpu.workload, Workload::Training | Workload::Batch);
    let is_burst = idle_share >= if patient { NEARLY_IDLE } else { MOSTLY_IDLE };
    // A batch job that is never quiet may use engines that utilization does not cover.
    let is_engine = gpu.workload == Workload::Batch && gpu.quiet_share() < MOSTLY_IDLE;
    let is_steady = gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady);
    let is_small = is_steady
        && gpu.accounts.observed().level() <= SMALL_UTILIZATION
        && share <= SMALL_MEMORY
        && !matches!(gpu.workload, Workload::Batch | Workload::Interactive);
    if (!is_burst && !is_small) || is_engine || !gpu.sees_bursts() {
        return None;
    }
    let lost = if is_burst { idle } else { gpu.lost_underload() };
    let (parts, kept, lever) = divide(gpu, share, is_burst)?;
    (lost >= settings.min_lost).then(|| Finding {
        gpu,
        action: Action::Divide { parts, lever, idle: is_burst },
        kind,
        why,
        free_seconds: gpu.activity.quiet.seconds,
        lost,
        saving: Saving::part(f64::min(lost, 1.0 - kept), REUSED),
    })
}

/// The time before its first work and after its last, without that in which no GPU of the instance works: that is
/// the matter of the instance.
fn ends(gpu: &Gpu, unit: &Unit<'_>) -> Quiet {
    let shared = |of: fn(&Gpu) -> Quiet| {
        let others = unit.gpus.iter().filter(|_| unit.is_whole && unit.gpus.len() > 1);
        others.map(|gpu| of(gpu).seconds).reduce(f64::min).unwrap_or(0.0)
    };
    let (before, after) = (gpu.activity.before_work, gpu.activity.after_work);
    let all = before.seconds + after.seconds;
    let seconds =
        all - shared(|gpu| gpu.activity.before_work) - shared(|gpu| gpu.activity.after_work);
    let held = (before.held_seconds + after.held_seconds) / all.max(1.0);
    Quiet { seconds, held_seconds: held * seconds }
}

trait Bursts {
    /// Whether readings are frequent enough for the pattern, or the load is the same all day.
    fn sees_bursts(&self) -> bool;
}

impl Bursts for Gpu {
    fn sees_bursts(&self) -> bool {
        let is_mixed = self.pattern.is_none_or(|pattern| pattern.kind == PatternKind::Mixed);
        let interval = self.activity.interval_seconds.unwrap_or(f64::INFINITY);
        interval <= SEES_BURSTS || (!is_mixed && interval <= SEES_LOAD)
    }
}

phasemeter_policy::recommender!(Sharing);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, price, steady, window, with_memory};
    use phasemeter_policy::{Plan, Price, Recommendation, Target};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Sharing::recommend(&Settings::default(), &window(gpus)).recommendations
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    fn of(workload: Workload, gpu: Gpu) -> Gpu {
        Gpu { workload, ..gpu }
    }

    /// A notebook: a burst of six seconds every five minutes.
    fn notebook() -> Gpu {
        let notebook =
            gpu(PatternKind::Idle, 7_200, |second| if second % 300 < 6 { 0.6 } else { 0.0 });
        with_memory(of(Workload::Interactive, notebook), 30.0)
    }

    fn alone(gpu: Gpu) -> Gpu {
        let price = Price { instance_type: Some("p5.4xlarge".to_owned()), ..price() };
        Gpu { price: Some(price), ..gpu }
    }

    #[test]
    fn idle_with_bursts_is_divided() {
        let found = recommendations(vec![alone(notebook())]);
        assert_eq!((levers(&found), found[0].kind), (vec!["mig"], RecommendationKind::Saving));
        // 30 of 80 GB need half of the memory, so half of the GPU is free for others.
        assert!((found[0].saving.high - 0.35).abs() < 1e-9 && found[0].saving.low == 0.0);
        let node = recommendations(vec![notebook(), with_memory(steady(7_200, 0.95), 60.0)]);
        assert_eq!((levers(&node), node[0].kind), (vec!["mig"], RecommendationKind::Capacity));
        let a10 = Gpu { model: "NVIDIA A10G".to_owned(), ..alone(notebook()) };
        let found = recommendations(vec![a10]);
        assert_eq!(found[0].remediation.as_ref().unwrap().kind, "nvidia.time-slicing");
        assert!(recommendations(vec![alone(Gpu { memory: Vec::new(), ..notebook() })]).is_empty());
    }

    #[test]
    fn free_gpu_of_busy_instance_is_capacity() {
        let mut free = with_memory(steady(7_200, 0.0), 0.0);
        free.activity.quiet.held_seconds = 0.0;
        let busy = || with_memory(steady(7_200, 0.95), 60.0);
        let found = recommendations(vec![free.clone(), free.clone(), busy()]);
        assert_eq!((levers(&found), found[0].gpus.len()), (vec!["bin_pack"], 2));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Capacity, 0.0));
        let held = with_memory(steady(7_200, 0.0), 1.4);
        assert_eq!(levers(&recommendations(vec![held, busy()])), ["release_memory"]);
        assert!(recommendations(vec![alone(free)]).is_empty(), "the whole instance is free");
    }

    #[test]
    fn work_that_fits_fewer_instances_is_moved() {
        let node = |name: &str, busy: usize| {
            let gpu = move |index: usize| {
                let mut gpu = with_memory(steady(7_200, 0.95), 60.0);
                if index >= busy {
                    gpu = with_memory(steady(7_200, 0.0), 0.0);
                    gpu.activity.quiet.held_seconds = 0.0;
                }
                let price = Price { instance_type: Some("p5.48xlarge".to_owned()), ..price() };
                let attributes = vec![("host.name".to_owned(), name.to_owned())];
                Gpu { price: Some(price), attributes, ..gpu }
            };
            (0..8).map(gpu).collect::<Vec<_>>()
        };
        let of =
            |busy: [usize; 2]| recommendations([node("a", busy[0]), node("b", busy[1])].concat());
        let found = of([4, 3]);
        assert_eq!((levers(&found), found[0].gpus.len()), (vec!["consolidate"], 9));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Saving, 0.0));
        // Eight of the nine free GPUs are given back.
        assert!((found[0].saving.high - 0.7 * 8.0 / 9.0).abs() < 1e-9, "{:?}", found[0].saving);
        assert_eq!(levers(&of([5, 4])), ["bin_pack"], "nine do not fit eight");
        assert_eq!(levers(&of([4, 0])), ["bin_pack"], "an empty instance is given back as it is");
    }

    #[test]
    fn gpu_that_ends_before_the_others_is_free_after_it() {
        let until =
            |hour: usize| {
                let gpu = gpu(PatternKind::Mixed, 5 * 3_600, move |second| {
                    if second < hour * 3_600 { 0.95 } else { 0.0 }
                });
                let mut gpu = with_memory(gpu, 40.0);
                gpu.activity.after_work.held_seconds = 0.0;
                gpu
            };
        let found = recommendations([2, 3, 4, 5].map(until).to_vec());
        assert_eq!((levers(&found), found[0].gpus.len()), (vec!["bin_pack"], 3));
        assert_eq!((found[0].kind, found[0].saving.low), (RecommendationKind::Capacity, 0.0));
        assert!(found[0].rationale.contains("on average"), "{}", found[0].rationale);
    }

    #[test]
    fn time_in_which_all_are_free_is_the_matter_of_the_instance() {
        let works = |from: usize, to: usize| {
            let gpu = gpu(PatternKind::Mixed, 6 * 3_600, move |second| {
                if (from..to).contains(&(second / 60)) { 0.95 } else { 0.0 }
            });
            with_memory(gpu, 40.0)
        };
        let mut eight = vec![works(50, 310); 8];
        assert!(recommendations(eight.clone()).is_empty());
        eight[7] = works(50, 220);
        let found = recommendations(eight);
        assert_eq!((found.len(), found[0].gpus.join(" ")), (1, "GPU-7".to_owned()));
        assert!(found[0].rationale.contains(" 1 h 30 min of 6 h"), "{}", found[0].rationale);
    }

    #[test]
    fn reason_of_capacity_is_given() {
        let eight = |gpu: Gpu| {
            let price = Price { instance_type: Some("p5.48xlarge".to_owned()), ..price() };
            Gpu { price: Some(price), ..gpu }
        };
        let works =
            gpu(PatternKind::Mixed, 36_000, |second| if second < 7_200 { 0.9 } else { 0.0 });
        let found = recommendations(vec![eight(with_memory(works, 40.0))]);
        assert!(found[0].rationale.contains("were not recorded"), "{}", found[0].rationale);
        assert!(!found[0].rationale.contains("of the instance work"), "{}", found[0].rationale);
    }

    #[test]
    fn small_steady_task_is_divided() {
        let small = with_memory(of(Workload::Serving, steady(7_200, 0.12)), 5.0);
        let found = recommendations(vec![alone(small.clone())]);
        assert_eq!((levers(&found), found[0].target), (vec!["mig"], Target::Underload));
        assert!(recommendations(vec![alone(with_memory(steady(7_200, 0.12), 60.0))]).is_empty());
        assert!(recommendations(vec![alone(with_memory(steady(7_200, 0.5), 20.0))]).is_empty());
        let owned = Price { plan: Some(Plan::Owned), ..price() };
        let found = recommendations(vec![Gpu { price: Some(owned), ..small }]);
        assert_eq!(found[0].kind, RecommendationKind::Capacity);
        let batch = with_memory(of(Workload::Batch, steady(7_200, 0.05)), 3.0);
        assert!(recommendations(vec![alone(batch)]).is_empty(), "it may transcode video");
    }

    #[test]
    fn pauses_of_training_and_other_loads_are_skipped() {
        let roles =
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second % 280 < 130)));
        let gpus = vec![
            with_memory(roles, 30.0),
            steady(3_600, 0.97),
            bouncing(3_600, 40, 0.5),
            steady(50, 0.0),
            gpu(PatternKind::Idle, 3_600, |_| f64::NAN),
        ];
        assert!(recommendations(gpus).is_empty());
    }
}
