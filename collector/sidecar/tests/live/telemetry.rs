//! What the sidecar tells of itself, beside what it tells of the GPUs.

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

use crate::Rig;
use crate::backend::{Backend, Reply, Seen};
use crate::policies::{hostile, recommender};
use crate::run::{assert_observed, phasemeter, reported, stderr};

/// What arrived, told apart by whom it is about.
#[derive(Default)]
pub(crate) struct Arrived {
    /// Of the sidecar, a request each.
    own: Vec<ResourceMetrics>,
    /// Of generations of its policies, a request each.
    pub(crate) generations: Vec<ResourceMetrics>,
    /// Data points, spans and log records of everything else.
    points: u64,
    spans: u64,
    logs: u64,
}

pub(crate) fn arrived(seen: &[Seen]) -> Arrived {
    let mut arrived = Arrived::default();
    for Seen { path, body, .. } in seen {
        // gRPC puts a flag and a length before it.
        let (grpc, path) = (path.contains("opentelemetry"), path.to_lowercase());
        let body = if grpc { body.slice(5..) } else { body.clone() };
        if path.contains("metrics") {
            let request = ExportMetricsServiceRequest::decode(body).unwrap();
            for resource in request.resource_metrics {
                let about = &resource.resource.as_ref().unwrap().attributes;
                if text(about, "service.name").as_deref() == Some("phasemeter") {
                    let is_own = generation(&resource).is_none();
                    let of = if is_own { &mut arrived.own } else { &mut arrived.generations };
                    of.push(resource);
                } else {
                    let metrics = resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
                    arrived.points += metrics.map(points).sum::<u64>();
                }
            }
        } else if path.contains("trace") {
            let request = ExportTraceServiceRequest::decode(body).unwrap();
            let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
            arrived.spans += scopes.map(|scope| scope.spans.len() as u64).sum::<u64>();
        } else {
            let request = ExportLogsServiceRequest::decode(body).unwrap();
            let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
            arrived.logs += scopes.map(|scope| scope.log_records.len() as u64).sum::<u64>();
        }
    }
    arrived
}

/// The number of the generation that a resource is.
pub(crate) fn generation(resource: &ResourceMetrics) -> Option<i64> {
    let about = &resource.resource.as_ref().unwrap().attributes;
    let found = about.iter().find(|it| it.key == "phasemeter.policy.generation")?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::IntValue(number) => Some(*number),
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

/// The last export of the sidecar.
pub(crate) struct Last<'a>(pub(crate) &'a ResourceMetrics);

impl Last<'_> {
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

    /// The one point of a sum of whole numbers.
    fn whole(&self, name: &str) -> u64 {
        let [point] = self.sum(name) else { panic!("{name}: {:?}", self.sum(name)) };
        match point.value {
            Some(number_data_point::Value::AsInt(value)) => value.try_into().unwrap(),
            other => panic!("{name} is {other:?}"),
        }
    }
}

#[test]
fn what_the_sidecar_tells_of_itself_is_true_and_stands_apart() {
    for protocol in ["http/protobuf", "grpc"] {
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
        let backend = Backend::start([]);
        let (output, report) = reported(&rig, "--duration 2", |command| {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
            command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
            command.env("OTEL_SERVICE_NAME", "trainer");
        });
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let Arrived { own, points, spans, logs, .. } = arrived(&backend.rest());
        assert!(own.len() >= 2, "an export a second, and one at the end");
        let last = Last(own.last().unwrap());

        let about = &last.0.resource.as_ref().unwrap().attributes;
        assert_eq!(text(about, "service.version").unwrap(), env!("CARGO_PKG_VERSION"));
        assert_eq!(text(about, "service.instance.id").unwrap().len(), 36);
        assert_eq!(text(about, "telemetry.sdk.name").unwrap(), "opentelemetry");

        // Each deadline of two GPUs in two seconds came or was missed.
        let [lateness] = last.histogram("phasemeter.sampler.lateness") else { panic!() };
        let due = lateness.count + last.whole("phasemeter.sampler.missed");
        assert!((40..=60).contains(&due), "{due}");
        assert_eq!(last.whole("phasemeter.sampler.dropped"), 0);
        assert_eq!(last.whole("phasemeter.pipeline.late"), 0);
        let calls = last.histogram("phasemeter.nvml.call.duration");
        let power = calls.iter().find(|point| {
            text(&point.attributes, "phasemeter.nvml.call").as_deref() == Some("power")
        });
        // It is asked at each tick, and a last time at the end.
        assert_eq!(power.unwrap().count, lateness.count + 2);

        assert_eq!(last.whole("otel.sdk.exporter.metric_data_point.exported"), points);
        assert_eq!(last.whole("otel.sdk.exporter.span.exported"), spans);
        assert_eq!(last.whole("otel.sdk.exporter.log.exported"), logs);
        assert_eq!(last.whole("otel.sdk.exporter.metric_data_point.inflight"), 0);
        assert!(points > 0 && spans > 0 && logs > 0, "{points} {spans} {logs}");
        let kind = if protocol == "grpc" { "grpc" } else { "http" };
        let exported = &last.sum("otel.sdk.exporter.span.exported")[0].attributes;
        let component = text(exported, "otel.component.type").unwrap();
        assert_eq!(component, format!("otlp_{kind}_span_exporter"));
        let attempts = last.histogram("otel.sdk.exporter.operation.duration");
        assert!(attempts.iter().all(|point| text(&point.attributes, "error.type").is_none()));
        assert_eq!(attempts.len(), 3, "a signal each");

        assert!(last.whole("process.memory.usage") > 1024 * 1024);
        assert!(last.metric("process.cpu.time").is_some());

        // What is said of the GPUs' data counts only that.
        let told = report["assumptions"].to_string();
        assert!(told.contains(&format!("{points} points sent")), "{told}");
    }
}

/// Scenario: of two policies one advises and one traps.
/// Guarantee: runs, fuel, time and faults of each are told, and which of them fails.
#[test]
fn policies_are_told_of_and_a_failing_one_is_seen() {
    let rig = Rig::new("[[device]]\nuuid = \"GPU-0\"\n[[device.phase]]\nutilization = 50");
    let folder = tempfile::tempdir().unwrap();
    for (name, policy) in [("good", recommender("good", '1')), ("bad", hostile("trap-unreachable"))]
    {
        std::fs::write(folder.path().join(format!("{name}.wasm")), policy).unwrap();
    }
    let backend = Backend::start([]);
    let arguments =
        format!("--duration 1 --no-default-policies --policies {}", folder.path().display());
    let (output, _) = reported(&rig, &arguments, |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "500");
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let Arrived { own, generations, .. } = arrived(&backend.rest());
    let last = Last(generations.last().unwrap());
    let of = |name: &str, policy: &str| {
        let points = last.sum(name).iter();
        let is_it = |point: &&NumberDataPoint| {
            text(&point.attributes, "phasemeter.policy.name").as_deref() == Some(policy)
        };
        points.clone().find(is_it).unwrap_or_else(|| panic!("{name} of {policy}")).clone()
    };
    let whole = |point: NumberDataPoint| match point.value {
        Some(number_data_point::Value::AsInt(value)) => value,
        other => panic!("{other:?}"),
    };
    // "evil" is what the one that traps calls itself.
    for policy in ["good", "evil"] {
        assert_eq!(whole(of("phasemeter.policy.runs", policy)), 1, "at the end");
        assert!(whole(of("phasemeter.policy.fuel", policy)) > 0);
        assert!(of("phasemeter.policy.time", policy).value.is_some());
    }
    let fault = of("phasemeter.policy.faults", "evil");
    assert_eq!(text(&fault.attributes, "error.type").as_deref(), Some("trap"));
    assert_eq!(whole(fault), whole(of("phasemeter.policy.runs", "evil")));
    for (policy, state) in [("good", "in_use"), ("evil", "failing")] {
        let status = of("phasemeter.policy.status", policy);
        assert_eq!(text(&status.attributes, "phasemeter.policy.state").as_deref(), Some(state));
    }
    assert_eq!(generation(last.0), Some(1));
    // The generation is another resource than the sidecar that it runs in.
    let sidecar = Last(own.last().unwrap());
    let names = sidecar.0.scope_metrics.iter().flat_map(|scope| &scope.metrics);
    let names: Vec<_> = names.map(|metric| metric.name.as_str()).collect();
    assert!(names.iter().all(|name| !name.starts_with("phasemeter.policy")), "{names:?}");
    let about = |it: &Last<'_>| it.0.resource.as_ref().unwrap().attributes.clone();
    let instance = |it: &Last<'_>| text(&about(it), "service.instance.id").unwrap();
    assert_eq!(instance(&last), instance(&sidecar));
    assert_eq!(text(&about(&last), "phasemeter.policies.digest").unwrap().len(), 64);
}

#[test]
fn a_backend_that_is_dead_to_it_changes_neither_the_end_nor_the_report() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let backend = Backend::start(std::iter::repeat_n(Reply::Silence, 1_000));
    let began = Instant::now();
    let (output, report) = reported(&rig, "--duration 1", |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    });
    // The grace of five seconds is for both together.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_observed(&report["gpus"][0]);
    let told = report["assumptions"].to_string();
    assert!(told.contains("left unsent"), "{told}");
}

#[test]
fn its_own_troubles_are_told_under_its_own_name() {
    let rig = Rig::new("[[device]]");
    let mut command = phasemeter(&rig, "--duration 0.5");
    let output = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = stderr(&output);
    for subject in ["metrics", "traces", "self-telemetry"] {
        let line = format!("phasemeter: {subject}, http/protobuf to http://127.0.0.1:9/v1/");
        assert_eq!(told.matches(&line).count(), 1, "{subject}: {told}");
    }
}

#[test]
fn it_is_silent_where_the_sdk_is_disabled() {
    let rig = Rig::new("[[device]]");
    let backend = Backend::start([]);
    let mut command = phasemeter(&rig, "--duration 0.4");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    let output = command.env("OTEL_SDK_DISABLED", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let Arrived { own, points, .. } = arrived(&backend.rest());
    assert!(own.is_empty() && points > 0);
}
