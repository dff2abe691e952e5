//! `phasemeter run` on the scripted driver.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::mock_backend::Unreachable;
use crate::{Rig, TIMEOUT, unless_stalled};

/// Variables of the environment that would affect the binary.
const INHERITED: [&str; 12] = [
    "TRACEPARENT",
    "TRACESTATE",
    "BAGGAGE",
    "CUDA_VISIBLE_DEVICES",
    "KUBERNETES_SERVICE_HOST",
    "NVIDIA_VISIBLE_DEVICES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "PHASEMETER_LOG_LEVEL",
    "PHASEMETER_LOG_FORMAT",
];

/// A nano-dollar per microsecond: the bill equals the time to the nano-dollar.
const PRICE: &str = "--price=3.6";

pub(crate) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Variables added to the environment of the binary, `NAME=VALUE` separated by `;`. `tests/stress.sh`
/// uses them to preload libfaketime.
const EXTRA_ENVIRONMENT: &str = "PHASEMETER_TEST_ENV";

/// `phasemeter run` with the rig's driver. `arguments` are split at blanks.
pub(crate) fn phasemeter(rig: &Rig, arguments: &str) -> Command {
    command_of(rig, "run", arguments)
}

/// The same of another command.
pub(crate) fn command_of(rig: &Rig, name: &str, arguments: &str) -> Command {
    priced(rig, name, PRICE, arguments)
}

/// The same at another price.
pub(crate) fn priced(rig: &Rig, name: &str, price: &str, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.arg(name).arg(price).args(arguments.split_whitespace());
    isolate(&mut command, rig);
    command
}

/// The environment of a test: the rig's driver, and nothing of who runs the test that would affect the binary.
pub(crate) fn isolate(command: &mut Command, rig: &Rig) {
    for variable in INHERITED {
        command.env_remove(variable);
    }
    command.envs(rig.fake.environment()).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).env("PHASEMETER_METRICS", "all");
    let extra = env::var(EXTRA_ENVIRONMENT).unwrap_or_default();
    command.envs(extra.split(';').filter_map(|pair| pair.split_once('=')));
}

/// For runs whose events are compared: a busy machine may take longer to compile policies than they last.
pub(crate) const NO_POLICIES: &str = "--no-default-policies";

/// Like [`phasemeter`], with a shell that runs `script` as its command.
pub(crate) fn with_command(rig: &Rig, arguments: &str, script: &str) -> Command {
    let mut command = phasemeter(rig, arguments);
    command.args(["--", "sh", "-c", script]);
    command
}

/// Runs it with `--report` and returns the report as well.
pub(crate) fn run_with_report(
    rig: &Rig,
    arguments: &str,
    change: impl FnOnce(&mut Command),
) -> (Output, Value) {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let mut command = phasemeter(rig, &format!("--report {} {arguments}", report.display()));
    change(&mut command);
    let output = command.output().unwrap();
    let log = stderr(&output);
    let json = fs::read(&report).unwrap();
    (output, serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {log}")))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}: expected a number"))
}

pub(crate) fn assumptions(report: &Value) -> String {
    let parts = ["assumptions", "sampling", "delivery"];
    let lines = parts.iter().flat_map(|part| report[part].as_array().unwrap());
    lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Checks that the bill equals the time, to the nano-dollar.
#[track_caller]
pub(crate) fn assert_billed(gpu: &Value) {
    let micros = (seconds(&gpu["span_seconds"]) * 1e9).round() / 1e3;
    assert_eq!(gpu["cost_usd"], format!("{:.9}", micros.floor() / 1e9), "{gpu:#}");
}

/// Checks the bill, and that all time was observed.
#[track_caller]
pub(crate) fn assert_observed(gpu: &Value) {
    assert_billed(gpu);
    assert_eq!(gpu["unobserved_seconds"], 0.0, "{gpu:#}");
}

/// A running process, killed when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The log of a running process, line by line.
pub(crate) struct Log(Receiver<String>);

impl Log {
    /// Waits for a line that contains this text.
    pub(crate) fn wait_for(&self, text: &str) {
        self.repeat_until(text, || ());
    }

    /// Repeats an action every few seconds until a line contains this text.
    pub(crate) fn repeat_until(&self, text: &str, action: impl Fn()) {
        let (began, mut before) = (Instant::now(), String::new());
        action();
        loop {
            match self.0.recv_timeout(Duration::from_secs(5)) {
                Ok(line) if line.contains(text) => return,
                Ok(line) => before += &line,
                Err(RecvTimeoutError::Timeout) if began.elapsed() < TIMEOUT => action(),
                Err(error) => panic!("no `{text}` in {before}: {error}"),
            }
        }
    }

    /// All further lines until the process ends.
    pub(crate) fn rest(self) -> String {
        self.0.iter().collect()
    }
}

/// Starts it and waits until it is metering.
pub(crate) fn started(command: &mut Command) -> (Running, Log) {
    started_at("phasemeter: metering ", command)
}

/// Starts it and waits until it logs this text.
pub(crate) fn started_at(text: &str, command: &mut Command) -> (Running, Log) {
    let mut child = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let stderr = BufReader::new(child.0.stderr.take().unwrap());
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        // The test may have dropped the receiver.
        stderr.lines().try_for_each(|line| sender.send(line.unwrap() + "\n")).ok();
    });
    let log = Log(lines);
    log.wait_for(text);
    (child, log)
}

/// Checks that the sessions of one GPU follow each other without a gap, and that a new one starts at
/// whole hours only: a test may cross an hour. `sessions` are start and end in nanoseconds.
#[track_caller]
pub(crate) fn assert_one_session_per_hour(mut sessions: Vec<(u64, u64)>) {
    const HOUR: u64 = 3_600_000_000_000;
    assert!(!sessions.is_empty(), "no session");
    sessions.sort_unstable();
    for two in sessions.windows(2) {
        assert_eq!(two[0].1, two[1].0, "a gap between sessions: {sessions:?}");
        assert_eq!(two[1].0 % HOUR, 0, "a session within an hour: {sessions:?}");
    }
}

/// Start and end of a span in an OTLP file.
pub(crate) fn times(span: &Value) -> (u64, u64) {
    let time = |key: &str| span[key].as_str().unwrap().parse().unwrap();
    (time("startTimeUnixNano"), time("endTimeUnixNano"))
}

#[test]
fn report_charges_every_second_to_its_phase() {
    unless_stalled(|| {
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
        let (output, report) = run_with_report(&rig, "--duration 2.6", |_| {});
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stdout.is_empty(), "the report goes to standard error");
        let gpus = report["gpus"].as_array().unwrap();
        for (gpu, phase) in gpus.iter().zip(["compute_bound", "underutilized", "idle_held"]) {
            assert_observed(gpu);
            assert!(seconds(&gpu["span_seconds"]) > 2.0);
            assert_eq!(gpu["phases"][phase]["seconds"], gpu["span_seconds"], "{gpu:#}");
        }
        // Its 0.7 s are covered by driver samples.
        let bursts = &gpus[3];
        assert_observed(bursts);
        assert_eq!(bursts["utilization"]["basis"], "nvml.samples");
        let busy = seconds(&bursts["effective_seconds"]);
        assert!((busy - 0.7).abs() < 0.1, "{busy} s");

        let text = stderr(&output);
        assert!(text.contains("this machine") && text.contains("compute-bound"), "{text}");
        assert!(assumptions(&report).contains("OTEL_EXPORTER_OTLP_ENDPOINT is not set"));
    });
}

#[test]
fn only_visible_gpus_are_billed() {
    let rig = Rig::new(&"[[device]]\n".repeat(8));
    let visible = |command: &mut Command| {
        command.env("CUDA_VISIBLE_DEVICES", "0,1");
    };
    let (output, report) = run_with_report(&rig, "--duration 0.4", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [0, 1]);
    assert_eq!(report["cost"]["hourly_usd"], "7.200000000");
    let line = "metering 2 of 8 GPUs, selected by CUDA_VISIBLE_DEVICES: 0, 1";
    assert!(stderr(&output).contains(line) && assumptions(&report).contains(line));

    let (_, report) = run_with_report(&rig, "--duration 0.3 --gpu 7 --gpu 2", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [2, 7]);
}

#[test]
fn run_preserves_exit_status() {
    let rig = Rig::new("[[device]]");
    let cases = [
        ("echo mine; exit 3", 3, "mine\n"),
        ("kill -9 $$", 137, ""),
        ("exec >&- 2>&- <&-; sleep 0.3; exit 4", 4, ""),
        ("exit 0", 0, ""),
    ];
    for (script, status, stdout) in cases {
        let output = with_command(&rig, "", script).output().unwrap();
        let log = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{script}: {log}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{script}");
        assert!(log.contains("Experiment"), "{script}: {log}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plain");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for (program, status) in [(dir.path().join("none"), 127), (file, 126)] {
        let output = phasemeter(&rig, "--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be run"), "{}", stderr(&output));
    }
}

/// All elements under a path of nested lists in an OTLP file.
pub(crate) fn elements(file: &Path, path: [&str; 3]) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    path.iter().fold(lines.collect(), |values: Vec<Value>, key| {
        let lists = values.iter().filter_map(|value| value[key].as_array());
        lists.flatten().cloned().collect()
    })
}

pub(crate) fn spans(file: &Path) -> Vec<Value> {
    elements(file, ["resourceSpans", "scopeSpans", "spans"])
}

/// A string or integer attribute.
pub(crate) fn attribute(of: &Value, key: &str) -> String {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    let value = &found.unwrap_or_else(|| panic!("no {key} in {of:#}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap().to_owned()
}

pub(crate) fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn unreachable_backend_does_not_change_bill_or_delay_end() {
    unless_stalled(|| {
        let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
        let backend = Unreachable::reserve();
        let endpoint = format!("http://{}", backend.address);
        let began = Instant::now();
        let (output, report) = run_with_report(&rig, "--duration 0.6", |command| {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
        });
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(output.status.code(), Some(0));
        assert_observed(&report["gpus"][0]);
        let notes = assumptions(&report);
        assert!(notes.contains(&format!("metrics, http/protobuf to {endpoint}")), "{notes}");
        assert!(notes.contains("unsent; last error:"), "{notes}");
    });
}

#[test]
fn missing_driver_fails_with_one_line_without_a_command() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("libnvidia-ml.so.1"), "no library").unwrap();
    let output = phasemeter(&rig, "").env("LD_LIBRARY_PATH", dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(output.stdout.is_empty());
    let log = stderr(&output);
    assert!(log.starts_with("phasemeter: NVIDIA driver: cannot load"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");

    let output = phasemeter(&rig, "--gpu 5").output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("--gpu: unknown GPU '5'"), "{}", stderr(&output));
}

#[test]
fn invalid_configuration_fails_before_the_command() {
    let rig = Rig::new("[[device]]");
    let assert_fails = |arguments: &str, status| {
        let output = with_command(&rig, arguments, "echo ran").output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    };
    assert_fails("--policy /nowhere/policy.wasm", 66);
    assert_fails("--duration 1", 2);
}

/// The zone of hours of the week is in the report: that of `TZ`, unless an offset is given.
#[test]
fn local_time_is_that_of_the_machine_unless_given() {
    let rig = Rig::new("[[device]]");
    let zone = |arguments: &str| {
        let arguments = format!("--duration 0.3 {arguments}");
        let (_, report) = run_with_report(&rig, &arguments, |command| {
            command.env("TZ", "IST-5:30");
        });
        report["assumptions"].to_string()
    };
    let machine = zone("");
    assert!(machine.contains("in the time zone IST-5:30 (UTC+05:30)"), "{machine}");
    let given = zone("--utc-offset=-03:00");
    assert!(given.contains("hours of the week are in UTC-03:00, as given"), "{given}");
}
