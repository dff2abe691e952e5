//! Advice under suppositions: where a fact decides and is unknown, the policies are asked again as if it were known, and
//! what they then recommend is given as a condition. It promises nothing, and nothing of it is summed.
//!
//! No policy has to know of this: it judges a window in which the fact is known.

use std::collections::BTreeSet;

use phasemeter_meter::pattern::PatternKind;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_savings::fraction::Fraction;

use crate::recommendation::{Recommendation, RecommendationKind, Saving, Target};
use crate::window::{AccountTotals, Gpu, Percentiles, Window};
use crate::workload::Workload;

/// Share of the bill that is wasted or saved, from which a supposition matters. An assumption.
const MATTERS: f64 = 0.05;

/// Observed time from which a GPU is judged under suppositions.
const JUDGED_AFTER: Nanos = Nanos::from_secs(600);

/// Activity of the FP64 pipe from which work is not that of a model. An assumption: models leave it idle.
const IN_FP64: f64 = 0.02;

/// Share of the memory that is supposed to be in use. An assumption.
const SUPPOSED_MEMORY: f64 = 1.0 / 3.0;

/// Share of the SMs and of the memory's bandwidth that is supposed to be active while the GPU works. An assumption.
const SUPPOSED_ACTIVITY: f64 = 0.2;

/// Confidence in what follows from a supposition, relative to that of the policy: it is as likely as not.
const EVEN: f64 = 0.5;

/// The metric of a preallocated block of memory, and that of the FP64 pipe.
const POOL: &str = "memory.pool";
const FP64: &str = "fp64.activity";

/// Attributes that name the job of a GPU, the first as it is supposed; and its node.
const JOBS: [&str; 3] = ["k8s.pod.uid", "k8s.pod.name", "slurm.job.id"];
const NODES: [&str; 2] = ["host.name", "log.file.name"];

/// What is supposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supposition {
    /// Work of unknown kind is this.
    Kind(Workload),
    /// A block of memory that a process took at its start is mostly not needed.
    LittleMemory,
    /// A batch job with a steady part load leaves most of the GPU inactive.
    LittleActivity,
    /// GPUs of a node whose jobs are unknown work on their own.
    Separate,
}

impl Supposition {
    const ALL: [Self; 5] = [
        Self::Kind(Workload::Training),
        Self::Kind(Workload::Serving),
        Self::LittleMemory,
        Self::LittleActivity,
        Self::Separate,
    ];

    /// How a title begins, and what must be known before anything is counted.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Kind(Workload::Serving) => {
                ("If it serves requests: ", "the kind is declared (--workload)")
            }
            Self::Kind(_) => ("If this is training: ", "the kind is declared (--workload)"),
            Self::LittleMemory => (
                "If a third of the memory suffices: ",
                "the memory in use is known; a third is supposed here",
            ),
            Self::LittleActivity => (
                "If little of the GPU is active while it works: ",
                "its activity was recorded; 20% is supposed here",
            ),
            Self::Separate => (
                "If each GPU works on its own: ",
                "the pod or job of each GPU is known (k8s.pod.name)",
            ),
        }
    }

    /// Whether it may be so of a GPU. `is_open` tells whether much of its waste has no recommendation.
    fn is_about(self, gpu: &Gpu, window: &Window, is_open: impl Fn(&Gpu) -> bool) -> bool {
        match self {
            Self::Kind(_) => {
                gpu.workload == Workload::Unknown
                    && may_be_a_model(gpu)
                    && works_below_capacity(gpu)
            }
            // A service fills its block with what it keeps of requests, and training with what a batch needs.
            Self::LittleMemory => {
                matches!(gpu.workload, Workload::Interactive | Workload::Batch)
                    && gpu.metrics.contains_key(POOL)
                    && is_open(gpu)
            }
            Self::LittleActivity => {
                gpu.workload == Workload::Batch
                    && gpu.sensors.sm_activity.is_none()
                    && gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady)
                    && is_open(gpu)
            }
            Self::Separate => {
                let has_job = |name: &str| {
                    gpu.attributes.contains_key(name) || window.attributes.contains_key(name)
                };
                let is_beside = |other: &Gpu| {
                    other.id != gpu.id && node(other) == node(gpu) && other.workload == gpu.workload
                };
                // Training has ranks, which wait for one another.
                gpu.workload != Workload::Training
                    && !JOBS.iter().any(|name| has_job(name))
                    && is_open(gpu)
                    && window.gpus.iter().any(is_beside)
            }
        }
    }

    fn suppose(self, gpu: &mut Gpu) {
        match self {
            Self::Kind(kind) => gpu.workload = kind,
            Self::LittleMemory => suppose_little_memory(gpu),
            Self::LittleActivity => {
                gpu.sensors.sm_activity = Some(SUPPOSED_ACTIVITY);
                gpu.sensors.dram_activity = Some(SUPPOSED_ACTIVITY);
            }
            Self::Separate => {
                gpu.attributes.insert(JOBS[0].to_owned(), gpu.id.clone());
            }
        }
    }

    /// What a policy recommends under it, as a condition.
    fn state(self, it: Recommendation) -> Recommendation {
        let (condition, unknown) = self.words();
        let could = match it.saving.high {
            Fraction::ZERO => String::new(),
            high => format!(
                " It could save up to {:.0}% of the cost of these GPUs.",
                high.as_f64() * 100.0
            ),
        };
        Recommendation {
            code: format!("{}.conditional", it.code),
            title: format!("{condition}{}", in_a_sentence(&it.title)),
            rationale: format!("{}{could} Nothing is counted before {unknown}.", it.rationale),
            saving: Saving::default(),
            confidence: Fraction::new(EVEN * it.confidence.as_f64()).unwrap_or_default(),
            kind: RecommendationKind::Saving,
            remediation: None,
            ..it
        }
    }
}

/// Asks `advise` once per supposition that matters for this window, with the window in which it holds. `given` is what
/// each policy recommends without it, and `advise` returns what each recommends in the same order; returned is what each
/// recommends in addition.
#[must_use]
pub fn conditional(
    window: &Window,
    given: &[Vec<&Recommendation>],
    advise: impl Fn(&Window) -> Vec<Vec<Recommendation>>,
) -> Vec<Vec<Recommendation>> {
    let mut more = vec![Vec::new(); given.len()];
    let is_open = |gpu: &Gpu| is_open(gpu, given);
    for supposition in Supposition::ALL {
        let judged = window.gpus.iter().filter(|gpu| is_judged(gpu));
        let about = judged.filter(|gpu| supposition.is_about(gpu, window, is_open));
        let about: BTreeSet<&str> = about.map(|gpu| gpu.id.as_str()).collect();
        if about.is_empty() {
            continue;
        }
        let mut supposed = window.clone();
        for gpu in supposed.gpus.iter_mut().filter(|gpu| about.contains(gpu.id.as_str())) {
            supposition.suppose(gpu);
        }
        for ((branches, given), more) in advise(&supposed).into_iter().zip(given).zip(&mut more) {
            let best = best(branches, &about, |it| {
                given.iter().copied().chain(more.iter()).any(|other| is_same(it, other))
            });
            more.extend(best.into_iter().map(|it| supposition.state(it)));
        }
    }
    more
}

/// The best branch of each set of GPUs, all of which it is `about`: others follow once the fact is known.
fn best(
    mut branches: Vec<Recommendation>,
    about: &BTreeSet<&str>,
    is_given: impl Fn(&Recommendation) -> bool,
) -> Vec<Recommendation> {
    branches.retain(|it| {
        let matters = it.kind == RecommendationKind::Capacity || it.saving.high.as_f64() >= MATTERS;
        let is_advice = it.kind != RecommendationKind::Risk && !it.lever.is_diagnosis();
        is_advice
            && matters
            && !is_given(it)
            && it.gpus.iter().all(|id| about.contains(id.as_str()))
    });
    branches.sort_by(|a, b| b.saving.expected.as_f64().total_cmp(&a.saving.expected.as_f64()));
    let mut covered = BTreeSet::new();
    branches.retain(|it| it.gpus.iter().all(|id| covered.insert(id.clone())));
    branches
}

/// Whether both use the same means on the same GPU.
fn is_same(a: &Recommendation, b: &Recommendation) -> bool {
    a.lever == b.lever && a.gpus.iter().any(|id| b.gpus.contains(id))
}

/// Whether it was observed for long enough, with a clear pattern: of others, policies say no more than before.
fn is_judged(gpu: &Gpu) -> bool {
    gpu.pattern.is_some() && time(&accounts(gpu)) >= JUDGED_AFTER.0
}

fn may_be_a_model(gpu: &Gpu) -> bool {
    gpu.metrics.get(FP64).is_none_or(|activity| *activity < IN_FP64)
}

/// Whether it waits for input, or works below capacity, so that the kind of work decides.
fn works_below_capacity(gpu: &Gpu) -> bool {
    wasted(gpu, WasteCategory::Starvation) + wasted(gpu, WasteCategory::Underload) >= MATTERS
}

/// Whether there is waste of a category that matters, and no recommendation to end it.
fn is_open(gpu: &Gpu, given: &[Vec<&Recommendation>]) -> bool {
    WasteCategory::ALL.into_iter().any(|category| {
        let is_advised = given.iter().flatten().any(|it| {
            it.target == Target::Waste(category)
                && !it.lever.is_diagnosis()
                && it.gpus.contains(&gpu.id)
        });
        !is_advised && wasted(gpu, category) >= MATTERS
    })
}

/// Share of the bill that is wasted in a category; of the time, if the GPU has no price.
fn wasted(gpu: &Gpu, category: WasteCategory) -> f64 {
    let of_run = accounts(gpu);
    if gpu.price.is_some() {
        let bill: i128 =
            of_run.iter().map(|it| it.cost.0).sum::<i128>() + gpu.accounts.unobserved.cost.0;
        return gpu.waste[category].0 as f64 / bill.max(1) as f64;
    }
    let is_bouncing = gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing);
    let (idle, busy) = of_run.split_at(3);
    let lost = match category {
        WasteCategory::Starvation if is_bouncing => &of_run[..],
        WasteCategory::Idle if !is_bouncing => idle,
        WasteCategory::Underload if !is_bouncing => busy,
        _ => &[],
    };
    let effective: u64 = lost.iter().map(|it| it.effective_time.0).sum();
    let all = time(&of_run) + gpu.accounts.unobserved.time.0;
    time(lost).saturating_sub(effective) as f64 / all.max(1) as f64
}

/// Those of observed time, the three that are idle first.
const fn accounts(gpu: &Gpu) -> [AccountTotals; 6] {
    let of = gpu.accounts;
    let busy = [of.underutilized, of.productive, of.compute_bound];
    [of.idle_held, of.idle_free, of.idle_unknown, busy[0], busy[1], busy[2]]
}

fn time(accounts: &[AccountTotals]) -> u64 {
    accounts.iter().map(|it| it.time.0).sum()
}

fn node(gpu: &Gpu) -> Option<&String> {
    NODES.iter().find_map(|name| gpu.attributes.get(*name))
}

fn suppose_little_memory(gpu: &mut Gpu) {
    let Some(total) = gpu.memory_total else { return };
    let supposed = SUPPOSED_MEMORY * total.get() as f64;
    gpu.metrics.remove(POOL);
    for bytes in gpu.memory.iter_mut().filter(|bytes| !bytes.is_nan()) {
        *bytes = supposed;
    }
    gpu.sensors.memory_in_use =
        Some(Percentiles { p5: supposed, p50: supposed, p95: supposed, max: supposed });
}

/// A title after a condition: its first letter is small, unless a name or an abbreviation begins it.
fn in_a_sentence(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next();
    match first.filter(|_| {
        letters.clone().next().is_some_and(|second| second.is_lowercase() || second == ' ')
    }) {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::lever::Lever;
    use crate::recommendation::Effort;
    use crate::window::Accounts;
    use phasemeter_meter::pattern::Pattern;
    use phasemeter_meter::units::{Bytes, Timestamp};
    use phasemeter_savings::estimate::Estimate;

    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3_600);

    /// Steady at 40% for an hour, with a block of 60 of 80 GiB.
    fn gpu(id: &str, workload: Workload) -> Gpu {
        let underutilized = AccountTotals {
            time: HOUR,
            effective_time: Nanos(HOUR.0 / 10 * 4),
            ..AccountTotals::default()
        };
        Gpu {
            id: id.to_owned(),
            workload,
            memory_total: Bytes::new(80 << 30),
            accounts: Accounts { underutilized, ..Accounts::default() },
            pattern: Some(Pattern { kind: PatternKind::Steady, period: None, duty_cycle: None }),
            metrics: BTreeMap::from([(POOL.to_owned(), 0.75)]),
            utilization: vec![0.4, f64::NAN, 0.4],
            memory: vec![6.4e10; 3],
            ..Gpu::default()
        }
    }

    fn window(gpus: Vec<Gpu>) -> Window {
        Window {
            start: Timestamp::EPOCH,
            end: Timestamp::EPOCH + HOUR,
            is_final: true,
            experiment_id: String::new(),
            trace_id: String::new(),
            attributes: BTreeMap::new(),
            utc_offset: None,
            step: Nanos::from_secs(1_200),
            metrics: BTreeMap::new(),
            gpus,
            offers: Vec::new(),
            previous: Vec::new(),
            load: Vec::new(),
        }
    }

    fn recommendation(lever: Lever, gpus: &[&str]) -> Recommendation {
        let fraction = |value| Fraction::new(value).unwrap();
        Recommendation {
            code: format!("test.{lever}"),
            target: Target::Waste(WasteCategory::Underload),
            lever,
            title: "Change it".to_owned(),
            action: "Do.".to_owned(),
            rationale: "So it is.".to_owned(),
            saving: Estimate { low: fraction(0.1), expected: fraction(0.2), high: fraction(0.3) },
            confidence: fraction(0.8),
            evidence: BTreeMap::new(),
            gpus: gpus.iter().map(|&id| id.to_owned()).collect(),
            kind: RecommendationKind::Saving,
            effort: Effort::Low,
            reversible: true,
            remediation: None,
        }
    }

    /// A larger batch for each GPU that trains, more requests for one that serves, a share for those that use less than
    /// half of their memory or SMs, and fewer replicas of those with a job of their own.
    fn advise(window: &Window) -> Vec<Recommendation> {
        let of = |lever, gpu: &Gpu| recommendation(lever, &[&gpu.id]);
        let each = window.gpus.iter().flat_map(|gpu| {
            let is_small = gpu.memory.iter().all(|bytes| *bytes < 4e10 || bytes.is_nan());
            let is_light = gpu.sensors.sm_activity.is_some_and(|activity| activity < 0.5);
            let levers = [
                (gpu.workload == Workload::Training).then_some(Lever::Batch),
                (gpu.workload == Workload::Serving).then_some(Lever::Concurrency),
                (is_small || is_light).then_some(Lever::Mps),
                gpu.attributes.contains_key(JOBS[0]).then_some(Lever::Replicas),
            ];
            levers.into_iter().flatten().map(move |lever| of(lever, gpu)).collect::<Vec<_>>()
        });
        each.collect()
    }

    /// What is recommended in addition: titles and GPUs.
    fn found(window: &Window) -> Vec<(String, String)> {
        let given = advise(window);
        let more = conditional(window, &[given.iter().collect()], |window| vec![advise(window)]);
        for it in more.iter().flatten() {
            assert!(it.saving == Saving::default() && it.remediation.is_none());
            assert!(it.code.ends_with(".conditional") && it.confidence.as_f64() < 0.5);
            assert!(it.rationale.starts_with("So it is. It could save up to 30% of the cost"));
            assert!(
                it.title.starts_with("If ") && it.title.contains(": change it"),
                "{}",
                it.title
            );
        }
        let one = |it: &Recommendation| {
            (it.title.split(':').next().unwrap_or_default().to_owned(), it.gpus.join(" "))
        };
        more.iter().flatten().map(one).collect()
    }

    fn pairs(all: &[(String, String)]) -> Vec<(&str, &str)> {
        all.iter().map(|(title, gpus)| (title.as_str(), gpus.as_str())).collect()
    }

    #[test]
    fn unknown_kind_gets_both_branches() {
        let mut window = window(vec![gpu("a", Workload::Unknown), gpu("b", Workload::Training)]);
        window.gpus[0].metrics.clear();
        let kinds = [("If this is training", "a"), ("If it serves requests", "a")];
        assert_eq!(pairs(&found(&window))[..2], kinds);
        window.gpus[0].metrics.insert(FP64.to_owned(), 0.3);
        assert!(found(&window).iter().all(|(title, _)| !title.contains("training")), "no model");
    }

    #[test]
    fn only_waste_without_advice_is_judged_by_what_may_be() {
        assert_eq!(
            found(&window(vec![gpu("a", Workload::Training)])),
            [],
            "a larger batch is given"
        );
        let block = found(&window(vec![gpu("a", Workload::Interactive)]));
        assert_eq!(pairs(&block), [("If a third of the memory suffices", "a")]);
        let other = window(vec![gpu("a", Workload::Serving), gpu("b", Workload::Training)]);
        assert!(found(&other).iter().all(|(title, _)| !title.contains("memory")), "they fill it");
        let mut busy = gpu("a", Workload::Interactive);
        busy.accounts.underutilized.effective_time = HOUR;
        assert_eq!(found(&window(vec![busy])), [], "nothing is wasted");
    }

    #[test]
    fn activity_of_a_batch_job_and_work_of_each_gpu_are_supposed() {
        let batch = |id| Gpu { metrics: BTreeMap::new(), ..gpu(id, Workload::Batch) };
        let light = "If little of the GPU is active while it works";
        assert_eq!(pairs(&found(&window(vec![batch("a")]))), [(light, "a")]);
        let own = "If each GPU works on its own";
        let both = found(&window(vec![batch("a"), batch("b")]));
        // The first set of GPUs, and the second.
        assert_eq!(pairs(&both), [(light, "a"), (light, "b"), (own, "a"), (own, "b")]);
        let mut known = window(vec![batch("a"), batch("b")]);
        known.attributes.insert(JOBS[2].to_owned(), "7".to_owned());
        assert_eq!(found(&known).len(), 2, "they have one job");
    }

    #[test]
    fn title_is_read_on_after_the_condition() {
        assert_eq!(in_a_sentence("Use a smaller GPU"), "use a smaller GPU");
        assert_eq!(in_a_sentence("A GPU with more memory"), "a GPU with more memory");
        assert_eq!(in_a_sentence("MIG for each"), "MIG for each");
    }
}
