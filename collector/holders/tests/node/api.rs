//! What the API server may do to its client, and how often it is asked. A change arrives on a thread of its own: each
//! check waits for it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use phasemeter_holders::messages::ListPodResourcesResponse;
use phasemeter_holders::{Assignments, NodeGpu, NodeHolders, Options};
use phasemeter_meter::units::Timestamp;

use crate::fake_api::FakeApi;
use crate::fake_kubelet::FakeKubelet;

const GPU: &str = "GPU-bbbbbbbb-0000-4000-8000-000000000000";
const OTHER_GPU: &str = "GPU-dddddddd-0000-4000-8000-000000000000";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dnode-1";
const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a-gpu";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node whose pod `ml/a` has the claim `a-gpu`.
struct Node {
    api: FakeApi,
    holders: NodeHolders,
    kubelet: FakeKubelet,
    second: u64,
    _dir: tempfile::TempDir,
}

impl Node {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("kubelet.sock");
        let kubelet = FakeKubelet::start(&socket);
        kubelet.lists(list());
        let api = FakeApi::start(dir.path());
        let options = Options {
            kubelet: Some(socket),
            api: Some(api.server.clone()),
            node: Some("node-1".to_owned()),
            proc: None,
            pod_logs: None,
            ..Options::default()
        };
        let holders = NodeHolders::new(options).unwrap();
        Self { api, holders, kubelet, second: 0, _dir: dir }
    }

    /// The server has these slices.
    fn publishes(&self, slices: &[u8]) {
        let paths = [SLICES.to_owned(), cached()];
        self.api.has(paths.map(|path| (path, slices.to_vec())).into());
    }

    fn poll(&mut self) -> Assignments {
        self.second += 1;
        let gpu = |uuid: &str| NodeGpu { uuid: uuid.to_owned(), ..NodeGpu::default() };
        let at = Timestamp::from_millis(1_000_000 + self.second * 1_000).unwrap();
        self.holders.poll(at, &[gpu(GPU), gpu(OTHER_GPU)])
    }

    fn problems(&mut self) -> Vec<String> {
        self.poll().problems.iter().map(ToString::to_string).collect()
    }

    /// Polls until this holds.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Assignments) -> bool) {
        let began = Instant::now();
        loop {
            let found = self.poll();
            if is_so(&found) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {found:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Polls until this is a part of a problem.
    fn waits_for(&mut self, problem: &str) {
        let is_there =
            |found: &Assignments| found.problems.iter().any(|it| it.to_string().contains(problem));
        self.wait(problem, is_there);
    }

    /// Waits until something watches.
    fn is_watched(&self) {
        let began = Instant::now();
        while self.api.emits(b"") == 0 {
            assert!(began.elapsed() < PATIENCE, "nothing watches");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The first list may be a little old.
fn cached() -> String {
    format!("{SLICES}&resourceVersion=0")
}

fn list() -> ListPodResourcesResponse {
    serde_json::from_slice(&file("list.json")).unwrap()
}

fn file(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/slices-vanish");
    fs::read(dir.join(name)).unwrap()
}

/// An event about the first slice, with another resource version.
fn event(kind: &str, change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let slices: serde_json::Value = serde_json::from_slice(&file("slices.json")).unwrap();
    let mut slice = slices["items"][0].clone();
    slice["metadata"]["resourceVersion"] = "1300".into();
    change(&mut slice);
    format!("{}\n", serde_json::json!({"type": kind, "object": slice})).into_bytes()
}

fn has(count: usize) -> impl Fn(&Assignments) -> bool {
    move |found| found.gpus[GPU].held.len() == count
}

/// Scenario: a driver publishes a device after a container has it, replaces its slice, and withdraws it.
/// Guarantee: nothing is requested without a claim; then slices are listed once and watched. The GPU of a device is
/// known as soon as its slice is, and stays known as long as a container has it, even if its slice is withdrawn.
#[test]
fn slices_are_listed_once_and_watched() {
    let mut node = Node::start();
    node.publishes(&file("none.json"));
    node.kubelet.lists(ListPodResourcesResponse::default());
    assert_eq!(node.problems(), [""; 0]);
    assert_eq!(node.api.requests(), [""; 0]);
    node.kubelet.lists(list());
    node.wait("a claim", |found| !found.problems.is_empty());
    node.is_watched();
    let requests = node.api.requests();
    assert_eq!(requests.iter().filter(|path| path.contains("/resourceslices")).count(), 2);
    assert_eq!(requests[0], cached());
    assert!(requests.iter().any(|path| path.ends_with("&resourceVersion=2000")), "{requests:?}");
    let added = event("ADDED", |_| ());
    let (begin, end) = added.split_at(added.len() / 2);
    node.api.emits(begin);
    assert!(has(0)(&node.poll()));
    node.api.emits(end);
    node.wait("a device", has(1));
    node.api.emits(&event("DELETED", |_| ()));
    for _ in 0..20 {
        assert!(has(1)(&node.poll()), "as long as a container has it");
    }
    // Without a container, and then again: it is published no more.
    node.kubelet.lists(ListPodResourcesResponse::default());
    node.wait("the end of the pod", has(0));
    node.kubelet.lists(list());
    node.wait("no slice", |found| has(0)(found) && !found.problems.is_empty());
    node.api.emits(&event("ADDED", |slice| {
        for device in slice["spec"]["devices"].as_array_mut().unwrap() {
            let uuid = &mut device["attributes"]["uuid"]["string"];
            if *uuid == GPU {
                *uuid = OTHER_GPU.into();
            }
        }
    }));
    node.wait("another GPU", |found| found.gpus[OTHER_GPU].held.len() == 1);
    assert!(!node.api.requests().iter().any(|path| path.contains("/resourceslices")));
}

/// A version that is too old is followed by a list, which is not from a cache; events that are not ones, too.
#[test]
fn expired_version_is_followed_by_a_list() {
    for events in [&include_bytes!("../pods/expired.jsonl")[..], b"{\n"] {
        let mut node = Node::start();
        node.publishes(&file("none.json"));
        node.poll();
        node.is_watched();
        node.publishes(&file("slices.json"));
        node.api.requests();
        node.api.emits(events);
        node.wait("the list again", has(1));
        let first = if events.len() > 2 { SLICES.to_owned() } else { cached() };
        let requests = node.api.requests();
        let listed = requests.iter().find(|path| path.contains("/resourceslices"));
        assert_eq!(listed, Some(&first));
    }
}

/// Without the right to watch, slices are listed from time to time, and one warning names it.
#[test]
fn slices_are_listed_if_they_must_not_be_watched() {
    let mut node = Node::start();
    node.publishes(&file("none.json"));
    node.api.rejects(Some(("watch", StatusCode::FORBIDDEN)));
    let is_warned = |found: &Assignments| {
        let expected = "API server: cannot watch resourceslices: 403 Forbidden; allow the service account this verb and \
                        resource in a ClusterRole; until then GPUs of claims that are published later come up to a \
                        minute late";
        found.problems.iter().any(|it| it.to_string() == expected)
    };
    node.wait("a warning", is_warned);
    node.publishes(&file("slices.json"));
    node.wait("another list", |found| has(1)(found) && is_warned(found));
}

/// Without access to claims, one warning names the missing right and what is unknown.
#[test]
fn forbidden_claims_are_a_problem_until_they_are_allowed() {
    let mut node = Node::start();
    node.publishes(&file("slices.json"));
    node.api.rejects(Some((CLAIM, StatusCode::FORBIDDEN)));
    let expected = "API server: cannot get resourceclaims: 403 Forbidden; allow the service account this verb \
                    and resource in a ClusterRole; until then parts of shared devices are unknown, and \
                    administrative access is inferred";
    node.waits_for(expected);
    node.api.requests();
    for _ in 0..59 {
        assert_eq!(node.problems(), [expected]);
    }
    let requests = node.api.requests();
    assert_eq!(requests.iter().filter(|path| *path == CLAIM).count(), 1, "{requests:?}");
    node.api.rejects(None);
    assert_eq!(node.problems(), [""; 0]);
}

#[test]
fn rotated_token_is_read_again() {
    let mut node = Node::start();
    node.publishes(&file("slices.json"));
    node.poll();
    node.is_watched();
    node.api.rotate("second");
    node.api.emits(b"{\n");
    node.api.requests();
    let began = Instant::now();
    while !node.api.requests().contains(&cached()) {
        assert!(began.elapsed() < PATIENCE, "no list");
        thread::sleep(Duration::from_millis(10));
    }
    node.wait("the second token", |found| found.problems.is_empty());
    fs::write(&node.api.server.token, "forged").unwrap();
    node.is_watched();
    node.api.emits(b"{\n");
    node.waits_for(": 401 Unauthorized; mount a valid service account token; ");
}

/// An older server has an older version of the API, or none.
#[test]
fn failing_server_is_asked_again_and_again() {
    let mut node = Node::start();
    node.api.fails(Some(StatusCode::INTERNAL_SERVER_ERROR));
    node.waits_for("500 Internal Server Error");
    node.api.fails(None);
    node.waits_for("404 Not Found");
    let requests = node.api.requests();
    for version in ["v1", "v1beta2", "v1beta1"] {
        assert!(requests.iter().any(|path| path.contains(&format!("/{version}/"))), "{requests:?}");
    }
    node.publishes(&file("slices.json"));
    node.wait("slices", |found| has(1)(found) && found.problems.is_empty());
}

#[test]
fn server_of_another_authority_gets_no_token() {
    let mut node = Node::start();
    let other = tempfile::tempdir().unwrap();
    let _other = FakeApi::start(other.path());
    fs::copy(other.path().join("ca.crt"), &node.api.server.authority).unwrap();
    node.waits_for("certificate");
    assert_eq!(node.api.requests(), [""; 0]);
}

#[test]
fn missing_account_and_unreadable_slices_are_problems() {
    let mut node = Node::start();
    node.publishes(b"{\"kind\": \"ResourceSliceList\", \"items\": 1}");
    node.waits_for("not a list of ResourceSlices");
    fs::remove_file(&node.api.server.token).unwrap();
    node.waits_for("mount the service account");
}

/// Guarantee: after the first time only metadata is requested, labels are those that the node has now, and its provider
/// stays known; an error names the node and what to allow.
#[test]
fn labels_of_a_node_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let api = FakeApi::start(dir.path());
    let path = "/api/v1/nodes/node-1";
    let whole = br#"{"kind": "Node", "metadata": {"labels": {"pool": "a"}}, "spec": {"providerID": "aws:///z/i-1"}}"#;
    let metadata = br#"{"kind": "PartialObjectMetadata", "metadata": {"labels": {"pool": "b"}}}"#;
    let cached = (format!("{path}?resourceVersion=0"), metadata.to_vec());
    api.has([(path.to_owned(), whole.to_vec()), cached].into());
    let node = phasemeter_holders::Node::read(&api.server, "node-1").unwrap();
    assert_eq!((node.labels["pool"].as_str(), node.provider_id.as_str()), ("a", "aws:///z/i-1"));
    let again = node.read_labels(&api.server, "node-1").unwrap();
    assert_eq!((again.labels["pool"].as_str(), &again.provider_id), ("b", &node.provider_id));
    assert!(api.accepted().contains("as=PartialObjectMetadata;"), "{}", api.accepted());
    api.fails(Some(StatusCode::FORBIDDEN));
    let error = node.read_labels(&api.server, "node-1").unwrap_err().to_string();
    assert!(error.starts_with("cannot get node node-1: 403 Forbidden; allow"), "{error}");
}
