//! Generated GPUs, and their readings as requests through real meters.

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::reading::{GpuIdentity, MissingReason, Reading};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_otlp::encode::{
    Aggregation, ExportSettings, Exporter, GpuDescription, GpuExport, MetricSelection, MetricSet,
};
use phasemeter_otlp::experiment::{
    Attributes, Experiment, ExperimentKind, ExperimentRequest, TraceMode, gpu_id,
};
use phasemeter_otlp::{OtlpFile, Request};
use proptest::prelude::*;
use serde_json::Value;

use crate::file::{Span, Stream, spans, streams};

const START: u64 = 1_785_110_395_000;

/// A GPU and its readings.
#[derive(Clone, Debug)]
pub(crate) struct TestGpu {
    pub(crate) identity: GpuIdentity,
    pub(crate) memory_total: Option<Bytes>,
    pub(crate) price: Option<Price>,
    pub(crate) readings: Vec<Reading>,
}

impl TestGpu {
    pub(crate) fn new(index: u32, price: &str, readings: Vec<Reading>) -> Self {
        let plan = Some(PaymentPlan::OnDemand);
        Self {
            identity: GpuIdentity {
                name: format!("made.csv {index}"),
                index: Some(index),
                model: Some("NVIDIA H100 80GB HBM3".into()),
                ..GpuIdentity::default()
            },
            memory_total: Bytes::from_mebibytes(1_000),
            price: Some(Price::given(Rate::parse(price).unwrap(), plan, "given by a test")),
            readings,
        }
    }
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START + millis).unwrap()
}

pub(crate) fn reading(millis: u64, percent: u32) -> Reading {
    let utilization = Utilization::from_percent(percent).ok_or(MissingReason::Unreadable);
    Reading { utilization, ..Reading::at(at(millis)) }
}

/// The requests, and the summary of each meter.
pub(crate) struct Run {
    pub(crate) requests: Vec<Request>,
    pub(crate) summaries: Vec<Summary>,
}

pub(crate) fn run(gpus: &[TestGpu], request: ExperimentRequest, settings: ExportSettings) -> Run {
    run_with(MeterConfig::default(), gpus, request, settings)
}

pub(crate) fn run_with(
    config: MeterConfig,
    gpus: &[TestGpu],
    request: ExperimentRequest,
    settings: ExportSettings,
) -> Run {
    let ids: Vec<_> = gpus.iter().map(|gpu| gpu_id(&gpu.identity)).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    run_as(config, gpus, settings, |first| request.open(first, ExperimentKind::Log { gpus: &ids }))
}

/// Runs the readings of all GPUs in time order through their meters, as the pipeline does.
pub(crate) fn run_as(
    config: MeterConfig,
    gpus: &[TestGpu],
    settings: ExportSettings,
    open: impl FnOnce(Timestamp) -> Experiment,
) -> Run {
    let mut readings: Vec<(usize, Reading)> = (0..)
        .zip(gpus)
        .flat_map(|(index, gpu)| gpu.readings.iter().map(move |reading| (index, *reading)))
        .collect();
    readings.sort_by_key(|(_, reading)| reading.at);
    let first = readings.first().map(|(_, reading)| reading.at).unwrap_or_default();
    let experiment = open(first);

    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let config = MeterConfig { boundary_every: settings.every, ..config };
    let mut gpus: Vec<(GpuMeter, GpuExport)> = gpus
        .iter()
        .map(|gpu| {
            let rate = gpu.price.as_ref().map(|price| price.rate);
            let description = GpuDescription {
                identity: &gpu.identity,
                memory_total: gpu.memory_total,
                price: gpu.price.as_ref(),
            };
            (GpuMeter::new(config, rate, gpu.memory_total), exporter.begin(&description))
        })
        .collect();
    let mut requests = Vec::new();
    for (gpu, reading) in readings {
        let (meter, export) = &mut gpus[gpu];
        meter.push(reading, &mut exporter.observe(export)).unwrap();
        if exporter.leaves_silent() {
            for (meter, export) in &mut gpus {
                if exporter.leaves_out(export) {
                    exporter.add_silent(meter, export);
                }
            }
        }
        requests.extend(exporter.outgoing().flat_map(|it| it.requests));
    }
    let mut summaries = Vec::new();
    for (mut meter, mut export) in gpus {
        meter.finish(&mut exporter.observe(&mut export));
        exporter.end(export);
        summaries.push(meter.summary());
    }
    requests.extend(exporter.finish().flat_map(|it| it.requests));
    Run { requests, summaries }
}

/// Settings that export all metrics.
pub(crate) fn settings(seconds: u64, aggregation: Aggregation) -> ExportSettings {
    let (every, metrics) = (Nanos::from_secs(seconds), MetricSelection::of(MetricSet::All));
    ExportSettings { every, metrics, aggregation, ..ExportSettings::default() }
}

impl Run {
    pub(crate) fn file(&self) -> String {
        let mut bytes = Vec::new();
        let mut file = OtlpFile::new(&mut bytes);
        for request in &self.requests {
            file.write(request).unwrap();
        }
        file.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.file().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn metrics(&self) -> Vec<Stream> {
        streams(&self.lines())
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        spans(&self.lines())
    }
}

/// Readings of one GPU: a pause in milliseconds, percent or none, its fraction in ppm, mebibytes or
/// none.
pub(crate) fn any_readings() -> impl Strategy<Value = Vec<Reading>> {
    let pause = prop_oneof![8 => 100_u64..3_000, 1 => 3_000_u64..200_000, 1 => Just(1_000)];
    let percent = prop_oneof![
        3 => Just(Some(100)), 2 => Just(Some(0)), 3 => (0..=100_u32).prop_map(Some), 1 => Just(None)
    ];
    let fraction = prop_oneof![2 => Just(0), 1 => 0..10_000_u32];
    let memory = prop::option::of(0..20_u32);
    let rows = prop::collection::vec((pause, percent, fraction, memory, 1..20_usize), 0..30);
    (0..5_000_u64, rows).prop_map(|(start, rows)| {
        let mut millis = start;
        let mut readings = Vec::new();
        for (pause, percent, fraction, memory, times) in rows {
            for _ in 0..times {
                let ppm = percent.map(|percent| percent * 10_000 + fraction);
                let utilization = ppm.and_then(Utilization::from_ppm);
                let mut next = reading(millis, 0);
                next.utilization = utilization.ok_or(MissingReason::Unreadable);
                next.memory_used = memory.map(u64::from).and_then(Bytes::from_mebibytes);
                next.power = memory.and_then(|memory| Milliwatts::new(memory * 1_000));
                readings.push(next);
                millis += pause;
            }
        }
        readings
    })
}

pub(crate) fn any_gpus() -> impl Strategy<Value = Vec<TestGpu>> {
    let gpu = (any_readings(), 0..10_000_000_000_u64, any::<bool>());
    prop::collection::vec(gpu, 1..4).prop_map(|gpus| {
        let gpus = (0..).zip(gpus).map(|(index, (readings, rate, known))| {
            let mut gpu = TestGpu::new(index, "0", readings);
            gpu.price = gpu.price.map(|price| Price { rate: Rate::new(rate).unwrap(), ..price });
            gpu.memory_total = gpu.memory_total.filter(|_| known);
            gpu
        });
        gpus.collect()
    })
}

pub(crate) fn any_settings() -> impl Strategy<Value = ExportSettings> {
    let aggregation = prop_oneof![Just(Aggregation::Explicit), Just(Aggregation::Exponential)];
    (1..90_u64, aggregation).prop_map(|(seconds, aggregation)| settings(seconds, aggregation))
}

pub(crate) fn any_traces() -> impl Strategy<Value = TraceMode> {
    prop_oneof![Just(TraceMode::Shared), Just(TraceMode::PerSession)]
}
