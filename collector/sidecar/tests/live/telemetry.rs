//! Internal telemetry, separate from the data of the GPUs.

use std::process::Command;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, number_data_point,
};
use prost::Message;
use serde::de::DeserializeOwned;

use crate::mock_backend::{MockBackend, ReceivedRequest, Reply, Unreachable};
use crate::policies::{hostile, recommender};
use crate::run::{assert_observed, phasemeter, run_with_report, stderr};
use crate::{Rig, unless_stalled};

/// Received data by subject.
#[derive(Default)]
pub(crate) struct Received {
    /// The sidecar, per request.
    pub(crate) own: Vec<ResourceMetrics>,
    /// The GPUs as hardware, per request.
    hardware: Vec<ResourceMetrics>,
    /// Data points, spans and log records of everything else.
    points: u64,
    spans: u64,
    logs: u64,
}

pub(crate) fn received(requests: &[ReceivedRequest]) -> Received {
    let mut received = Received::default();
    for request in requests {
        let path = request.path.to_lowercase();
        if path.contains("metrics") {
            let request: ExportMetricsServiceRequest = decode(request);
            for resource in request.resource_metrics {
                let is_phasemeter =
                    text(about(&resource), "service.name").as_deref() == Some("phasemeter");
                let metrics = resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
                let of_gpu = ["hw.", "phasemeter.gpu."];
                let is_of_gpu = |name: &str| of_gpu.iter().any(|prefix| name.starts_with(prefix));
                let is_hardware =
                    is_phasemeter && metrics.clone().all(|metric| is_of_gpu(&metric.name));
                if is_phasemeter && !is_hardware {
                    received.own.push(resource);
                    continue;
                }
                received.points += metrics.map(points).sum::<u64>();
                assert_eq!(is_phasemeter, is_hardware, "{resource:?}");
                if is_hardware {
                    received.hardware.push(resource);
                }
            }
        } else if path.contains("trace") {
            let request: ExportTraceServiceRequest = decode(request);
            let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
            received.spans += scopes.map(|scope| scope.spans.len() as u64).sum::<u64>();
        } else {
            let request: ExportLogsServiceRequest = decode(request);
            let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
            received.logs += scopes.map(|scope| scope.log_records.len() as u64).sum::<u64>();
        }
    }
    received
}

/// The contents of a request over any protocol.
pub(crate) fn decode<T: Message + Default + DeserializeOwned>(request: &ReceivedRequest) -> T {
    let body = request.body.clone();
    match request.headers["content-type"].to_str().unwrap() {
        "application/json" => serde_json::from_slice(&body).unwrap(),
        "application/x-protobuf" => T::decode(body).unwrap(),
        // gRPC adds a flag and a length.
        _ => T::decode(body.slice(5..)).unwrap(),
    }
}

fn about(resource: &ResourceMetrics) -> &[KeyValue] {
    &resource.resource.as_ref().unwrap().attributes
}

/// The policy generation of a point.
pub(crate) fn generation(point: &NumberDataPoint) -> i64 {
    integer(&point.attributes, "phasemeter.policy_set.generation")
}

pub(crate) fn count(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(number_data_point::Value::AsInt(value)) => value,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        other => panic!("{key} is {other:?}"),
    }
}

fn integer(attributes: &[KeyValue], key: &str) -> i64 {
    let found = attributes.iter().find(|attribute| attribute.key == key).unwrap();
    match found.value.as_ref().unwrap().value {
        Some(any_value::Value::IntValue(value)) => value,
        ref other => panic!("{key} is {other:?}"),
    }
}

fn points(metric: &Metric) -> u64 {
    let points = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => gauge.data_points.len(),
        Data::Sum(sum) => sum.data_points.len(),
        Data::Histogram(histogram) => histogram.data_points.len(),
        Data::ExponentialHistogram(histogram) => histogram.data_points.len(),
        Data::Summary(summary) => summary.data_points.len(),
    };
    points as u64
}

/// The last export of a resource.
pub(crate) struct LastExport<'a>(pub(crate) &'a ResourceMetrics);

impl LastExport<'_> {
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        let mut metrics = self.0.scope_metrics.iter().flat_map(|scope| &scope.metrics);
        metrics.find(|metric| metric.name == name)
    }

    pub(crate) fn sum(&self, name: &str) -> &[NumberDataPoint] {
        match self.metric(name).map(|metric| metric.data.as_ref().unwrap()) {
            Some(Data::Sum(sum)) => &sum.data_points,
            other => panic!("{name} is {other:?}"),
        }
    }

    fn histogram(&self, name: &str) -> &[HistogramDataPoint] {
        match self.metric(name).map(|metric| metric.data.as_ref().unwrap()) {
            Some(Data::Histogram(histogram)) => &histogram.data_points,
            other => panic!("{name} is {other:?}"),
        }
    }

    /// The only point of an integer sum.
    fn integer(&self, name: &str) -> u64 {
        let [point] = self.sum(name) else { panic!("{name}: {:?}", self.sum(name)) };
        count(point).try_into().unwrap()
    }
}

#[test]
fn internal_telemetry_is_accurate_and_separate() {
    unless_stalled(|| {
        for (protocol, kind) in
            [("http/protobuf", "http"), ("http/json", "http_json"), ("grpc", "grpc")]
        {
            let rig = Rig::new(
                "length_ms = 60000
            [[device]]
            [[device.phase]]
            utilization = 50
            [[device]]
            [[fault]]
            device = 0
            at_ms = 500
            xid = 79",
            );
            let backend = MockBackend::start([]);
            let began = Instant::now();
            let (output, report) = run_with_report(&rig, "--duration 2", |command| {
                command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
                command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
                command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
                command.env("OTEL_SERVICE_NAME", "trainer");
            });
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let Received { own, hardware, points, spans, logs } = received(&backend.received());
            assert!(own.len() >= 2, "one export per second, and one at the end");
            let last = LastExport(own.last().unwrap());

            // Two senders are two instances, in the same place.
            let about_own = about(last.0);
            let instance = |about| text(about, "service.instance.id").unwrap();
            assert!(!hardware.is_empty());
            for resource in &hardware {
                let about = about(resource);
                assert_ne!(instance(about), instance(about_own));
                assert_eq!(text(about, "host.name"), text(about_own, "host.name"));
                assert_eq!(text(about, "telemetry.sdk.name"), None, "not encoded by the SDK");
            }
            assert_eq!(text(about_own, "service.version").unwrap(), env!("CARGO_PKG_VERSION"));
            assert_eq!(text(about_own, "service.instance.id").unwrap().len(), 36);
            assert_eq!(text(about_own, "telemetry.sdk.name").unwrap(), "opentelemetry");

            // Every tick of two GPUs is on time, late or missed.
            let [lateness] = last.histogram("phasemeter.sampler.lateness") else { panic!() };
            let due = lateness.count + last.integer("phasemeter.sampler.tick.missed");
            let most = 2.0 * (began.elapsed().as_secs_f64() * 10.0 + 1.0);
            assert!(due >= 40 && due as f64 <= most, "{due}");
            assert_eq!(last.integer("phasemeter.sampler.observation.dropped"), 0);
            assert_eq!(last.integer("phasemeter.pipeline.reading.late"), 0);
            let calls = last.histogram("phasemeter.nvml.call.duration");
            let power = calls.iter().find(|point| {
                text(&point.attributes, "phasemeter.nvml.call.name").as_deref() == Some("power")
            });
            // Power is read at every tick, and once more at the end.
            assert_eq!(power.unwrap().count, lateness.count + 2);

            assert_eq!(last.integer("otel.sdk.exporter.metric_data_point.exported"), points);
            assert_eq!(last.integer("otel.sdk.exporter.span.exported"), spans);
            assert_eq!(last.integer("otel.sdk.exporter.log.exported"), logs);
            assert_eq!(last.integer("otel.sdk.exporter.metric_data_point.inflight"), 0);
            assert!(points > 0 && spans > 0 && logs > 0, "{points} {spans} {logs}");
            let exported = &last.sum("otel.sdk.exporter.span.exported")[0].attributes;
            let component = text(exported, "otel.component.type").unwrap();
            assert_eq!(component, format!("otlp_{kind}_span_exporter"));
            let operations = last.histogram("otel.sdk.exporter.operation.duration");
            assert_eq!(operations.len(), 3, "one per signal");
            for HistogramDataPoint { attributes, .. } in operations {
                assert_eq!(text(attributes, "error.type"), None);
                assert_eq!(text(attributes, "server.address").unwrap(), "127.0.0.1");
                assert_eq!(integer(attributes, "server.port"), i64::from(backend.address.port()));
                if protocol == "grpc" {
                    assert_eq!(text(attributes, "rpc.response.status_code").unwrap(), "OK");
                } else {
                    assert_eq!(integer(attributes, "http.response.status_code"), 200);
                }
            }

            assert!(last.integer("process.memory.usage") > 1024 * 1024);
            let modes = last.sum("process.cpu.time").iter();
            let mut modes: Vec<_> =
                modes.map(|point| text(&point.attributes, "cpu.mode").unwrap()).collect();
            modes.sort_unstable();
            assert_eq!(modes, ["system", "user"]);
            assert_eq!(last.0.schema_url, phasemeter_otlp::encode::SCHEMA);

            // The report counts only the data of the GPUs.
            let notes = report["delivery"].to_string();
            assert!(notes.contains(&format!("{points} points sent")), "{notes}");
        }
    });
}

/// Scenario: one policy recommends and another traps.
/// Guarantee: evaluations, fuel, time and errors of each are exported, and which of them fails.
#[test]
fn policy_telemetry_identifies_failing_policy() {
    let rig = Rig::new("[[device]]\nuuid = \"GPU-0\"\n[[device.phase]]\nutilization = 50");
    let dir = tempfile::tempdir().unwrap();
    for (name, policy) in [("good", recommender("good", '1')), ("bad", hostile("trap-unreachable"))]
    {
        std::fs::write(dir.path().join(format!("{name}.wasm")), policy).unwrap();
    }
    let backend = MockBackend::start([]);
    let arguments =
        format!("--duration 1 --no-default-policies --policies {}", dir.path().display());
    let (output, _) = run_with_report(&rig, &arguments, |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "500");
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let Received { own, .. } = received(&backend.received());
    let last = LastExport(own.last().unwrap());
    let of = |name: &str, policy: &str| {
        let points = last.sum(name).iter();
        let is_it = |point: &&NumberDataPoint| {
            text(&point.attributes, "phasemeter.policy.name").as_deref() == Some(policy)
        };
        points.clone().find(is_it).unwrap_or_else(|| panic!("{name} of {policy}")).clone()
    };
    let integer = |point: NumberDataPoint| count(&point);
    // The policy that traps is named "evil".
    for policy in ["good", "evil"] {
        assert_eq!(integer(of("phasemeter.policy.evaluations", policy)), 1, "at the end");
        assert!(integer(of("phasemeter.policy.fuel", policy)) > 0);
        assert!(of("phasemeter.policy.time", policy).value.is_some());
    }
    let fault = of("phasemeter.policy.errors", "evil");
    assert_eq!(text(&fault.attributes, "error.type").as_deref(), Some("trap"));
    assert_eq!(integer(fault), integer(of("phasemeter.policy.evaluations", "evil")));
    for (policy, state) in [("good", "active"), ("evil", "failing")] {
        let status = of("phasemeter.policy.status", policy);
        assert_eq!(text(&status.attributes, "phasemeter.policy.state").as_deref(), Some(state));
    }
    for name in ["evaluations", "fuel", "time", "memory", "errors", "status"] {
        let name = format!("phasemeter.policy.{name}");
        let points = match last.metric(&name).unwrap().data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{name} is {other:?}"),
        };
        assert!(points.iter().all(|point| generation(point) == 1), "{name}: {points:?}");
    }
    let status = of("phasemeter.policy.status", "good");
    assert_eq!(text(&status.attributes, "phasemeter.policy_set.digest").unwrap().len(), 64);
}

#[test]
fn unresponsive_backend_does_not_change_report_or_delay_end() {
    unless_stalled(|| {
        let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
        let backend = MockBackend::start(std::iter::repeat_n(Reply::NoResponse, 1_000));
        let began = Instant::now();
        let (output, report) = run_with_report(&rig, "--duration 1", |command| {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        });
        // Both exporters share the grace period of five seconds.
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_observed(&report["gpus"][0]);
        let notes = report["delivery"].to_string();
        assert!(notes.contains("unsent"), "{notes}");
    });
}

#[test]
fn internal_telemetry_errors_are_logged_separately() {
    let rig = Rig::new("[[device]]");
    let mut command = phasemeter(&rig, "--duration 0.5");
    let backend = Unreachable::reserve();
    let endpoint = format!("http://{}", backend.address);
    let output = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let log = stderr(&output);
    for subject in ["metrics", "traces", "internal telemetry"] {
        let line = format!("phasemeter: {subject}, http/protobuf to {endpoint}/v1/");
        assert_eq!(log.matches(&line).count(), 1, "{subject}: {log}");
    }
}

#[test]
fn disabled_sdk_exports_no_internal_telemetry() {
    let rig = Rig::new("[[device]]");
    let backend = MockBackend::start([]);
    let mut command = phasemeter(&rig, "--duration 0.4");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    let output = command.env("OTEL_SDK_DISABLED", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let Received { own, points, .. } = received(&backend.received());
    assert!(own.is_empty() && points > 0);
}

/// The C library reads the aliases of hosts from a pipe that is never written.
#[test]
fn hanging_resolver_does_not_panic_at_end() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let aliases = dir.path().join("aliases");
    assert!(Command::new("mkfifo").arg(&aliases).status().unwrap().success());
    for protocol in ["grpc", "http/protobuf"] {
        let (output, report) = run_with_report(&rig, "--duration 1", |command| {
            command.env("HOSTALIASES", &aliases);
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
            command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "300");
        });
        let log = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
        assert!(report["delivery"].to_string().contains("unsent"), "{report:#}");
    }
}
