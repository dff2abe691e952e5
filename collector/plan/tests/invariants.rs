//! Invariants of plans over random inputs.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

use phasemeter_meter::mig::{MigLayout, Profile};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_plan::batching::Batcher;
use phasemeter_plan::capacity::gpus_for;
use phasemeter_plan::commitment::{self, Commitment};
use phasemeter_plan::memory::{
    Architecture, Candidate, Checkpointing, Fits, Job, Model, Part, PartKind, Split, Stage,
    data_parallel, divided, fit, inference, total,
};
use phasemeter_plan::own;
use phasemeter_plan::select::{self, Offer};
use phasemeter_plan::sharing::{self, Mode, Workload};
use phasemeter_plan::spot::{optimal_interval, redone};
use phasemeter_plan::units::{Count, PerSecond, Ratio, Size};
use proptest::prelude::*;

const A100: &str = "NVIDIA A100-SXM4-80GB";

fn rate(nanos: u64) -> Rate {
    Rate::new(nanos).unwrap()
}

fn comparison(on_demand: Rate, committed: Commitment, hours: Nanos) -> commitment::Comparison {
    commitment::Request {
        gpus: 1,
        hours: Some(hours),
        measured: None,
        month_hours: 720,
        on_demand,
        spot: None,
        committed: vec![committed],
        by_hour: Vec::new(),
    }
    .compare()
    .unwrap()
}

fn part(kind: PartKind, bytes: u64) -> Part {
    Part { name: "part", low: bytes, high: bytes, kind, symbols: "", numbers: String::new() }
}

fn shape(layers: u64, heads: u64, kv_heads: u64) -> Architecture {
    Architecture { layers, hidden: heads * 64, heads, kv_heads, head_size: 64 }
}

fn model(batch: u64, architecture: Option<Architecture>) -> Model {
    let job = Job::Training {
        gradient_bits: 16,
        states: 2,
        state_bits: 32,
        master: false,
        checkpointing: Checkpointing::No,
        adapters: None,
    };
    Model {
        parameters: 1,
        active_parameters: None,
        job,
        weight_bits: 16,
        architecture,
        batch,
        sequence: None,
        flash_attention: false,
        activations: None,
        cache_bits: 16,
        overhead: Size(0),
    }
}

proptest! {
    /// One nano-second before the break-even on demand is not dearer, one after it is not cheaper.
    #[test]
    fn break_even_is_where_costs_cross(
        on_demand in 1_000_000..20_000_000_000_u64,
        reserved in 1_000_000..20_000_000_000_u64,
        upfront in 0..10_000_000_000_000_i128,
    ) {
        let committed = Commitment {
            plan: PaymentPlan::Reserved3y,
            rate: rate(reserved),
            upfront: NanoUsd(upfront),
        };
        let month = Nanos(720 * NANOS_PER_HOUR);
        let monthly = committed.monthly(720);
        match committed.break_even(rate(on_demand), 720) {
            Some(at) => {
                prop_assert!(rate(on_demand).cost(at) <= monthly);
                let after = Nanos(at.0 + NANOS_PER_HOUR / 1_000_000);
                prop_assert!(rate(on_demand).cost(after) >= monthly || after > month);
            }
            None => prop_assert!(rate(on_demand).cost(month) <= monthly),
        }
    }

    /// A commitment costs the same however much it is used; on demand more with more use.
    #[test]
    fn committed_cost_ignores_use_and_hourly_cost_grows(
        (less, more) in (0..=720_u64).prop_flat_map(|less| (Just(less), less..=720)),
        reserved in 1..20_000_000_000_u64,
    ) {
        let committed =
            Commitment { plan: PaymentPlan::Reserved1y, rate: rate(reserved), upfront: NanoUsd::ZERO };
        let at = |hours| comparison(rate(3_060_000_000), committed, Nanos(hours * NANOS_PER_HOUR));
        let (less, more) = (at(less), at(more));
        prop_assert_eq!(less.plans[1].monthly, more.plans[1].monthly);
        prop_assert!(less.plans[0].monthly <= more.plans[0].monthly);
        prop_assert_eq!(more.plans[1].saved, more.plans[0].yearly - more.plans[1].yearly);
    }

    /// No other number of committed GPUs costs less.
    #[test]
    fn coverage_is_cheapest_base(
        by_hour in prop::collection::vec(0..12_u64, 1..30),
        reserved in 100_000_000..4_000_000_000_u64,
    ) {
        prop_assume!(by_hour.iter().any(|&gpus| gpus > 0));
        let on_demand = rate(3_000_000_000);
        let committed =
            Commitment { plan: PaymentPlan::Reserved1y, rate: rate(reserved), upfront: NanoUsd::ZERO };
        let request = commitment::Request {
            gpus: 1,
            hours: None,
            measured: None,
            month_hours: 720,
            on_demand,
            spot: None,
            committed: vec![committed],
            by_hour: by_hour.clone(),
        };
        let coverage = request.compare().unwrap().coverage.unwrap();
        let parts = by_hour.len() as i128;
        let cost = |base: u64| {
            let rented: u64 = by_hour.iter().map(|gpus| gpus.saturating_sub(base)).sum();
            let rented = on_demand.hourly().times(720).ratio(i128::from(rented), parts).unwrap();
            committed.monthly(720).times(base) + rented
        };
        let slack = NanoUsd(i128::from(coverage.most));
        for base in 0..=coverage.most {
            prop_assert!(coverage.monthly <= cost(base) + slack, "base {}", base);
        }
        let exact = cost(coverage.base);
        prop_assert!((coverage.monthly - exact).0.abs() <= slack.0);
    }

    /// Enough, and not one too many.
    #[test]
    fn capacity_is_smallest_that_suffices(
        demand in 0.1..1e6_f64,
        throughput in 0.1..1e4_f64,
        target in 10_000..=1_000_000_u64,
        headroom in 0..3_000_000_u64,
    ) {
        let throughput = PerSecond::new(throughput).unwrap();
        let (target, headroom) = (Ratio::from_ppm(target), Ratio::from_ppm(headroom));
        let found = gpus_for(demand, throughput, target, headroom).unwrap();
        let served = |gpus: u64| gpus as f64 * throughput.get() * target.get();
        let required = demand * (1.0 + headroom.get());
        prop_assert!(served(found.gpus) >= required * (1.0 - 1e-6));
        prop_assert!(served(found.gpus - 1) < required);
        prop_assert!(found.rounded_twice >= found.gpus);
        let more = gpus_for(demand * 2.0, throughput, target, headroom).unwrap();
        prop_assert!(more.gpus >= found.gpus);
    }

    /// The largest batch fits, and one more does not.
    #[test]
    fn largest_batch_fits_and_next_does_not(
        fixed in 0..100_000_000_000_u64,
        per_sample in 1..10_000_000_000_u64,
        batch in 1..64_u64,
        memory in 1..200_000_000_000_u64,
    ) {
        let parts =
            |batch| [part(PartKind::Weights, fixed), part(PartKind::Batch, per_sample * batch)];
        let candidate = Candidate { name: String::new(), memory: Size(memory) };
        let found = fit(&candidate, &model(batch, None), &parts(batch), Ratio::ZERO);
        prop_assert_eq!(found.fits == Fits::Yes, total(&parts(batch)).1 <= memory);
        match found.largest_batch {
            Some(largest) => {
                prop_assert!(total(&parts(largest)).1 <= memory);
                prop_assert!(total(&parts(largest + 1)).1 > memory);
            }
            None => prop_assert!(total(&parts(1)).1 > memory),
        }
    }

    /// So many GPUs hold what they divide, and one fewer does not.
    #[test]
    fn fewest_data_parallel_gpus_are_found(
        sizes in prop::array::uniform5(0..200_000_000_000_u64),
        memory in 1..200_000_000_000_u64,
        layers in prop::option::of(1..100_u64),
    ) {
        let kinds = [
            PartKind::Weights,
            PartKind::Gradients,
            PartKind::States,
            PartKind::Batch,
            PartKind::Overhead,
        ];
        let parts: Vec<Part> = kinds.into_iter().zip(sizes).map(|(it, size)| part(it, size)).collect();
        let model = model(1, layers.map(|layers| shape(layers, 8, 8)));
        for stage in Stage::ALL {
            let (shared, each) = divided(&model, &parts, stage);
            let holds = |gpus: u64| u128::from(shared.div_ceil(gpus)) + u128::from(each) <= memory.into();
            match data_parallel(&model, &parts, stage, memory) {
                Some(gpus) => prop_assert!(holds(gpus) && (gpus == 1 || !holds(gpus - 1))),
                None => prop_assert!(each >= memory),
            }
        }
    }

    /// The split for inference fits, and no smaller number of GPUs does, by trying all.
    #[test]
    fn smallest_split_for_inference_is_found(
        weights in 0..300_000_000_000_u64,
        cache in 0..300_000_000_000_u64,
        memory in 1..100_000_000_000_u64,
        layers in 1..40_u64,
        (kv_heads, group) in (1..9_u64, 1..5_u64),
    ) {
        let parts = [part(PartKind::Weights, weights), part(PartKind::Batch, cache)];
        let architecture = shape(layers, kv_heads * group, kv_heads);
        let fits = |tensor: u64, pipeline: u64| {
            let is_even = (kv_heads * group) % tensor == 0
                && (kv_heads % tensor == 0 || tensor.is_multiple_of(kv_heads));
            let part_of = |bytes: u64, parts: u64| bytes as f64 / layers as f64 / parts as f64;
            let heads = kv_heads.div_ceil(tensor) as f64 / kv_heads as f64;
            let layer = part_of(weights, tensor) + part_of(cache, 1) * heads;
            is_even.then(|| layer * layers.div_ceil(pipeline) as f64)
        };
        let found = inference(architecture, &parts, memory, u64::MAX);
        if let Some(Split { tensor, pipeline }) = found {
            prop_assert!(fits(tensor, pipeline).unwrap() <= memory as f64);
        }
        let most = found.map_or(8 * layers, |split| split.gpus() - 1);
        for tensor in 1..=8 {
            for pipeline in (1..=layers).filter(|it| tensor * it <= most) {
                // Bytes are rounded up per layer.
                let slack = 2.0 * layers as f64;
                let fits = fits(tensor, pipeline).is_some_and(|it| it + slack <= memory as f64);
                prop_assert!(!fits, "{tensor} × {pipeline} fits, {found:?}");
            }
        }
    }

    /// Each workload is on exactly one GPU, and no GPU holds more than it has.
    #[test]
    fn packings_hold_each_workload_once_and_exceed_no_gpu(
        sizes in prop::collection::vec((1..72_u64, 0..=100_u64), 1..40),
    ) {
        let workloads: Vec<Workload> = sizes
            .iter()
            .map(|&(gib, percent)| Workload {
                name: "w".to_owned(),
                memory: Size(gib << 30),
                utilization: Ratio::from_ppm(percent * 10_000),
            })
            .collect();
        let request = sharing::Request {
            model: A100.to_owned(),
            memory: Size(80 << 30),
            workloads: workloads.clone(),
            headroom: Ratio::from_ppm(100_000),
            target: Ratio::ONE,
            today: None,
            price: None,
            partition: Vec::new(),
        };
        let layout = MigLayout::of(A100).unwrap();
        for packing in request.compute().unwrap().packings {
            let gpus = packing.gpus.unwrap();
            let mut placed: Vec<usize> = gpus.concat();
            placed.sort_unstable();
            prop_assert_eq!(placed, (0..workloads.len()).collect::<Vec<_>>());
            for gpu in &gpus {
                if packing.mode == Mode::Mig {
                    let profiles: Vec<&Profile> =
                        gpu.iter().map(|&it| &packing.profiles[it]).collect();
                    prop_assert!(layout.holds(&profiles));
                    for (&it, profile) in gpu.iter().zip(profiles) {
                        prop_assert!(workloads[it].memory.0 <= (profile.memory * 9) << 30);
                    }
                } else {
                    let memory: u64 = gpu.iter().map(|&it| workloads[it].memory.0).sum();
                    let used: u64 = gpu.iter().map(|&it| workloads[it].utilization.ppm()).sum();
                    prop_assert!(memory <= 72 << 30 && used <= 1_000_000);
                }
            }
        }
    }

    /// Shares of instances and what is left over are the bill.
    #[test]
    fn mig_shares_sum_to_bill(
        chosen in prop::collection::vec(0..6_usize, 0..7),
        bill in 0..1_000_000_000_000_000_i128,
    ) {
        let layout = MigLayout::of(A100).unwrap();
        let profiles: Vec<&Profile> = chosen.iter().map(|&it| &layout.profiles[it]).collect();
        prop_assume!(layout.holds(&profiles));
        let (parts, rest) = layout.divide(NanoUsd(bill), &profiles);
        prop_assert_eq!(parts.iter().copied().sum::<NanoUsd>() + rest, NanoUsd(bill));
        prop_assert!(rest >= NanoUsd::ZERO && parts.iter().all(|part| *part >= NanoUsd::ZERO));
    }

    /// A part of the hours above the break-even is cheaper owned, one below it is not.
    #[test]
    fn owned_break_even_is_where_costs_cross(
        purchase in 1_000..100_000_i128,
        watts in 100.0..2_000.0_f64,
        idle in 0.0..1.0_f64,
        rent in 500_000_000..12_000_000_000_u64,
    ) {
        let owned = own::Request {
            purchase: NanoUsd(purchase * 1_000_000_000),
            residual: NanoUsd::ZERO,
            years: 4,
            watts,
            idle_watts: Some(watts * idle),
            pue: 1.3,
            electricity: NanoUsd(120_000_000),
            rack: NanoUsd::ZERO,
            staff: NanoUsd::ZERO,
            rent: Some(rate(rent)),
            utilization: None,
        }
        .compute()
        .unwrap();
        let Some(at) = owned.break_even else { return Ok(()) };
        let cost = |used: f64| owned.per_used_hour(Ratio::from_ppm((used * 1e6) as u64));
        let rent = rate(rent).hourly();
        if let Some(more) = cost((at * 1.001).min(1.0)).filter(|_| at * 1.001 <= 1.0) {
            prop_assert!(more <= rent);
        }
        prop_assert!(cost(at * 0.999).is_none_or(|less| less >= rent));
    }

    /// Daly's interval is near Young's if writing is fast; the optimum repeats and writes least.
    #[test]
    fn young_interval_minimizes_lost_time(write in 1.0..300.0_f64, between in 3_600.0..1e6_f64) {
        let (young, daly) = optimal_interval(write, between);
        let lost = |interval: f64| redone(interval, 0.0, between) + write / interval;
        for factor in [0.5, 0.9, 1.1, 2.0] {
            prop_assert!(lost(young) <= lost(young * factor) * (1.0 + 1e-9));
        }
        prop_assert!((daly - young).abs() <= young * 0.5);
    }

    /// Cost is independent of the number of GPUs, and time falls with it.
    #[test]
    fn more_gpus_take_less_time_for_the_same_money(
        price in 1_000_000..20_000_000_000_u64,
        throughput in 0.01..1e6_f64,
        gpus in 1..1_000_u64,
        work in 1..1_000_000_000_000_u64,
    ) {
        let rank = |gpus| {
            let offer = Offer {
                name: "a".to_owned(),
                specs: None,
                gpus,
                price: rate(price),
                throughput: PerSecond::new(throughput),
            };
            select::Request {
                offers: vec![offer],
                work: Some(Count(work)),
                deadline: None,
                intensity: None,
                parameters: None,
            }
            .compute()
        };
        let (Ok(one), Ok(many)) = (rank(1), rank(gpus)) else { return Ok(()) };
        prop_assert_eq!(one.ranked[0].cost, many.ranked[0].cost);
        prop_assert!(many.ranked[0].time <= one.ranked[0].time);
    }

    /// A batch waits no longer than configured, unless the GPU is busy; equal seeds are equal.
    #[test]
    fn simulation_is_deterministic_and_bounded(arrivals in 1.0..500.0_f64, seed in any::<u64>()) {
        let batcher =
            Batcher { arrivals, wait: 0.05, max_batch: 32, batch_time: 0.03, item_time: 0.0 };
        let served = batcher.simulate(2_000, seed, 0.2);
        prop_assert_eq!(served, batcher.simulate(2_000, seed, 0.2));
        prop_assert!(served.p50 <= served.p99 && served.p50 >= 0.03);
        prop_assert!(served.mean_batch >= 1.0 && served.mean_batch <= 32.0);
        prop_assert!(served.utilization <= 1.0);
    }
}

#[test]
fn unknown_throughput_is_asked_for() {
    let offer = Offer {
        name: "NVIDIA L4".to_owned(),
        specs: None,
        gpus: 1,
        price: rate(1),
        throughput: None,
    };
    let request = select::Request {
        offers: vec![offer],
        work: None,
        deadline: None,
        intensity: None,
        parameters: None,
    };
    let error = request.compute().unwrap_err().to_string();
    assert!(error.starts_with("--offer NVIDIA L4: its throughput is unknown"), "{error}");
}
