//! A sidecar beside the agent of its node, which is killed, restarted and stopped: each second is exported once.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use phasemeter_holders::messages::{
    ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources,
};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};

use crate::fake_kubelet::FakeKubelet;
use crate::mock_backend::MockBackend;
use crate::own_gpus::{in_pod, uuid};
use crate::run::{NO_POLICIES, Running, command_of, phasemeter, started_at};
use crate::{Rig, TIMEOUT};

/// Between two exports, in milliseconds and nanoseconds.
const EVERY_MS: &str = "5000";
const EVERY: u64 = 5_000_000_000;

/// Dollars per hour: a nano-dollar per microsecond.
const PER_SECOND: f64 = 0.001;

/// What the sidecar logs.
const AGAIN: &str = "this run exports the metrics of GPU 0 again";

/// Sums of one export of time and cost: what they cover, and what they sum to over all points.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    at: u64,
    seconds: f64,
    dollars: f64,
}

/// The newest sums by role and start.
type Exported = BTreeMap<(u64, String), Sums>;

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|it| it.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Adds what a request of metrics has. The start is that of the GPU: holders may begin later.
fn add(body: &[u8], exported: &mut Exported) {
    // Without the framing of gRPC.
    let Ok(request) = ExportMetricsServiceRequest::decode(&body[5..]) else { return };
    for resource in request.resource_metrics {
        let attributes = resource.resource.unwrap_or_default().attributes;
        let Some(role) = text(&attributes, "phasemeter.role") else { continue };
        let mut sums = Sums::default();
        let mut from = u64::MAX;
        for metric in resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            let Some(Data::Sum(sum)) = metric.data else { continue };
            for point in sum.data_points {
                let Some(Number::AsDouble(value)) = point.value else { continue };
                match metric.name.as_str() {
                    "phasemeter.gpu.time" => sums.seconds += value,
                    "phasemeter.gpu.cost" => sums.dollars += value,
                    _ => continue,
                }
                sums.at = sums.at.max(point.time_unix_nano);
                from = from.min(point.start_time_unix_nano);
            }
        }
        if sums.at > 0 {
            exported.insert((from, role.to_owned()), sums);
        }
    }
}

/// A pod with a device, as the kubelet lists it.
pub(crate) fn pod(name: &str, resource: &str, device: String) -> PodResources {
    let resource_name = resource.to_owned();
    let devices = vec![ContainerDevices { resource_name, device_ids: vec![device] }];
    let container =
        ContainerResources { name: "server".to_owned(), devices, dynamic_resources: vec![] };
    let namespace = "ml".to_owned();
    PodResources { name: name.to_owned(), namespace, containers: vec![container] }
}

struct Node {
    _kubelet: FakeKubelet,
    backend: MockBackend,
    exported: Exported,
    rig: Rig,
    dir: tempfile::TempDir,
}

impl Node {
    /// A node with one GPU, which the pod `ml/server` has.
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = FakeKubelet::start(&dir.path().join("kubelet.sock"));
        let pod_resources = vec![pod("server", "nvidia.com/gpu", uuid(0))];
        kubelet.lists(ListPodResourcesResponse { pod_resources });
        let rig = Rig::new("[[device]]\n[[device.phase]]\nfor_ms = 600000\nutilization = 95\n");
        let backend = MockBackend::start([]);
        Self { _kubelet: kubelet, backend, exported: Exported::new(), rig, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn exports(&self, command: &mut Command) {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.backend.address))
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
            .env("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
            .env("OTEL_METRIC_EXPORT_INTERVAL", EVERY_MS);
    }

    fn agent(&self) -> Running {
        let mut command = command_of(&self.rig, "agent", NO_POLICIES);
        command.args(["--kubelet-socket", &self.path("kubelet.sock")]);
        command.args(["--pod-logs", &self.path("logs"), "--socket", &self.path("agent.sock")]);
        self.exports(&mut command);
        started_at("sidecars are answered", &mut command).0
    }

    fn sidecar(&self) -> (Running, crate::run::Log) {
        let mut command = phasemeter(&self.rig, NO_POLICIES);
        in_pod(&mut command);
        self.exports(&mut command);
        command
            .env("PHASEMETER_AGENT_SOCKET", self.path("agent.sock"))
            .env("NVIDIA_VISIBLE_DEVICES", uuid(0))
            .env("POD_NAMESPACE", "ml")
            .env("POD_NAME", "server");
        started_at("metering 1 of 1 GPUs", &mut command)
    }

    /// Receives until there are sums with this role that start after `after`, and returns their start.
    fn receive(&mut self, role: &str, after: u64) -> u64 {
        let began = Instant::now();
        loop {
            for request in self.backend.received() {
                if request.path.ends_with("MetricsService/Export") {
                    add(&request.body, &mut self.exported);
                }
            }
            let mut known = self.exported.keys();
            if let Some((from, _)) = known.find(|(from, of)| of == role && *from > after) {
                return *from;
            }
            assert!(began.elapsed() < TIMEOUT, "no sums of the {role}: {:#?}", self.exported);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn end(mut process: Running, signal: Signal) {
    kill_process(Pid::from_child(&process.0), signal).unwrap();
    process.0.wait().unwrap();
}

/// Scenario: a sidecar meters its pod's GPU; an agent starts beside it, is killed, restarted and ended; then the sidecar
/// ends.
/// Guarantee: the sums of both tile the time, with the cost of it: no second is in two of them, and only what an agent
/// had queued when it was killed can be in none.
#[test]
fn each_second_is_exported_by_the_sidecar_or_the_agent() {
    let mut node = Node::start();
    let (sidecar, log) = node.sidecar();
    let first = node.agent();
    let from = node.receive("agent", 0);
    end(first, Signal::KILL);
    let second = node.agent();
    // The time between both.
    log.wait_for(AGAIN);
    let last = node.receive("agent", from);
    end(second, Signal::TERM);
    log.wait_for(AGAIN);
    // It goes on to export.
    node.receive("sidecar", last);
    end(sidecar, Signal::TERM);
    let rest = log.rest();
    node.receive("sidecar", 0);

    let ranges: Vec<_> = node.exported.iter().collect();
    let roles: Vec<_> = ranges.iter().map(|((_, role), _)| role.as_str()).collect();
    assert_eq!(roles, ["sidecar", "agent", "sidecar", "agent", "sidecar"], "{ranges:#?} {rest}");
    for ((from, _), Sums { at, seconds, dollars }) in &ranges {
        let length = Duration::from_nanos(at - from).as_secs_f64();
        assert!((seconds - length).abs() < 1e-6, "{ranges:#?}");
        assert!((dollars - length * PER_SECOND).abs() < 1e-8, "{ranges:#?}");
    }
    for (place, pair) in ranges.windows(2).enumerate() {
        let [(_, before), ((from, _), _)] = pair else { unreachable!() };
        // Labels of two clocks, which were read at different instants.
        let is_twice = before.at > from + 1_000_000;
        let gap = from.saturating_sub(before.at);
        // What a killed agent has stated may not have left: at most its next export.
        let most = if place == 1 { EVERY } else { 0 } + 1_000_000;
        assert!(!is_twice && gap <= most, "{place}: {ranges:#?} {rest}");
    }
}
