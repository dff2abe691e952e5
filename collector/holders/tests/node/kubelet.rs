//! What the kubelet may do to its client: answer late, never, too much, or with something else.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_holders::messages::{
    AllocatableResourcesResponse, ContainerDevices, ContainerResources, ListPodResourcesResponse,
    PodResources,
};
use phasemeter_holders::{Assignments, NodeGpu, NodeHolders, Options, Problem};
use phasemeter_meter::units::Timestamp;
use tonic::Status;

use crate::fake_kubelet::{Answer, FakeKubelet};

const GPU: &str = "GPU-1";

fn holders(socket: &Path) -> NodeHolders {
    let options = Options {
        kubelet: Some(socket.to_owned()),
        proc: None,
        pod_logs: None,
        ..Options::default()
    };
    NodeHolders::new(options).unwrap()
}

fn poll(holders: &mut NodeHolders, second: u64) -> Assignments {
    let gpu = NodeGpu { uuid: GPU.to_owned(), ..NodeGpu::default() };
    holders.poll(Timestamp::from_millis(second * 1_000).unwrap(), &[gpu])
}

/// The names of the holders of the GPU.
fn names(assignments: &Assignments) -> Vec<String> {
    assignments.gpus[GPU].held.iter().map(|held| held.grant.holder.to_string()).collect()
}

fn only_problem(assignments: &Assignments) -> String {
    assert_eq!(assignments.problems.len(), 1, "{:?}", assignments.problems);
    let text = assignments.problems[0].to_string();
    text.rsplit_once("kubelet.sock: ").unwrap().1.to_owned()
}

fn pod(name: &str, id: &str) -> PodResources {
    let devices = ContainerDevices {
        resource_name: "nvidia.com/gpu".to_owned(),
        device_ids: vec![id.to_owned()],
    };
    let container = ContainerResources {
        name: "server".to_owned(),
        devices: vec![devices],
        dynamic_resources: vec![],
    };
    PodResources { name: name.to_owned(), namespace: "ml".to_owned(), containers: vec![container] }
}

fn list(pods: impl IntoIterator<Item = PodResources>) -> ListPodResourcesResponse {
    ListPodResourcesResponse { pod_resources: pods.into_iter().collect() }
}

#[test]
fn restarted_kubelet_is_followed_at_its_new_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let mut holders = holders(&socket);
    assert!(only_problem(&poll(&mut holders, 1)).contains("mount its directory"));
    let kubelet = FakeKubelet::start(&socket);
    kubelet.lists(list([pod("a", GPU)]));
    assert_eq!(names(&poll(&mut holders, 2)), ["ml/a"]);
    drop(kubelet);
    let down = poll(&mut holders, 3);
    assert_eq!(names(&down), ["ml/a"]);
    assert!(only_problem(&down).starts_with("cannot connect: "), "{down:?}");
    let kubelet = FakeKubelet::start(&socket);
    kubelet.lists(list([pod("b", GPU)]));
    let up = poll(&mut holders, 4);
    assert_eq!((names(&up), up.problems), (vec!["ml/b".to_owned()], vec![]));
}

#[test]
fn list_larger_than_default_of_grpc_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = FakeKubelet::start(&socket);
    let mut holders = holders(&socket);
    let others = |count: usize| (0..count).map(|i| pod(&"x".repeat(4_000), &format!("hca-{i}")));
    // 6 MiB.
    kubelet.lists(list(others(1_500).chain([pod("a", GPU)])));
    let large = poll(&mut holders, 1);
    assert_eq!((names(&large), large.problems), (vec!["ml/a".to_owned()], vec![]));
    // 20 MiB: more than is accepted.
    kubelet.lists(list(others(5_000)));
    let refused = poll(&mut holders, 2);
    assert_eq!(names(&refused), ["ml/a"]);
    assert!(only_problem(&refused).contains("too large"), "{refused:?}");
}

#[test]
fn devices_over_the_limit_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = FakeKubelet::start(&socket);
    let mut many = pod("a", GPU);
    let replicas = (0..70_000).map(|replica| format!("{GPU}::{replica}"));
    many.containers[0].devices[0].device_ids = replicas.collect();
    let devices = many.containers[0].devices.clone();
    kubelet.lists(list([many]));
    kubelet.allocates(Ok(AllocatableResourcesResponse { devices }));
    let polled = poll(&mut holders(&socket), 1);
    let expected = Problem::TooMany { what: "devices of containers", count: 70_000 - 65_536 };
    assert_eq!(polled.problems, [expected]);
    assert_eq!(names(&polled), ["ml/a"]);
}

#[test]
fn errors_and_garbage_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = FakeKubelet::start(&socket);
    let mut holders = holders(&socket);
    kubelet.lists(list([pod("a", GPU)]));
    assert_eq!(names(&poll(&mut holders, 1)), ["ml/a"]);
    kubelet.answers(Answer::Error(Status::resource_exhausted("rate limited")));
    let limited = poll(&mut holders, 2);
    assert_eq!(names(&limited), ["ml/a"]);
    assert_eq!(only_problem(&limited), "ResourceExhausted: rate limited");
    kubelet.answers(Answer::Garbage);
    let garbage = poll(&mut holders, 3);
    assert_eq!(names(&garbage), ["ml/a"]);
    assert!(only_problem(&garbage).starts_with("unreadable response: "), "{garbage:?}");
}

#[test]
fn kubelet_that_never_answers_blocks_for_seconds_only() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = FakeKubelet::start(&socket);
    kubelet.answers(Answer::Never);
    let start = Instant::now();
    assert_eq!(only_problem(&poll(&mut holders(&socket), 1)), "no response within 2 s");
    // Twenty times the deadline, for a machine that does other work.
    assert!(start.elapsed() < Duration::from_secs(40));
}

#[test]
fn other_program_at_the_socket_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let polled = poll(&mut holders(&socket), 1);
    assert!(names(&polled).is_empty());
    only_problem(&polled);
    server.join().unwrap();
}

/// Scenario: pods come and go, each with a name of its own.
/// Guarantee: what is kept of them does not grow.
#[test]
fn state_does_not_grow_with_churn_of_pods() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let kubelet = FakeKubelet::start(&socket);
    let mut holders = holders(&socket);
    let mut sizes = Vec::new();
    for second in 100..400 {
        kubelet.lists(list([pod(&format!("pod-{second}"), GPU)]));
        assert_eq!(names(&poll(&mut holders, second)), [format!("ml/pod-{second}")]);
        sizes.push(format!("{holders:?}").len());
    }
    // Numbers of the runtime have more digits in time.
    assert!(sizes[299] < sizes[9] + 256, "{} bytes, then {}", sizes[9], sizes[299]);
}
