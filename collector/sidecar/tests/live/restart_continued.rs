//! Runs with a data directory that are killed and started again: one run, for the backend and in the report.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use phasemeter_process::send;

use crate::agent_accounts::{Node, end, length, stated_seconds};
use crate::files::reports_in;
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::run::{
    NO_POLICIES, assert_billed, assumptions, phasemeter, seconds, started, started_at,
};
use crate::signals::wait;
use crate::telemetry::decode;
use crate::{Rig, TIMEOUT};

const SIGTERM: i32 = 15;

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

/// The points of a sum, by its GPU and phase: start, time and total.
type Sums = BTreeMap<(String, String), Vec<(u64, u64, f64)>>;

fn sums(requests: &[ReceivedRequest], name: &str) -> Sums {
    let mut sums = Sums::new();
    for request in requests.iter().filter(|request| request.path.contains("metrics")) {
        let request: ExportMetricsServiceRequest = decode(request);
        let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
        let metrics = scopes.flat_map(|scope| scope.metrics);
        for metric in metrics.filter(|metric| metric.name == name) {
            let Some(Data::Sum(sum)) = metric.data else { panic!("{name}") };
            for point in sum.data_points {
                let Some(Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
                let of = |key| text(&point.attributes, key);
                let key = (of("hw.id"), of("phasemeter.phase"));
                let times = (point.start_time_unix_nano, point.time_unix_nano);
                sums.entry(key).or_default().push((times.0, times.1, value));
            }
        }
    }
    sums
}

/// Start and end of each span of a phase, by GPU.
fn phase_spans(requests: &[ReceivedRequest]) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut spans = BTreeMap::<_, BTreeMap<_, _>>::new();
    for request in requests.iter().filter(|request| request.path.contains("trace")) {
        let request: ExportTraceServiceRequest = decode(request);
        let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            if !text(&span.attributes, "phasemeter.phase").is_empty() {
                let of_gpu = spans.entry(text(&span.attributes, "hw.id")).or_default();
                // One that is sent again has the same ID.
                of_gpu.insert(span.span_id, (span.start_time_unix_nano, span.end_time_unix_nano));
            }
        }
    }
    let sorted = |spans: BTreeMap<Vec<u8>, (u64, u64)>| {
        let mut spans: Vec<_> = spans.into_values().collect();
        spans.sort_unstable();
        spans
    };
    spans.into_iter().map(|(gpu, spans)| (gpu, sorted(spans))).collect()
}

fn command(rig: &Rig, backend: &MockBackend, data: &Path, arguments: &str) -> Command {
    let arguments = format!("{NO_POLICIES} --data-dir {} {arguments}", data.display());
    let mut command = phasemeter(rig, &arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").env("OTEL_SDK_DISABLED", "true");
    command
}

/// Scenario: a run without a command is killed twice, and started again with the same arguments.
/// Guarantee: sums go on with their start and never fall, the last ones have the whole time, the spans of each GPU tile it,
/// and there is one report, of all of it, in which the time without a process is unobserved.
#[test]
fn run_that_is_killed_goes_on_with_its_accounts_sums_and_spans() {
    let gpu = "[[device]]\n[[device.phase]]\nutilization = 50\n";
    let rig = Rig::new(&gpu.repeat(2));
    let dir = tempfile::tempdir().unwrap();
    let backend = MockBackend::start([]);
    let mut requests = Vec::new();
    let mut unobserved = Duration::ZERO;
    let mut killed: Option<Instant> = None;
    for _ in 0..2 {
        let (run, log) = started(&mut command(&rig, &backend, dir.path(), ""));
        if let Some(killed) = killed {
            log.wait_for("a run that was killed goes on");
            unobserved += killed.elapsed();
        }
        // The first export takes the allowed lateness and an interval, 16 s.
        let (began, before) = (Instant::now(), requests.len());
        while sums(&requests[before..], "phasemeter.gpu.time").values().all(|it| it.len() < 3) {
            assert!(began.elapsed() < TIMEOUT, "no sums");
            requests.extend(backend.received());
            thread::sleep(Duration::from_millis(100));
        }
        // Killed.
        killed = Some(Instant::now());
        drop(run);
        thread::sleep(Duration::from_secs(3));
    }
    let (mut run, log) = started(&mut command(&rig, &backend, dir.path(), ""));
    log.wait_for("a run that was killed goes on");
    unobserved += killed.unwrap().elapsed();
    thread::sleep(Duration::from_secs(2));
    send(run.0.id(), SIGTERM).unwrap();
    assert_eq!(wait(&mut run.0), Some(0));
    requests.extend(backend.received());

    let reports = reports_in(&dir.path().join("reports"));
    let [(_, report)] = &reports[..] else { panic!("{reports:?}") };
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2);
    for gpu in gpus {
        assert_billed(gpu);
        let found = seconds(&gpu["unobserved_seconds"]);
        let (least, most) = (4.0, unobserved.as_secs_f64() + 2.0);
        assert!((least..most).contains(&found), "{found} s of {unobserved:?}: {gpu:#}");
    }
    let time = sums(&requests, "phasemeter.gpu.time");
    let mut all = BTreeMap::<_, f64>::new();
    let starts: Vec<_> = time.values().flatten().map(|(start, ..)| *start).collect();
    assert!(starts.iter().all(|start| *start == starts[0]), "{time:#?}");
    for ((gpu, phase), points) in &time {
        let mut points = points.clone();
        points.sort_by_key(|(_, time, _)| *time);
        let falls = points.windows(2).any(|two| two[1].2 < two[0].2);
        assert!(!falls, "{gpu} {phase}: {points:#?}");
        let (start, end, last) = *points.last().unwrap();
        let sum = all.entry((gpu.clone(), start, end)).or_default();
        *sum += last;
    }
    assert_eq!(all.len(), 2, "{all:?}");
    #[expect(clippy::cast_precision_loss, reason = "a test is short")]
    for ((gpu, start, end), sum) in all {
        let length = (end - start) as f64 / 1e9;
        assert!((sum - length).abs() < 1e-6, "{gpu}: {sum} of {length} s");
    }
    let spans = phase_spans(&requests);
    assert_eq!(spans.len(), 2);
    for (gpu, spans) in spans {
        assert!(spans.windows(2).all(|two| two[0].1 == two[1].0), "{gpu}: {spans:?}");
        assert_eq!(spans[0].0, starts[0], "{gpu}");
    }
}

/// Scenario: a run is killed, and another one begins at another price.
/// Guarantee: it is another run, with a report of its own.
#[test]
fn run_of_other_arguments_is_another_one() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let backend = MockBackend::start([]);
    let (run, _log) = started(&mut command(&rig, &backend, dir.path(), "--interval 0.2"));
    thread::sleep(Duration::from_secs(3));
    drop(run);
    let output =
        command(&rig, &backend, dir.path(), "--interval 0.1 --duration 1").output().unwrap();
    let log = crate::run::stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(!log.contains("goes on"), "{log}");
}

/// Scenario: the agent of a node is killed and started again while a sidecar runs.
/// Guarantee: its accounts go on, also those of pods: the sidecar has no time that is in no account of the agent.
#[test]
fn agent_that_is_killed_goes_on_with_the_accounts_of_pods() {
    let node = Node::start();
    node.runs(&["a"]);
    let agent = || {
        let mut command = node.agent_command("agent.json");
        command.arg("--data-dir").arg(node.path("data"));
        command
    };
    let (killed, _log) = started_at("sidecars are answered", &mut agent());
    node.wait_until_held("a", true);
    let (sidecar, _log) = node.sidecar("a", "a.json", "metering 1 of 1 GPUs");
    // Until its accounts have reached the run.
    let began = Instant::now();
    while stated_seconds(&node.path("agent.sock")) < 17.0 {
        assert!(began.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(100));
    }
    drop(killed);
    let killed = Instant::now();
    thread::sleep(Duration::from_secs(2));
    let (again, log) = started_at("a run that was killed goes on", &mut agent());
    log.wait_for("sidecars are answered");
    node.wait_until_held("a", true);
    let most = killed.elapsed().as_secs_f64() + 2.0;
    end(sidecar);
    end(again);
    let report = node.report("a.json");
    let notes = assumptions(&report);
    assert!(!notes.contains("are in no account of the agent"), "{notes}");
    let gpu = &report["gpus"][0];
    // A quarter of it.
    let accounted = seconds(&gpu["span_seconds"]) * 4.0;
    assert!((accounted - length(gpu)).abs() < 0.1, "{notes} {gpu:#}");
    let of_agent = &node.report("agent.json")["gpus"][0];
    assert_billed(of_agent);
    let unobserved = seconds(&of_agent["unobserved_seconds"]);
    // The driver may have kept samples of the time without a process.
    assert!((0.0..most).contains(&unobserved), "{unobserved} of {most} s: {of_agent:#}");
}
