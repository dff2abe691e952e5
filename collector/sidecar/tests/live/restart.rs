//! A run without a command that is killed and started again.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use crate::mock_backend::MockBackend;
use crate::otlp;
use crate::run::{phasemeter, run_with_report, started, stderr};
use crate::telemetry::decode;
use crate::{Rig, TIMEOUT};

/// Start and time of the points of `phasemeter.gpu.time`, and the sum of each export, in nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a short time since the start"
)]
fn exports(backend: &MockBackend) -> Vec<(u64, u64, u64)> {
    let received = backend.received();
    let requests = received.iter().filter(|request| request.path.contains("metrics"));
    let requests = requests.map(decode::<ExportMetricsServiceRequest>);
    let groups: Vec<_> = requests.flat_map(|request| request.resource_metrics).collect();
    let scopes = groups.iter().flat_map(|group| &group.scope_metrics);
    let metrics = scopes.flat_map(|scope| &scope.metrics);
    let mut exports: Vec<(u64, u64, u64)> = Vec::new();
    for metric in metrics.filter(|metric| metric.name == "phasemeter.gpu.time") {
        let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
        let of = |value: &Option<Value>| match value {
            Some(Value::AsDouble(seconds)) => (seconds * 1e9).round() as u64,
            other => panic!("{other:?}"),
        };
        let total = sum.data_points.iter().map(|point| of(&point.value)).sum();
        let point = &sum.data_points[0];
        exports.push((point.start_time_unix_nano, point.time_unix_nano, total));
    }
    exports
}

/// Scenario: a sidecar is killed after some exports, and started again with its state.
/// Guarantee: what it has billed, the gap and what it bills then follow one another without overlap; the gap
/// is an event and a line of the report.
#[test]
fn sums_before_and_after_a_kill_and_the_gap_are_the_whole_time() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let dir = tempfile::tempdir().unwrap();
    let [state, file] = ["state.json", "otlp.json"].map(|name| dir.path().join(name));
    let backend = MockBackend::start([]);
    let endpoint = format!("http://{}", backend.address);
    let arguments = format!("--state {}", state.display());
    let mut command = phasemeter(&rig, &arguments);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    let (run, _log) = started(&mut command);
    let began = Instant::now();
    while !state.exists() {
        assert!(began.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(50));
    }
    // Killed.
    drop(run);
    let kept = fs::read_to_string(&state).unwrap();
    let exports = exports(&backend);
    let (start, _, _) = exports[0];
    let is_kept = |(_, at, _): &&(u64, u64, u64)| {
        kept.contains(
            &phasemeter_meter::instant::Instant(
                phasemeter_meter::units::Timestamp::from_nanos(*at).unwrap(),
            )
            .to_string(),
        )
    };
    let (_, until, billed) =
        *exports.iter().find(is_kept).unwrap_or_else(|| panic!("{kept}: {exports:?}"));
    assert_eq!(start + billed, until, "the sums are the time until then");

    let arguments = format!("{arguments} --duration 1 --otlp-file {}", file.display());
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    let gap =
        captured.events.iter().find(|event| event.event_name == "phasemeter.gpu.gap").unwrap();
    let gap: f64 =
        otlp::attributes(&gap.attributes)["phasemeter.gpu.gap.duration"].parse().unwrap();
    let streams = captured.streams("phasemeter.gpu.time");
    let next = streams.values().next().unwrap().points[0].start;
    assert!(((next - until) as f64 / 1e9 - gap).abs() < 1e-6, "{until} + {gap} s ≠ {next}");
    let notes = crate::run::assumptions(&report);
    assert!(notes.contains("between an earlier run and this one are not billed"), "{notes}");
}
