//! A command that the sidecar runs sends its telemetry to it: it passes through, and its spans are priced.

use std::fs;

use fake_nvml::Fake;
use phasemeter_otlp::Signal;
use serde_json::Value;

use crate::mock_backend::MockBackend;
use crate::{body, process, span_requests};

/// A command of bash that posts this JSON to the receiver of the sidecar, and prints the response.
fn post(path: &str, json: &str) -> String {
    format!(
        "address=${{OTEL_EXPORTER_OTLP_ENDPOINT#http://}}; json={json}; \
         exec 3<>/dev/tcp/${{address%:*}}/${{address##*:}}; \
         printf 'POST {path} HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\
         content-type: application/json\\r\\ncontent-length: %s\\r\\n\\r\\n%s' ${{#json}} \"$json\" >&3; \
         read -r line <&3; echo \"$line $OTEL_EXPORTER_OTLP_HEADERS\""
    )
}

#[test]
fn span_of_a_command_is_priced() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::install(directory.path(), process::ONE_GPU).unwrap();
    let report = directory.path().join("report.json");
    let span = r#"'{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"name":"train_step","traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","startTimeUnixNano":"'$from'","endTimeUnixNano":"'$to'"}]}]}]}'"#;
    let work =
        format!("from=$(date +%s%N); sleep 1; to=$(date +%s%N); {}", post("/v1/traces", span));
    let mut command = process::phasemeter(&backend);
    command.envs(fake.environment()).args(["run", "--price=3.6", "--price-spans", "train_*"]);
    command
        .args(["--no-default-policies", "--report"])
        .arg(&report)
        .args(["--", "bash", "-c", &work]);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "HTTP/1.1 200 OK", "{log}");
    let requests = backend.received();
    let spans = span_requests::received_spans(&requests);
    let [span_requests::ReceivedSpan { span, price: Some(price), .. }] = &spans[..] else {
        panic!("{spans:?}: {log}");
    };
    let nanos = span.end_time_unix_nano - span.start_time_unix_nano;
    assert_eq!((price.gpu_seconds * 1e9).round() as u64, nanos, "the GPU is its own");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let usd = |value: &Value| value.as_str().unwrap().replace('.', "").parse::<u64>().unwrap();
    let attribution = &report["attribution"];
    assert_eq!(usd(&attribution["spans_usd"]), price.nano_usd, "{attribution}");
    let sum = price.nano_usd + usd(&attribution["unattributed_usd"]);
    assert_eq!(sum, usd(&report["cost"]["total_usd"]), "{attribution}");
    assert!(price.nano_usd.abs_diff(nanos / 1_000) <= 3, "{price:?} of {nanos} ns");
}

/// Scenario: two GPUs, each used by one process of a training job. The processes compute one after the
/// other, and their spans name them.
/// Guarantee: each span is charged for the GPU of its process. In a container, where process IDs are not
/// those that the driver has, it is charged for both.
#[test]
fn span_of_a_command_is_charged_for_the_gpu_of_its_process() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let device = |pid| format!("[[device]]\n[[device.phase]]\nprocesses = [{{ pid = {pid} }}]\n");
    let fake = Fake::install(directory.path(), &[device(4_711), device(4_712)].concat()).unwrap();
    let resource = |pid| {
        format!(r#"{{"attributes":[{{"key":"process.pid","value":{{"intValue":"{pid}"}}}}]}}"#)
    };
    let span = |pid: u32, id: &str, from: &str, to: &str| {
        let (trace, span) = (id.repeat(16), id.repeat(8));
        let span = format!(
            r#"{{"name":"train_step","traceId":"{trace}","spanId":"{span}","startTimeUnixNano":"'${from}'","endTimeUnixNano":"'${to}'"}}"#
        );
        format!(r#"{{"resource":{},"scopeSpans":[{{"spans":[{span}]}}]}}"#, resource(pid))
    };
    let (first, second) = (span(4_711, "01", "a", "b"), span(4_712, "02", "b", "c"));
    let spans = format!(r#"'{{"resourceSpans":[{first},{second}]}}'"#);
    // The processes are listed every second.
    let work = format!(
        "now() {{ date +%s%N; }}; sleep 1.5; a=$(now); sleep 0.5; b=$(now); sleep 0.5; c=$(now); {}",
        post("/v1/traces", &spans)
    );
    let mut command = process::phasemeter(&backend);
    command.envs(fake.environment()).args(["run", "--price=3.6", "--price-spans", "train_*"]);
    command.args(["--no-default-policies", "--", "bash", "-c", &work]);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "HTTP/1.1 200 OK", "{log}");
    let is_host = fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == "pid:[4026531836]";
    let gpus = if is_host { 1 } else { 2 };
    let requests = backend.received();
    let spans = span_requests::received_spans(&requests);
    assert_eq!(spans.len(), 2, "{log}");
    for span_requests::ReceivedSpan { span, price, .. } in &spans {
        let nanos = span.end_time_unix_nano - span.start_time_unix_nano;
        let seconds = price.unwrap().gpu_seconds;
        assert_eq!((seconds * 1e9).round() as u64, gpus * nanos, "{gpus} GPUs: {log}");
    }
}

#[test]
fn telemetry_of_a_command_passes_through_the_sidecar() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::install(directory.path(), process::ONE_GPU).unwrap();
    let json =
        r#"'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hi"}}]}]}]}'"#;
    let send = post("/v1/logs", json);
    let mut command = process::phasemeter(&backend);
    command.envs(fake.environment()).env("OTEL_EXPORTER_OTLP_HEADERS", "key=secret");
    command.args(["run", "--receive", "--no-default-policies", "--", "bash", "-c", &send]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.trim(), "HTTP/1.1 200 OK", "{log}");
    assert!(log.contains("1 requests received, 0 postponed, 0 rejected"), "{log}");
    let received = backend.received();
    let logs = received.iter().filter(|it| it.path == Signal::Logs.grpc_method());
    assert!(logs.into_iter().any(|it| body(it).windows(2).any(|it| it == b"hi")), "{log}");
}
