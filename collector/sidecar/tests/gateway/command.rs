//! A command that the sidecar runs sends its telemetry to it: it passes through, and its spans are priced.

use std::fs;

use fake_nvml::Fake;
use phasemeter_otlp::Signal;
use serde_json::Value;

use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::{body, process, span_requests};

/// A command of bash that posts this JSON to the receiver of the sidecar, with the headers of its environment,
/// and prints the response.
pub(crate) fn post(path: &str, json: &str) -> String {
    format!(
        "address=${{OTEL_EXPORTER_OTLP_ENDPOINT#http://}}; json={json}; \
         header=${{OTEL_EXPORTER_OTLP_HEADERS/=/: }}; header=${{header/\\%20/ }}; \
         exec 3<>/dev/tcp/${{address%:*}}/${{address##*:}}; \
         printf 'POST {path} HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n%s\\r\\n\
         content-type: application/json\\r\\ncontent-length: %s\\r\\n\\r\\n%s' \
         \"${{header:-x: y}}\" ${{#json}} \"$json\" >&3; read -r line <&3; echo \"$line\""
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

const LOGS: &str =
    r#"'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hi"}}]}]}]}'"#;

/// Runs a command of bash with `run --receive`, whose backend wants a key. Returns what it prints, the log, and
/// the requests for logs that the backend received.
fn run(receive: &str, command: &str) -> (String, String, Vec<ReceivedRequest>) {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::install(directory.path(), process::ONE_GPU).unwrap();
    let mut run = process::phasemeter(&backend);
    run.envs(fake.environment()).env("OTEL_EXPORTER_OTLP_HEADERS", "key=secret");
    run.args(["run", receive, "--no-default-policies", "--", "bash", "-c", command]);
    let output = run.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let logs = backend.received().into_iter();
    (text, log, logs.filter(|it| it.path == Signal::Logs.grpc_method()).collect())
}

/// Scenario: a command sends with what its environment has.
/// Guarantee: it passes through, with the key of the backend, which the command does not get.
#[test]
fn telemetry_of_a_command_passes_through_the_sidecar() {
    let secret = "; echo \"${OTEL_EXPORTER_OTLP_HEADERS//secret/found}\"";
    let (text, log, logs) = run("--receive", &(post("/v1/logs", LOGS) + secret));
    let (response, headers) = text.split_once('\n').unwrap();
    assert_eq!(response.trim(), "HTTP/1.1 200 OK", "{log}");
    assert!(!headers.contains("found"), "{headers}");
    assert!(log.contains("from senders with the token"), "{log}");
    assert!(log.contains("1 requests received, 0 postponed, 0 rejected"), "{log}");
    let passed = logs.iter().find(|it| body(it).windows(2).any(|it| it == b"hi"));
    assert_eq!(passed.unwrap().headers["key"], "secret", "{log}");
}

/// Scenario: another user of the machine finds the port, and sends without the token, or with a guess.
/// Guarantee: nothing of it passes through.
#[test]
fn others_cannot_send_with_the_credentials_of_a_command() {
    for headers in ["", "authorization=Bearer%200", "key=secret"] {
        let forged = format!("OTEL_EXPORTER_OTLP_HEADERS={headers}; {}", post("/v1/logs", LOGS));
        let (text, log, logs) = run("--receive", &forged);
        assert_eq!(text, "HTTP/1.1 401 Unauthorized", "{log}");
        assert_eq!(logs.len(), 0, "{log}");
    }
}

/// Scenario: the command sets an endpoint and headers of its own.
/// Guarantee: it sends there, with these, and the sidecar receives nothing.
#[test]
fn endpoint_of_a_command_is_its_own() {
    let own = MockBackend::start([]);
    let set = format!(
        "export OTEL_EXPORTER_OTLP_ENDPOINT=http://{} OTEL_EXPORTER_OTLP_HEADERS=own=1; ",
        own.address
    );
    let (_, log, logs) = run("--receive", &(set + &post("/v1/logs", LOGS)));
    assert_eq!(logs.len(), 0, "{log}");
    assert!(log.contains("0 requests received, 0 postponed, 0 rejected"), "{log}");
    let received = own.received();
    assert_eq!((received.len(), received[0].headers["own"].as_bytes()), (1, b"1".as_slice()));
}

/// Scenario: the user chose the address, for other processes as well.
/// Guarantee: the log states who may send.
#[test]
fn log_states_who_may_send_to_a_chosen_address() {
    let (text, log, logs) = run("--receive=127.0.0.1:0", &post("/v1/logs", LOGS));
    assert_eq!(text, "HTTP/1.1 200 OK", "{log}");
    assert!(log.contains("from every user of this machine"), "{log}");
    assert_eq!(logs.len(), 1, "{log}");
}
