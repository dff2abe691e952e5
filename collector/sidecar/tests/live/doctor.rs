//! `phasemeter doctor`: what it finds on the scripted driver, a mock backend and a real disk.

use std::process::{Command, Output};
use std::time::Instant;

use http::StatusCode;
use serde_json::Value;

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::run::{command_of, stderr};
use crate::{Rig, TIMEOUT};

/// Two GPUs, one of which works.
const GPUS: &str = "[[device]]\n[[device.phase]]\nutilization = 80\nfor_ms = 600000\n\
    processes = [{ pid = 4711, name = \"python\" }]\n[[device]]\n";

/// Time enough on a busy machine.
const PATIENT: &str = "--timeout 100";

/// What a check of these options found, and its exit status.
fn found(rig: &Rig, arguments: &str, change: impl FnOnce(&mut Command)) -> (Value, Option<i32>) {
    let mut command = doctor(rig, &format!("--format json {arguments}"));
    change(&mut command);
    let output = command.output().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))), output.status.code())
}

fn doctor(rig: &Rig, arguments: &str) -> Command {
    let mut command = command_of(rig, "doctor", arguments);
    for variable in ["HOME", "XDG_STATE_HOME", "PHASEMETER_DATA", "OTEL_EXPORTER_OTLP_HEADERS"] {
        command.env_remove(variable);
    }
    command
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// Guarantee: what works is on the page, the backend gets three requests without content, and nothing is left.
#[test]
fn page_has_what_works() {
    let rig = Rig::new(GPUS);
    let backend = MockBackend::start([]);
    let data = tempfile::tempdir().unwrap();
    let arguments = format!("{PATIENT} --data-dir {} -- train", data.path().display());
    let (findings, status) = found(&rig, &arguments, |command| {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address))
            .env("OTEL_SERVICE_NAME", "trainer")
            .env("TRACEPARENT", crate::run::PARENT);
    });
    assert_eq!(status, Some(0), "{findings:#}");
    assert_eq!(findings["schema"], "phasemeter.doctor/0.1");
    assert_eq!((&findings["works"], texts(&findings["problems"])), (&Value::Bool(true), vec![]));
    let of = |topic: &str| texts(&findings["facts"][topic]).join("\n");
    let expected = [
        ("driver", "version 575.57.08"),
        ("driver", "libnvidia-ml.so.1"),
        ("calls", "answer: utilization, memory, power"),
        ("cadences", "GPU 1: changes in "),
        ("gpm", "hardware counters of all GPUs"),
        ("processes", "1 process on 1 GPU"),
        ("gpus", "metering all 2 GPUs"),
        ("price", "2 GPUs: $3.60, "),
        ("workload", "service.name: trainer"),
        ("workload", "in trace 0af7651916cd43dd8448eb211c80319c"),
        ("endpoint", "logs: http/protobuf to http://127.0.0.1:"),
        ("data", ": writable ("),
        ("data", "0 runs keep 0.0 KiB"),
        ("clock", "wall and monotonic clock differ by "),
        ("limits", "open files: "),
        ("control_group", "memory: "),
        ("billed", "GPU 0, NVIDIA H100 80GB HBM3: 100% productive"),
        ("billed", "GPU 1, NVIDIA H100 80GB HBM3: 100% idle"),
        ("billed", "$7.20 per hour"),
    ];
    for (topic, text) in expected {
        assert!(of(topic).contains(text), "{topic}: {text}: {findings:#}");
    }
    assert_eq!(of("endpoint").matches(": accepted in ").count(), 3, "{findings:#}");
    let mut requests = backend.received();
    requests.sort_by(|a, b| a.path.cmp(&b.path));
    let paths: Vec<_> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/v1/logs", "/v1/metrics", "/v1/traces"]);
    assert!(requests.iter().all(|request| request.body.is_empty()));
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing is made");
}

/// Guarantee: without a driver there is one problem, and the page has all else.
#[test]
fn missing_driver_is_a_problem() {
    let rig = Rig::new(GPUS);
    let empty = tempfile::tempdir().unwrap();
    let report = empty.path().join("report.json");
    let arguments = format!("{PATIENT} --report {}", report.display());
    let (findings, status) = found(&rig, &arguments, |command| {
        command.env("LD_LIBRARY_PATH", empty.path());
    });
    assert_eq!(status, Some(1), "{findings:#}");
    let problems = texts(&findings["problems"]);
    let [problem] = &problems[..] else { panic!("{findings:#}") };
    assert!(problem.contains("cannot load libnvidia-ml.so.1; install the driver"), "{problem}");
    let searched = format!("LD_LIBRARY_PATH={}", empty.path().display());
    assert!(findings["facts"]["driver"].to_string().contains(&searched), "{findings:#}");
    assert!(!report.exists(), "a check reports nothing");
}

/// Guarantee: a call that is refused is named with what to do, and prevents nothing; one that hangs is a problem.
#[test]
fn refused_and_hanging_calls_are_named() {
    let fault = |function: &str, effect: &str| {
        format!("{GPUS}[[fault]]\nfunctions = [\"{function}\"]\n{effect}\n")
    };
    let rig = Rig::new(&fault("nvmlGpmSampleGet", "error = \"no_permission\""));
    let report = "--report /dev/null";
    let (findings, status) = found(&rig, &format!("{PATIENT} {report}"), |_| {});
    assert_eq!(status, Some(0), "{findings:#}");
    let calls = texts(&findings["facts"]["calls"]);
    assert!(calls.contains(&"permission denied: gpm"), "{findings:#}");
    let notes = findings["notes"].to_string();
    assert!(notes.contains("calls: permission denied: gpm; run as root, or "), "{notes}");

    let hang = "device = 1\nat_ms = 500\nhang = true";
    let rig = Rig::new(&fault("nvmlDeviceGetPowerUsage", hang));
    let (findings, status) = found(&rig, &format!("{PATIENT} {report}"), |_| {});
    assert_eq!(status, Some(1), "{findings:#}");
    let problem = "GPU 1: driver call for power hangs; check `dmesg`, the GPU may need a reset";
    assert_eq!(texts(&findings["problems"]), [problem]);
    assert!(findings["facts"]["billed"].to_string().contains("GPU 0"), "{findings:#}");
}

/// Guarantee: a driver that hangs is a problem, and the check ends.
#[test]
fn driver_that_hangs_does_not_keep_the_check() {
    let rig = Rig::new(&format!("{GPUS}[[fault]]\nfunctions = [\"nvmlInit_v2\"]\nhang = true\n"));
    let began = Instant::now();
    let (findings, status) = found(&rig, "--timeout 3 --report /dev/null", |_| {});
    assert!(began.elapsed() < TIMEOUT);
    assert_eq!(status, Some(1), "{findings:#}");
    let problems = texts(&findings["problems"]);
    let is_named = |problem: &&str| {
        problem.contains("driver did not respond") || problem.starts_with("driver: no answer")
    };
    assert!(problems.iter().any(is_named), "{problems:?}");
}

/// Guarantee: what the backend answers is one problem for all signals, with what to do; no secret is repeated.
#[test]
fn backend_that_does_not_accept_is_a_problem() {
    let rig = Rig::new(GPUS);
    let unreachable = Unreachable::reserve();
    let unauthorized = |_: &_| {
        Reply::Http(
            StatusCode::UNAUTHORIZED,
            None,
            "Bearer s3cret-token is not valid in /?token=s3cret-query",
        )
    };
    let refusing = MockBackend::deciding(unauthorized);
    let hanging = MockBackend::deciding(|_| Reply::NoResponse);
    for (address, timeout, reason, advice) in [
        (
            unreachable.address,
            PATIENT,
            "Connection refused",
            "check that the backend listens there",
        ),
        (
            refusing.address,
            PATIENT,
            "401 Unauthorized: … is not valid in /?token=…",
            "check the token in ",
        ),
        (hanging.address, "--timeout 10", "no answer within ", "check that the backend listens"),
    ] {
        for format in ["json", "text"] {
            let mut command = doctor(&rig, &format!("--format {format} {timeout}"));
            let endpoint = format!("http://{address}/?token=s3cret-query");
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
            command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret-token");
            let output: Output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{text}");
            let problem = format!("endpoint (traces, metrics, logs): {reason}");
            assert!(text.contains(&problem) && text.contains(advice), "{reason}: {text}");
            assert!(!text.contains("s3cret") && !stderr(&output).contains("s3cret"), "{text}");
        }
    }
    let (findings, status) = found(&rig, PATIENT, |_| {});
    assert_eq!(status, Some(1), "{findings:#}");
    let unset = "OTEL_EXPORTER_OTLP_ENDPOINT is not set, so nothing is delivered; set it";
    assert!(findings["problems"].to_string().contains(unset), "{findings:#}");
}

/// Guarantee: a data directory that cannot be written is a problem, and one that another process uses is not.
#[test]
fn data_directory_that_cannot_be_written_is_a_problem() {
    let rig = Rig::new(GPUS);
    let (findings, status) =
        found(&rig, &format!("{PATIENT} --report /dev/null --data-dir /proc/phasemeter"), |_| {});
    assert_eq!(status, Some(1), "{findings:#}");
    let problems = texts(&findings["problems"]);
    let [problem] = &problems[..] else { panic!("{findings:#}") };
    assert!(problem.starts_with("--data-dir /proc/phasemeter: "), "{problem}");
    assert!(
        problem.ends_with("; make it writable for this user, or name another one"),
        "{problem}"
    );

    let data = tempfile::tempdir().unwrap();
    let lock = std::fs::File::create(data.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let arguments = format!("{PATIENT} --report /dev/null --data-dir {}", data.path().display());
    let (findings, status) = found(&rig, &arguments, |_| {});
    assert_eq!(status, Some(0), "{findings:#}");
    assert!(findings["facts"]["data"].to_string().contains("in use: "), "{findings:#}");
}

/// Guarantee: a file that an option names and a run would refuse is a problem, and no window is written.
#[test]
fn unusable_files_of_options_are_problems() {
    let rig = Rig::new(GPUS);
    let dir = tempfile::tempdir().unwrap();
    let arguments = format!(
        "{PATIENT} --report /dev/null --alerts /missing.toml --dump-windows {}",
        dir.path().display()
    );
    let (findings, status) = found(&rig, &arguments, |_| {});
    assert_eq!(status, Some(1), "{findings:#}");
    assert!(findings["problems"].to_string().contains("/missing.toml"), "{findings:#}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is written");
}

/// Guarantee: the check of an agent asks who holds the GPUs, and takes no socket from one that runs.
#[test]
fn check_of_an_agent_names_holders() {
    let rig = Rig::new(GPUS);
    let jobs = tempfile::tempdir().unwrap();
    std::fs::write(jobs.path().join("0"), "4242\n").unwrap();
    let socket = jobs.path().join("agent.sock");
    let arguments = format!(
        "{PATIENT} --report /dev/null --agent --job-mapping {} --socket {}",
        jobs.path().display(),
        socket.display()
    );
    let (findings, status) = found(&rig, &arguments, |_| {});
    assert_eq!(status, Some(0), "{findings:#}");
    let holders = texts(&findings["facts"]["holders"]);
    assert!(holders[0].contains("4242"), "{findings:#}");
    assert_eq!(holders[1], "GPU 1: nobody");
    assert!(findings["notes"].to_string().contains("holders: kubelet at "), "{findings:#}");
    assert!(!socket.exists());
}

/// Guarantee: the configuration file is named, and counts as for a run.
#[test]
fn configuration_file_counts_and_is_named() {
    let rig = Rig::new(GPUS);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("phasemeter.yaml");
    let text =
        "file_format: \"1.1\"\ndistribution:\n  phasemeter:\n    gpus:\n      select: [\"1\"]\n";
    std::fs::write(&file, text).unwrap();
    let arguments = format!("{PATIENT} --report /dev/null --config {}", file.display());
    let (findings, status) = found(&rig, &arguments, |_| {});
    assert_eq!(status, Some(0), "{findings:#}");
    assert_eq!(texts(&findings["facts"]["configuration"]), [file.to_str().unwrap()]);
    let gpus = texts(&findings["facts"]["gpus"]);
    assert_eq!(gpus, ["metering 1 of 2 GPUs, selected by --gpu: 1"]);
}
