//! The binary as users run it, on the scripted driver.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Rig;

/// What the environment of a test must not bring along.
const FOREIGN: [&str; 11] = [
    "TRACEPARENT",
    "TRACESTATE",
    "BAGGAGE",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "PHASEMETER_LOG",
    "PHASEMETER_LOG_FORMAT",
];

/// A nano-dollar each microsecond: the bill is the time, to the nano-dollar.
const PRICE: &str = "--price=3.6";

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// `phasemeter run` with the rig's driver. `arguments` are split at blanks.
pub(crate) fn phasemeter(rig: &Rig, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.arg("run").arg(PRICE).args(arguments.split_whitespace());
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.envs(rig.fake.environment()).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// As [`phasemeter`], around a shell that runs `script`.
fn around(rig: &Rig, arguments: &str, script: &str) -> Command {
    let mut command = phasemeter(rig, arguments);
    command.args(["--", "sh", "-c", script]);
    command
}

/// Runs it to its end with `--report`; the report with it.
pub(crate) fn reported(
    rig: &Rig,
    arguments: &str,
    change: impl FnOnce(&mut Command),
) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let mut command = phasemeter(rig, &format!("--report {} {arguments}", report.display()));
    change(&mut command);
    let output = command.output().unwrap();
    let told = stderr(&output);
    let json = fs::read(&report).unwrap();
    (output, serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {told}")))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(crate) fn assumptions(report: &Value) -> String {
    let lines = report["assumptions"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// It costs what its time costs, to the nano-dollar.
#[track_caller]
pub(crate) fn assert_billed(gpu: &Value) {
    let micros = (seconds(&gpu["span_seconds"]) * 1e9).round() / 1e3;
    assert_eq!(gpu["cost_usd"], format!("{:.9}", micros.floor() / 1e9), "{gpu:#}");
}

/// It was billed, and seen all the time.
#[track_caller]
pub(crate) fn assert_observed(gpu: &Value) {
    assert_billed(gpu);
    assert_eq!(gpu["unobserved_seconds"], 0.0, "{gpu:#}");
}

/// Starts it and waits until it said that it meters.
fn started(command: &mut Command) -> (Child, impl Read + use<>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("phasemeter: GPUs metered"), "{line}");
    (child, told)
}

#[test]
fn every_second_is_in_its_phase_and_costs_what_it_costs() {
    let rig = Rig::new(
        "[driver]
        window_ms = 0
        [[device]]
        [[device.phase]]
        utilization = 95
        [[device]]
        [[device.phase]]
        utilization = 30
        [[device]]
        [[device.phase]]
        memory_used_mib = 4000
        [[device]]
        [[device.phase]]
        for_ms = 1200
        [[device.phase]]
        for_ms = 700
        utilization = 100
        [[device.phase]]",
    );
    let (output, report) = reported(&rig, "--duration 2.6", |_| {});
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty(), "the report is on standard error");
    let gpus = report["gpus"].as_array().unwrap();
    for (gpu, phase) in gpus.iter().zip(["compute_bound", "underutilized", "idle_held"]) {
        assert_observed(gpu);
        assert!(seconds(&gpu["span_seconds"]) > 2.0);
        assert_eq!(gpu["phases"][phase]["seconds"], gpu["span_seconds"], "{gpu:#}");
    }
    // Its 0.7 s are in the driver's samples.
    let bursts = &gpus[3];
    assert_observed(bursts);
    assert_eq!(bursts["utilization"]["basis"], "nvml.samples");
    let busy = seconds(&bursts["effective_seconds"]);
    assert!((busy - 0.7).abs() < 0.1, "{busy} s");

    let told = stderr(&output);
    assert!(told.contains("this machine") && told.contains("compute-bound"), "{told}");
    assert!(assumptions(&report).contains("OTEL_EXPORTER_OTLP_ENDPOINT is not set"));
}

#[test]
fn only_what_the_workload_sees_is_billed() {
    let rig = Rig::new(&"[[device]]\n".repeat(8));
    let visible = |command: &mut Command| {
        command.env("CUDA_VISIBLE_DEVICES", "0,1");
    };
    let (output, report) = reported(&rig, "--duration 0.4", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [0, 1]);
    assert_eq!(report["cost"]["hourly_usd"], "7.200000000");
    let line = "GPUs metered: 2 of 8, as CUDA_VISIBLE_DEVICES says: 0, 1";
    assert!(stderr(&output).contains(line) && assumptions(&report).contains(line));

    let (_, report) = reported(&rig, "--duration 0.3 --gpu 7 --gpu 2", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [2, 7]);
}

#[test]
fn a_command_ends_as_if_nobody_stood_beside_it() {
    let rig = Rig::new("[[device]]");
    let table = [
        ("echo mine; exit 3", 3, "mine\n"),
        ("kill -9 $$", 137, ""),
        ("exec >&- 2>&- <&-; sleep 0.3; exit 4", 4, ""),
        ("exit 0", 0, ""),
    ];
    for (script, status, stdout) in table {
        let output = around(&rig, "", script).output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{script}: {told}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{script}");
        assert!(told.contains("Experiment"), "{script}: {told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for (program, status) in [(folder.path().join("none"), 127), (file, 126)] {
        let output = phasemeter(&rig, "--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be run"), "{}", stderr(&output));
    }
}

/// What fits a buffer fails only when that is written out, at the end.
#[test]
fn a_full_disk_is_told_and_costs_the_run_nothing() {
    let rig = Rig::new("[[device]]");
    let output = phasemeter(&rig, "--duration 1 --otlp-file /dev/full").output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("the OTLP file is given up: No space left on device"), "{told}");
    assert!(told.contains("Experiment"), "{told}");
}

#[test]
fn a_command_gets_the_signals() {
    let rig = Rig::new("[[device]]");
    let table = [
        // Batch systems announce the end by it.
        (Signal::USR1, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done", 7),
        // It is waited for.
        (Signal::TERM, "trap '' TERM; echo ready; sleep 0.7; exit 5", 5),
        (Signal::TERM, "echo ready; exec sleep 60", 143),
    ];
    for (signal, script, status) in table {
        let mut command = around(&rig, "", script);
        let (mut child, mut told) = started(command.stdout(Stdio::piped()));
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        thread::sleep(Duration::from_millis(50));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut report = String::new();
        told.read_to_string(&mut report).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status), "{script}: {report}");
        assert!(report.contains("Bill"), "{report}");
    }
}

#[test]
fn without_a_command_a_signal_ends_it_with_a_report() {
    let rig = Rig::new("[[device]]");
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut told) = started(&mut phasemeter(&rig, ""));
        thread::sleep(Duration::from_millis(600));
        let began = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut report = String::new();
        told.read_to_string(&mut report).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{report}");
        assert!(report.contains("Bill"), "{report}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

/// What the lines of an OTLP file hold, down this path of lists.
pub(crate) fn told(file: &Path, path: [&str; 3]) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    path.iter().fold(lines.collect(), |values: Vec<Value>, key| {
        let lists = values.iter().filter_map(|value| value[key].as_array());
        lists.flatten().cloned().collect()
    })
}

pub(crate) fn spans(file: &Path) -> Vec<Value> {
    told(file, ["resourceSpans", "scopeSpans", "spans"])
}

/// An attribute that is a text.
pub(crate) fn attribute(of: &Value, key: &str) -> String {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.unwrap_or_else(|| panic!("no {key}: {of:#}"))["value"]["stringValue"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub(crate) fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn a_command_stands_under_the_experiment_and_that_under_its_parent() {
    let rig = Rig::new("[[device]]\n[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--otlp-file {}", file.display());
    let script = "echo $TRACEPARENT/$TRACESTATE/$BAGGAGE; sleep 0.3";
    let given = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1"), ("BAGGAGE", "user=ada")];
    let output = around(&rig, &arguments, script).envs(given).output().unwrap();

    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let own = experiment["spanId"].as_str().unwrap();
    let context = PARENT.replace("b7ad6b7169203331", own);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told, format!("{context}/a=1/user=ada\n"), "{}", stderr(&output));
    let sessions = named(&spans, "gpu session");
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session["parentSpanId"] == own));
    assert_eq!(spans.len(), 5, "a phase a session: {spans:#?}");

    // Without a context it opens a trace of its own, another each time.
    let traces = [(); 2].map(|()| {
        let output = around(&rig, "", "echo $TRACEPARENT").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert_ne!(traces[0], traces[1]);
    assert!(traces[0].starts_with("00-") && traces[0].ends_with("-01\n"), "{traces:?}");
}

/// Each session in its own trace still leads to the command.
#[test]
fn a_session_that_is_a_trace_is_linked_to_the_experiment() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--trace per-session --otlp-file {}", file.display());
    around(&rig, &arguments, "sleep 0.3").env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let [session] = named(&spans, "gpu session")[..] else { panic!("{spans:#?}") };
    assert!(session.get("parentSpanId").is_none(), "{session:#}");
    assert_ne!(session["traceId"], experiment["traceId"]);
    let link = &session["links"][0];
    assert_eq!(link["traceId"], experiment["traceId"]);
    assert_eq!(link["spanId"], experiment["spanId"]);
}

#[test]
fn without_a_command_sessions_stand_under_the_parent() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--duration 0.4 --otlp-file {}", file.display());
    phasemeter(&rig, &arguments).env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    assert!(named(&spans, "experiment").is_empty(), "{spans:#?}");
    assert_eq!(named(&spans, "gpu session")[0]["parentSpanId"], "b7ad6b7169203331");
}

#[test]
fn a_dead_backend_costs_no_dollar_and_the_end_does_not_wait_for_it() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let began = Instant::now();
    let (output, report) = reported(&rig, "--duration 0.6", |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    });
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(0));
    assert_observed(&report["gpus"][0]);
    let told = assumptions(&report);
    assert!(told.contains("metrics, http/protobuf to http://127.0.0.1:9"), "{told}");
    assert!(told.contains("left unsent; the last error:"), "{told}");
}

#[test]
fn without_a_driver_there_is_one_clear_line_and_no_command_is_run() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libnvidia-ml.so.1"), "no library").unwrap();
    let mut command = around(&rig, "", "echo ran");
    let output = command.env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(output.stdout.is_empty());
    let told = stderr(&output);
    assert!(told.starts_with("phasemeter: no NVIDIA driver:"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");

    let output = phasemeter(&rig, "--gpu 5").output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("--gpu: no GPU is called `5`"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_used_is_said_before_anything_runs() {
    let rig = Rig::new("[[device]]");
    let refused = |arguments: &str, variable: (&str, &OsStr), status| {
        let output = around(&rig, arguments, "echo ran").env(variable.0, variable.1).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    };
    let nothing = ("UNUSED", OsStr::new(""));
    refused("--report /nowhere/report.json", nothing, 74);
    refused("--duration 1", nothing, 2);
    refused("", ("OTEL_EXPORTER_OTLP_ENDPOINT", OsStr::new("ftp://x")), 78);
}

/// The streams of a metric: their attributes, as one text, and the highest value. A minute may end in
/// the middle of a test, so that there are two.
fn points(file: &Path, name: &str) -> BTreeMap<String, f64> {
    let metrics = told(file, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let mine = metrics.iter().filter(|metric| metric["name"] == name);
    let data = mine.map(|metric| metric.get("sum").unwrap_or(&metric["gauge"]));
    let points = data.flat_map(|data| data["dataPoints"].as_array().unwrap());
    let value = |point: &Value| {
        let whole = point["asInt"].as_str().map(|whole| whole.parse().unwrap());
        whole.or(point["asDouble"].as_f64()).unwrap()
    };
    let own = |attribute: &&Value| {
        let key = attribute["key"].as_str().unwrap();
        let whose = ["id", "name", "type", "model", "vendor", "serial_number"];
        let whose = [&whose[..], &["driver_version", "firmware_version"]].concat();
        !key.strip_prefix("hw.").is_some_and(|key| whose.contains(&key))
    };
    let text = |attribute: &Value| {
        let value = &attribute["value"];
        value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap().to_owned()
    };
    let labels = |point: &Value| {
        let attributes = point["attributes"].as_array().unwrap();
        attributes.iter().filter(own).map(text).collect::<Vec<_>>().join(" ")
    };
    points.fold(BTreeMap::new(), |mut streams, point| {
        let highest = streams.entry(labels(point)).or_insert(f64::MIN);
        *highest = highest.max(value(point));
        streams
    })
}

#[test]
fn what_is_measured_beside_the_readings_is_sent() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device.phase]]
        for_ms = 2000
        sm = 80
        tensor = 40
        dram = 20
        encoder = 30
        sm_clock_mhz = 1755
        throttle = [\"hw_thermal\"]
        pcie_rx_mib_s = 100
        [[device.phase]]
        sm_clock_mhz = 345
        ecc_uncorrected = 2
        [[fault]]
        at_ms = 1600
        xid = 79
        [[fault]]
        at_ms = 2400
        for_ms = 1300
        functions = [\"nvmlDeviceGetPowerUsage\"]
        hang = true",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    reported(&rig, &format!("--duration 4.5 --otlp-file {}", file.display()), |_| {});

    // At most two seconds of four, or of what is left of a minute.
    for (name, busy) in [("sm", 0.8), ("tensor", 0.4), ("dram", 0.2)] {
        let points = points(&file, &format!("phasemeter.gpu.{name}.activity"));
        let mean = points[""];
        assert!((0.05 * busy..=busy).contains(&mean), "{name}: {mean}");
    }
    let throttled = points(&file, "phasemeter.gpu.throttle.time");
    assert!((0.1..=2.0).contains(&throttled["hw_thermal"]), "{throttled:?}");
    assert_eq!((throttled.len(), throttled["sw_power_cap"]), (5, 0.0));
    assert_eq!(points(&file, "phasemeter.gpu.xid"), BTreeMap::from([("79".to_owned(), 1.0)]));
    let io = points(&file, "hw.gpu.io");
    assert!((10e6..=210e6).contains(&io["receive"]) && io["transmit"] == 0.0, "{io:?}");
    let errors = points(&file, "hw.errors");
    assert_eq!((errors["ecc_corrected"], errors["ecc_uncorrected"]), (0.0, 2.0));
    let status = points(&file, "hw.status");
    assert_eq!((status["ok"], status["failed"]), (1.0, 0.0));
    let busy = points(&file, "hw.gpu.utilization");
    assert!(
        busy.contains_key("general") && busy["encoder"] > 0.0 && busy["decoder"] == 0.0,
        "{busy:?}"
    );
    let clocks = points(&file, "phasemeter.gpu.clock.frequency");
    assert!([345e6, 1_755e6].contains(&clocks["sm"]), "{clocks:?}");
    assert_eq!((clocks.len(), clocks["memory"]), (2, 2_619e6));

    let events = told(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
    let names: Vec<_> = events.iter().map(|event| event["eventName"].as_str().unwrap()).collect();
    assert_eq!(names, ["phasemeter.gpu.xid", "phasemeter.gpu.stuck", "phasemeter.gpu.unstuck"]);
}

/// Scenario: of two GPUs one does not tell where its hardware steps in, nor its serial number.
/// Guarantee: what the driver tells once stands on the points of the GPU and in its window; what it
/// does not is left out, and said a line each to whoever looks closely.
#[test]
fn what_a_gpu_is_and_may_do_is_sent() {
    let rig = Rig::new(
        "[[device]]
        power_limit_w = 312.5
        [[device]]
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetTemperatureThreshold\", \"nvmlDeviceGetSerial\"]
        refuse = \"not_supported\"",
    );
    let folder = tempfile::tempdir().unwrap();
    let [file, window] = ["otlp.json", "window.json"].map(|name| folder.path().join(name));
    let arguments = format!(
        "--duration 1.5 --log-level debug --otlp-file {} --dump-windows {}",
        file.display(),
        window.display()
    );
    let output = phasemeter(&rig, &arguments).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for fact in ["slowdown temperature", "shutdown temperature", "serial number"] {
        let line = format!("000000000001: no {fact}: ");
        assert_eq!(said.matches(&line).count(), 1, "{said}");
    }

    let limits = points(&file, "hw.temperature.limit");
    let one = |which: &str, degrees| (format!("gpu {which}"), degrees);
    let expected = BTreeMap::from([one("high.degraded", 89.0), one("high.critical", 92.0)]);
    assert_eq!(limits, expected);
    let metrics = told(&file, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let of_gpus = |metric: &&Value| metric["name"].as_str().unwrap().starts_with("hw.gpu.");
    for metric in metrics.iter().filter(of_gpus) {
        let data = metric.get("sum").unwrap_or(&metric["gauge"]);
        for point in data["dataPoints"].as_array().unwrap() {
            let attributes = point["attributes"].as_array().unwrap();
            let of = |key: &str| {
                let it = attributes.iter().find(|it| it["key"] == key)?;
                it["value"]["stringValue"].as_str()
            };
            assert_eq!(of("hw.driver_version"), Some("575.57.08"), "{metric}");
            assert_eq!(of("hw.firmware_version"), Some("96.00.74.00.01"), "{metric}");
            let first = of("hw.name") == Some("GPU 0");
            assert_eq!(of("hw.serial_number"), first.then_some("0000000000001"), "{metric}");
        }
    }
    let window: Value = serde_json::from_slice(&fs::read(window).unwrap()).unwrap();
    let limit = |gpu: usize| &window["window"]["gpus"][gpu]["power_limit_milliwatts"];
    assert_eq!([limit(0), limit(1)], [312_500, 700_000]);
}

/// Requests as they arrived: path and body.
type Arrived = Vec<(String, Vec<u8>)>;

/// A backend and its address. It takes what arrives, until someone connects and says nothing.
fn backend() -> (String, JoinHandle<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let mut bodies = Arrived::new();
        loop {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            // A request a connection: it is closed after each.
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                match line.trim() {
                    "" => break,
                    line => head.push(line.to_lowercase()),
                }
            }
            let Some(first) = head.first() else { return bodies };
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            bodies.push((path, body));
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(answer).unwrap();
        }
    };
    (endpoint, thread::spawn(serve))
}

#[test]
fn what_is_sent_arrives_and_adds_up_to_the_bill() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50\n[[device]]");
    let (endpoint, serving) = backend();
    let (_, report) = reported(&rig, "--duration 1.5", |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("TRACEPARENT", PARENT);
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    });
    drop(TcpStream::connect(endpoint.trim_start_matches("http://")).unwrap());
    let bodies = serving.join().unwrap();

    let mut costs = BTreeMap::new();
    let mut spans = 0;
    for (path, body) in &bodies {
        match path.as_str() {
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
                let resources = request.resource_metrics.into_iter();
                let metrics = resources.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics);
                let cost = metrics.filter(|metric| metric.name == "phasemeter.gpu.cost");
                for point in cost.flat_map(|metric| match metric.data {
                    Some(Data::Sum(sum)) => sum.data_points,
                    _ => panic!("cost is a sum"),
                }) {
                    let Some(number_data_point::Value::AsDouble(cost)) = point.value else {
                        panic!("{point:?}");
                    };
                    // Sums are cumulative: the last one counts.
                    costs.insert(format!("{:?}", point.attributes), cost);
                }
            }
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
                let resources = request.resource_spans.into_iter();
                for span in resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans) {
                    assert_eq!(span.trace_id[..2], [0x0a, 0xf7]);
                    assert!(!span.parent_span_id.is_empty());
                    spans += 1;
                }
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(spans, 4, "two sessions and a phase in each");
    let total = format!("{:.9}", costs.values().sum::<f64>());
    assert_eq!(report["cost"]["total_usd"], total);
    assert!(assumptions(&report).contains("4 spans sent"), "{}", assumptions(&report));
}
