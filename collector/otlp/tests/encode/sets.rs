//! Metric sets: how many series each has, and which metrics.

use std::collections::BTreeMap;

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, Board, Interval, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Timestamp, Utilization,
};
use phasemeter_otlp::encode::{
    Aggregation, ExportSettings, Exporter, GpuDescription, MetricSelection, MetricSet, metrics,
};
use phasemeter_otlp::experiment::{Attributes, ExperimentKind, ExperimentRequest, TraceId};

use crate::file::{Stream, list};
use crate::fixtures::{Run, TestGpu, at, reading, settings};

/// The largest number of series per GPU in the default set.
const BUDGET: usize = 48;

const LINKS: u8 = 18;

const ENGINES: [Quantity; 8] = [
    Quantity::SmActivity,
    Quantity::TensorActivity,
    Quantity::DramActivity,
    Quantity::Fp64Activity,
    Quantity::Fp32Activity,
    Quantity::Fp16Activity,
    Quantity::Encoder,
    Quantity::Decoder,
];

fn percent(value: u32) -> Utilization {
    Utilization::from_percent(value).unwrap()
}

/// All that can be measured of a GPU at an instant, beside its reading.
fn device_metrics(at: Timestamp) -> Vec<DeviceMetric> {
    let from = at.saturating_sub(Nanos::SECOND);
    let count = |component, quantity| (component, quantity, DeviceValue::Total(7));
    let activity =
        |engine| (Component::Gpu, engine, DeviceValue::Mean { from, share: percent(50) });
    let of_gpu =
        [Quantity::CorrectedErrors, Quantity::MemoryErrors].map(|it| count(Component::Gpu, it));
    let of_pcie = [
        Quantity::PcieReceived,
        Quantity::PcieTransmitted,
        Quantity::LinkReplays,
        Quantity::PcieCorrectable,
        Quantity::PcieNonFatal,
    ]
    .map(|it| count(Component::Pcie, it));
    let of_link = [
        Quantity::NvlinkReceived,
        Quantity::NvlinkTransmitted,
        Quantity::LinkReplays,
        Quantity::LinkRecoveries,
        Quantity::LinkCrcErrors,
    ];
    let of_links = (0..LINKS).flat_map(|link| of_link.map(|it| count(Component::NvLink(link), it)));
    let now = |component, quantity, value| (component, quantity, DeviceValue::Now(value));
    let values = ENGINES
        .map(activity)
        .into_iter()
        .chain(Quantity::THROTTLING.map(|it| count(Component::Gpu, it)))
        .chain(of_gpu)
        .chain(of_pcie)
        .chain(of_links)
        .chain([now(Component::Gpu, Quantity::MemoryTemperature, 60)])
        .chain([now(Component::Gpu, Quantity::PowerLimit, 700_000)])
        .chain([now(Component::Fan(0), Quantity::FanSpeed, 400_000)]);
    let metric = |(component, quantity, value)| DeviceMetric { at, component, quantity, value };
    values.map(metric).collect()
}

/// A minute of a GPU of which everything is measured, by four sources of utilization.
fn run(metrics: MetricSelection) -> Run {
    let full = |second: u64| Reading {
        memory_used: Bytes::from_mebibytes(500),
        power: Milliwatts::new(350_000),
        energy: Some(Millijoules(second * 350_000)),
        temperature: Some(Celsius(61)),
        sm_clock: Some(Megahertz(1_980)),
        memory_clock: Some(Megahertz(2_619)),
        ..reading(second * 1_000, 95)
    };
    let mut gpu = TestGpu::new(0, "3", Vec::new());
    gpu.identity.board =
        Board { slowdown: Some(Celsius(89)), shutdown: Some(Celsius(92)), ..Board::default() };
    let trace = TraceId::new([7; 16]).unwrap();
    let experiment = ExperimentRequest::default().open(at(0), ExperimentKind::Command { trace });
    let settings = ExportSettings { metrics, ..settings(10, Aggregation::Explicit) };
    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let price = gpu.price.as_ref();
    let memory_total = Bytes::from_mebibytes(80_000);
    let description = GpuDescription { identity: &gpu.identity, memory_total, price };
    let config = MeterConfig {
        boundary_every: settings.every,
        basis: Basis::NvmlSamples,
        ..MeterConfig::default()
    };
    let mut meter = GpuMeter::new(config, price.map(|price| price.rate), memory_total);
    let mut export = exporter.begin(&description);
    export.watch_errors();
    for second in 0..60 {
        meter.push(full(second), &mut exporter.observe(&mut export)).unwrap();
        if second == 20 {
            for basis in [Basis::NvmlSamples, Basis::GpmSm, Basis::GpmTensor] {
                let utilization = percent(80);
                assert!(meter.push_interval(Interval {
                    basis,
                    from: at(25_000),
                    to: at(50_000),
                    utilization
                }));
            }
        }
        device_metrics(at(second * 1_000)).into_iter().for_each(|it| export.measure(it));
    }
    meter.finish(&mut exporter.observe(&mut export));
    exporter.end(export);
    let requests = exporter.finish().flat_map(|it| it.requests).collect();
    Run { requests, summaries: Vec::new() }
}

/// How many series a stream is in Prometheus.
fn series(stream: &Stream) -> usize {
    let last = stream.points.last().unwrap();
    match last.get("bucketCounts") {
        // One per bucket, the sum and the count.
        Some(buckets) => list(buckets).len() + 2,
        None => 1,
    }
}

/// The number of series of a GPU in each set, as documented.
fn documented() -> BTreeMap<String, usize> {
    let page = include_str!("../../../../docs/otlp.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let set = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        MetricSet::ALL.iter().find(|known| known.name() == set)?;
        Some((set.to_owned(), cells.next()?.parse().ok()?))
    });
    rows.collect()
}

#[test]
fn sets_have_the_documented_number_of_series_and_default_is_within_its_budget() {
    let mut counts = BTreeMap::new();
    let mut names = Vec::new();
    for set in MetricSet::ALL {
        let streams = run(MetricSelection::of(set)).metrics();
        counts.insert(set.name().to_owned(), streams.iter().map(series).sum::<usize>());
        names.extend(streams.into_iter().map(|stream| stream.name));
        if set == MetricSet::Default {
            assert!(counts[set.name()] <= BUDGET, "{counts:?}");
        }
    }
    assert_eq!(documented(), counts, "docs/otlp.md");
    // Nothing of a GPU is missing from the count.
    let missing = metrics().map(|(name, _)| name).filter(|name| !names.iter().any(|it| it == name));
    let others = [
        "phasemeter.gpu.xid.errors",
        "phasemeter.work.done",
        "phasemeter.work.unit_cost",
        "phasemeter.work.gpu_cost",
        "phasemeter.attribution.cost",
        "phasemeter.attribution.pending",
        "phasemeter.recommendation.active",
    ];
    assert_eq!(missing.collect::<Vec<_>>(), others, "not of each GPU");
}

#[test]
fn metric_is_in_its_set_and_can_be_kept_or_dropped() {
    let names = |selection: &str| {
        let streams = run(selection.parse().unwrap()).metrics();
        streams.into_iter().map(|stream| stream.name).collect::<std::collections::BTreeSet<_>>()
    };
    for set in MetricSet::ALL {
        let is_in_set = |name: &String| metrics().any(|(it, of)| it == name && of <= set);
        let found = names(set.name());
        assert!(found.iter().all(is_in_set), "{found:?}");
    }
    assert!(!names("default").contains("hw.network.io"));
    assert!(names("default,keep:hw.network.io").contains("hw.network.io"));
    assert!(!names("all,drop:hw.errors").contains("hw.errors"));
}

/// The plain sum of the default set is that of the bill.
#[test]
fn effective_time_of_default_set_is_that_of_the_bill() {
    let seconds = |selection: &str, billed: &str| -> f64 {
        let streams = run(selection.parse().unwrap()).metrics();
        let streams = streams.iter().filter(|it| it.name == "phasemeter.gpu.effective_time");
        let streams = streams.filter(|it| {
            billed.is_empty() || it.attributes["phasemeter.utilization.billed"] == billed
        });
        streams.map(Stream::last).sum()
    };
    let billed = 34.0 * 0.95 + 25.0 * 0.8;
    assert!((seconds("default", "") - billed).abs() < 1e-6);
    assert!((seconds("all", "true") - billed).abs() < 1e-6);
    assert!((seconds("all", "false") - (25.0 * 0.95 + 2.0 * 25.0 * 0.8)).abs() < 1e-6);
}

/// The smallest set of each metric of the registry.
#[test]
fn sets_are_those_of_the_registry() {
    let registry = include_str!("../../../../otel-config/registry/metrics.yaml");
    let mut sets = BTreeMap::new();
    let mut name = "";
    for line in registry.lines() {
        name = line.strip_prefix("  - name: ").unwrap_or(name);
        if let Some((_, set)) = line.split_once(" set: ") {
            sets.insert(name, set.trim_end_matches('}').to_owned());
        }
    }
    let own = metrics().filter(|(name, _)| name.starts_with("phasemeter."));
    assert_eq!(sets, own.map(|(name, set)| (name, set.name().to_owned())).collect());
}

/// What dashboards and alert rules read is in the default set.
#[test]
fn default_set_has_what_the_rules_for_prometheus_read() {
    let rules = include_str!("../../../../otel-config/alerts/prometheus-rules.yaml");
    let names: Vec<_> = metrics().collect();
    let mut found = 0;
    for word in rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        if word.starts_with("hw_") && !word.ends_with("_task") && word.contains("_ratio")
            || word.starts_with("hw_temperature")
            || word.starts_with("phasemeter_gpu_")
        {
            let is_it = |name: &str| word.starts_with(&name.replace('.', "_"));
            let of = names.iter().filter(|(name, _)| is_it(name)).max_by_key(|it| it.0.len());
            let (name, set) = of.unwrap_or_else(|| panic!("{word} is not a metric"));
            assert!(*set <= MetricSet::Default, "{name}");
            found += 1;
        }
    }
    assert!(found >= 10, "{found}");
}
