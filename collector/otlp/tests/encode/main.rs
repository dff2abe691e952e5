//! Runs generated readings through real meters into an OTLP file, and reads that independently.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed test may panic"
)]

mod file;
mod fixtures;
mod holders;
mod invariants;
mod quantities;
mod sets;
mod size;

use std::collections::BTreeSet;

use file::{Stream, list, long, number, of, spans, streams, text};
use fixtures::{Run, TestGpu, at, reading, run, run_with, settings};
use invariants::check_points;
use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Board, GpuIdentity, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Utilization,
};
use phasemeter_otlp::encode::{Aggregation, Exporter, GpuDescription};
use phasemeter_otlp::experiment::{Attributes, ExperimentKind, ExperimentRequest, TraceId};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A reading every second at this utilization.
fn steady(from: u64, seconds: u64, percent: u32) -> impl Iterator<Item = Reading> {
    (from..from + seconds).map(move |second| reading(second * 1_000, percent))
}

#[test]
fn small_file_matches_snapshot() {
    let busy = steady(0, 12, 95).map(|reading| Reading {
        memory_used: Bytes::from_mebibytes(500),
        power: Milliwatts::new(350_000),
        energy: Some(Millijoules((reading.at.as_nanos() - at(0).as_nanos()) * 350 / 1_000_000)),
        temperature: Some(Celsius(61)),
        sm_clock: Some(Megahertz(1_980)),
        memory_clock: Some(Megahertz(2_619)),
        ..reading
    });
    let mut busy = TestGpu::new(0, "3", busy.collect());
    busy.identity.uuid = Some("GPU-7b1a6b40-0000-4000-8000-000000000000".into());
    busy.identity.board = Board {
        serial_number: Some("1652823054567".into()),
        firmware_version: Some("96.00.74.00.01".into()),
        driver_version: Some("575.57.08".into()),
        minor_number: Some(0),
        slowdown: Some(Celsius(89)),
        shutdown: Some(Celsius(92)),
    };
    let silent = steady(1, 4, 0).chain(steady(9, 2, 40)).collect();
    let silent = TestGpu { price: None, memory_total: None, ..TestGpu::new(1, "0", silent) };
    let request = ExperimentRequest {
        id: Some("tuning".into()),
        state: "vendor=1".parse().ok(),
        parent: PARENT.parse().ok(),
        attributes: Attributes::from([("service.name".into(), "trainer".into())]),
        ..ExperimentRequest::default()
    };
    let run = run(&[busy, silent], request, settings(10, Aggregation::Explicit));
    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    insta::assert_snapshot!(run.file().replace(&version, "\"version\":\"…\""));
}

#[test]
fn points_of_a_boundary_share_a_request_and_late_ones_follow() {
    let together = |seconds| TestGpu::new(0, "1", steady(0, seconds, 50).collect());
    let other = |from| TestGpu {
        identity: GpuIdentity { index: Some(1), ..GpuIdentity::default() },
        ..TestGpu::new(1, "1", steady(from, 65, 50).collect())
    };
    let gpus_per_request = |run: &Run| -> Vec<Vec<String>> {
        let metrics = run.lines();
        let metrics = metrics.iter().filter(|line| line.get("resourceMetrics").is_some());
        let mut ids = Vec::new();
        for line in metrics {
            let streams = streams(std::slice::from_ref(line));
            let times = of(&streams, "phasemeter.gpu.price");
            assert!(times.iter().all(|stream| stream.points.len() == 1), "each GPU once");
            ids.push(times.iter().map(|stream| stream.attributes["hw.id"].clone()).collect());
        }
        ids
    };
    let run = |gpus: &[TestGpu]| {
        let stale_after = StaleAfter::Fixed(Nanos::from_secs(3));
        let config = MeterConfig { stale_after, ..MeterConfig::default() };
        let settings = settings(30, Aggregation::Explicit);
        run_with(config, gpus, ExperimentRequest::default(), settings)
    };
    let both = run(&[together(65), other(0)]);
    assert_eq!(gpus_per_request(&both), [["0", "1"], ["0", "1"], ["0", "1"]]);
    // The second starts after a long silence of the first.
    let after = run(&[together(40), other(100)]);
    let alone = [vec!["0"], vec!["0"], vec!["0", "1"], vec!["1"], vec!["0", "1"]];
    assert_eq!(gpus_per_request(&after), alone, "its last points leave while the other goes on");
}

#[test]
fn every_scope_has_a_schema() {
    let gpu = TestGpu::new(0, "1", steady(0, 40, 95).collect());
    let settings = settings(10, Aggregation::Explicit);
    let lines = run(&[gpu], ExperimentRequest::default(), settings).lines();
    let mut scopes = 0;
    for line in &lines {
        for (groups, scopes_of) in
            [("resourceMetrics", "scopeMetrics"), ("resourceSpans", "scopeSpans")]
        {
            for group in line[groups].as_array().into_iter().flatten() {
                for scope in list(&group[scopes_of]) {
                    assert!(!text(&scope["schemaUrl"]).is_empty(), "{scope}");
                    scopes += 1;
                }
            }
        }
    }
    assert!(scopes > 5);
}

#[test]
fn gpus_with_same_index_stay_separate() {
    let mut second = TestGpu::new(0, "2", steady(0, 20, 95).collect());
    second.identity.name = "other.csv 0".into();
    let first = TestGpu::new(0, "1", steady(0, 20, 95).collect());
    let run =
        run(&[first, second], ExperimentRequest::default(), settings(60, Aggregation::Explicit));
    let streams = run.metrics();
    let rates = of(&streams, "phasemeter.gpu.price");
    let rates: Vec<_> =
        rates.iter().map(|rate| (rate.attributes["hw.id"].as_str(), rate.last())).collect();
    assert_eq!(rates, [("0", 1.0), ("other.csv 0", 2.0)]);
    let ids: BTreeSet<_> = run.spans().into_iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), 5, "an experiment, two sessions, two phases");
}

#[test]
fn without_price_no_money_is_exported() {
    let gpu = TestGpu { price: None, ..TestGpu::new(0, "1", steady(0, 20, 50).collect()) };
    let run = run(&[gpu], ExperimentRequest::default(), settings(60, Aggregation::Explicit));
    for name in ["phasemeter.gpu.cost", "phasemeter.gpu.waste", "phasemeter.gpu.price"] {
        assert!(of(&run.metrics(), name).is_empty(), "{name}");
    }
    let money = |key: &String| key.contains("cost") || key.contains("waste");
    assert!(!run.spans().iter().any(|span| span.attributes.keys().any(money)));
    assert!(!of(&run.metrics(), "phasemeter.gpu.time").is_empty());
}

#[test]
fn request_contains_at_most_512_spans() {
    // Ten seconds idle, ten busy: one span each, for hours between two exports.
    let readings = (0..1_200)
        .flat_map(|cycle| steady(cycle * 20, 10, 0).chain(steady(cycle * 20 + 10, 10, 100)));
    let gpu = TestGpu::new(0, "1", readings.collect());
    let run = run(&[gpu], ExperimentRequest::default(), settings(86_400, Aggregation::Explicit));
    let counts: Vec<_> = run
        .lines()
        .iter()
        .map(|line| spans(std::slice::from_ref(line)).len())
        .filter(|count| *count > 0)
        .collect();
    assert_eq!(counts.iter().max(), Some(&512));
    assert_eq!(counts.iter().sum::<usize>(), 2_402);
}

#[test]
fn energy_continues_when_counter_appears() {
    let readings = steady(0, 60, 50).map(|reading| {
        let power = Milliwatts::new(100_000);
        let counted = reading.at >= at(30_000);
        let energy =
            counted.then(|| Millijoules((reading.at.as_nanos() - at(0).as_nanos()) / 100_000));
        Reading { power, energy, ..reading }
    });
    let gpu = TestGpu::new(0, "1", readings.collect());
    let run = run(&[gpu], ExperimentRequest::default(), settings(10, Aggregation::Explicit));
    let streams = run.metrics();
    let [energy] = of(&streams, "hw.energy")[..] else { panic!("one stream") };
    let points: Vec<_> = energy
        .points
        .iter()
        .map(|point| {
            let start = long(&point["startTimeUnixNano"]) - at(0).as_nanos();
            (start / 1_000_000_000, number(&point["asDouble"]))
        })
        .collect();
    // 100 W until the counter appears after 30 s, then 10 W, up to the last reading.
    let joules = [500.0, 1_500.0, 2_500.0, 3_040.0, 3_140.0, 3_240.0, 3_290.0];
    assert_eq!(points, joules.map(|joules| (0, joules)));
}

/// Device metrics arrive before readings of the same time: a boundary contains exactly what was measured
/// until then.
#[test]
fn device_metrics_count_in_the_interval_of_their_time() {
    let gpu = TestGpu::new(0, "1", steady(0, 30, 50).collect());
    let trace = TraceId::new([7; 16]).unwrap();
    let experiment = ExperimentRequest::default().open(at(0), ExperimentKind::Command { trace });
    let settings = settings(10, Aggregation::Explicit);
    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let description = GpuDescription { identity: &gpu.identity, memory_total: None, price: None };
    let config = MeterConfig { boundary_every: settings.every, ..MeterConfig::default() };
    let (mut meter, mut export) = (GpuMeter::new(config, None, None), exporter.begin(&description));
    for (second, reading) in (0..).zip(gpu.readings) {
        meter.push(reading, &mut exporter.observe(&mut export)).unwrap();
        let full = if second <= 5 { 100 } else { 20 };
        // The driver restarts its counters after 20 seconds.
        let stood = if second <= 20 { 100 + second } else { second - 20 };
        let mean = Utilization::from_percent(full).unwrap();
        let from = at(second * 1_000).saturating_sub(Nanos::SECOND);
        let degrees = if second == 0 { 50 } else { 51 };
        for (quantity, value) in [
            (Quantity::SmActivity, DeviceValue::Mean { from, share: mean }),
            (Quantity::PowerCap, DeviceValue::Total(stood * 1_000_000_000)),
            (Quantity::MemoryTemperature, DeviceValue::Now(degrees)),
        ] {
            // The temperature is measured once a minute.
            if second < 2 || !matches!(value, DeviceValue::Now(_)) {
                let (at, component) = (at(second * 1_000), Component::Gpu);
                export.measure(DeviceMetric { at, component, quantity, value });
            }
        }
    }
    meter.finish(&mut exporter.observe(&mut export));
    exporter.end(export);
    let run = Run {
        requests: exporter.finish().flat_map(|it| it.requests).collect(),
        summaries: Vec::new(),
    };
    let streams = run.metrics();
    let points = |name| -> Vec<f64> {
        let [stream] = of(&streams, name)[..] else { panic!("one stream of {name}") };
        stream.points.iter().map(|point| number(&point["asDouble"])).collect()
    };
    // At 5, 15, 25 and 29 s.
    assert_eq!(points("phasemeter.gpu.sm.activity"), [1.0, 0.2, 0.2, 0.2]);
    assert_eq!(points("phasemeter.gpu.throttle.time"), [5.0, 15.0, 25.0, 29.0]);
    // A value is exported once, with the time of its round.
    let [temperature] = of(&streams, "hw.temperature")[..] else { panic!("one stream") };
    let [point] = &temperature.points[..] else { panic!("{:?}", temperature.points) };
    assert_eq!(
        (number(&point["asDouble"]), long(&point["timeUnixNano"])),
        (51.0, at(5_000).as_nanos())
    );
    check_points(&run).unwrap();
}

#[test]
fn no_readings_send_no_requests() {
    let run = run(
        &[TestGpu::new(0, "1", Vec::new())],
        ExperimentRequest::default(),
        settings(60, Aggregation::Explicit),
    );
    assert!(run.requests.is_empty());
}

#[test]
fn power_without_utilization_is_unobserved() {
    let readings = (0..20).map(|second| Reading {
        power: Milliwatts::new(100_000),
        ..Reading::at(at(second * 1_000))
    });
    let run = run(
        &[TestGpu::new(0, "1", readings.collect())],
        ExperimentRequest::default(),
        settings(60, Aggregation::Explicit),
    );
    let streams = run.metrics();
    for name in
        ["hw.gpu.utilization", "phasemeter.gpu.utilization", "phasemeter.gpu.effective_time"]
    {
        assert!(of(&streams, name).is_empty(), "{name}");
    }
    let unobserved = of(&streams, "phasemeter.gpu.time")
        .into_iter()
        .find(|stream| stream.attributes["phasemeter.phase"] == "unobserved");
    assert_eq!(unobserved.map(Stream::last), Some(19.0));
    assert!(!of(&streams, "hw.power").is_empty());
}
