//! Prices through the pipeline that change while GPUs are metered.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Pipeline, Settings};
use phasemeter_engine::policies::{PolicyResults, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Timestamp, Utilization};
use phasemeter_otlp::experiment::ExperimentRequest;

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis((1_785_110_400 + second) * 1_000).unwrap()
}

fn given(usd: Option<&str>) -> PriceOptions {
    let given = usd.map(|usd| Rate::parse(usd).unwrap());
    PriceOptions { given, ..PriceOptions::default() }
}

/// Scenario: the price changes at the 10th second, is unknown from the 20th on, and is known again from the 30th on. A
/// GPU has no model, so that the book does not list it; one joins late.
/// Guarantee: each price holds from its instant on, to the nano-dollar, and remains while there is no other; no change
/// alters what was charged.
#[test]
fn changed_price_holds_from_then_on() {
    let settings = Settings {
        meter: MeterConfig::default(),
        pricing: Pricing::new(given(Some("3.6")), Quotes::default(), PriceBook::built_in()),
        alerts: AlertRules::default(),
        work: BTreeMap::new(),
        export: None,
    };
    let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
    let identities: Vec<_> = ["a", "late"]
        .map(|name| GpuIdentity { name: name.to_owned(), ..GpuIdentity::default() })
        .into();
    let half = Utilization::from_percent(50).unwrap();
    for second in 0..=40 {
        let options = match second {
            10 => Some(given(Some("7.2"))),
            20 => Some(given(None)),
            30 => Some(given(Some("1.8"))),
            _ => None,
        };
        if let Some(options) = options {
            assert!(pipeline.change_prices(&options, None, at(second)));
        }
        for gpu in 0..=usize::from(second >= 15) {
            let reading = Reading { utilization: Ok(half), ..Reading::at(at(second)) };
            pipeline.ingest(gpu, &reading, &identities).unwrap().unwrap();
        }
    }
    let run = pipeline.finish(&identities, |_| PolicyResults::default()).unwrap();
    let cost = |gpu: usize| run.gpus[gpu].meter.accounts().all().cost;
    assert_eq!(cost(0), NanoUsd(10_000_000 + 2 * 20_000_000 + 5_000_000));
    assert_eq!(cost(1), NanoUsd(2 * 15_000_000 + 5_000_000));
}
