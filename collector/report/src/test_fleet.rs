//! Fleets for tests: synthetic readings, metered by the real meter.

use std::sync::LazyLock;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::policies::PolicyResults;
use phasemeter_engine::pricing::EarlierPrices;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::{Container, Grant, Holder, HolderChange, HolderUse, Share};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price, PriceRange, Unpriced};
use phasemeter_meter::reading::{GpuIdentity, MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_rules::recommendation::{Effort, RecommendationKind};
use phasemeter_savings::recommendation::Target;
use phasemeter_savings::trial::Outcome;
use unicode_width::UnicodeWidthStr;

use super::experiment::Experiment;
use super::input::{GpuInput, Input, PoliciesInput};
use super::policies::{Range, Recommendation, Settlement, Stake, Trial};
use super::provenance::Provenance;

/// 2026-07-27 00:22:27 UTC.
pub(super) const START: u64 = 1_785_111_747;

/// No policy was evaluated.
static NO_RESULTS: LazyLock<PolicyResults> = LazyLock::new(PolicyResults::default);

/// There are no rules for alerts.
static NO_ALERTS: LazyLock<AlertRules> = LazyLock::new(AlertRules::default);

pub(super) const H100: &str = "NVIDIA H100 80GB HBM3";

/// A GPU whose meter has finished.
#[derive(Debug)]
pub(super) struct TestGpu {
    pub(super) identity: GpuIdentity,
    pub(super) meter: GpuMeter,
    pub(super) price: Result<Price, Unpriced>,
    pub(super) earlier: EarlierPrices,
    pub(super) memory_total: Option<Bytes>,
}

impl TestGpu {
    pub(super) fn new(index: u32, price: Result<Price, Unpriced>, readings: &[Reading]) -> Self {
        Self::with_memory(index, price, readings, Bytes::from_mebibytes(81_559))
    }

    pub(super) fn with_memory(
        index: u32,
        price: Result<Price, Unpriced>,
        readings: &[Reading],
        memory_total: Option<Bytes>,
    ) -> Self {
        Self::held(index, price, readings, memory_total, &[])
    }

    /// The same with holders.
    pub(super) fn held(
        index: u32,
        price: Result<Price, Unpriced>,
        readings: &[Reading],
        memory_total: Option<Bytes>,
        changes: &[HolderChange],
    ) -> Self {
        let rate = price.as_ref().ok().map(|price| price.rate);
        let mut meter = GpuMeter::new(MeterConfig::default(), rate, memory_total);
        changes.iter().for_each(|change| meter.change_holders(change.clone()));
        for reading in readings {
            let _late = meter.push(*reading, &mut ());
        }
        meter.finish(&mut ());
        let identity = GpuIdentity {
            name: index.to_string(),
            index: Some(index),
            model: Some(H100.to_owned()),
            memory_total,
            ..GpuIdentity::default()
        };
        Self { identity, meter, price, earlier: EarlierPrices::default(), memory_total }
    }
}

/// A pod.
pub(super) fn pod(name: &str) -> Holder {
    let (namespace, pod) = name.split_once('/').unwrap();
    Holder::Container(Container {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: None,
        container: "main".to_owned(),
    })
}

/// From so many seconds after the start on, each of these has one of `of` parts.
pub(super) fn assigned(seconds: u64, holders: &[Holder], of: u32) -> HolderChange {
    let grant = |holder: &Holder| Grant { holder: holder.clone(), share: Share::new(1, of) };
    HolderChange::Assigned {
        at: reading(seconds, 0).at,
        grants: holders.iter().map(grant).collect(),
    }
}

/// What a holder uses between so many seconds after the start.
pub(super) fn used(holder: &Holder, from: u64, to: u64, percent: u32) -> HolderChange {
    let utilization = Utilization::from_percent(percent).unwrap();
    HolderChange::Used(HolderUse {
        holder: holder.clone(),
        from: reading(from, 0).at,
        to: reading(to, 0).at,
        utilization,
        own: Some(utilization),
    })
}

pub(super) fn input<'a>(title: &str, gpus: &'a [TestGpu]) -> Input<'a> {
    Input {
        provenance: Provenance { title: title.to_owned(), ..Provenance::default() },
        experiment: Experiment {
            id: "train-42".to_owned(),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
            attributes: [("team".to_owned(), "vision".to_owned())].into(),
        },
        thresholds: phasemeter_meter::phase::Thresholds::default(),
        wall: phasemeter_meter::wall_time::WallOffset::default(),
        gpus: gpus
            .iter()
            .map(|gpu| GpuInput {
                identity: &gpu.identity,
                meter: &gpu.meter,
                part: None,
                price: &gpu.price,
                earlier: &gpu.earlier,
                unpriced_until: None,
                unlisted: Nanos::ZERO,
                absence: phasemeter_engine::pipeline::Absence::default(),
                memory_total: gpu.memory_total,
            })
            .collect(),
        work: Vec::new(),
        work_by_group: std::collections::BTreeMap::new(),
        served: Vec::new(),
        has_unit_costs: true,
        experiments: None,
        alerts: &NO_ALERTS,
        policies: PoliciesInput { results: &NO_RESULTS, pricers: &[], timed: false },
    }
}

/// A recommendation that may save a fifth of the bill of these GPUs.
pub(super) fn recommendation(target: &str, kind: &str, gpus: &[&str]) -> Recommendation {
    let kind = RecommendationKind::ALL.into_iter().find(|it| it.name() == kind).unwrap();
    let target = Target::ALL.into_iter().find(|it| it.name() == target).unwrap();
    Recommendation {
        policy: "test".to_owned(),
        code: "test".to_owned(),
        kind,
        effort: Effort::Low,
        reversible: true,
        target,
        lever: "other".parse().unwrap(),
        title: "Change something".to_owned(),
        action: "Change it.".to_owned(),
        rationale: "It helps.".to_owned(),
        confidence: 1.0,
        gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
        evidence: std::collections::BTreeMap::new(),
        proof: Some("replay"),
        trial: None,
        saving_fraction: Range { low: 0.0, expected: 0.1, high: 0.2 },
        saving_usd: None,
        at_stake: Stake::default(),
        counted: false,
        remediation: None,
    }
}

/// The trial of a hypothesis, with what it has shown.
pub(super) fn open_trial(settled: Option<Outcome>) -> Trial {
    Trial {
        supposes: "it helps",
        hours: 16,
        shows: "fewer dollars",
        on_other_gpu: false,
        command: "phasemeter trial".to_owned(),
        order: Some(1),
        settled: settled.map(|result| Settlement {
            result,
            saving_fraction: Range { low: 0.1, expected: 0.2, high: 0.3 },
            record: "one.trial.json".to_owned(),
        }),
    }
}

pub(super) fn user_price(dollars: &str) -> Result<Price, Unpriced> {
    Ok(Price::given(Rate::parse(dollars).unwrap(), None, "given on the command line"))
}

pub(super) fn estimated() -> Result<Price, Unpriced> {
    let rate = |dollars| Rate::parse(dollars).unwrap();
    Ok(Price {
        rate: rate("6.88"),
        plan: Some(PaymentPlan::OnDemand),
        provider: Some("aws".to_owned()),
        region: Some("us-east-1".to_owned()),
        instance_type: None,
        source: "aws/karpenter-provider-aws".to_owned(),
        as_of: Some("2025-07-20".parse().unwrap()),
        estimate: Some(PriceRange {
            rows: 12,
            low: rate("5.5"),
            high: rate("12.25"),
            anywhere: false,
        }),
    })
}

pub(super) fn unpriced() -> Result<Price, Unpriced> {
    let suggestions = ["NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"].map(str::to_owned).to_vec();
    Err(Unpriced::UnknownModel { model: "NVIDIA H100X".to_owned(), suggestions })
}

/// A reading `seconds` after the start.
pub(super) fn reading(seconds: u64, percent: u32) -> Reading {
    Reading {
        utilization: Ok(Utilization::from_percent(percent).unwrap()),
        ..empty_reading(seconds)
    }
}

/// A reading without any value.
pub(super) fn empty_reading(seconds: u64) -> Reading {
    Reading::at(Timestamp::default() + Nanos::from_secs(START + seconds))
}

/// The same with memory in use, at 300 W.
pub(super) fn full_reading(seconds: u64, percent: u32, mebibytes: u64) -> Reading {
    Reading {
        memory_used: Bytes::from_mebibytes(mebibytes),
        power: Milliwatts::new(300_000),
        ..reading(seconds, percent)
    }
}

/// One reading per second.
pub(super) fn every_second(seconds: u64, percent: impl Fn(u64) -> u32) -> Vec<Reading> {
    (0..=seconds).map(|second| full_reading(second, percent(second), 60_000)).collect()
}

/// Bouncing: 34 of every 42 s at 98%.
pub(super) fn bouncing(second: u64) -> u32 {
    if second % 42 < 8 { 0 } else { 98 }
}

/// Replaces readings `from..to` by those of a lost GPU.
pub(super) fn lose(readings: &mut [Reading], from: usize, to: usize) {
    for reading in readings.iter_mut().take(to).skip(from) {
        *reading = Reading { utilization: Err(MissingReason::Lost), ..Reading::at(reading.at) };
    }
}

/// Asserts that a text fits a page of 80 columns.
#[track_caller]
pub(super) fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.width() <= 80, "{} columns: {line}", line.width());
        assert!(!line.ends_with(' '), "{line:?}");
    }
}
