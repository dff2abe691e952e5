//! A sidecar meters the GPUs of its pod, by what tells which those are, or none.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phasemeter_engine::agent::{AgentGpu, AgentSocket, HolderState, MeteredGpuState};
use phasemeter_engine::pipeline::BilledTime;
use phasemeter_meter::holder::{Container, Share};
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Bytes, Nanos, Utilization};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::Observed;
use serde_json::Value;
use tempfile::TempDir;

use crate::Rig;
use crate::run::{
    NO_POLICIES, assert_billed, assumptions, elements, phasemeter, run_with_report, seconds,
    started_at, stderr, with_command,
};

const UNKNOWN: &str = "no GPU is metered: pod: its GPUs are unknown; name them with --gpu";

/// A node with eight GPUs; on two of them a process of each ID computes.
fn node(pids: [u32; 2]) -> Rig {
    let idle = "[[device]]\n";
    let [first, second] = pids.map(|pid| {
        format!("[[device]]\n[[device.phase]]\nfor_ms = 600000\nutilization = 95\nprocesses = [{{ pid = {pid} }}]\n")
    });
    Rig::new(&format!("{}{first}{second}{}", idle.repeat(2), idle.repeat(4)))
}

/// The processes of a pod as its containers see them: its own, 12 of the server, and 15 of another pod.
struct Processes(TempDir);

impl Processes {
    fn new() -> Self {
        let processes = Self(tempfile::tempdir().unwrap());
        for (pid, container) in [("self", "1/sidecar"), ("12", "1/server"), ("15", "2/server")] {
            processes.write(pid, "cgroup", &format!("0::/kubepods/pod{container}\n"));
        }
        processes
    }

    fn write(&self, pid: &str, file: &str, text: &str) {
        let path = self.0.path().join(pid);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(file), text).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) fn in_pod(command: &mut Command) {
    command.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
    // That of this machine is not part of the tests.
    command.env("PHASEMETER_AGENT_SOCKET", "/nonexistent/agent.sock");
}

/// The indices of the metered GPUs of a report.
fn indices(report: &Value) -> Vec<u64> {
    report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].as_u64().unwrap()).collect()
}

pub(crate) fn uuid(gpu: u32) -> String {
    format!("GPU-00000000-0000-0000-0000-{gpu:012}")
}

/// In a pod that cannot tell, no GPU is metered, whatever the driver shows; sidecar and command go on.
#[test]
fn pod_that_cannot_tell_meters_no_gpu() {
    let rig = node([4_711, 4_712]);
    for visible in [None, Some("all"), Some("void"), Some("none")] {
        let change = |command: &mut Command| {
            in_pod(command);
            visible.map(|value| command.env("NVIDIA_VISIBLE_DEVICES", value));
        };
        let (output, report) =
            run_with_report(&rig, &format!("--duration 0.3 {NO_POLICIES}"), change);
        let log = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert_eq!(log.matches(UNKNOWN).count(), 1, "one line: {log}");
        assert_eq!(indices(&report), [0; 0]);
        assert!(assumptions(&report).contains("its GPUs are unknown"), "{report:#}");
    }
    let mut command = with_command(&rig, NO_POLICIES, "echo ran; exit 3");
    in_pod(&mut command);
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b"ran\n"[..]));
}

/// What is named explicitly counts, as an option, a variable or a file that another container writes.
#[test]
fn named_gpus_are_metered_in_a_pod() {
    let rig = node([4_711, 4_712]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gpus");
    fs::write(&file, format!("{},5\n", uuid(1))).unwrap();
    let run = |arguments: &str, name: &str, value: &str| {
        let arguments = format!("--duration 0.3 {NO_POLICIES} {arguments}");
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            in_pod(command);
            command.env(name, value);
        });
        assert!(output.status.success(), "{}", stderr(&output));
        let by = assumptions(&report);
        let (_, by) = by.split_once("of 8 GPUs, ").unwrap_or_else(|| panic!("{by}"));
        (indices(&report), by.split(':').next().unwrap().to_owned())
    };
    let of = |gpus: &[u64], by: &str| (gpus.to_vec(), by.to_owned());
    assert_eq!(run("--gpu 6", "A", "b"), of(&[6], "selected by --gpu"));
    assert_eq!(
        run(&format!("--gpu {}", file.display()), "A", "b"),
        of(&[1, 5], "selected by --gpu")
    );
    assert_eq!(run("", "PHASEMETER_GPU", "nvidia.com/gpu=7"), of(&[7], "selected by --gpu"));
    let nvidia = "NVIDIA_VISIBLE_DEVICES";
    assert_eq!(run("", nvidia, &uuid(3)), of(&[3], &format!("selected by {nvidia}")));
}

/// The server starts after the sidecar: its environment tells once it is there.
#[test]
fn gpus_of_a_container_that_starts_later_are_metered_from_the_start() {
    let rig = node([4_711, 4_712]);
    let processes = Processes::new();
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let arguments = format!(
        "{NO_POLICIES} --procfs {} --report {}",
        processes.path().display(),
        report.display()
    );
    let mut command = phasemeter(&rig, &arguments);
    in_pod(&mut command);
    let (mut running, log) = started_at(UNKNOWN, command.env("NVIDIA_VISIBLE_DEVICES", "all"));
    processes.write("15", "environ", &format!("NVIDIA_VISIBLE_DEVICES={}\0", uuid(0)));
    processes.write("12", "environ", &format!("A=b\0NVIDIA_VISIBLE_DEVICES={}\0", uuid(2)));
    log.wait_for("metering 1 of 8 GPUs, those of this pod, by its other containers: 2");
    thread::sleep(Duration::from_secs(2));
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&running.0),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(running.0.wait().unwrap().success(), "{}", log.rest());
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(indices(&report), [2]);
    let gpu = &report["gpus"][0];
    assert_billed(gpu);
    let unobserved = seconds(&gpu["unobserved_seconds"]);
    assert!(unobserved > 0.0, "the pod had it before that was known: {gpu:#}");
    assert!(seconds(&gpu["phases"]["compute_bound"]["seconds"]) > 0.0, "{gpu:#}");
}

/// An environment that cannot be read leaves the processes on the GPUs. They tell if the driver's IDs are those seen
/// here, not if they are the host's.
#[test]
fn processes_tell_if_environments_cannot_be_read() {
    let processes = Processes::new();
    fs::create_dir(processes.path().join("12/environ")).unwrap();
    let run = |pids| {
        let arguments =
            format!("--duration 0.3 {NO_POLICIES} --procfs {}", processes.path().display());
        let (output, report) = run_with_report(&node(pids), &arguments, in_pod);
        (indices(&report), stderr(&output))
    };
    let (gpus, log) = run([12, 12]);
    assert_eq!(gpus, [2, 3], "{log}");
    assert!(
        log.contains("metering 2 of 8 GPUs, those of this pod, by its processes on them"),
        "{log}"
    );
    let (gpus, log) = run([12, 4_711]);
    assert_eq!(gpus, [0; 0], "IDs of the host: {log}");
    assert!(log.contains(UNKNOWN), "{log}");
}

/// An agent whose node has two GPUs: the second one is that of the pod `ml/server`.
struct Agent {
    running: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    dir: TempDir,
}

impl Agent {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        // It sees no processes: the pod is the one that the sidecar states.
        let clock = Clock::start();
        let mut socket = AgentSocket::listen(&path, Path::new("/nonexistent"), clock).unwrap();
        let running = Arc::new(AtomicBool::new(true));
        let is_running = Arc::clone(&running);
        let from = clock.now().floor_second();
        let billed = BilledTime { from, until: from, next: from + Nanos::from_secs(60) };
        let thread = thread::spawn(move || {
            while is_running.load(Ordering::Relaxed) {
                for gpu in [0, 1] {
                    let reading = Reading {
                        utilization: Ok(Utilization::from_percent(95).unwrap()),
                        memory_used: Bytes::from_mebibytes(1_000),
                        compute_processes: Some(1),
                        ..Reading::at(clock.now())
                    };
                    socket.observe(&uuid(gpu), &Observed::Reading(reading));
                }
                let gpus = ["other", "server"].into_iter().zip(0..).map(held).collect();
                let billed = [0, 1].map(|gpu| (uuid(gpu), billed));
                socket.publish(Some(gpus), billed);
                thread::sleep(Duration::from_millis(200));
            }
        });
        Self { running, thread: Some(thread), dir }
    }

    fn beside(&self, command: &mut Command) {
        in_pod(command);
        command.env("PHASEMETER_AGENT_SOCKET", self.dir.path().join("agent.sock"));
        command.env("POD_NAMESPACE", "ml").env("POD_NAME", "server");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.running.store(false, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn held((pod, index): (&str, u32)) -> MeteredGpuState {
    let container = Container {
        namespace: "ml".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
        uid: None,
    };
    MeteredGpuState {
        gpu: AgentGpu {
            uuid: uuid(index),
            index: Some(index),
            model: Some("NVIDIA H100 80GB HBM3".to_owned()),
            memory_total_bytes: Some(80 << 30),
            ..AgentGpu::default()
        },
        holders: vec![HolderState { container, share: Share::new(1, 4), ..HolderState::default() }],
        is_shared: false,
        statement: None,
    }
}

/// Beside an agent no driver is needed, and what the agent bills is not exported twice.
#[test]
fn sidecar_takes_readings_of_the_agent_and_leaves_the_bill_to_it() {
    let (agent, rig) = (Agent::start(), Rig::new("[[device]]"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let arguments = format!("--duration 4 {NO_POLICIES} --otlp-file {}", file.display());
    let (output, report) = run_with_report(&rig, &arguments, |command| {
        agent.beside(command);
        // No driver.
        command.env("LD_LIBRARY_PATH", dir.path());
    });
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("metering 1 of 1 GPUs, those of this pod, by the node agent: 1"), "{log}");
    assert_eq!(indices(&report), [1]);
    let gpu = &report["gpus"][0];
    assert_billed(gpu);
    assert!(seconds(&gpu["phases"]["compute_bound"]["seconds"]) > 1.0, "{gpu:#}");
    let names: Vec<_> = elements(&file, ["resourceMetrics", "scopeMetrics", "metrics"])
        .iter()
        .map(|metric| metric["name"].as_str().unwrap().to_owned())
        .collect();
    let of_gpus = |name: &&String| name.starts_with("phasemeter.gpu.") || name.starts_with("hw.");
    assert_eq!(names.iter().find(of_gpus), None, "{names:?}");
    let spans = elements(&file, ["resourceSpans", "scopeSpans", "spans"]);
    assert!(spans.iter().any(|span| span["name"] == "gpu session"), "{spans:#?}");
    // Another pod holds nothing.
    let (output, report) =
        run_with_report(&rig, &format!("--duration 0.3 {NO_POLICIES}"), |command| {
            agent.beside(command);
            command.env("POD_NAME", "third");
        });
    let log = stderr(&output);
    assert!(log.contains("node agent: this pod holds no GPU"), "{log}");
    assert_eq!(indices(&report), [0; 0], "the driver is not asked: {log}");
}
