//! Made readings through real meters into an OTLP file, which is then read as a stranger would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use phasemeter::experiment::{
    Attributes, Experiment, ExperimentRequest, Opening, TraceId, TraceParent, Traces, gpu_id,
};
use phasemeter::otlp::{
    Aggregation, ExportSettings, Exporter, GpuDescription, GpuExport, OtlpFile, Request,
};
use phasemeter::source::measurement::{Counter, Measured, Measurement, Share};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::hold::MaxHold;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::reading::{Absent, Board, GpuIdentity, Reading};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Timestamp, Utilization,
};
use proptest::prelude::*;
use serde_json::Value;

const START: u64 = 1_785_110_395_000;
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A GPU and what it is going to say.
#[derive(Clone, Debug)]
struct Made {
    identity: GpuIdentity,
    memory_total: Option<Bytes>,
    price: Option<Price>,
    readings: Vec<Reading>,
}

impl Made {
    fn new(index: u32, price: &str, readings: Vec<Reading>) -> Self {
        let plan = Some(Plan::OnDemand);
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

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START + millis).unwrap()
}

fn reading(millis: u64, percent: u32) -> Reading {
    let utilization = Utilization::from_percent(percent).ok_or(Absent::Unreadable);
    Reading { utilization, ..Reading::at(at(millis)) }
}

/// What came of it: the requests, and what each meter says at its end.
struct Run {
    requests: Vec<Request>,
    summaries: Vec<Summary>,
}

fn run(made: &[Made], request: ExperimentRequest, settings: ExportSettings) -> Run {
    run_with(MeterConfig::default(), made, request, settings)
}

fn run_with(
    config: MeterConfig,
    made: &[Made],
    request: ExperimentRequest,
    settings: ExportSettings,
) -> Run {
    let ids: Vec<_> = made.iter().map(|made| gpu_id(&made.identity)).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    run_as(config, made, settings, |first| request.open(first, Opening::Log { gpus: &ids }))
}

/// The readings of all GPUs in the order of their time through their meters, as a pipeline does.
fn run_as(
    config: MeterConfig,
    made: &[Made],
    settings: ExportSettings,
    open: impl FnOnce(Timestamp) -> Experiment,
) -> Run {
    let mut readings: Vec<(usize, Reading)> = (0..)
        .zip(made)
        .flat_map(|(gpu, made)| made.readings.iter().map(move |reading| (gpu, *reading)))
        .collect();
    readings.sort_by_key(|(_, reading)| reading.at);
    let first = readings.first().map(|(_, reading)| reading.at).unwrap_or_default();
    let experiment = open(first);

    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let config = MeterConfig { boundary_every: settings.every, ..config };
    let mut gpus: Vec<(GpuMeter, GpuExport)> = made
        .iter()
        .map(|made| {
            let rate = made.price.as_ref().map(|price| price.rate);
            let description = GpuDescription {
                identity: &made.identity,
                memory_total: made.memory_total,
                price: made.price.as_ref(),
            };
            (GpuMeter::new(config, rate, made.memory_total), exporter.begin(&description))
        })
        .collect();
    let mut requests = Vec::new();
    for (gpu, reading) in readings {
        let (meter, export) = &mut gpus[gpu];
        meter.push(reading, &mut exporter.observe(export)).unwrap();
        requests.extend(exporter.requests());
    }
    let mut summaries = Vec::new();
    for (mut meter, mut export) in gpus {
        meter.finish(&mut exporter.observe(&mut export));
        exporter.end(export);
        summaries.push(meter.summary());
    }
    requests.extend(exporter.finish());
    Run { requests, summaries }
}

fn settings(seconds: u64, aggregation: Aggregation) -> ExportSettings {
    ExportSettings { every: Nanos::from_secs(seconds), aggregation }
}

impl Run {
    fn file(&self) -> String {
        let mut bytes = Vec::new();
        let mut file = OtlpFile::new(&mut bytes);
        for request in &self.requests {
            file.write(request).unwrap();
        }
        file.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.file().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn metrics(&self) -> Vec<Stream> {
        streams(&self.lines())
    }

    fn spans(&self) -> Vec<Span> {
        spans(&self.lines())
    }
}

/// The points of one metric with one set of attributes, in the order of the file.
#[derive(Debug)]
struct Stream {
    name: String,
    attributes: BTreeMap<String, String>,
    monotonic: bool,
    points: Vec<Value>,
}

impl Stream {
    fn last(&self) -> f64 {
        number(&self.points.last().unwrap()["asDouble"])
    }
}

#[derive(Debug)]
struct Span {
    id: String,
    parent: Option<String>,
    trace: String,
    name: String,
    from: u64,
    to: u64,
    attributes: BTreeMap<String, String>,
    /// The traces and spans that it follows.
    links: Vec<(String, String)>,
}

impl Span {
    /// What it says of its cost, in nano-dollars.
    fn cost(&self) -> i128 {
        let costs = self.attributes.iter().filter(|(key, _)| key.starts_with("phasemeter.cost."));
        costs.map(|(_, cost)| nanos(cost.parse().unwrap())).sum()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A 64-bit number, which is text.
fn long(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn attributes(value: &Value) -> BTreeMap<String, String> {
    let pairs = list(value).iter().map(|pair| {
        let choice = pair["value"].as_object().unwrap();
        assert_eq!(choice.len(), 1, "a value is one choice");
        let value = choice.values().next().unwrap();
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (text(&pair["key"]), value)
    });
    pairs.collect()
}

fn streams(lines: &[Value]) -> Vec<Stream> {
    let mut streams: BTreeMap<_, Stream> = BTreeMap::new();
    let resources = lines.iter().flat_map(|line| list(&line["resourceMetrics"]));
    let scopes = resources.flat_map(|resource| list(&resource["scopeMetrics"]));
    for metric in scopes.flat_map(|scope| list(&scope["metrics"])) {
        let kinds = ["gauge", "sum", "histogram", "exponentialHistogram"];
        let data = kinds.iter().find_map(|kind| metric.get(kind)).unwrap();
        let cumulative = data.get("aggregationTemporality").is_none_or(|value| value == 2);
        assert!(cumulative, "{metric}");
        for point in list(&data["dataPoints"]) {
            let (name, attributes) = (text(&metric["name"]), attributes(&point["attributes"]));
            let stream = streams.entry((name.clone(), attributes.clone())).or_insert(Stream {
                name,
                attributes,
                monotonic: data["isMonotonic"] == true,
                points: Vec::new(),
            });
            stream.points.push(point.clone());
        }
    }
    streams.into_values().collect()
}

fn spans(lines: &[Value]) -> Vec<Span> {
    let resources = lines.iter().flat_map(|line| list(&line["resourceSpans"]));
    let scopes = resources.flat_map(|resource| list(&resource["scopeSpans"]));
    let spans = scopes.flat_map(|scope| list(&scope["spans"]));
    spans
        .map(|span| Span {
            id: text(&span["spanId"]),
            parent: span.get("parentSpanId").map(text),
            trace: text(&span["traceId"]),
            name: text(&span["name"]),
            from: long(&span["startTimeUnixNano"]),
            to: long(&span["endTimeUnixNano"]),
            attributes: attributes(&span["attributes"]),
            links: list(&span["links"])
                .iter()
                .map(|link| (text(&link["traceId"]), text(&link["spanId"])))
                .collect(),
        })
        .collect()
}

/// Whole nano-units of what went through a double.
#[expect(clippy::cast_possible_truncation, reason = "small in tests")]
fn nanos(value: f64) -> i128 {
    (value * 1e9).round() as i128
}

fn of<'a>(streams: &'a [Stream], name: &str) -> Vec<&'a Stream> {
    streams.iter().filter(|stream| stream.name == name).collect()
}

/// Readings of one GPU: a pause in milliseconds, percent or none, mebibytes or none.
fn any_readings() -> impl Strategy<Value = Vec<Reading>> {
    let pause = prop_oneof![8 => 100_u64..3_000, 1 => 3_000_u64..200_000, 1 => Just(1_000)];
    let percent = prop_oneof![
        3 => Just(Some(100)), 2 => Just(Some(0)), 3 => (0..=100_u32).prop_map(Some), 1 => Just(None)
    ];
    let memory = prop::option::of(0..20_u32);
    let rows = prop::collection::vec((pause, percent, memory, 1..20_usize), 0..30);
    (0..5_000_u64, rows).prop_map(|(start, rows)| {
        let mut millis = start;
        let mut readings = Vec::new();
        for (pause, percent, memory, times) in rows {
            for _ in 0..times {
                let mut next = reading(millis, percent.unwrap_or(101));
                next.memory_used = memory.map(u64::from).and_then(Bytes::from_mebibytes);
                next.power = memory.and_then(|memory| Milliwatts::new(memory * 1_000));
                readings.push(next);
                millis += pause;
            }
        }
        readings
    })
}

fn any_gpus() -> impl Strategy<Value = Vec<Made>> {
    let gpu = (any_readings(), 0..10_000_000_000_u64, any::<bool>());
    prop::collection::vec(gpu, 1..4).prop_map(|gpus| {
        let made = (0..).zip(gpus).map(|(index, (readings, rate, known))| {
            let mut made = Made::new(index, "0", readings);
            made.price = made.price.map(|price| Price { rate: Rate::new(rate).unwrap(), ..price });
            made.memory_total = made.memory_total.filter(|_| known);
            made
        });
        made.collect()
    })
}

fn any_settings() -> impl Strategy<Value = ExportSettings> {
    let aggregation = prop_oneof![Just(Aggregation::Explicit), Just(Aggregation::Exponential)];
    (1..90_u64, aggregation).prop_map(|(seconds, aggregation)| settings(seconds, aggregation))
}

fn any_traces() -> impl Strategy<Value = Traces> {
    prop_oneof![Just(Traces::Shared), Just(Traces::PerSession)]
}

/// Sums never fall and keep their start; the times of points rise.
fn check_points(run: &Run) -> Result<(), TestCaseError> {
    for stream in run.metrics() {
        for pair in stream.points.windows(2) {
            let time = |point: &Value| long(&point["timeUnixNano"]);
            prop_assert!(time(&pair[0]) < time(&pair[1]), "{:?}", stream);
            if stream.monotonic {
                let value = |point: &Value| number(&point["asDouble"]);
                prop_assert_eq!(&pair[0]["startTimeUnixNano"], &pair[1]["startTimeUnixNano"]);
                prop_assert!(value(&pair[0]) <= value(&pair[1]), "{:?}", stream);
            }
        }
    }
    Ok(())
}

/// Each exemplar names a span of its GPU that holds it; one a bucket and export.
fn check_exemplars(run: &Run) -> Result<(), TestCaseError> {
    let spans = run.spans();
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    for stream in of(&run.metrics(), "phasemeter.gpu.utilization") {
        let mut since = 0;
        for point in &stream.points {
            let exemplars = list(&point["exemplars"]);
            for exemplar in exemplars {
                let at = long(&exemplar["timeUnixNano"]);
                let until = long(&point["timeUnixNano"]);
                prop_assert!(since <= at && at <= until, "only from this interval");
                let span = by_id[exemplar["spanId"].as_str().unwrap()];
                prop_assert_eq!(&span.trace, &text(&exemplar["traceId"]));
                prop_assert_eq!(&span.attributes["hw.id"], &stream.attributes["hw.id"]);
                prop_assert!(span.from <= at && at <= span.to);
            }
            let values: BTreeSet<_> =
                exemplars.iter().map(|exemplar| exemplar["asDouble"].to_string()).collect();
            prop_assert_eq!(values.len(), exemplars.len(), "one a bucket");
            since = long(&point["timeUnixNano"]);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_last_points_sum_to_the_bill_and_to_the_time(
        made in any_gpus(), settings in any_settings(),
    ) {
        let run = run(&made, ExperimentRequest::default(), settings);
        let streams = run.metrics();
        for (made, summary) in made.iter().zip(&run.summaries) {
            let id = made.identity.index.unwrap().to_string();
            let sum = |name| -> i128 {
                let mine = of(&streams, name).into_iter().filter(|it| it.attributes["hw.id"] == id);
                mine.map(|stream| nanos(stream.last())).sum()
            };
            prop_assert_eq!(NanoUsd(sum("phasemeter.gpu.cost")), summary.accounts.all().cost);
            prop_assert_eq!(sum("phasemeter.gpu.time"), i128::from(summary.length().0));
            let slack = sum("phasemeter.gpu.waste") - summary.accounts.waste().0;
            prop_assert!((0..1_000).contains(&slack), "less than a millionth of a dollar: {}", slack);
        }
    }

    #[test]
    fn sums_never_fall_and_their_times_rise(made in any_gpus(), settings in any_settings()) {
        check_points(&run(&made, ExperimentRequest::default(), settings))?;
    }

    #[test]
    fn every_reading_is_counted_once(made in any_gpus(), settings in any_settings()) {
        let streams = run(&made, ExperimentRequest::default(), settings).metrics();
        for stream in of(&streams, "phasemeter.gpu.utilization") {
            for point in &stream.points {
                let buckets = match point.get("positive") {
                    Some(positive) => &positive["bucketCounts"],
                    None => &point["bucketCounts"],
                };
                let zeros = point.get("zeroCount").map_or(0, long);
                let counted = zeros + list(buckets).iter().map(long).sum::<u64>();
                prop_assert_eq!(long(&point["count"]), counted);
            }
        }
        let counted = |made: &Made| {
            made.readings.iter().filter(|reading| reading.utilization.is_ok()).count() as u64
        };
        let told: u64 = of(&streams, "phasemeter.gpu.utilization")
            .iter()
            .map(|stream| long(&stream.points.last().unwrap()["count"]))
            .sum();
        prop_assert_eq!(told, made.iter().map(counted).sum::<u64>());
    }

    #[test]
    fn spans_are_one_tree_and_phases_tile_it(made in any_gpus(), settings in any_settings()) {
        let request = ExperimentRequest::default().under(PARENT.parse::<TraceParent>().unwrap());
        let run = run(&made, request, settings);
        let spans = run.spans();
        let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id.clone(), span)).collect();
        prop_assert_eq!(by_id.len(), spans.len(), "no id occurs twice");
        let sessions = made.iter().filter(|made| !made.readings.is_empty()).count();
        let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        prop_assert_eq!(named("gpu session").len(), sessions);
        prop_assert_eq!(named("experiment").len(), usize::from(sessions > 0));

        for span in &spans {
            prop_assert_eq!(&span.trace, "0af7651916cd43dd8448eb211c80319c");
            prop_assert_eq!(&span.attributes["phasemeter.experiment.id"], &span.trace);
            let parent = span.parent.as_ref().unwrap();
            if span.name == "experiment" {
                prop_assert_eq!(parent, "b7ad6b7169203331");
                continue;
            }
            let parent = by_id[parent];
            let depth = if span.name == "gpu session" { "experiment" } else { "gpu session" };
            prop_assert_eq!(&parent.name, depth);
            prop_assert!(parent.from <= span.from && span.to <= parent.to);
        }
        for session in named("gpu session") {
            let mut phases: Vec<_> =
                spans.iter().filter(|span| span.parent.as_ref() == Some(&session.id)).collect();
            phases.sort_by_key(|span| span.from);
            let mut reached = session.from;
            for phase in phases {
                prop_assert_eq!(phase.from, reached);
                prop_assert_eq!(&phase.attributes["phasemeter.phase"], &phase.name);
                prop_assert_eq!(&phase.attributes["hw.id"], &session.attributes["hw.id"]);
                reached = phase.to;
            }
            prop_assert_eq!(reached, session.to);
        }
        let cost: i128 = named("experiment").iter().map(|span| span.cost()).sum();
        let bill: NanoUsd = run.summaries.iter().map(|summary| summary.accounts.all().cost).sum();
        prop_assert_eq!(NanoUsd(cost), bill);
    }

    #[test]
    fn an_exemplar_names_the_span_that_holds_it(made in any_gpus(), settings in any_settings()) {
        check_exemplars(&run(&made, ExperimentRequest::default(), settings))?;
    }

    /// A session is an hour's bill, wherever it stands: here an hour is shorter.
    #[test]
    fn sessions_tile_the_run_and_each_tells_its_own_bill(
        made in any_gpus(), settings in any_settings(), hour in 20..400_u64, under: bool, traces in any_traces(),
    ) {
        let given = PARENT.parse::<TraceParent>().ok().filter(|_| under);
        let request = ExperimentRequest { parent: given, traces, ..ExperimentRequest::default() };
        let config = MeterConfig { session_every: Nanos::from_secs(hour), ..MeterConfig::default() };
        let trace = TraceId::new([7; 16]).unwrap();
        let run = run_as(config, &made, settings, |first| {
            request.open(first, Opening::Sidecar { trace })
        });
        check_points(&run)?;
        check_exemplars(&run)?;

        let spans = run.spans();
        prop_assert!(spans.iter().all(|span| span.name != "experiment"), "nobody knows its end");
        let ids: BTreeSet<_> = spans.iter().map(|span| &span.attributes["phasemeter.experiment.id"]).collect();
        prop_assert!(ids.len() <= 1, "{:?}", ids);
        let given = given.map(|given| (given.trace_id.to_string(), given.span_id.to_string()));
        let shared = given.clone().filter(|_| traces == Traces::Shared);
        let mut seen = BTreeSet::new();
        for (made, summary) in made.iter().zip(&run.summaries) {
            let id = made.identity.index.unwrap().to_string();
            let mut mine: Vec<_> = spans.iter().filter(|span| span.attributes["hw.id"] == id).collect();
            mine.sort_by_key(|span| span.from);
            let (sessions, phases): (Vec<_>, Vec<_>) =
                mine.into_iter().partition(|span| span.name == "gpu session");
            let mut before: Option<&Span> = None;
            for session in &sessions {
                let first = made.readings[0].at.as_nanos();
                prop_assert_eq!(session.from, before.map_or(first, |before| before.to));
                let follows = before.map(|before| (before.trace.clone(), before.id.clone()));
                let follows = follows.or_else(|| given.clone().filter(|_| shared.is_none()));
                prop_assert_eq!(session.links.first(), follows.as_ref());
                prop_assert_eq!(&session.parent, &shared.clone().map(|(_, parent)| parent));
                match &shared {
                    Some((trace, _)) => prop_assert_eq!(&session.trace, trace),
                    None => prop_assert!(seen.insert(session.trace.clone()), "a trace of its own"),
                }

                let (mut reached, mut cost) = (session.from, 0);
                for phase in phases.iter().filter(|span| span.parent.as_ref() == Some(&session.id)) {
                    prop_assert_eq!((&phase.trace, phase.from), (&session.trace, reached));
                    (reached, cost) = (phase.to, cost + phase.cost());
                }
                prop_assert_eq!(reached, session.to);
                let rate = summary.rate.unwrap().nano_usd_per_hour();
                let until = |at: u64| i128::from(rate) * i128::from(at - first) / 3_600_000_000_000;
                prop_assert_eq!(session.cost(), until(session.to) - until(session.from));
                prop_assert_eq!(cost, session.cost());
                before = Some(session);
            }
            let inner = sessions.split_last().map(|(_, inner)| inner).unwrap_or_default();
            prop_assert!(inner.iter().all(|session| session.to % (hour * 1_000_000_000) == 0));
            let end = made.readings.last().map(|last| last.at.as_nanos());
            prop_assert_eq!(before.map(|last| last.to), end);
        }
    }

    #[test]
    fn a_file_says_what_the_requests_said_and_says_it_again(
        made in any_gpus(), settings in any_settings(),
    ) {
        let first = run(&made, ExperimentRequest::default(), settings);
        let file = first.file();
        prop_assert_eq!(&file, &run(&made, ExperimentRequest::default(), settings).file());
        prop_assert_eq!(file.lines().count(), first.requests.len());
        for (line, request) in file.lines().zip(&first.requests) {
            prop_assert!(!line.contains("null"));
            match request {
                Request::Metrics(request) => {
                    let read: ExportMetricsServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
                Request::Traces(request) => {
                    let read: ExportTraceServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
                Request::Logs(request) => {
                    let read: ExportLogsServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
            }
        }
    }

    #[test]
    fn a_trace_that_is_not_recorded_changes_no_metric(
        made in any_gpus(), settings in any_settings(),
    ) {
        let parent = PARENT.replace("-01", "-00").parse::<TraceParent>().unwrap();
        let silent = run(&made, ExperimentRequest::default().under(parent), settings);
        prop_assert!(silent.spans().is_empty());
        let told = run(&made, ExperimentRequest::default(), settings);
        for (mut silent, mut told) in silent.metrics().into_iter().zip(told.metrics()) {
            prop_assert!(silent.points.iter().all(|point| point.get("exemplars").is_none()));
            for point in told.points.iter_mut().chain(&mut silent.points) {
                point.as_object_mut().unwrap().remove("exemplars");
            }
            prop_assert_eq!((silent.name, silent.points), (told.name, told.points));
        }
    }
}

/// One GPU every second from here on, at this utilization.
fn steady(from: u64, seconds: u64, percent: u32) -> impl Iterator<Item = Reading> {
    (from..from + seconds).map(move |second| reading(second * 1_000, percent))
}

#[test]
fn a_small_file_reads_so() {
    let busy = steady(0, 12, 95).map(|reading| Reading {
        memory_used: Bytes::from_mebibytes(500),
        power: Milliwatts::new(350_000),
        energy: Some(Millijoules((reading.at.as_nanos() - at(0).as_nanos()) * 350 / 1_000_000)),
        temperature: Some(Celsius(61)),
        sm_clock: Some(Megahertz(1_980)),
        memory_clock: Some(Megahertz(2_619)),
        ..reading
    });
    let mut busy = Made::new(0, "3", busy.collect());
    busy.identity.uuid = Some("GPU-7b1a6b40-0000-4000-8000-000000000000".into());
    busy.identity.board = Board {
        serial_number: Some("1652823054567".into()),
        firmware_version: Some("96.00.74.00.01".into()),
        driver_version: Some("575.57.08".into()),
        slowdown: Some(Celsius(89)),
        shutdown: Some(Celsius(92)),
    };
    let silent = steady(1, 4, 0).chain(steady(9, 2, 40)).collect();
    let silent = Made { price: None, memory_total: None, ..Made::new(1, "0", silent) };
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
fn points_of_one_boundary_go_together_and_what_is_late_goes_later() {
    let together = |seconds| Made::new(0, "1", steady(0, seconds, 50).collect());
    let other = |from| Made {
        identity: GpuIdentity { index: Some(1), ..GpuIdentity::default() },
        ..Made::new(1, "1", steady(from, 65, 50).collect())
    };
    let gpus_a_request = |run: &Run| -> Vec<Vec<String>> {
        let metrics = run.lines();
        let metrics = metrics.iter().filter(|line| line.get("resourceMetrics").is_some());
        let mut ids = Vec::new();
        for line in metrics {
            let streams = streams(std::slice::from_ref(line));
            let times = of(&streams, "phasemeter.gpu.rate");
            assert!(times.iter().all(|stream| stream.points.len() == 1), "each GPU once");
            ids.push(times.iter().map(|stream| stream.attributes["hw.id"].clone()).collect());
        }
        ids
    };
    let run = |made: &[Made]| {
        let max_hold = MaxHold::Fixed(Nanos::from_secs(3));
        let config = MeterConfig { max_hold, ..MeterConfig::default() };
        let settings = settings(30, Aggregation::Explicit);
        run_with(config, made, ExperimentRequest::default(), settings)
    };
    let both = run(&[together(65), other(0)]);
    assert_eq!(gpus_a_request(&both), [["0", "1"], ["0", "1"], ["0", "1"]]);
    // The second begins when the first has been silent for long.
    let after = run(&[together(40), other(100)]);
    let alone = [vec!["0"], vec!["0", "1"], vec!["0", "1"], vec!["1"]];
    assert_eq!(gpus_a_request(&after), alone);
}

#[test]
fn two_gpus_of_the_same_index_stay_two() {
    let mut second = Made::new(0, "2", steady(0, 20, 95).collect());
    second.identity.name = "other.csv 0".into();
    let first = Made::new(0, "1", steady(0, 20, 95).collect());
    let run = run(&[first, second], ExperimentRequest::default(), ExportSettings::default());
    let streams = run.metrics();
    let rates = of(&streams, "phasemeter.gpu.rate");
    let rates: Vec<_> =
        rates.iter().map(|rate| (rate.attributes["hw.id"].as_str(), rate.last())).collect();
    assert_eq!(rates, [("0", 1.0), ("other.csv 0", 2.0)]);
    let ids: BTreeSet<_> = run.spans().into_iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), 5, "an experiment, two sessions, two phases");
}

#[test]
fn without_a_price_nothing_is_said_of_money() {
    let gpu = Made { price: None, ..Made::new(0, "1", steady(0, 20, 50).collect()) };
    let run = run(&[gpu], ExperimentRequest::default(), ExportSettings::default());
    for name in ["phasemeter.gpu.cost", "phasemeter.gpu.waste", "phasemeter.gpu.rate"] {
        assert!(of(&run.metrics(), name).is_empty(), "{name}");
    }
    let money = |key: &String| key.contains("cost") || key.contains("waste");
    assert!(!run.spans().iter().any(|span| span.attributes.keys().any(money)));
    assert!(!of(&run.metrics(), "phasemeter.gpu.time").is_empty());
}

#[test]
fn a_request_holds_at_most_512_spans() {
    // Ten seconds idle, ten busy: a span each, for hours between two exports.
    let readings = (0..1_200)
        .flat_map(|cycle| steady(cycle * 20, 10, 0).chain(steady(cycle * 20 + 10, 10, 100)));
    let gpu = Made::new(0, "1", readings.collect());
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
fn energy_on_another_basis_is_another_sum() {
    let readings = steady(0, 60, 50).map(|reading| {
        let power = Milliwatts::new(100_000);
        let counted = reading.at >= at(30_000);
        let energy =
            counted.then(|| Millijoules((reading.at.as_nanos() - at(0).as_nanos()) / 100_000));
        Reading { power, energy, ..reading }
    });
    let gpu = Made::new(0, "1", readings.collect());
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
    // Power until the counter appears after 30 s; the export before that was at 25 s.
    assert_eq!(
        points,
        [(0, 500.0), (0, 1_500.0), (0, 2_500.0), (25, 40.0), (25, 140.0), (25, 240.0), (25, 290.0)]
    );
}

/// Readings come two seconds after their time, measurements at once: what is told of an instant
/// holds what was measured until then, and nothing after.
#[test]
fn what_is_measured_counts_in_the_interval_of_its_time() {
    let made = Made::new(0, "1", steady(0, 30, 50).collect());
    let trace = TraceId::new([7; 16]).unwrap();
    let experiment = ExperimentRequest::default().open(at(0), Opening::Command { trace });
    let settings = settings(10, Aggregation::Explicit);
    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let description = GpuDescription { identity: &made.identity, memory_total: None, price: None };
    let config = MeterConfig { boundary_every: settings.every, ..MeterConfig::default() };
    let (mut meter, mut export) = (GpuMeter::new(config, None, None), exporter.begin(&description));
    for (second, reading) in (0..).zip(made.readings) {
        meter.push(reading, &mut exporter.observe(&mut export)).unwrap();
        let full = if second <= 5 { 100 } else { 20 };
        // The driver begins anew after 20 seconds.
        let stood = if second <= 20 { 100 + second } else { second - 20 };
        let mean = Utilization::from_percent(full).unwrap();
        let from = at(second * 1_000).saturating_sub(Nanos::SECOND);
        for value in [
            Measured::Mean { share: Share::Sm, from, mean },
            Measured::Stood { counter: Counter::PowerCap, at: stood * 1_000_000_000 },
        ] {
            export.measure(Measurement { at: at(second * 1_000), value });
        }
    }
    meter.finish(&mut exporter.observe(&mut export));
    exporter.end(export);
    let run = Run { requests: exporter.finish().collect(), summaries: Vec::new() };
    let streams = run.metrics();
    let points = |name| -> Vec<f64> {
        let [stream] = of(&streams, name)[..] else { panic!("one stream of {name}") };
        stream.points.iter().map(|point| number(&point["asDouble"])).collect()
    };
    // At 5, 15, 25 and 29 s.
    assert_eq!(points("phasemeter.gpu.sm.activity"), [1.0, 0.2, 0.2, 0.2]);
    assert_eq!(points("phasemeter.gpu.throttle.time"), [5.0, 15.0, 25.0, 29.0]);
    check_points(&run).unwrap();
}

#[test]
fn nothing_read_is_nothing_sent() {
    let run = run(
        &[Made::new(0, "1", Vec::new())],
        ExperimentRequest::default(),
        ExportSettings::default(),
    );
    assert!(run.requests.is_empty());
}

#[test]
fn power_alone_has_time_but_no_utilization() {
    let readings = (0..20).map(|second| Reading {
        power: Milliwatts::new(100_000),
        ..Reading::at(at(second * 1_000))
    });
    let run = run(
        &[Made::new(0, "1", readings.collect())],
        ExperimentRequest::default(),
        ExportSettings::default(),
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
