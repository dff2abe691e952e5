//! The report of a sidecar beside an agent has the agent's accounts of its pod, to the nano-dollar.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_holders::messages::{
    AllocatableResourcesResponse, ContainerDevices, ListPodResourcesResponse,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::churn::{RESOURCE, is_held};
use crate::fake_kubelet::FakeKubelet;
use crate::files::nanos;
use crate::hand_over::pod;
use crate::own_gpus::{in_pod, uuid};
use crate::run::{Log, NO_POLICIES, Running, assumptions, command_of, priced, seconds, started_at};
use crate::{Rig, TIMEOUT, otlp};

/// What each pod has of the GPU.
const REPLICAS: usize = 4;

/// What a sidecar would charge by itself; the agent has another price.
const OTHER_PRICE: &str = "--price=9";

/// A node with one GPU that is shared by time.
pub(crate) struct Node {
    kubelet: FakeKubelet,
    rig: Rig,
    dir: tempfile::TempDir,
}

impl Node {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = FakeKubelet::start(&dir.path().join("kubelet.sock"));
        let device_ids = (0..REPLICAS).map(|it| format!("{}::{it}", uuid(0))).collect();
        let devices = ContainerDevices { resource_name: RESOURCE.to_owned(), device_ids };
        kubelet.allocates(Ok(AllocatableResourcesResponse { devices: vec![devices] }));
        kubelet.lists(ListPodResourcesResponse::default());
        let rig = Rig::new("[[device]]\n[[device.phase]]\nfor_ms = 600000\nutilization = 30\n");
        Self { kubelet, rig, dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// These pods have a replica each, and no others.
    pub(crate) fn runs(&self, pods: &[&str]) {
        let devices = (0..).map(|replica: usize| format!("{}::{replica}", uuid(0)));
        let listed = pods.iter().zip(devices).map(|(name, id)| pod(name, RESOURCE, id));
        self.kubelet.lists(ListPodResourcesResponse { pod_resources: listed.collect() });
    }

    pub(crate) fn wait_until_held(&self, pod: &str, held: bool) {
        let began = Instant::now();
        while is_held(&self.path("agent.sock"), pod) != held {
            assert!(began.elapsed() < TIMEOUT, "{pod}: held is not {held}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// An agent with this report.
    pub(crate) fn agent_command(&self, report: &str) -> Command {
        let mut command = command_of(&self.rig, "agent", NO_POLICIES);
        for (option, name) in [
            ("--kubelet-socket", "kubelet.sock"),
            ("--pod-logs", "logs"),
            ("--socket", "agent.sock"),
            ("--report", report),
        ] {
            command.arg(option).arg(self.path(name));
        }
        command
    }

    pub(crate) fn agent(&self, report: &str) -> Running {
        started_at("sidecars are answered", &mut self.agent_command(report)).0
    }

    pub(crate) fn sidecar(&self, pod: &str, report: &str, until: &str) -> (Running, Log) {
        started_at(until, &mut self.sidecar_command(pod, report))
    }

    /// A sidecar of this pod with this report.
    pub(crate) fn sidecar_command(&self, pod: &str, report: &str) -> Command {
        let mut command = priced(&self.rig, "run", OTHER_PRICE, NO_POLICIES);
        in_pod(&mut command);
        command
            .arg("--report")
            .arg(self.path(report))
            .env("PHASEMETER_AGENT_SOCKET", self.path("agent.sock"))
            .env("NVIDIA_VISIBLE_DEVICES", uuid(0))
            .env("POD_NAMESPACE", "ml")
            .env("POD_NAME", pod);
        command
    }

    pub(crate) fn report(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}

/// Waits until the time has begun for which a run has the accounts of the agent.
pub(crate) fn wait_until_accounts_are_followed(run: &Running) {
    let threads = PathBuf::from(format!("/proc/{}/task", run.0.id()));
    let began = Instant::now();
    let name = |thread: PathBuf| fs::read_to_string(thread.join("comm")).unwrap_or_default();
    let names = || fs::read_dir(&threads).unwrap().map(|it| name(it.unwrap().path()));
    while !names().any(|name| name.trim_end() == "agent-watch") {
        assert!(began.elapsed() < TIMEOUT, "{:?}", names().collect::<Vec<_>>());
        thread::sleep(Duration::from_millis(20));
    }
}

fn terminate(process: &Running) {
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
}

pub(crate) fn end(mut process: Running) {
    terminate(&process);
    assert!(process.0.wait().unwrap().success());
}

/// What a report states of a holder that does not depend on the clock of the one that states it.
fn accounts(holder: &Value) -> Value {
    let mut accounts = holder.clone();
    for label in ["start", "end", "first_touch"] {
        accounts.as_object_mut().unwrap().remove(label);
    }
    accounts
}

/// Scenario: two pods have a quarter of a GPU each, one of them for longer. A sidecar of each runs all the time, and
/// another one of the second pod for a part of it.
/// Guarantee: what each report states is the agent's account of the pod, at the agent's price, to the nano-dollar; both
/// and nobody's are the agent's bill. A run within that time has a quarter of its own time.
#[test]
fn reports_of_sidecars_and_nobodys_part_are_the_bill_of_the_agent() {
    let node = Node::start();
    let agent = node.agent("agent.json");
    let unheld = "this pod holds no GPU";
    let (first, _log) = node.sidecar("a", "a.json", unheld);
    let (second, log) = node.sidecar("b", "b.json", unheld);
    [&first, &second].into_iter().for_each(wait_until_accounts_are_followed);
    node.runs(&["a", "b"]);
    node.wait_until_held("b", true);
    log.wait_for("metering 1 of 1 GPUs");
    let within = node.sidecar("b", "within.json", "metering 1 of 1 GPUs");
    thread::sleep(Duration::from_secs(2));
    end(within.0);
    node.runs(&["a"]);
    node.wait_until_held("b", false);
    node.runs(&[]);
    node.wait_until_held("a", false);
    [&first, &second].into_iter().for_each(terminate);
    for mut sidecar in [first, second] {
        assert!(sidecar.0.wait().unwrap().success());
    }
    end(agent);

    let of_agent = node.report("agent.json");
    let gpu = &of_agent["gpus"][0];
    let mut sum = nanos(&gpu["nobody"]["cost_usd"]);
    for (place, name) in ["a", "b"].into_iter().enumerate() {
        let report = node.report(&format!("{name}.json"));
        let [own] = report["gpus"].as_array().unwrap().as_slice() else { panic!("{report:#}") };
        let holder = &gpu["holders"][place];
        assert_eq!(holder["pod"], name);
        let [stated] = own["holders"].as_array().unwrap().as_slice() else { panic!("{own:#}") };
        let notes = assumptions(&report);
        assert_eq!(accounts(stated), accounts(holder), "{notes} {own:#}");
        assert!(seconds(&stated["used_seconds"]) > 0.0, "{own:#}");
        assert!(seconds(&stated["granted_unused_seconds"]) > 0.0, "{own:#}");
        assert!(seconds(&stated["granted_seconds"]) > 1.0, "{own:#}");
        // The pod's part is all of the report.
        assert_eq!(own["cost_usd"], holder["cost_usd"]);
        assert_eq!(report["cost"]["total_usd"], holder["cost_usd"]);
        assert_eq!(own["waste_usd"], holder["waste_usd"]);
        assert_eq!(own["nobody"]["cost_usd"], "0.000000000");
        assert_eq!(own["rate_usd_per_gpu_hour"], gpu["rate_usd_per_gpu_hour"]);
        let by_category = own["waste_by_category_usd"].as_object().unwrap().values();
        assert_eq!(by_category.map(nanos).sum::<i128>(), nanos(&own["waste_usd"]));
        let periods = own["periods"].as_array().unwrap().iter();
        let of_periods =
            periods.flat_map(|it| it["accounts"].as_object().unwrap().values().cloned());
        let of_periods: i128 = of_periods.map(|account| nanos(&account["cost_usd"])).sum();
        assert_eq!(of_periods, nanos(&own["cost_usd"]), "{own:#}");
        assert!(notes.contains("by the accounts of the agent of the node"), "{notes}");
        assert!(!notes.contains("in no account"), "{notes}");
        sum += nanos(&own["cost_usd"]);
    }
    assert_eq!(sum, nanos(&gpu["cost_usd"]), "{gpu:#}");
    assert_eq!(gpu["cost_usd"], of_agent["cost"]["total_usd"]);

    let within = node.report("within.json");
    let gpu = &within["gpus"][0];
    let length = length(gpu);
    assert!(length >= 1.0, "{gpu:#}");
    assert!((seconds(&gpu["span_seconds"]) - length / 4.0).abs() < 1e-6, "{gpu:#}");
    // Each account is rounded: three of a holder, in the time of each phase.
    let micros = seconds(&gpu["span_seconds"]) * 1e6;
    assert!((nanos(&gpu["cost_usd"]) as f64 - micros).abs() <= 21.0, "{gpu:#}");
}

/// The seconds from the start to the end of a GPU, which are less than a day apart.
pub(crate) fn length(gpu: &Value) -> f64 {
    let at = |label: &str| {
        let text = gpu[label].as_str().unwrap();
        let (_, time) = text.trim_end_matches('Z').split_once('T').unwrap();
        time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
    };
    (at("end") - at("start")).rem_euclid(86_400.0)
}

/// Scenario: the agent is killed and started again while a sidecar runs.
/// Guarantee: the report has what both agents have accounted for, and states the time that neither has.
#[test]
fn time_that_a_killed_agent_has_lost_is_stated() {
    let node = Node::start();
    node.runs(&["a"]);
    let killed = node.agent("killed.json");
    node.wait_until_held("a", true);
    let (sidecar, _log) = node.sidecar("a", "a.json", "metering 1 of 1 GPUs");
    // Until its accounts have reached the run.
    let began = Instant::now();
    while stated_seconds(&node.path("agent.sock")) < 17.0 {
        assert!(began.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(100));
    }
    drop(killed);
    let again = node.agent("again.json");
    node.wait_until_held("a", true);
    end(sidecar);
    end(again);
    let report = node.report("a.json");
    let gpu = &report["gpus"][0];
    let notes = assumptions(&report);
    let lost = notes.lines().find(|line| line.contains("are in no account of the agent"));
    let lost = lost.unwrap_or_else(|| panic!("{notes} {gpu:#}"));
    let lost: f64 = lost.split_whitespace().next().unwrap().parse().unwrap();
    assert!(lost > 10.0, "what it has not accounted for yet is lost: {notes}");
    let accounted = seconds(&gpu["span_seconds"]) * 4.0;
    // Until the second one has asked the kubelet, it does not know who holds the GPU.
    assert!(accounted > 1.0 && accounted + lost <= length(gpu) + 0.1, "{notes} {gpu:#}");
    let micros = accounted / 4.0 * 1e6;
    assert!((nanos(&gpu["cost_usd"]) as f64 - micros).abs() <= 42.0, "{gpu:#}");
}

/// The time of the GPU for which an agent has accounted.
pub(crate) fn stated_seconds(socket: &Path) -> f64 {
    let Ok(mut stream) = UnixStream::connect(socket) else { return 0.0 };
    let question = "{\"version\":1,\"pod\":{\"namespace\":\"ml\",\"name\":\"a\"},\"billed\":true,\"accounts\":true}\n";
    stream.write_all(question.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    // Those of the first line may be from before the question.
    for line in lines.by_ref().take(4) {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(gpu) = line["gpus"].get(0).filter(|_| line["kind"] == "accounts") else {
            continue;
        };
        let at = |instant: &str| gpu[instant].as_u64().unwrap();
        return Duration::from_nanos(at("until_boot_ns") - at("from_boot_ns")).as_secs_f64();
    }
    0.0
}

/// Scenario: an agent of a version that sends no accounts, answering as that did.
/// Guarantee: one warning; the report is that of the whole GPU, as the sidecar meters it, and states that.
#[test]
fn agent_that_sends_no_accounts_is_stated() {
    let node = Node::start();
    let listener = UnixListener::bind(node.path("agent.sock")).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || older_agent(connection.unwrap()));
        }
    });
    let (sidecar, log) = node.sidecar("a", "a.json", "metering 1 of 1 GPUs");
    log.wait_for("the agent of the node sends no accounts");
    thread::sleep(Duration::from_secs(1));
    end(sidecar);
    assert!(!log.rest().contains("sends no accounts: the report"), "one warning");
    let report = node.report("a.json");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["rate_usd_per_gpu_hour"], "9.000000000");
    let micros = seconds(&gpu["span_seconds"]) * 1e6;
    assert!((nanos(&gpu["cost_usd"]) as f64 - micros * 2.5).abs() < 1.0, "{gpu:#}");
    assert!(assumptions(&report).contains("is reported as a whole"), "{report:#}");
}

fn older_agent(mut connection: UnixStream) {
    let mut question = String::new();
    BufReader::new(&connection).read_line(&mut question).unwrap();
    let gpu = uuid(0);
    let line = if question.contains("\"billed\":true") {
        "{\"kind\":\"billed\",\"gpus\":[]}\n".to_owned()
    } else {
        let grant = "{\"container\":\"server\",\"share\":[1,4],\"accounts\":[]}";
        format!(
            "{{\"kind\":\"gpus\",\"version\":1,\"gpus\":[{{\"uuid\":\"{gpu}\",\"index\":0,\"model\":null,\
             \"memory_total_bytes\":null,\"grants\":[{grant}]}}]}}\n"
        )
    };
    // Until the sidecar has ended.
    while connection.write_all(line.as_bytes()).is_ok() {
        thread::sleep(Duration::from_millis(200));
    }
}

/// Scenario: a sidecar of a pod with a quarter of a GPU writes OTLP beside an agent with another price.
/// Guarantee: its spans have a quarter of their time, at the agent's price; the report says whose alerts and
/// recommendations about the GPU are.
#[test]
fn spans_of_a_sidecar_have_the_part_of_its_pod() {
    let node = Node::start();
    node.runs(&["a"]);
    let agent = node.agent("agent.json");
    node.wait_until_held("a", true);
    let mut command = node.sidecar_command("a", "a.json");
    command.arg("--otlp-file").arg(node.path("otlp.json"));
    let (sidecar, _log) = started_at("metering 1 of 1 GPUs", &mut command);
    thread::sleep(Duration::from_secs(3));
    end(sidecar);
    end(agent);
    let captured = otlp::read(&fs::read_to_string(node.path("otlp.json")).unwrap());
    assert!(captured.spans.len() >= 2, "a session and phases");
    for span in &captured.spans {
        let attributes = otlp::attributes(&span.attributes);
        let sum = |prefix: &str| -> f64 {
            let of = attributes.iter().filter(|(name, _)| name.starts_with(prefix));
            of.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
        };
        let length = (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9;
        let (time, cost) = (sum("phasemeter.time."), sum("phasemeter.cost."));
        assert!(length > 1.0 && (time - length / 4.0).abs() < 1e-6, "{attributes:?}");
        assert!((cost - time / 1_000.0).abs() < 1e-6, "{attributes:?}");
    }
    let notes = assumptions(&node.report("a.json"));
    assert!(notes.contains("are those of the agent of the node"), "{notes}");
}
