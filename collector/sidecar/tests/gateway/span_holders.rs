//! Spans of pods and jobs that share a GPU have what these pay.

use std::collections::BTreeMap;

use phasemeter_otlp::EncodedRequest;
use serde_json::Value;

use crate::NANOS;
use crate::dcgm::{Sample, gauges};
use crate::mock_backend::MockBackend;
use crate::process::Gateway;
use crate::span_requests::{span, traces};
use crate::spans::{Sums, assert_sums, base, nano_usd, send};

/// Length of a script in seconds.
const LENGTH: u64 = 60;

const SHARED: &str = "GPU-aaaaaaaa-0000";
const OF_JOBS: &str = "GPU-bbbbbbbb-0000";

/// A holder, the resource of a span of it, and the seconds of the span.
type Request<'a> = (&'a str, &'a [(&'a str, &'a str)], u64, u64);

/// Labels of a series, as dcgm-exporter has them.
fn labels<'a>(gpu: &'a str, further: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let labels = [("gpu", "0"), ("UUID", gpu), ("modelName", "NVIDIA L4"), ("Hostname", "node-1")];
    [&labels, further].concat()
}

/// A time-sliced GPU with series per pod, of which one has another's place after half of the time, and a GPU of two
/// jobs.
fn page(base: u64, second: u64) -> EncodedRequest {
    let wave = (second * 7 % 41) as f64;
    let chat = [("namespace", "ml"), ("pod", "chat-0"), ("pod_uid", "u-1"), ("vgpu", "0")];
    let other = if second < 30 { "embed-0" } else { "train-0" };
    let other = [("exported_namespace", "ml"), ("exported_pod", other), ("vgpu", "1")];
    let name = "DCGM_FI_DEV_GPU_UTIL";
    let samples: [Sample<'_>; 5] = [
        (name, labels(SHARED, &[]), wave + 25.0),
        (name, labels(SHARED, &chat), wave),
        (name, labels(SHARED, &other), 15.0),
        (name, labels(OF_JOBS, &[("hpc_job", "4711")]), wave),
        (name, labels(OF_JOBS, &[("hpc_job", "4712")]), wave),
    ];
    gauges(&samples, base + second)
}

/// Scenario: pods share a time-sliced GPU, and jobs another one. One pod has a request all the time; another has two
/// that overlap, and ends; the third begins in its place, with a request on each of two connections. One job has a
/// span, the other has none.
/// Guarantee: the spans of each together have what it pays, to the nano-dollar, and what no span has is the rest.
#[test]
fn spans_of_a_holder_have_what_it_pays() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let base = base();
    send(&gateway.endpoint(), (0..=LENGTH).map(|second| page(base, second)));
    let host = ("host.name", "node-1");
    let pod = |name| [("k8s.namespace.name", "ml"), ("k8s.pod.name", name), host];
    let chat = [("k8s.pod.uid", "u-1"), ("k8s.pod.name", "chat-0"), host];
    let with_gpu = [&pod("train-0")[..], &[("hw.id", SHARED)]].concat();
    let job = [("slurm.job.id", "4711"), host];
    let resources: [Request<'_>; 6] = [
        ("ml/chat-0", &chat, 0, 60),
        ("ml/embed-0", &pod("embed-0"), 0, 20),
        ("ml/embed-0", &pod("embed-0"), 10, 30),
        ("ml/train-0", &pod("train-0"), 30, 60),
        ("ml/train-0", &with_gpu, 30, 60),
        ("job 4711", &job, 0, 60),
    ];
    let spans = (0..).zip(resources).map(|(number, (_, resource, from, to))| {
        traces(resource, &[span("s", number, base, from * NANOS, to * NANOS)])
    });
    send(&gateway.endpoint(), spans);
    let (_, report) = gateway.stop();
    let Sums { prices, unattributed, .. } = assert_sums(&backend.received(), &report);
    let mut costs: BTreeMap<&str, u64> = BTreeMap::new();
    for (number, (holder, ..)) in (1_u64..).zip(resources) {
        let price = prices[&number.to_be_bytes().to_vec()];
        assert!(price.nano_usd > 0 && price.utilization.is_some(), "{number}: {price:?}");
        *costs.entry(holder).or_default() += price.nano_usd;
    }
    let gpus = report["gpus"].as_array().unwrap();
    let holders = gpus.iter().flat_map(|gpu| gpu["holders"].as_array().unwrap());
    let paid = |it: &Value| (it["name"].as_str().unwrap().to_owned(), nano_usd(&it["cost_usd"]));
    let mut paid: BTreeMap<String, u64> = holders.map(paid).collect();
    let rest = paid.remove("job 4712").unwrap();
    let nobody: u64 = gpus.iter().map(|gpu| nano_usd(&gpu["nobody"]["cost_usd"])).sum();
    assert_eq!(
        costs.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect::<BTreeMap<_, _>>(),
        paid
    );
    assert_eq!(unattributed, rest + nobody, "{report:#}");
    assert!(rest > 0 && nobody > 0);
}

/// Scenario: HAMi divides a GPU between two pods, of which its own metrics tell, at other times than those of the GPU.
/// Guarantee: the span of a pod has what the pod pays.
#[test]
fn span_of_a_pod_that_metrics_of_holders_name_has_what_it_pays() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let base = base();
    let of_gpu = |second| {
        let labels = vec![("device_uuid", SHARED), ("device_index", "0"), ("node", "node-1")];
        gauges(&[("hami_host_gpu_utilization_ratio", labels, 50.0)], base + second)
    };
    let of_pods = |second| {
        let share = |pod| {
            let labels = vec![
                ("device_uuid", SHARED),
                ("namespace", "ml"),
                ("node", "node-1"),
                ("pod", pod),
            ];
            ("hami_vgpu_core_allocated_ratio", labels, 25.0)
        };
        gauges(&[share("q1"), share("q2")], base + second)
    };
    let page = |second| if second % 2 == 0 { of_gpu(second) } else { of_pods(second) };
    send(&gateway.endpoint(), (0..=LENGTH).map(page));
    let resource = [("k8s.namespace.name", "ml"), ("k8s.pod.name", "q1"), ("host.name", "node-1")];
    send(&gateway.endpoint(), [traces(&resource, &[span("s", 0, base, 0, LENGTH * NANOS)])]);
    let (_, report) = gateway.stop();
    let Sums { prices, .. } = assert_sums(&backend.received(), &report);
    let holders = report["gpus"][0]["holders"].as_array().unwrap();
    let q1 = holders.iter().find(|it| it["name"] == "ml/q1").unwrap();
    let costs: Vec<u64> = prices.values().map(|price| price.nano_usd).collect();
    assert_eq!(costs, [nano_usd(&q1["cost_usd"])]);
    assert!(costs[0] > 10 * 1_000_000, "{report:#}");
}
