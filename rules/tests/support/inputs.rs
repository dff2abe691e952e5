//! Inputs of policies: a window and a quote request with every field set.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use phasemeter_meter::activity::{Activity, Quiet};
use phasemeter_meter::holder::{AllocationMethod, HolderKind};
use phasemeter_meter::lengths::Lengths;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::pauses::{MemoryInUse, Pauses};
use phasemeter_meter::price::{PaymentPlan, Price, PriceRange};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp};
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::{
    AccountTotals, Accounts, Gpu, HolderTotals, HourOfWeek, Load, LoadBucket, LoadDistribution,
    LoadHour, MEAN_SECONDS, Offer, Percentiles, Previous, Sensors, ThrottleReason, Throttling,
    Window, WindowHolder,
};
use phasemeter_rules::workload::Workload;

/// An hour of `gpus` bouncing GPUs, with every field set and `points` points per column.
pub(crate) fn window(gpus: usize, points: usize) -> Window {
    let start = Timestamp::from_nanos(1_785_110_400_000_000_000).unwrap();
    let column = |scale: f64| -> Vec<f64> {
        (0..points).map(|i| if i == 1 { f64::NAN } else { scale * (i % 2) as f64 }).collect()
    };
    let account = |seconds: u64| AccountTotals {
        time: Nanos::from_secs(seconds),
        effective_time: Nanos::from_secs(seconds / 2),
        cost: NanoUsd(1_000_000 * i128::from(seconds)),
        utilized_cost: NanoUsd(500_000 * i128::from(seconds)),
    };
    let price = Price {
        provider: Some("aws".to_owned()),
        as_of: "2026-07-20".parse().ok(),
        ..Price::given(Rate::parse("3.6").unwrap(), Some(PaymentPlan::OnDemand), "the price book")
    };
    let gpu = |index: usize| Gpu {
        id: format!("GPU-{index}"),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        memory_total: Bytes::from_mebibytes(81_559),
        power_limit: Milliwatts::new(700_000),
        accounts: Accounts {
            idle_held: account(1_000),
            idle_free: account(200),
            idle_unknown: account(0),
            underutilized: account(600),
            productive: account(700),
            compute_bound: account(1_000),
            unobserved: account(100),
        },
        waste: WasteByCategory {
            starvation: NanoUsd(1_000_000_000),
            idle: NanoUsd(500_000_000),
            underload: NanoUsd(250_000_000),
        },
        pattern: Some(Pattern {
            kind: PatternKind::Bouncing,
            period: Some(Nanos::from_secs(42)),
            duty_cycle: Some(500_000),
        }),
        price: Some(price.clone()),
        work_done: BTreeMap::from([("samples".to_owned(), 200_000.0)]),
        utilization: column(1.0),
        power: column(650.0),
        memory: Vec::new(),
        metrics: BTreeMap::from([("energy.joules".to_owned(), 1.5e6)]),
        attributes: BTreeMap::from([("host.name".to_owned(), "node-1".to_owned())]),
        workload: Workload::Training,
        interruptible: true,
        activity: activity(),
        interval: Some(Nanos::SECOND),
        week: vec![HourOfWeek { observed: Nanos::from_secs(60), idle: Nanos::from_secs(6) }; 168],
        sensors: sensors(),
        holders: vec![holder(start)],
    };
    Window {
        start,
        end: start + Nanos::from_secs(3_600),
        is_final: true,
        experiment_id: "train-7".to_owned(),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        attributes: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        utc_offset: Some(7_200),
        step: Nanos::from_secs(6),
        gpus: (0..gpus).map(gpu).collect(),
        metrics: BTreeMap::from([("queue.depth".to_owned(), 3.0)]),
        offers: vec![offer()],
        previous: vec![previous(start)],
        load: (gpus > 0).then(load).into_iter().collect(),
    }
}

fn holder(first_touch: Timestamp) -> WindowHolder {
    let totals =
        |seconds| HolderTotals { time: Nanos::from_secs(seconds), cost: NanoUsd(1_000_000) };
    WindowHolder {
        name: "ml/train-0".to_owned(),
        kind: HolderKind::Container,
        namespace: Some("ml".to_owned()),
        pod: Some("train-0".to_owned()),
        container: Some("main".to_owned()),
        uid: Some("cf1f6c4b-6ff4-4a5a-8fd1-1f1d3c6f8c1e".to_owned()),
        job: None,
        is_current: true,
        granted: Some(0.25),
        first_touch: Some(first_touch),
        used: totals(600),
        granted_unused: totals(290),
        never_touched: totals(10),
        method: AllocationMethod::ByUse,
    }
}

fn load() -> Load {
    let bucket = |percent, seconds| LoadBucket { percent, time: Nanos::from_secs(seconds) };
    let distribution = |mean_seconds| LoadDistribution {
        mean_seconds,
        buckets: vec![bucket(0, 5), bucket(98, 55)],
    };
    Load {
        gpus: vec!["GPU-0".to_owned()],
        distributions: MEAN_SECONDS.map(distribution).to_vec(),
        week: vec![LoadHour { hour: 17, buckets: vec![bucket(52, 60)] }],
    }
}

fn sensors() -> Sensors {
    let percentiles = |p5: f64| Percentiles { p5, p50: 2.0 * p5, p95: 3.0 * p5, max: 4.0 * p5 };
    Sensors {
        sm_clock: Some(1_410.5),
        max_sm_clock: Some(1_980.0),
        temperature: Some(61.25),
        max_temperature: Some(74.0),
        busy_power: Some(percentiles(150.5)),
        memory_in_use: Some(percentiles(1e10)),
        sm_activity: Some(0.625),
        tensor_activity: Some(0.25),
        dram_activity: Some(0.125),
        throttling: vec![
            Throttling { reason: ThrottleReason::PowerCap, share: 0.75 },
            Throttling { reason: ThrottleReason::HardwareThermal, share: 0.0 },
        ],
        xids: BTreeMap::from([(63, 2), (79, 1)]),
    }
}

fn offer() -> Offer {
    let rate = Rate::parse("0.805").unwrap();
    Offer {
        model: "NVIDIA L4".to_owned(),
        gpus: NonZeroU32::MIN,
        memory: Bytes::from_mebibytes(24_576),
        price: Price {
            provider: Some("aws".to_owned()),
            region: Some("us-east-1".to_owned()),
            instance_type: Some("g6.xlarge".to_owned()),
            as_of: "2026-07-20".parse().ok(),
            ..Price::given(rate, Some(PaymentPlan::OnDemand), "the price book")
        },
    }
}

fn previous(first_given: Timestamp) -> Previous {
    Previous {
        policy: "sharing".to_owned(),
        code: "sharing.mig".to_owned(),
        gpus: vec!["GPU-0".to_owned()],
        first_given,
        still_given: true,
    }
}

fn activity() -> Activity {
    let quiet = |time, held| Quiet { time: Nanos::from_secs(time), held: Nanos::from_secs(held) };
    Activity {
        quiet: quiet(1_000, 800),
        stretches: 40,
        longest: Nanos::from_secs(610),
        in_stretches: [700, 610, 0].map(Nanos::from_secs),
        before_work: quiet(610, 0),
        after_work: quiet(5, 5),
        pauses: Pauses {
            lengths: Lengths {
                count: 2,
                total: Nanos::from_secs(90),
                logarithms: 72_478,
                squares: 2_626_530_242,
            },
            held: Nanos::from_secs(80),
            after_unobserved: 1,
            periods: Lengths {
                count: 1,
                total: Nanos::from_secs(100),
                logarithms: 37_418,
                squares: 1_400_106_724,
            },
            memory: MemoryInUse { kibibytes: 2_048, readings: 2 },
            memory_at_work: MemoryInUse { kibibytes: 6_144, readings: 3 },
        },
    }
}

/// A quote request with every field set.
pub(crate) fn request() -> QuoteRequest {
    QuoteRequest {
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        provider: Some("aws".to_owned()),
        region: Some("us-east-1".to_owned()),
        instance_type: Some("p5.48xlarge".to_owned()),
        plan: Some(PaymentPlan::Spot),
        time: Timestamp::from_nanos(1_785_110_400_000_000_000).unwrap(),
        gpus: NonZeroU32::new(8).unwrap(),
        priced: 4,
        listed: Some(Price {
            rate: Rate::parse("6.88").unwrap(),
            plan: Some(PaymentPlan::Spot),
            provider: Some("aws".to_owned()),
            region: Some("us-east-1".to_owned()),
            instance_type: Some("p5.48xlarge".to_owned()),
            source: "the price book".to_owned(),
            as_of: "2026-07-20".parse().ok(),
            estimate: Some(PriceRange {
                rows: 3,
                low: Rate::parse("6.5").unwrap(),
                high: Rate::parse("14.6").unwrap(),
                anywhere: true,
            }),
        }),
        attributes: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        is_offer: true,
    }
}
