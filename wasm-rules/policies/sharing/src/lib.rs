//! Recommends sharing GPUs that are mostly idle or small in time and memory, and using free ones.
//!
//! A GPU that is idle with bursts cannot be switched off, but its task can share a GPU, in a slice of
//! MIG where there is one. Memory decides whether it fits, so nothing is recommended without it. A
//! free GPU of a busy instance cannot be given back: it is capacity for others, unless the work fits fewer
//! instances, or one with fewer GPUs. Instances of which nothing works are left to the policy `lifecycle`.

mod consolidate;
mod divide;
mod find;
mod owners;
mod resize;
mod text;
mod untouched;

use consolidate::{Pack, packs};
use find::{Finding, find, unused};
use phasemeter_diagnoses::{QuietTime, Unit, is_credible, is_untouched, share, units};
use phasemeter_policy::{Gpu, HOUR, Response, Window, groups};
use resize::Resize;

phasemeter_policy::settings! {
    /// Minimum share of the bill that others could use.
    min_lost: number = 0.1 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 1500.0 in 0.0..=86400.0;
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let units = units(window);
    let is_known = |unit: &&Unit<'_>| unit.gpus.iter().all(|gpu| is_credible(gpu));
    let rented: Vec<_> =
        units.iter().filter(is_known).filter(|unit| !is_quiet(unit, window)).collect();
    let is_free = |gpu: &Gpu| unused(gpu).is_some() && !is_untouched(gpu, window);
    let packs = packs(&rented, window, is_free);
    let is_packed = |gpu: &Gpu| packs.iter().any(|pack| pack.holds(gpu));
    let others = rented.iter().filter(|unit| !unit.gpus.iter().any(|gpu| is_packed(gpu)));
    let resizes: Vec<_> = others.filter_map(|unit| Resize::of(unit, window, is_free)).collect();
    let findings = rented.iter().flat_map(|unit| {
        let others = unit.gpus.iter().filter(|gpu| !is_packed(gpu) && !is_untouched(gpu, window));
        others.filter_map(|gpu| find(gpu, unit, window, settings))
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        a.action == b.action && a.target == b.target && a.kind == b.kind && a.why == b.why
    };
    let groups = groups(findings, similar);
    let packed = packs.iter().map(Pack::recommendation);
    let resized = resizes.iter().map(Resize::recommendation);
    let shared = groups.iter().filter_map(|group| text::recommendation(group, window));
    let all = packed.chain(resized).chain(shared).chain(owners::recommend(window));
    all.chain(untouched::recommend(window, settings)).collect()
}

/// Whether the instance itself is the matter, since no GPU of it works for hours.
fn is_quiet(unit: &Unit<'_>, window: &Window) -> bool {
    if !unit.is_whole {
        return false;
    }
    let time = QuietTime::of(unit, window);
    let hours = time.at_least(unit, HOUR, HOUR);
    hours.iter().map(|period| period.1 - period.0).sum::<f64>() >= share::HARDLY_ANY * time.length
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, holder, price, steady, window, with_memory};
    use phasemeter_policy::{
        PatternKind, Plan, Price, Recommendation, RecommendationKind, Target, Workload,
    };

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus)).recommendations
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
        let found = recommendations(vec![alone(notebook()), alone(notebook())]);
        assert_eq!((levers(&found), found[0].kind), (vec!["mig"], RecommendationKind::Saving));
        let one = recommendations(vec![alone(notebook())]);
        assert_eq!(one[0].kind, RecommendationKind::Capacity, "no other task is known");
        // 30 of 80 GB need half of the memory, so half of the GPU is free for others.
        assert!((found[0].saving.high - 0.35).abs() < 1e-9 && found[0].saving.low == 0.0);
        let node = recommendations(vec![notebook(), with_memory(steady(7_200, 0.95), 60.0)]);
        assert_eq!((levers(&node), node[0].kind), (vec!["mig"], RecommendationKind::Capacity));
        let a10 = Gpu { model: "NVIDIA A10G".to_owned(), ..alone(notebook()) };
        assert!(recommendations(vec![a10.clone()])[0].remediation.is_none(), "whose is it?");
        let held = Gpu { holders: vec![holder("a", 72.0, 7_128.0, 0.0)], ..a10 };
        let found = recommendations(vec![held]);
        assert_eq!(found[0].remediation.as_ref().unwrap().kind, "nvidia.time-slicing");
        assert!(recommendations(vec![alone(Gpu { memory: Vec::new(), ..notebook() })]).is_empty());
    }

    #[test]
    fn small_work_of_larger_gpus_is_moved_to_free_ones() {
        let of = |model: &str, level: f64, gib: f64| {
            let gpu = with_memory(steady(7_200, level), gib);
            Gpu { model: model.to_owned(), memory_total_bytes: Some(15 << 30), ..gpu }
        };
        let action = |level: f64, gib: f64| {
            let mut gpus = vec![of("Tesla T4", 0.6, 6.0), of("Tesla T4", 0.0, 0.0)];
            gpus[1].activity.quiet.held_seconds = 0.0;
            gpus[1].accounts.idle_free = gpus[1].accounts.idle();
            gpus[1].accounts.idle_held = gpus[0].accounts.idle_held;
            gpus.push(of("NVIDIA A100-SXM4-40GB", level, gib));
            let found = recommendations(gpus);
            let free = found.into_iter().find(|one| one.code == "sharing.free").unwrap();
            free.action
        };
        let moved = action(0.06, 2.6);
        assert!(
            moved.starts_with("Move the small work of 1 NVIDIA A100-SXM4-40GB (6.0%"),
            "{moved}"
        );
        assert!(
            action(0.3, 2.6).starts_with("Let the scheduler"),
            "more than a T4 does at half load"
        );
        assert!(action(0.06, 14.5).starts_with("Let the scheduler"), "it does not fit");
    }

    #[test]
    fn gpu_of_several_holders_is_not_shared_again() {
        let holders = vec![holder("a", 72.0, 3_528.0, 0.0), holder("b", 0.0, 3_600.0, 0.0)];
        let shared = |gpu: Gpu| Gpu { holders: holders.clone(), ..gpu };
        assert!(
            recommendations(vec![alone(shared(notebook())), alone(shared(notebook()))]).is_empty()
        );
        let one = Gpu { holders: holders[..1].to_vec(), ..alone(notebook()) };
        assert_eq!(levers(&recommendations(vec![one])), ["mig"]);
        // Containers of one pod do not share it with others.
        let pod = Gpu { holders: vec![holders[0].clone(); 2], ..alone(notebook()) };
        assert_eq!(levers(&recommendations(vec![pod])), ["mig"]);
    }

    #[test]
    fn holder_of_unused_gpu_is_named() {
        let held = |name: &str| Gpu {
            holders: vec![holder(name, 0.0, 7_200.0, 0.0)],
            ..with_memory(steady(7_200, 0.0), 1.4)
        };
        let busy = || with_memory(steady(7_200, 0.95), 60.0);
        let one = recommendations(vec![held("ml/eval-0"), busy()]);
        assert!(
            one[0]
                .action
                .starts_with("For ml/eval-0: save what the process holds, then delete the pod"),
            "{}",
            one[0].action
        );
        let names = ["a", "b", "c", "d"].map(held);
        let many = recommendations([names.to_vec(), vec![busy()]].concat());
        assert!(many[0].action.starts_with("For a, b, c and 1 more: "), "{}", many[0].action);
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
        // Eight of the nine free GPUs are given back: one whole instance.
        assert!((found[0].saving.high - 8.0 / 9.0).abs() < 1e-9, "{:?}", found[0].saving);
        assert_eq!(levers(&of([5, 4])), ["bin_pack"], "nine do not fit eight");
        assert_eq!(levers(&of([4, 0])), ["bin_pack"], "an empty instance is given back as it is");
    }

    #[test]
    fn light_work_of_two_instances_fits_one() {
        let node = |name: &str, gib: f64, workload: Workload| {
            let name = name.to_owned();
            let gpu = move |index: usize| {
                let level =
                    move |second: usize| if (second / 60 + index * 3) % 7 < 3 { 0.3 } else { 0.15 };
                let gpu = with_memory(gpu(PatternKind::Steady, 7_200, level), gib);
                let price = Price { instance_type: Some("p5.48xlarge".to_owned()), ..price() };
                let attributes = vec![("host.name".to_owned(), name.clone())];
                Gpu { price: Some(price), attributes, workload, ..gpu }
            };
            (0..8).map(gpu).collect::<Vec<_>>()
        };
        let of = |gib: f64, workload: Workload| {
            recommendations([node("a", gib, workload), node("b", gib, workload)].concat())
        };
        let found = of(9.0, Workload::Unknown);
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("sharing.double", 16));
        assert_eq!((found[0].saving.low, found[0].saving.high), (0.0, 0.5));
        let is_double = |one: &Recommendation| one.code == "sharing.double";
        assert!(!of(60.0, Workload::Unknown).iter().any(is_double), "two do not fit");
        assert!(!of(9.0, Workload::Training).iter().any(is_double), "ranks of one job");
    }

    #[test]
    fn stage_of_a_job_is_not_divided() {
        let stage = |level: f64| with_memory(steady(7_200, level), 20.0);
        assert!(recommendations(vec![stage(0.9), stage(0.28)]).is_empty());
        let pod = |gpu: Gpu, name: &str| Gpu {
            attributes: vec![("k8s.pod.name".to_owned(), name.to_owned())],
            ..gpu
        };
        let apart = vec![pod(stage(0.9), "a"), pod(stage(0.28), "b")];
        assert_eq!(levers(&recommendations(apart)), ["mig"]);
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
