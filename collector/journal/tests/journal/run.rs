//! A run of two GPUs, and what happens to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{EarlierRuns, Pipeline, RequestSink, Settings};
use phasemeter_engine::policies::{PolicyResults, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_journal::Gate;
use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::holder::{Grant, Holder, Share};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity, Interval, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_otlp::Request;
use phasemeter_otlp::encode::{EventKind, ExportSettings, GpuEvent};
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_sources::clock::Step;
use proptest::prelude::*;

pub(crate) const GPUS: usize = 2;

/// Before a whole hour, so that sessions end.
const START: u64 = 1_785_110_400 + 3_540;

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START * 1_000 + millis).unwrap()
}

pub(crate) type Requests = Rc<RefCell<Vec<Request>>>;

/// A run of a node, priced per second, that exports each 10 s; through a gate, if there is one.
pub(crate) fn run(gate: Option<&Gate>) -> (Pipeline<'static>, Requests) {
    let requests = Requests::default();
    let passed = Rc::clone(&requests);
    let sink: RequestSink<'static> = Box::new(move |outgoing| {
        passed.borrow_mut().extend(outgoing.requests);
        Ok(())
    });
    let sink = match gate {
        Some(gate) => gate.before(sink),
        None => sink,
    };
    let given = PriceOptions { given: Rate::parse("3.7").ok(), ..PriceOptions::default() };
    let export = ExportSettings { every: Nanos::from_secs(10), ..ExportSettings::default() };
    let settings = Settings {
        meter: MeterConfig {
            allowed_lateness: Nanos::from_secs(2),
            stale_after: StaleAfter::Fixed(Nanos::SECOND),
            basis: Basis::NvmlSamples,
            session_every: MeterConfig::SESSION,
            ..MeterConfig::default()
        },
        pricing: Pricing::new(given, Quotes::default(), PriceBook::built_in()),
        alerts: AlertRules::default(),
        work: BTreeMap::new(),
        export: Some((export, sink)),
    };
    let kind = ExperimentKind::Sidecar { trace: TraceId::new([7; 16]).unwrap() };
    let experiment = ExperimentRequest::default().open(at(0), kind);
    let mut pipeline = Pipeline::live(settings, experiment, &BTreeMap::new());
    pipeline.resume(earlier());
    (pipeline, requests)
}

/// An earlier run had billed the first GPU until a minute before.
pub(crate) fn earlier() -> EarlierRuns {
    let billed = at(0).saturating_sub(Nanos::from_secs(60));
    EarlierRuns::Billed { until: [("GPU-0".to_owned(), billed)].into(), others: None }
}

/// What happens at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Readings([u32; GPUS]),
    /// No reading for this many tenths of a second.
    Pause(u64),
    Interval(usize, u32),
    Metric(usize, u64),
    Xid(usize),
    Assign(usize, u8),
    HoldPart(usize),
    Work(u64),
    ClockStep(u64),
    Results,
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        30 => prop::array::uniform2(0_u32..=100).prop_map(Event::Readings),
        2 => (1_u64..80).prop_map(Event::Pause),
        4 => (0..GPUS, 0_u32..=100).prop_map(|(gpu, used)| Event::Interval(gpu, used)),
        2 => (0..GPUS, any::<u64>()).prop_map(|(gpu, total)| Event::Metric(gpu, total)),
        1 => (0..GPUS).prop_map(Event::Xid),
        1 => (0..GPUS, 0_u8..3).prop_map(|(gpu, jobs)| Event::Assign(gpu, jobs)),
        1 => (0..GPUS).prop_map(Event::HoldPart),
        1 => (1_u64..500).prop_map(Event::Work),
        1 => (1_u64..90).prop_map(Event::ClockStep),
        1 => Just(Event::Results),
    ]
}

pub(crate) fn identities() -> Vec<GpuIdentity> {
    let gpu = |number: u32| GpuIdentity {
        name: format!("GPU {number}"),
        uuid: Some(format!("GPU-{number}")),
        index: Some(number),
        model: Some("NVIDIA H100 80GB HBM3".to_owned()),
        ..GpuIdentity::default()
    };
    vec![gpu(0), gpu(1)]
}

/// Makes what happens; returns the time after it.
pub(crate) fn happen(
    pipeline: &mut Pipeline<'_>,
    gpus: &[GpuIdentity],
    now: u64,
    event: Event,
) -> u64 {
    let used = |percent| Utilization::from_percent(percent).unwrap();
    match event {
        Event::Readings(percent) => {
            for (gpu, percent) in percent.into_iter().enumerate() {
                let reading = Reading {
                    utilization: Ok(used(percent)),
                    memory_used: Bytes::new(u64::from(percent) << 20),
                    power: Milliwatts::new(percent * 1_000),
                    ..Reading::at(at(now))
                };
                let _late = pipeline.ingest(gpu, &reading, gpus).unwrap();
            }
            now + 100
        }
        Event::Pause(tenths) => now + tenths * 100,
        Event::Interval(gpu, percent) => {
            let (from, to) = (at(now.saturating_sub(300)), at(now.saturating_sub(300) + 200));
            let interval =
                Interval { basis: Basis::NvmlSamples, from, to, utilization: used(percent) };
            pipeline.ingest_interval(gpu, interval);
            now
        }
        Event::Metric(gpu, total) => {
            let metric = DeviceMetric {
                at: at(now),
                component: Component::NvLink(1),
                quantity: Quantity::NvlinkReceived,
                value: DeviceValue::Total(total),
            };
            pipeline.export_metric(gpu, metric);
            now
        }
        Event::Xid(gpu) => {
            pipeline.count_xids(gpu, at(now), 79, 2);
            let kind = EventKind::Xid { code: 79, count: 2 };
            let event = GpuEvent { at: at(now), kind, body: "XID 79".to_owned() };
            pipeline.emit_event(gpu, &event).unwrap();
            now
        }
        Event::Assign(gpu, jobs) => {
            let grant = |number: u8| Grant {
                holder: Holder::Job(number.to_string()),
                share: Share::new(1, jobs.into()),
            };
            pipeline.assign(gpu, at(now), (0..jobs).map(grant).collect());
            now
        }
        Event::HoldPart(gpu) => {
            pipeline.hold_part(gpu);
            now
        }
        Event::Work(count) => {
            pipeline.record_work(at(now), "samples", &WorkGroup::default(), count);
            now
        }
        Event::ClockStep(seconds) => {
            let wall = pipeline.wall().wall(at(now));
            let after = wall + Nanos::from_secs(seconds);
            pipeline.step_wall_clock(&Step { at: at(now), before: wall, after }).unwrap();
            now
        }
        Event::Results => {
            pipeline.export_results(&PolicyResults::default(), gpus, at(now)).unwrap();
            now
        }
    }
}
