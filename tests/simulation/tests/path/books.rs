//! What the backend has, beside what it should have.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_meter::phase::Account;
use phasemeter_otlp::Signal;
use phasemeter_otlp::names::{attribute, metric};
use prost::Message;

use crate::claimed;
use crate::network::Backend;
use crate::oracle::Sums;
use crate::run::{Life, Run};
use crate::world::World;

/// What was accounted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Of all GPUs.
    pub(crate) nanos: i128,
    pub(crate) nano_usd: i128,
    /// Gaps that are stated, and their lengths together.
    pub(crate) gaps: u64,
    pub(crate) gap_nanos: i128,
    pub(crate) spans: u64,
    pub(crate) points: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.nanos += other.nanos;
        self.nano_usd += other.nano_usd;
        self.gaps += other.gaps;
        self.gap_nanos += other.gap_nanos;
        self.spans += other.spans;
        self.points += other.points;
    }
}

/// Whole nano-units of a value that passed through a double.
pub(crate) fn nano(value: f64) -> i128 {
    format!("{:.0}", value * 1e9).parse().unwrap()
}

pub(crate) fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    let found = attributes.iter().find(|it| it.key == key).and_then(|it| it.value.as_ref());
    match found.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

pub(crate) fn double(attributes: &[KeyValue], key: &str) -> f64 {
    let found = attributes.iter().find(|it| it.key == key).and_then(|it| it.value.as_ref());
    match found.and_then(|value| value.value.as_ref()) {
        Some(Value::DoubleValue(double)) => *double,
        _ => 0.0,
    }
}

/// By start of the sums, GPU, and time of the points.
pub(crate) type Points = BTreeMap<(u64, String), BTreeMap<u64, Sums>>;
/// By experiment and GPU, in order of their starts, without sessions.
type Spans = BTreeMap<(String, String), BTreeMap<u64, Span>>;

/// Checks all of it.
pub(crate) fn check(world: &World) -> Result<Totals, String> {
    let backend = world.backend.lock().unwrap();
    check_arrivals(world, &backend)?;
    let mut totals = Totals::default();
    let points = points(backend.arrived.keys())?;
    let stated = claimed::check(world, &backend, &points)?;
    (totals.gaps, totals.gap_nanos) = (stated.gaps, stated.nanos);
    // With what was refused, or not stored when its process ended, there is no hole.
    let mut explained = spans(backend.arrived.keys())?;
    let lives = world.runs.iter().flat_map(Run::lives_that_may_lose);
    let unstored = lives.flat_map(|life| unstored(life, &backend));
    let unstored: BTreeSet<_> = backend.refused.iter().chain(unstored).collect();
    for (key, more) in spans(unstored.into_iter())? {
        explained.entry(key).or_default().extend(more);
    }
    for (index, gpu) in world.gpus.iter().enumerate() {
        let id = gpu.uuid.clone().unwrap();
        let mut reached = None;
        for run in &world.runs {
            let expected = run.histories[index].meter();
            let start = run.start.as_nanos();
            if let Some(reached) = reached.filter(|reached| start < *reached) {
                return Err(format!("{id}: {start} is metered again, after {reached}"));
            }
            let mut last = (start, Sums::default());
            for (at, sums) in points.get(&(start, id.clone())).into_iter().flatten() {
                let until =
                    start + u64::try_from(sums.iter().map(|it| it.0).sum::<i128>()).unwrap();
                if until < last.0 {
                    return Err(format!("{id}: sums at {at} fall"));
                }
                match expected.states.get(&until) {
                    Some(expected) if expected == sums => {}
                    other => return Err(format!("{id}: {sums:?} at {at}, not {other:?}")),
                }
                totals.points += 1;
                last = (until, *sums);
            }
            // All of a run that ended in order is there once its last request is.
            let is_last = |(signal, _): &&(Signal, Bytes)| *signal == Signal::Metrics;
            let newest = run.lives.iter().flat_map(|life| &life.made).rfind(is_last);
            let is_over = run.lives.last().is_some_and(|life| life.is_over);
            if let Some(end) = run.histories[index].end.filter(|_| is_over)
                && newest.is_some_and(|newest| backend.arrived.contains_key(newest))
                && last.0 != end.as_nanos()
            {
                return Err(format!("{id}: {} in place of {}", last.0, end.as_nanos()));
            }
            totals.nanos += i128::from(last.0 - start);
            totals.nano_usd += last.1.iter().map(|it| it.1).sum::<i128>();
            reached = Some(last.0);

            let key = (run.experiment.clone(), id.clone());
            let mut until = start;
            for (from, span) in explained.get(&key).into_iter().flatten() {
                let Some(expected) = expected.spans.get(from) else {
                    return Err(format!("{id}: a span at {from} that nothing explains"));
                };
                let (end, name) = (span.end_time_unix_nano, span.name.as_str());
                if (end, name, span_sums(span)) != (expected.end, expected.label, expected.sums) {
                    return Err(format!("{id}: span {span:?}, not {expected:?}"));
                }
                let from = expected.from;
                if from < until || from > until && !world.is_limited {
                    return Err(format!("{id}: the next span after {until} is at {from}"));
                }
                until = expected.to;
                totals.spans += 1;
            }
        }
    }
    Ok(totals)
}

fn span_sums(span: &Span) -> Sums {
    Account::ALL.map(|account| {
        let of = |kind| double(&span.attributes, &format!("phasemeter.{kind}.{}", account.name()));
        (nano(of("time")), nano(of("cost")))
    })
}

/// Requests whose storing was confirmed arrive, in order, are refused, or are counted.
fn check_arrivals(world: &World, backend: &Backend) -> Result<(), String> {
    // A process that goes on with a run sends its last requests again.
    let mut made = BTreeMap::new();
    for (number, run) in world.runs.iter().enumerate() {
        for request in run.lives.iter().flat_map(|life| &life.made) {
            if *made.entry(request).or_insert(number) != number {
                return Err(format!("a request of {:?} was made by two runs", request.0));
            }
        }
    }
    // Events that leave together are joined.
    let is_checked = |request: &&(Signal, Bytes)| request.0 != Signal::Logs;
    let mut arrived = backend.arrived.keys().chain(&backend.refused).filter(is_checked);
    if let Some((signal, _)) = arrived.find(|request| !made.contains_key(request)) {
        return Err(format!("a request of {signal:?} was changed"));
    }
    for signal in [Signal::Metrics, Signal::Traces] {
        let is_missing = |request: &&(Signal, Bytes)| {
            !backend.arrived.contains_key(request) && !backend.refused.contains(request)
        };
        let mut missing = 0;
        for life in world.runs.iter().flat_map(|run| &run.lives) {
            missing += self::missing(life, signal, is_missing)?;
        }
        let counted_lost = world.counted_lost.get(&signal).copied().unwrap_or_default();
        if missing > counted_lost && !(world.is_limited && world.is_start_cut) {
            return Err(format!(
                "{signal:?}: {missing} requests are lost, {counted_lost} are counted"
            ));
        }
        if counted_lost > 0 && !world.is_limited {
            return Err(format!("{signal:?}: {counted_lost} losses are counted without a limit"));
        }
    }
    Ok(())
}

/// The requests that the backend has not got, since their process ended before they were stored. Those of a disk that
/// refused can be any.
fn unstored<'a>(life: &'a Life, backend: &'a Backend) -> impl Iterator<Item = &'a (Signal, Bytes)> {
    let in_memory = |signal| life.in_memory.get(signal).copied().unwrap_or_default();
    let mut left: BTreeMap<Signal, u64> =
        Signal::ALL.iter().map(|signal| (*signal, in_memory(signal))).collect();
    life.made.iter().rev().filter(move |request| {
        let left = left.entry(request.0).or_default();
        let is_last = *left > 0 || life.is_disk_faulty;
        *left = left.saturating_sub(1);
        is_last && !backend.arrived.contains_key(request) && !backend.refused.contains(request)
    })
}

/// The number of requests that were not in memory alone, and that are missing.
fn missing(
    life: &Life,
    signal: Signal,
    is_missing: impl Fn(&&(Signal, Bytes)) -> bool,
) -> Result<u64, String> {
    let of_signal = |requests: &[(Signal, Bytes)]| {
        requests.iter().filter(|(of, _)| *of == signal).count() as u64
    };
    let (made, before) = (of_signal(&life.made), of_signal(&life.made[..life.made_before]));
    let in_memory = life.in_memory.get(&signal).copied().unwrap_or_default();
    let mine = life.made.iter().filter(|(of, _)| *of == signal);
    if life.is_disk_faulty {
        return Ok((mine.filter(is_missing).count() as u64).saturating_sub(in_memory));
    }
    // The last ones are in memory: at most what a step has made.
    if in_memory > made - before {
        return Err(format!("{signal:?}: {in_memory} of {made} wait in memory, {before} for long"));
    }
    let stored = usize::try_from(made.saturating_sub(in_memory)).unwrap();
    Ok(mine.take(stored).filter(is_missing).count() as u64)
}

/// Times and costs of all GPUs. No stream has two points at one time.
pub(crate) fn points<'a>(
    requests: impl Iterator<Item = &'a (Signal, Bytes)>,
) -> Result<Points, String> {
    let mut points = Points::new();
    let mut seen = BTreeSet::new();
    for (signal, body) in requests.filter(|it| it.0 == Signal::Metrics) {
        let request = ExportMetricsServiceRequest::decode(body.clone());
        let request = request.map_err(|error| format!("{signal:?}: {error}"))?;
        let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
        for metric in scopes.flat_map(|it| it.metrics) {
            let is_time = metric.name == metric::GPU_TIME;
            let Some(Data::Sum(sum)) = metric.data else { continue };
            if !is_time && metric.name != metric::GPU_COST {
                continue;
            }
            for point in sum.data_points {
                let id = text(&point.attributes, "hw.id").to_owned();
                let phase = text(&point.attributes, attribute::PHASE);
                let place = Account::ALL.iter().position(|account| account.name() == phase);
                let place = place.ok_or_else(|| format!("no account {phase}"))?;
                let (start, at) = (point.start_time_unix_nano, point.time_unix_nano);
                if !seen.insert((is_time, start, id.clone(), place, at)) {
                    return Err(format!("{id}: two points of {phase} at {at}"));
                }
                let Some(number_data_point::Value::AsDouble(value)) = point.value else {
                    return Err(format!("{id}: no value at {at}"));
                };
                let sums = points.entry((start, id)).or_default().entry(at).or_default();
                let (time, cost) = &mut sums[place];
                *(if is_time { time } else { cost }) = nano(value);
            }
        }
    }
    Ok(points)
}

fn spans<'a>(requests: impl Iterator<Item = &'a (Signal, Bytes)>) -> Result<Spans, String> {
    let mut spans = Spans::new();
    for (signal, body) in requests.filter(|it| it.0 == Signal::Traces) {
        let request = ExportTraceServiceRequest::decode(body.clone());
        let request = request.map_err(|error| format!("{signal:?}: {error}"))?;
        let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
        for span in scopes.flat_map(|it| it.spans) {
            let of = |key| text(&span.attributes, key).to_owned();
            let key = (of(attribute::EXPERIMENT_ID), of("hw.id"));
            if span.name != "gpu session"
                && spans.entry(key).or_default().insert(span.start_time_unix_nano, span).is_some()
            {
                return Err("two spans of a GPU begin at once".to_owned());
            }
        }
    }
    Ok(spans)
}
