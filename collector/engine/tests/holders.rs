//! Accounts by holder through the pipeline: changes reach the meter of their GPU, before its first reading or later.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Pipeline, Settings};
use phasemeter_engine::policies::{PolicyResults, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_meter::alert::{Condition, Metric, Rule};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::{AllocationMethod, Grant, Holder, HolderAccount, HolderUse, Share};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::{Price, PriceBook};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use phasemeter_otlp::experiment::ExperimentRequest;

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis((1_785_110_400 + second) * 1_000).unwrap()
}

fn job(id: &str) -> Holder {
    Holder::Job(id.to_owned())
}

fn grants(ids: &[&str]) -> Vec<Grant> {
    let of = u32::try_from(ids.len()).unwrap();
    ids.iter().map(|id| Grant { holder: job(id), share: Share::new(1, of) }).collect()
}

/// The microdollars of each account of a holder; a GPU-second costs a thousand.
fn microdollars(gpu: &GpuMeter, id: &str) -> [i128; 3] {
    let accounts = gpu.holders().get(&job(id)).unwrap();
    HolderAccount::ALL.map(|of| accounts.total(of).cost.0 / 1_000)
}

#[test]
fn changes_reach_the_meter_of_their_gpu_before_and_after_its_first_reading() {
    let given = Rate::parse("3.6").ok();
    let options = PriceOptions { given, ..PriceOptions::default() };
    let settings = Settings {
        meter: MeterConfig::default(),
        pricing: Pricing::new(options, Quotes::default(), PriceBook::built_in()),
        alerts: AlertRules::default(),
        work: BTreeMap::new(),
        export: None,
    };
    let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
    let identities: Vec<_> = ["a", "b"]
        .map(|name| GpuIdentity { name: name.to_owned(), ..GpuIdentity::default() })
        .into();
    let half = Utilization::from_percent(50).unwrap();
    // Before any reading, and of a GPU that is never read.
    pipeline.assign(1, at(0), grants(&["1", "2"]));
    pipeline.push_use(
        1,
        HolderUse { holder: job("1"), from: at(0), to: at(10), utilization: half, own: Some(half) },
    );
    pipeline.touch(1, at(4), &job("2"));
    pipeline.assign(7, at(0), grants(&["3"]));
    for second in 0..=20 {
        if second == 10 {
            pipeline.assign(1, at(10), grants(&["4"]));
        }
        for gpu in [0, 1] {
            let reading = Reading { utilization: Ok(half), ..Reading::at(at(second)) };
            pipeline.ingest(gpu, &reading, &identities).unwrap().unwrap();
        }
    }
    let run = pipeline.finish(&identities, |_| PolicyResults::default()).unwrap();
    let [a, b] = &run.gpus[..] else { panic!("{} GPUs", run.gpus.len()) };
    assert!(a.meter.holders().is_empty());
    assert_eq!(microdollars(&b.meter, "1"), [5_000, 0, 0]);
    assert_eq!(microdollars(&b.meter, "2"), [0, 3_000, 2_000]);
    assert_eq!(microdollars(&b.meter, "4"), [5_000, 5_000, 0]);
    let method = |id| b.meter.holders().get(&job(id)).unwrap().method();
    assert_eq!(["1", "4"].map(method), [AllocationMethod::ByUse, AllocationMethod::Exclusive]);
    let holders = b.meter.holders();
    let nobodys = Account::ALL.map(|account| holders.nobody(account).cost).into_iter();
    assert_eq!(nobodys.sum::<NanoUsd>(), NanoUsd::ZERO);
    assert_eq!(b.meter.accounts().all().cost, NanoUsd(20_000_000));
}

/// Scenario: a run has a quarter of one of its GPUs, of which another meter has the price, and all of the other one.
/// Guarantee: what its time cost is a quarter of the first one, at that price from the start, and all of the second one;
/// alerts and windows are about the second one only.
#[test]
fn part_of_a_gpu_is_charged_and_advice_about_it_is_left_to_others() {
    let given = Rate::parse("7.2").ok();
    let options = PriceOptions { given, ..PriceOptions::default() };
    let metric = Metric::of(Quantity::Utilization).unwrap();
    let minute = Nanos::from_secs(60);
    let rule = Rule::new("any".to_owned(), metric, Condition::Above(0), minute, Nanos::ZERO);
    let settings = Settings {
        meter: MeterConfig { charges_holders: true, ..MeterConfig::default() },
        pricing: Pricing::new(options, Quotes::default(), PriceBook::built_in()),
        alerts: AlertRules { rules: vec![rule.unwrap()].into(), ..AlertRules::default() },
        work: BTreeMap::new(),
        export: None,
    };
    let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
    let identities: Vec<_> = ["part", "whole"]
        .map(|name| GpuIdentity { name: name.to_owned(), ..GpuIdentity::default() })
        .into();
    pipeline.log_charges();
    pipeline.assign(0, at(0), vec![Grant { holder: job("1"), share: Share::new(1, 4) }]);
    pipeline.assign(1, at(0), grants(&["1"]));
    let of_agent = Price::given(Rate::parse("3.6").unwrap(), None, "the agent");
    for second in 0..=240 {
        for gpu in [0, 1] {
            let utilization = Ok(Utilization::from_percent(50).unwrap());
            let reading = Reading { utilization, ..Reading::at(at(second)) };
            pipeline.ingest(gpu, &reading, &identities).unwrap().unwrap();
        }
        if second == 0 {
            pipeline.hold_part(0);
            pipeline.take_price(0, &of_agent);
        }
    }
    let window = pipeline.window(&identities, true).unwrap();
    assert_eq!(window.gpus.iter().map(|gpu| gpu.id.as_str()).collect::<Vec<_>>(), ["whole"]);
    pipeline.finish_gpus(&identities).unwrap();
    let mut costs = [NanoUsd::ZERO; 2];
    for charge in pipeline.take_charges() {
        assert!(charge.holder.is_some());
        costs[charge.gpu] += charge.slice.cost;
    }
    assert_eq!(costs, [60_000_000, 480_000_000].map(NanoUsd));
    assert_eq!(pipeline.bill(), costs[0] + costs[1]);
    let run = pipeline.finish(&identities, |_| PolicyResults::default()).unwrap();
    let evaluated = |gpu: usize| run.gpus[gpu].meter.alerts().map(|it| it.log().counts()[0].opened);
    assert_eq!([0, 1].map(evaluated), [None, Some(1)]);
    assert_eq!(run.gpus[0].price.as_ref(), Ok(&of_agent));
}
