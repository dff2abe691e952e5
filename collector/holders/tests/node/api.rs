//! What the API server may do to its client, and how often it is asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use http::StatusCode;
use phasemeter_holders::messages::ListPodResourcesResponse;
use phasemeter_holders::{Assignments, NodeGpu, NodeHolders, Options};
use phasemeter_meter::units::Timestamp;

use crate::fake_api::FakeApi;
use crate::fake_kubelet::FakeKubelet;

const GPU: &str = "GPU-bbbbbbbb-0000-4000-8000-000000000000";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dnode-1";
const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a-gpu";

/// A node whose pod `ml/a` has the claim `a-gpu`.
struct Node {
    api: FakeApi,
    holders: NodeHolders,
    kubelet: FakeKubelet,
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
        Self { api, holders, kubelet, _dir: dir }
    }

    fn poll(&mut self, second: u64) -> Assignments {
        let gpu = NodeGpu { uuid: GPU.to_owned(), ..NodeGpu::default() };
        self.holders.poll(Timestamp::from_millis(1_000_000 + second * 1_000).unwrap(), &[gpu])
    }

    fn problems(&mut self, second: u64) -> Vec<String> {
        self.poll(second).problems.iter().map(ToString::to_string).collect()
    }
}

fn list() -> ListPodResourcesResponse {
    serde_json::from_slice(&file("list.json")).unwrap()
}

fn file(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/slices-vanish");
    fs::read(dir.join(name)).unwrap()
}

#[test]
fn slices_are_read_again_only_if_needed() {
    let mut node = Node::start();
    node.api.has(BTreeMap::from([(SLICES.to_owned(), file("slices.json"))]));
    assert_eq!(node.problems(0), [""; 0]);
    assert_eq!(node.api.requests(), [SLICES, CLAIM]);
    for second in 1..29 {
        assert_eq!(node.poll(second).gpus[GPU].held.len(), 1);
    }
    assert_eq!(node.api.requests(), [""; 0]);
    node.poll(300);
    assert!(node.api.requests().contains(&SLICES.to_owned()));
}

/// A device that no driver publishes is not asked for every five seconds for ever; another one is asked for at once.
#[test]
fn unpublished_device_is_asked_for_less_and_less() {
    let mut node = Node::start();
    let none = br#"{"kind": "ResourceSliceList", "items": []}"#;
    node.api.has(BTreeMap::from([(SLICES.to_owned(), none.to_vec())]));
    let mut asked = Vec::new();
    for second in 0..1_000 {
        node.poll(second);
        if node.api.requests().contains(&SLICES.to_owned()) {
            asked.push(second);
        }
    }
    assert_eq!(asked, [0, 5, 15, 35, 75, 155, 315, 615, 915]);
    let mut other = list();
    let claim = &mut other.pod_resources[0].containers[0].dynamic_resources[0];
    claim.claim_resources[0].device_name = "gpu-7".to_owned();
    node.kubelet.lists(other);
    node.poll(1_000);
    assert_eq!(node.api.requests(), [SLICES]);
}

/// Without access to claims, one warning names the missing right and what is unknown.
#[test]
fn forbidden_claims_are_a_problem_until_they_are_allowed() {
    let mut node = Node::start();
    node.api.has(BTreeMap::from([(SLICES.to_owned(), file("slices.json"))]));
    node.api.rejects(Some((CLAIM, StatusCode::FORBIDDEN)));
    let expected = "API server: cannot get resourceclaims: 403 Forbidden; allow the service account this verb \
                    and resource in a ClusterRole; until then parts of shared devices are unknown, and \
                    administrative access is inferred";
    for second in 0..60 {
        assert_eq!(node.problems(second), [expected]);
    }
    let requests = node.api.requests();
    assert_eq!(requests.iter().filter(|path| *path == CLAIM).count(), 2, "{requests:?}");
    node.api.rejects(None);
    assert_eq!(node.problems(60), [""; 0]);
}

#[test]
fn rotated_token_is_read_again() {
    let mut node = Node::start();
    node.api.has(BTreeMap::from([(SLICES.to_owned(), file("slices.json"))]));
    node.poll(0);
    node.api.rotate("second");
    assert_eq!(node.problems(300), [""; 0]);
    fs::write(&node.api.server.token, "forged").unwrap();
    let problems = node.problems(600);
    assert!(
        problems[0].contains(": 401 Unauthorized; mount a valid service account token; "),
        "{problems:?}"
    );
}

#[test]
fn failing_server_is_asked_twice_a_minute() {
    let mut node = Node::start();
    node.api.fails(Some(StatusCode::INTERNAL_SERVER_ERROR));
    for second in 0..60 {
        let problems = node.problems(second);
        assert!(problems.iter().any(|it| it.contains("500 Internal Server Error")), "{problems:?}");
    }
    assert_eq!(node.api.requests(), [SLICES; 2]);
    node.api.fails(None);
    node.api.has(BTreeMap::from([(SLICES.to_owned(), file("slices.json"))]));
    assert_eq!(node.problems(60), [""; 0]);
}

#[test]
fn server_of_another_authority_gets_no_token() {
    let mut node = Node::start();
    let other = tempfile::tempdir().unwrap();
    let _other = FakeApi::start(other.path());
    fs::copy(other.path().join("ca.crt"), &node.api.server.authority).unwrap();
    let problems = node.problems(0);
    assert!(problems.iter().any(|it| it.contains("certificate")), "{problems:?}");
    assert_eq!(node.api.requests(), [""; 0]);
}

#[test]
fn missing_account_and_unreadable_slices_are_problems() {
    let mut node = Node::start();
    node.api.has(BTreeMap::from([(SLICES.to_owned(), b"{\"items\": 1}".to_vec())]));
    let problems = node.problems(0);
    assert!(problems.iter().any(|it| it.contains("not a list of ResourceSlices")), "{problems:?}");
    fs::remove_file(&node.api.server.token).unwrap();
    let problems = node.problems(30);
    assert!(problems.iter().any(|it| it.contains("mount the service account")), "{problems:?}");
}
