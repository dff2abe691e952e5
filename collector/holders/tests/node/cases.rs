//! Cases: each directory in `tests/cases` has evidence in its real formats, and what follows from it.
//!
//! | file | contents |
//! |---|---|
//! | `case.toml` | GPUs of the node and the polls, each with the files that count then |
//! | `*.json` | `PodResources` with the names of the protocol; lists of `ResourceSlice` and of pods, `ResourceClaim` objects |
//! | `proc/PID/cgroup`, `environ` | control groups and environments of processes |
//! | `pods.txt` | names of log directories of pods, oldest first |
//! | `jobs`, `job-mapping` | files of Slurm's prolog, and as for dcgm-exporter |
//! | `expected.snap` | who holds each GPU after each poll |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use phasemeter_holders::{
    Assignment, Assignments, NodeGpu, NodeHolders, NodeInstance, Options, PodName, PodSource,
    Problem, Unresolved,
};
use phasemeter_meter::holder::{Holder, Share};
use phasemeter_meter::units::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fake_api::FakeApi;
use crate::fake_kubelet::FakeKubelet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    gpu: Vec<Gpu>,
    #[serde(default)]
    own_pod: Option<(String, String)>,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gpu {
    uuid: String,
    minor: Option<u32>,
    memory_mib: Option<u64>,
    #[serde(default)]
    instance: Vec<Instance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    uuid: String,
    gpu_instance: Option<u32>,
    profile: Option<String>,
    start: Option<u32>,
    share: Option<(u32, u32)>,
}

/// A poll. Without `list` the kubelet is down; without `slices` the API server forbids to read them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at_ms: u64,
    list: Option<String>,
    allocatable: Option<String>,
    slices: Option<String>,
    /// The pods of the node at the API server. The first step has them if any does.
    api_pods: Option<String>,
    #[serde(default)]
    version: Option<String>,
    /// By namespace and name.
    #[serde(default)]
    claims: BTreeMap<String, String>,
    /// Processes on GPUs and MIG instances, by UUID.
    #[serde(default)]
    processes: BTreeMap<String, Vec<u32>>,
    /// MIG instances that the driver does not list then.
    #[serde(default)]
    without: Vec<String>,
    /// Names of log directories of pods that are created just before.
    #[serde(default)]
    pods: Vec<String>,
}

const NODE: &str = "node-1";

/// What ends a watch, so that a list follows.
const EXPIRED: &[u8] = include_bytes!("../pods/expired.jsonl");

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the case in a directory of `tests/cases`.
fn run(name: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let case: Case = toml::from_str(&fs::read_to_string(dir.join("case.toml")).unwrap()).unwrap();
    let mut text = String::new();
    let mut node = Node::new(&dir, &case);
    for step in &case.step {
        let assignments = node.poll(step, &case.gpu);
        writeln!(text, "# {} ms", step.at_ms).unwrap();
        print(&mut text, &assignments);
    }
    let settings = {
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path(&dir);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings.bind(|| insta::assert_snapshot!("expected", text));
}

struct Node {
    dir: PathBuf,
    kubelet: Option<FakeKubelet>,
    api: FakeApi,
    /// What the API server has.
    objects: BTreeMap<String, Vec<u8>>,
    holders: NodeHolders,
    scratch: tempfile::TempDir,
}

impl Node {
    fn new(dir: &Path, case: &Case) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let pods = at("pods");
        fs::create_dir(&pods).unwrap();
        let listed = fs::read_to_string(dir.join("pods.txt")).unwrap_or_default();
        listed.lines().for_each(|name| fs::create_dir(pods.join(name)).unwrap());
        let api = FakeApi::start(scratch.path());
        let is_there = |name: &str| Some(dir.join(name)).filter(|path| path.exists());
        let own_pod = case.own_pod.clone();
        let options = Options {
            kubelet: Some(at("kubelet.sock")),
            api: Some(api.server.clone()),
            node: Some(NODE.to_owned()),
            pods: case.step[0].api_pods.is_some().then(|| PodSource {
                server: api.server.clone(),
                node: NODE.to_owned(),
                labels: vec![],
            }),
            proc: Some(dir.join("proc")),
            pod_logs: Some(pods),
            job_mapping: is_there("job-mapping"),
            jobs: is_there("jobs"),
            own_pod: own_pod.map(|(namespace, name)| PodName { namespace, name }),
        };
        let holders = NodeHolders::new(options).unwrap();
        let objects = BTreeMap::new();
        Self { dir: dir.to_owned(), kubelet: None, api, objects, holders, scratch }
    }

    fn poll(&mut self, step: &Step, gpus: &[Gpu]) -> Assignments {
        let socket = self.scratch.path().join("kubelet.sock");
        self.kubelet = None;
        if let Some(list) = &step.list {
            let kubelet = FakeKubelet::start(&socket);
            kubelet.lists(self.json(list));
            let allocatable = step.allocatable.as_ref().map(|file| self.json(file));
            kubelet.allocates(allocatable.ok_or(tonic::Status::unimplemented("not here")));
            self.kubelet = Some(kubelet);
        }
        if !step.pods.is_empty() {
            // Longer than the resolution of times of files.
            thread::sleep(Duration::from_millis(20));
        }
        for pod in &step.pods {
            fs::create_dir_all(self.scratch.path().join("pods").join(pod)).unwrap();
        }
        let version = step.version.as_deref().unwrap_or("v1");
        let base = format!("/apis/resource.k8s.io/{version}");
        let mut objects = BTreeMap::new();
        if let Some(slices) = &step.slices {
            let path = format!("{base}/resourceslices?fieldSelector=spec.nodeName%3D{NODE}");
            serve(path, &fs::read(self.dir.join(slices)).unwrap(), &mut objects);
        }
        for (claim, file) in &step.claims {
            let (namespace, name) = claim.split_once('/').unwrap();
            let path = format!("{base}/namespaces/{namespace}/resourceclaims/{name}");
            objects.insert(path, fs::read(self.dir.join(file)).unwrap());
        }
        if let Some(pods) = &step.api_pods {
            let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}");
            serve(path, &fs::read(self.dir.join(pods)).unwrap(), &mut objects);
        }
        self.api.fails(objects.is_empty().then_some(StatusCode::FORBIDDEN));
        self.publish(objects);
        let gpus: Vec<NodeGpu> = gpus.iter().zip(0..).map(|(gpu, i)| gpu.at(step, i)).collect();
        let at = Timestamp::from_millis(1_000_000_000 + step.at_ms).unwrap();
        let began = Instant::now();
        loop {
            let found = self.holders.poll(at, &gpus);
            if !is_late(&found) || began.elapsed() > PATIENCE {
                return found;
            }
        }
    }

    /// The API server has these objects. Returns once those that are watched have been listed anew.
    fn publish(&mut self, objects: BTreeMap<String, Vec<u8>>) {
        let is_same = objects == self.objects;
        self.objects = objects.clone();
        self.api.has(objects);
        let listed = self.api.lists();
        // Pods are followed from the start.
        let has_pods = self.objects.keys().any(|path| path.starts_with("/api/v1/pods"));
        let watches = listed.max(usize::from(has_pods));
        if is_same || watches == 0 {
            return;
        }
        self.wait_for_watches(listed);
        self.api.emits(EXPIRED);
        self.api.ends_watches();
        self.wait_for_watches(watches);
    }

    fn wait_for_watches(&self, count: usize) {
        let began = Instant::now();
        while self.api.emits(b"") < count {
            assert!(began.elapsed() < PATIENCE, "nothing watches");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn json<T: DeserializeOwned>(&self, file: &str) -> T {
        serde_json::from_slice(&fs::read(self.dir.join(file)).unwrap()).unwrap()
    }
}

/// Whether slices were not listed in time, on a busy machine.
fn is_late(found: &Assignments) -> bool {
    let is_missing =
        |it: &Problem| matches!(it, Problem::Unresolved { reason: Unresolved::NoSlices, .. });
    let is_slow = |reason: &str| reason.contains("no response within");
    let mut failures = found.problems.iter().filter_map(|it| match it {
        Problem::Api { reason, .. } => Some(reason),
        _ => None,
    });
    let has_failed = failures.clone().next().is_some();
    failures.any(|reason| is_slow(reason)) || (!has_failed && found.problems.iter().any(is_missing))
}

/// Has a list, from a cache and otherwise.
fn serve(path: String, list: &[u8], objects: &mut BTreeMap<String, Vec<u8>>) {
    objects.insert(format!("{path}&resourceVersion=0"), list.to_vec());
    objects.insert(path, list.to_vec());
}

impl Gpu {
    fn at(&self, step: &Step, index: u32) -> NodeGpu {
        let processes = |uuid: &str| step.processes.get(uuid).cloned().unwrap_or_default();
        let is_listed = |it: &&Instance| !step.without.contains(&it.uuid);
        let instance = |it: &Instance| NodeInstance {
            uuid: it.uuid.clone(),
            gpu_instance: it.gpu_instance,
            profile: it.profile.clone(),
            start: it.start,
            share: it.share.map(|(parts, of)| Share::new(parts, of).unwrap()),
            processes: processes(&it.uuid),
        };
        NodeGpu {
            uuid: self.uuid.clone(),
            index,
            minor: self.minor,
            memory: self.memory_mib.map(|mebibytes| mebibytes << 20),
            processes: processes(&self.uuid),
            instances: self.instance.iter().filter(is_listed).map(instance).collect(),
        }
    }
}

fn print(text: &mut String, assignments: &Assignments) {
    for (uuid, assignment) in assignments.gpus.iter().chain(&assignments.instances) {
        print_device(text, uuid, assignment);
    }
    for (id, holder) in &assignments.processes {
        writeln!(text, "process {id}: {}", full(holder)).unwrap();
    }
    for (holder, known) in &assignments.details {
        let of = [&known.user, &known.project, &known.queue].map(|it| it.as_deref().unwrap_or("-"));
        writeln!(text, "{holder}: {}", of.join(" ")).unwrap();
    }
    for problem in &assignments.problems {
        let problem = problem.to_string();
        // Directories of this run.
        let text_of_problem = match problem.rsplit_once("/kubelet.sock") {
            Some((_, rest)) => format!("kubelet at kubelet.sock{rest}"),
            None => problem,
        };
        writeln!(text, "? {}", relative(&text_of_problem)).unwrap();
    }
}

fn relative(text: &str) -> &str {
    text.rsplit_once("tests/cases/").map_or(text, |(_, rest)| rest)
}

fn print_device(text: &mut String, uuid: &str, assignment: &Assignment) {
    let since = assignment.since.as_nanos() / 1_000_000 - 1_000_000_000;
    writeln!(text, "{uuid}, since {since} ms:").unwrap();
    for held in &assignment.held {
        let share = held.grant.share.map_or_else(
            || "unknown part".to_owned(),
            |share| format!("{}/{}", share.ratio().0, share.ratio().1),
        );
        let holder = &held.grant.holder;
        let touched = if assignment.touched.contains(holder) { ", touched" } else { "" };
        writeln!(text, "  {} {share} by {}{touched}", full(holder), held.source).unwrap();
    }
    for disagreement in &assignment.disagreements {
        writeln!(text, "  ! {disagreement}").unwrap();
    }
}

/// All that is known of a holder.
fn full(holder: &Holder) -> String {
    match holder {
        Holder::Container(it) => {
            let uid = it.uid.as_deref().map_or("?", |uid| uid.get(..8).unwrap());
            format!("{holder}/{} ({uid})", it.container)
        }
        _ => holder.to_string(),
    }
}

#[test]
fn cases_give_expected_holders() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    names.iter().for_each(|name| run(name));
}
