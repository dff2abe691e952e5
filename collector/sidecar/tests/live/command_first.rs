//! The command comes first: it runs and keeps its status whatever the driver, the GPUs, the system, the
//! backend and the reader of the log do.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_process::send;
use rustix::process::Signal;
use serde_json::Value;

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::run::{
    NO_POLICIES, Running, assert_billed, assumptions, phasemeter, run_with_report, seconds,
    started_at, stderr, with_command,
};
use crate::signals::wait;
use crate::{Rig, unless_stalled};

/// Two GPUs, for longer than any test.
pub(crate) const TWO: &str = "length_ms = 3600000\n[[device]]\n[[device]]\n";

/// A command that prints that it ran, with a status of its own.
pub(crate) const SCRIPT: &str = "echo ran; exit 7";

pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Runs the command; its output is unchanged, and so is its status.
#[track_caller]
fn assert_runs(rig: &Rig, arguments: &str, change: impl FnOnce(&mut Command)) -> String {
    let mut command = with_command(rig, &format!("{NO_POLICIES} {arguments}"), SCRIPT);
    change(&mut command);
    assert_ran(&command.output().unwrap())
}

#[track_caller]
pub(crate) fn assert_ran(output: &Output) -> String {
    let log = stderr(output);
    assert_eq!(output.status.code(), Some(7), "{log}");
    assert_eq!(output.stdout, b"ran\n", "{log}");
    assert!(!log.contains("internal error") && !log.contains("panicked"), "{log}");
    log
}

/// Runs the command without any GPU: one line states why. If GPUs are required, it does not run.
#[track_caller]
fn assert_unmetered(rig: &Rig, arguments: &str, why: &str, change: impl Fn(&mut Command)) {
    let arguments = format!("{NO_POLICIES} {arguments}");
    let (output, report) = run_with_report(rig, &arguments, |command| {
        change(command);
        command.args(["--", "sh", "-c", SCRIPT]);
    });
    let log = assert_ran(&output);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("no GPU is metered: ")).collect();
    assert!(matches!(lines[..], [line] if line.contains(why)), "no '{why}' in {log}");
    assert_eq!(report["gpus"], Value::Array(Vec::new()), "{log}");
    assert!(assumptions(&report).contains("no GPU was metered: "), "{}", assumptions(&report));
    let mut required = with_command(rig, &format!("{arguments} --require-gpu"), SCRIPT);
    change(&mut required);
    let output = required.output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    assert!(output.stdout.is_empty() && stderr(&output).contains(why), "{}", stderr(&output));
}

#[test]
fn command_runs_without_driver() {
    let rig = Rig::new(TWO);
    let dir = tempfile::tempdir().unwrap();
    let empty = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", dir.path());
    };
    assert_unmetered(&rig, "", "cannot load libnvidia-ml.so.1", empty);
    fs::write(dir.path().join("libnvidia-ml.so.1"), "no library").unwrap();
    assert_unmetered(&rig, "", "cannot load libnvidia-ml.so.1", empty);
    for (fault, why) in [
        ("functions = [\"nvmlInit_v2\"]\nerror = \"driver_not_loaded\"", "kernel module"),
        ("functions = [\"nvmlInit_v2\"]\nerror = \"unknown\"", "initialization failed"),
        ("functions = [\"nvmlDeviceGetCount_v2\"]\nerror = \"unknown\"", "initialization failed"),
    ] {
        let rig = Rig::new(&format!("{TWO}[[fault]]\n{fault}"));
        assert_unmetered(&rig, "", why, |_| ());
    }
    assert_unmetered(&Rig::new("length_ms = 3600000"), "", "no responding GPU", |_| ());
    let many = format!("length_ms = 3600000\n{}", "[[device]]\n".repeat(300));
    assert_unmetered(&Rig::new(&many), "", "reports 300 GPUs, more than 256", |_| ());
}

/// What each value means for metering is another matter: none of these names a GPU of the driver.
#[test]
fn command_runs_whatever_its_environment_selects() {
    let rig = Rig::new(TWO);
    let devices = "/var/run/nvidia-container-devices";
    let cases = [
        ("NVIDIA", "none"),
        ("NVIDIA", "void"),
        ("NVIDIA", "MIG-1f"),
        ("NVIDIA", "nvidia.com/gpu=7"),
        ("NVIDIA", devices),
        ("NVIDIA", "\u{1b}[2J, ,;'\"$("),
        ("NVIDIA", "0,1,2,GPU-none"),
        ("CUDA", ""),
        ("CUDA", "-1"),
        ("CUDA", "NoDevFiles"),
        ("CUDA", "MIG-GPU-1/2/3"),
    ];
    for (prefix, value) in cases {
        let name = format!("{prefix}_VISIBLE_DEVICES");
        assert_unmetered(&rig, "", &name, |command| {
            command.env(&name, value);
        });
    }
    assert_unmetered(&rig, "--gpu 5", "--gpu: unknown GPU '5'", |_| ());
}

/// A GPU that exists is billed, and unobserved if it does not answer.
#[test]
fn command_runs_if_gpus_answer_with_errors() {
    for (devices, observed) in [("", vec![]), ("device = 1", vec![0])] {
        let error = "functions = [\"nvmlDeviceGetHandleByIndex_v2\", \"nvmlDeviceGetUUID\"]";
        let fault = format!("[[fault]]\n{devices}\n{error}\nerror = \"unknown\"");
        let rig = Rig::new(&format!("{TWO}{fault}"));
        let (output, report) = run_with_report(&rig, NO_POLICIES, |command| {
            command.args(["--", "sh", "-c", "sleep 1; echo ran; exit 7"]);
        });
        let log = assert_ran(&output);
        assert!(log.contains("GPU 1 does not respond; it is unobserved"), "{log}");
        let gpus = report["gpus"].as_array().unwrap();
        assert_eq!(gpus.len(), 2, "{log}");
        for (index, gpu) in gpus.iter().enumerate() {
            assert_billed(gpu);
            let is_unobserved = gpu["unobserved_seconds"] == gpu["span_seconds"];
            assert_eq!(is_unobserved, !observed.contains(&index), "{gpu:#}");
        }
        let output = with_command(&rig, "--require-gpu", SCRIPT).output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "{}", stderr(&output));
    }
}

/// What the machine refuses is a warning; an error of the command line is an error.
#[test]
fn command_runs_whatever_the_system_refuses() {
    let rig = Rig::new(TWO);
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let socket = dir.path().join("socket");
    fs::write(&socket, "a file").unwrap();
    for (arguments, why) in [
        ("--report /nowhere/report.json".to_owned(), "/nowhere/report.json: cannot be written"),
        ("--otlp-file /nowhere/otlp.json".to_owned(), "/nowhere/otlp.json: cannot be written"),
        (format!("--work-socket {}", socket.display()), "cannot listen at the work socket"),
        (format!("--receive={address}"), "listen"),
    ] {
        let log = assert_runs(&rig, &arguments, |command| {
            command.env(ENDPOINT, "http://127.0.0.1:9");
        });
        assert!(log.contains(why) && log.contains("; the command runs anyway"), "{log}");
        // Alone, the run has no other purpose.
        if arguments.starts_with("--report") || arguments.starts_with("--work-socket") {
            let output = phasemeter(&rig, &format!("--duration 0.1 {arguments}")).output().unwrap();
            assert!([71, 74].map(Some).contains(&output.status.code()), "{}", stderr(&output));
        }
    }
}

/// The default of an invalid variable is used, or nothing is exported; each is one warning.
#[test]
fn command_runs_with_any_settings_of_the_export() {
    let rig = Rig::new(TWO);
    let backend = MockBackend::start([]);
    let address = format!("http://{}", backend.address);
    for (variable, value, consequence) in [
        ("PROTOCOL", "tcp", "the default is used"),
        ("TIMEOUT", "10s", "the default is used"),
        ("COMPRESSION", "lz4", "the default is used"),
        ("HEADERS", "secret", "the default is used"),
        ("INSECURE", "perhaps", "the default is used"),
        ("TRACES_ENDPOINT", "nonsense", "what it is for is not exported"),
        ("ENDPOINT", "nonsense", "what it is for is not exported"),
    ] {
        let name = format!("OTEL_EXPORTER_OTLP_{variable}");
        for arguments in ["", "--receive"] {
            let log = assert_runs(&rig, arguments, |command| {
                command.env(ENDPOINT, &address).env(&name, value);
            });
            let warnings: Vec<_> = log.lines().filter(|line| line.contains(&name)).collect();
            assert!(warnings.iter().any(|line| line.contains(consequence)), "{log}");
            let is_exported = backend.received().iter().any(|it| it.path.contains("metrics"));
            assert_eq!(is_exported, variable != "ENDPOINT", "{log}");
        }
    }
}

/// The writing end of a full socket, and its other end, which nothing reads.
fn stuck() -> (Stdio, UnixStream) {
    let (mut writer, reader) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(&[0; 4_096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    (OwnedFd::from(writer).into(), reader)
}

/// Scenario: nothing reads standard error, which is full.
/// Guarantee: metering, export and signals go on, the report file is written, and the run ends.
#[test]
fn stuck_reader_of_the_log_stops_nothing() {
    let rig = Rig::new(TWO);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    let backend = MockBackend::start([]);
    let arguments = format!("{NO_POLICIES} --log-level trace --report {}", path.display());
    let report = || -> Value { serde_json::from_slice(&fs::read(&path).unwrap()).unwrap() };

    let (writer, _reader) = stuck();
    let mut command = with_command(&rig, &arguments, "sleep 2; exit 7");
    command.env(ENDPOINT, format!("http://{}", backend.address)).stderr(writer);
    let mut run = Running(command.spawn().unwrap());
    assert_eq!(wait(&mut run.0), Some(7));
    let first = report();
    assert!(!backend.received().is_empty());
    for gpu in first["gpus"].as_array().unwrap() {
        assert_billed(gpu);
        assert!(seconds(&gpu["span_seconds"]) > seconds(&gpu["unobserved_seconds"]), "{gpu:#}");
    }

    fs::remove_file(&path).unwrap();
    let (writer, _reader) = stuck();
    let otlp = dir.path().join("otlp.json");
    let arguments = format!("{arguments} --otlp-file {}", otlp.display());
    let mut command = phasemeter(&rig, &arguments);
    let mut run = Running(command.stderr(writer).spawn().unwrap());
    let began = Instant::now();
    while fs::metadata(&otlp).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < crate::TIMEOUT, "it does not meter");
        thread::sleep(Duration::from_millis(50));
        if began.elapsed() > Duration::from_secs(3) {
            break;
        }
    }
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    // The text of the report was not written.
    assert_eq!(wait(&mut run.0), Some(74));
    assert_eq!(report()["gpus"].as_array().unwrap().len(), 2);
}

#[test]
fn undelivered_telemetry_is_in_the_last_line_and_fails_on_request() {
    let rig = Rig::new(TWO);
    let unreachable = Unreachable::reserve();
    let accepting = MockBackend::start([]);
    let run = |arguments: &str, address, script: &str| {
        let mut command = with_command(&rig, &format!("{NO_POLICIES} {arguments}"), script);
        let output = command.env(ENDPOINT, format!("http://{address}")).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    for (arguments, script, status) in [
        ("", "exit 0", 0),
        ("--fail-on-undelivered", "exit 0", 74),
        ("--fail-on-undelivered", "exit 3", 3),
    ] {
        let (code, log) = run(arguments, unreachable.address, script);
        assert_eq!(code, Some(status), "{log}");
        let last = log.lines().last().unwrap();
        assert!(last.starts_with("phasemeter: not delivered: "), "{last}");
        assert!(last.contains("; last error: "), "{last}");
    }
    let (code, log) = run("--fail-on-undelivered", accepting.address, "exit 0");
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("not delivered"), "{log}");
}

/// Scenario: the backend never responds, so the flush takes its time.
#[test]
fn second_signal_during_the_flush_ends_it() {
    unless_stalled(|| {
        let rig = Rig::new(TWO);
        let backend = MockBackend::start(std::iter::repeat_n(Reply::NoResponse, 1_000));
        let mut command = phasemeter(&rig, NO_POLICIES);
        command.env(ENDPOINT, format!("http://{}", backend.address));
        let (mut run, log) = started_at("metering all 2 GPUs", &mut command);
        thread::sleep(Duration::from_secs(1));
        send(run.0.id(), Signal::TERM.as_raw()).unwrap();
        thread::sleep(Duration::from_secs(1));
        assert_eq!(run.0.try_wait().unwrap(), None, "it does not flush");
        let began = Instant::now();
        send(run.0.id(), Signal::TERM.as_raw()).unwrap();
        assert_eq!(wait(&mut run.0), Some(0));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let rest = log.rest();
        assert!(rest.contains("Experiment") && rest.contains("not delivered: "), "{rest}");
    });
}

/// Scenario: nothing can be compiled, and there is no cache.
/// Guarantee: the default policies are evaluated however short the run is, and a policy that cannot be
/// compiled fails alone, by its name.
#[test]
fn default_policies_need_no_compiler() {
    let rig = Rig::new(TWO);
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("alfa.wasm");
    fs::write(&policy, crate::policies::recommender("alfa", '1')).unwrap();
    let limit = "--policy-limit compile_memory_mib=1";
    for (arguments, rejected) in [("", 0), (&*format!("--policy {}", policy.display()), 1)] {
        let arguments = format!("--duration 0.1 {limit} {arguments}");
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            command.env("XDG_CACHE_HOME", dir.path().join("cache"));
        });
        let log = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{log}");
        let policies = report["policies"].as_array().unwrap();
        let (failed, evaluated): (Vec<_>, Vec<_>) =
            policies.iter().partition(|policy| !policy["error"].is_null());
        // One of the thirteen prices, and is not asked.
        assert!(evaluated.len() >= 12, "{policies:#?}");
        assert_eq!(failed.len(), rejected, "{failed:#?}");
        for failed in failed {
            assert_eq!(failed["error"]["kind"], "load.compile_limit", "{failed:#}");
            assert_eq!(failed["name"], policy.display().to_string(), "{failed:#}");
            assert!(log.contains("alfa.wasm rejected: compiler stopped"), "{log}");
        }
    }
}
