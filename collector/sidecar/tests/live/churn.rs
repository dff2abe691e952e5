//! An agent over ten thousand pods that come and go.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_holders::messages::{
    AllocatableResourcesResponse, ContainerDevices, ListPodResourcesResponse,
};

use crate::fake_kubelet::FakeKubelet;
use crate::hand_over::pod;
use crate::mock_backend::MockBackend;
use crate::own_gpus::uuid;
use crate::run::{NO_POLICIES, command_of, started_at};
use crate::{Rig, TIMEOUT};

pub(crate) const RESOURCE: &str = "nvidia.com/gpu.shared";

/// Pods on each of the two GPUs at a time.
const REPLICAS: usize = 200;

/// Pods of which the accounts are kept apart, 1,024 per GPU, and those that end while readings are late and final sums are
/// exported: some thousand at the rate of this test.
const WARM_UP: usize = 10_000;

const CHURNS: usize = 10_000;

/// The most by which the agent may grow over ten thousand pods, in KiB. What is exported at a time is several times that.
const MOST: u64 = 8 << 10;

/// The memory that a process has in use, in KiB, without pages of its file, which it releases now and then.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Whether the agent knows that a pod holds a GPU.
pub(crate) fn is_held(socket: &Path, pod: &str) -> bool {
    let mut stream = UnixStream::connect(socket).unwrap();
    let question =
        format!("{{\"version\":1,\"pod\":{{\"namespace\":\"ml\",\"name\":\"{pod}\"}}}}\n");
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer.contains("\"uuid\"")
}

/// Scenario: two time-sliced GPUs with two hundred pods each, all of which are replaced again and again.
/// Guarantee: once as many have ended as are kept apart, the process does not grow over ten thousand more.
#[test]
fn memory_of_an_agent_is_flat_over_ten_thousand_pods() {
    let busy = "[[device]]\n[[device.phase]]\nfor_ms = 6000000\nutilization = 95\n";
    let rig = Rig::new(&busy.repeat(2));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let kubelet = FakeKubelet::start(&path("kubelet.sock"));
    let replicas =
        (0..2).flat_map(|gpu| (0..REPLICAS).map(move |it| format!("{}::{it}", uuid(gpu))));
    let devices = vec![ContainerDevices {
        resource_name: RESOURCE.to_owned(),
        device_ids: replicas.clone().collect(),
    }];
    kubelet.allocates(Ok(AllocatableResourcesResponse { devices }));
    let backend = MockBackend::start([]);
    let mut command = command_of(&rig, "agent", NO_POLICIES);
    for (option, name) in [
        ("--kubelet-socket", "kubelet.sock"),
        ("--pod-logs", "logs"),
        ("--socket", "agent.sock"),
        ("--report", "report.json"),
    ] {
        command.arg(option).arg(path(name));
    }
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address))
        .env("OTEL_METRIC_EXPORT_INTERVAL", "5000");
    let (agent, _log) = started_at("sidecars are answered", &mut command);
    let (mut pods, mut generation, mut after_warm_up, mut newest) = (0, 0, None, 0);
    while pods < WARM_UP + CHURNS {
        let logs = path("logs");
        let _ = fs::remove_dir_all(&logs);
        let names: Vec<_> = (0..2 * REPLICAS).map(|it| format!("p{generation}-{it}")).collect();
        for (number, name) in names.iter().enumerate() {
            let uid = format!("00000000-0000-4000-8000-{:012x}", pods + number);
            fs::create_dir_all(logs.join(format!("ml_{name}_{uid}"))).unwrap();
        }
        let listed = names.iter().zip(replicas.clone()).map(|(name, id)| pod(name, RESOURCE, id));
        kubelet.lists(ListPodResourcesResponse { pod_resources: listed.collect() });
        let began = Instant::now();
        while !is_held(&path("agent.sock"), &names[0]) {
            assert!(began.elapsed() < TIMEOUT, "generation {generation}");
            thread::sleep(Duration::from_millis(100));
        }
        drop(backend.received());
        (pods, generation) = (pods + names.len(), generation + 1);
        newest = resident(agent.0.id());
        if pods >= WARM_UP && after_warm_up.is_none() {
            after_warm_up = Some(newest);
        }
    }
    let before = after_warm_up.unwrap();
    println!("{before} KiB after {WARM_UP} pods, {newest} KiB after {CHURNS} more");
    assert!(newest <= before + MOST, "{before} KiB after the warm-up, {newest} KiB now");
}
