//! What the API server says about pods: a list, then what changes, and all that can go wrong with that.
//!
//! `tests/pods` has lists and events in their real formats. A change arrives on a thread of its own: each check waits for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use phasemeter_holders::messages::{
    ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources,
};
use phasemeter_holders::{Assignments, NodeGpu, NodeHolders, Options, PodSource};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::units::Timestamp;

use crate::fake_api::FakeApi;
use crate::fake_kubelet::FakeKubelet;

/// The first list may be a little old; one after an expired watch must not be.
const CACHED: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1&resourceVersion=0";
const FRESH: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1";

/// Pods of the kubelet, each with a GPU.
const PODS: [&str; 4] = ["chat-7c9d8f6b5-x2k4z", "train-0", "nightly-29927850-x7bq2", "new"];

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

struct Node {
    api: FakeApi,
    holders: NodeHolders,
    second: u64,
    _kubelet: FakeKubelet,
    dir: tempfile::TempDir,
}

impl Node {
    fn start(objects: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("kubelet.sock");
        let kubelet = FakeKubelet::start(&socket);
        kubelet.lists(ListPodResourcesResponse { pod_resources: PODS.map(pod).to_vec() });
        let logs = dir.path().join("logs");
        let uids = [("chat-7c9d8f6b5-x2k4z", 1), ("train-0", 2), ("nightly-29927850-x7bq2", 3)];
        for (name, uid) in uids.into_iter().chain([("new", 4)]) {
            fs::create_dir_all(logs.join(directory(name, uid))).unwrap();
        }
        let api = FakeApi::start(dir.path());
        api.has(objects.iter().map(|(path, name)| ((*path).to_owned(), file(name))).collect());
        let source = PodSource {
            server: api.server.clone(),
            node: "node-1".to_owned(),
            labels: vec!["team".to_owned()],
        };
        let options = Options {
            kubelet: Some(socket),
            pods: Some(source),
            proc: None,
            pod_logs: Some(logs),
            ..Options::default()
        };
        let holders = NodeHolders::new(options).unwrap();
        Self { api, holders, second: 1_000, dir, _kubelet: kubelet }
    }

    fn poll(&mut self) -> Assignments {
        self.second += 1;
        let gpu = |pod: &str| NodeGpu { uuid: gpu(pod), ..NodeGpu::default() };
        let at = Timestamp::from_millis(self.second * 1_000).unwrap();
        self.holders.poll(at, &PODS.map(gpu))
    }

    /// Polls until this holds of what is known of the pods.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Known) -> bool) -> Known {
        let began = Instant::now();
        loop {
            let known = Known::of(&self.poll());
            if is_so(&known) {
                return known;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {known:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a file of events, once something watches.
    fn emits(&self, name: &str) {
        let began = Instant::now();
        while self.api.emits(b"") == 0 {
            assert!(began.elapsed() < PATIENCE, "nothing watches");
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.api.emits(&file(name)), 1);
    }
}

/// What is known of pods, by name, and what is missing.
#[derive(Debug)]
struct Known {
    details: BTreeMap<String, Arc<HolderDetails>>,
    held: usize,
    problems: Vec<String>,
}

impl Known {
    fn of(assignments: &Assignments) -> Self {
        let details = assignments.details.iter();
        let name = |name: String| name.strip_prefix("ml/").unwrap().to_owned();
        Self {
            details: details.map(|(it, known)| (name(it.to_string()), Arc::clone(known))).collect(),
            held: assignments.gpus.values().filter(|it| !it.held.is_empty()).count(),
            problems: assignments.problems.iter().map(ToString::to_string).collect(),
        }
    }

    fn team(&self, pod: &str) -> Option<&str> {
        self.details.get(pod)?.labels.get("team").map(String::as_str)
    }

    fn workload(&self, pod: &str) -> String {
        let known = self.details[pod].workload.clone().unwrap();
        format!("{} {}", known.kind, known.name)
    }
}

fn pod(name: &str) -> PodResources {
    let devices = ContainerDevices {
        resource_name: "nvidia.com/gpu".to_owned(),
        device_ids: vec![gpu(name)],
    };
    let container = ContainerResources {
        name: "server".to_owned(),
        devices: vec![devices],
        dynamic_resources: vec![],
    };
    PodResources { name: name.to_owned(), namespace: "ml".to_owned(), containers: vec![container] }
}

/// The GPU of a pod.
fn gpu(pod: &str) -> String {
    format!("GPU-{}", PODS.iter().position(|it| *it == pod).unwrap())
}

fn directory(name: &str, uid: u32) -> String {
    format!("ml_{name}_00000000-0000-4000-8000-{uid:012}")
}

fn file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods").join(name)).unwrap()
}

#[test]
fn owner_queue_and_labels_come_from_the_list() {
    // A server that cannot send metadata alone sends whole pods.
    for list in ["metadata-list.json", "pod-list.json"] {
        let mut node = Node::start(&[(CACHED, list)]);
        let known = node.wait("three pods", |known| known.details.len() == 3);
        let [chat, train, nightly, _] = PODS;
        assert_eq!(known.workload(chat), "Deployment chat");
        assert_eq!(known.workload(train), "StatefulSet train");
        assert_eq!(known.workload(nightly), "CronJob nightly");
        let teams = [chat, train, nightly].map(|pod| known.team(pod));
        assert_eq!(teams, [Some("vision"), Some("speech"), None]);
        let queues = [chat, train, nightly].map(|pod| known.details[pod].queue.as_deref());
        assert_eq!(queues, [Some("research"), Some("batch"), None]);
        assert_eq!(known.details[chat].labels.len(), 1, "labels that nobody asked for");
    }
}

/// Each kind of event, in parts of lines as they may come, and the same watch from the last version on after its end.
#[test]
fn changes_of_pods_are_followed() {
    let mut node = Node::start(&[(CACHED, "metadata-list.json")]);
    let [chat, train, _, new] = PODS;
    node.wait("the list", |known| known.details.len() == 3);
    node.emits("added.jsonl");
    assert!(node.api.accepted().contains("as=PartialObjectMetadata;"), "{}", node.api.accepted());
    assert_eq!(node.wait("a new pod", |it| it.details.len() == 4).workload(new), "Pod new");
    let modified = file("modified.jsonl");
    let (begin, end) = modified.split_at(modified.len() / 2);
    node.api.emits(begin);
    node.poll();
    node.api.emits(end);
    node.wait("another label", |known| known.team(chat) == Some("text"));
    // The recreated pod has the same name and another UID, which its directory of logs tells.
    node.emits("recreated.jsonl");
    assert_eq!(node.wait("the pod before", |_| true).team(train), Some("speech"));
    thread::sleep(Duration::from_millis(20));
    fs::create_dir(node.dir.path().join("logs").join(directory(train, 5))).unwrap();
    node.wait("the recreated pod", |known| known.team(train) == Some("vision"));
    node.emits("bookmark.jsonl");
    node.api.requests();
    node.api.ends_watches();
    let began = Instant::now();
    let mut requests = Vec::new();
    while requests.is_empty() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        requests = node.api.requests();
    }
    assert!(requests[0].ends_with("&resourceVersion=1300"), "{requests:?}");
    assert_eq!(node.wait("nothing missing", |_| true).problems, [""; 0]);
}

/// Whether the watch itself is refused or an event says so, a version that is too old is followed by a list, which is not
/// from a cache.
#[test]
fn expired_version_is_followed_by_a_list() {
    let [chat, ..] = PODS;
    for is_event in [true, false] {
        let mut node =
            Node::start(&[(CACHED, "metadata-list.json"), (FRESH, "metadata-list.json")]);
        node.wait("the list", |known| known.details.len() == 3);
        node.emits("modified.jsonl");
        node.wait("another label", |known| known.team(chat) == Some("text"));
        if is_event {
            node.emits("expired.jsonl");
        } else {
            node.api.rejects(Some(("watch", StatusCode::GONE)));
            node.api.ends_watches();
        }
        let known = node.wait("the list again", |known| known.team(chat) == Some("vision"));
        assert_eq!(known.problems, [""; 0]);
        assert!(node.api.requests().contains(&FRESH.to_owned()));
    }
}

/// Without the right, or with an answer that is not one, workloads and labels are missing, and nothing else: pods hold
/// their GPUs, at once.
#[test]
fn unusable_answers_cost_labels_only() {
    let huge = format!(r#"{{"kind": "PodList", "items": [], "x": "{}"}}"#, "x".repeat(9 << 20));
    let deep = format!(r#"{{"kind": "PodList", "items": {}"#, "[".repeat(100_000));
    let version =
        r#"{"kind": "PodList", "items": [], "metadata": {"resourceVersion": "1&limit=1"}}"#;
    let answers = [
        (None, "403 Forbidden; allow the service account this verb and resource in a ClusterRole"),
        (Some(huge.as_str()), "length limit exceeded"),
        (Some(&deep), "not a list of pods"),
        (Some(version), "not a list of pods"),
        (Some("\0"), "not a list of pods"),
        (Some(r#"{"kind": "Status", "code": 200}"#), "not a list of pods"),
    ];
    for (answer, expected) in answers {
        let mut node = Node::start(&[]);
        let objects = answer.map(|text| (CACHED.to_owned(), text.as_bytes().to_vec()));
        node.api.has(objects.into_iter().collect());
        node.api.fails(answer.is_none().then_some(StatusCode::FORBIDDEN));
        let is_reported = |known: &Known| known.problems.iter().any(|it| it.contains(expected));
        let known = node.wait(expected, is_reported);
        assert_eq!((known.problems.len(), known.details.len()), (1, 0), "{known:#?}");
        let missing =
            "until then workloads, queues, labels and fractions of GPUs of pods are missing";
        assert!(known.problems[0].starts_with("API server: cannot list pods: "), "{known:#?}");
        assert!(known.problems[0].ends_with(missing), "{known:#?}");
        assert_eq!(known.held, PODS.len(), "{known:#?}");
    }
}

/// Without the right to watch, pods are listed from time to time. Events that are not ones end a watch, and pods are
/// listed again.
#[test]
fn failing_watch_is_followed_by_lists() {
    let [chat, ..] = PODS;
    let mut node = Node::start(&[(CACHED, "metadata-list.json")]);
    node.wait("the list", |known| known.details.len() == 3);
    for (number, events) in
        [&file("failed.jsonl")[..], b"{\n", b"\xff\xfe\n"].into_iter().enumerate()
    {
        node.emits("modified.jsonl");
        node.wait("another label", |known| known.team(chat) == Some("text"));
        node.api.emits(events);
        let known = node.wait("the list again", |known| known.team(chat) == Some("vision"));
        assert!(known.details.len() == 3, "{number}: {known:#?}");
        node.wait("a watch again", |known| known.problems.is_empty());
    }
    node.api.rejects(Some(("watch", StatusCode::FORBIDDEN)));
    node.api.ends_watches();
    let known = node.wait("a problem", |known| !known.problems.is_empty());
    assert!(
        known.problems[0].starts_with("API server: cannot watch pods: 403 Forbidden;"),
        "{known:#?}"
    );
    assert_eq!(known.details.len(), 3);
    let mut newer = String::from_utf8(file("metadata-list.json")).unwrap();
    newer = newer.replace("\"team\": \"vision\"", "\"team\": \"audio\"");
    node.api.has([(CACHED.to_owned(), newer.into_bytes())].into());
    node.wait("a newer list", |known| known.team(chat) == Some("audio"));
}

/// A line that does not end is not kept.
#[test]
fn endless_line_ends_the_watch() {
    let mut node = Node::start(&[(CACHED, "metadata-list.json")]);
    node.wait("the list", |known| known.details.len() == 3);
    node.emits("bookmark.jsonl");
    node.api.emits(&vec![b' '; 5 << 20]);
    node.wait("a problem", |known| {
        known.problems.iter().any(|it| it.contains("a line of more than"))
    });
}
