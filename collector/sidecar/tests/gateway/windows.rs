//! Windows of a gateway: what they contain of GPUs whose pods change.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dcgm::{START, page_with};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{GPU, SOON};

/// Scenario: a GPU is assigned to a pod, then to another one of the same namespace.
/// Guarantee: its window names what all of its time has in common, of which follows the kind of workload, and
/// the report the zone of the hours.
#[test]
fn window_names_the_pod_of_a_gpu_until_it_changes() {
    let window_after = |pods: &[&str]| {
        let backend = MockBackend::start([]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("window.json");
        let window = path.to_str().unwrap();
        let options = ["--dump-windows", window, "--utc-offset", "-03:30", "--hold", "0.5"];
        let gateway = Gateway::start(&backend, &options);
        for (start, pod) in (START..).step_by(120).zip(pods) {
            let client = client(&gateway.endpoint());
            let labels = [("namespace", "vision"), ("pod", pod), ("notebook_name", "ana")];
            for at in (start..start + 120).step_by(15) {
                client.enqueue(page_with(GPU, "node-1", &labels, at, 50.0));
            }
            assert!(client.flush(SOON).all_sent());
            // The readings are metered before the next pod is known.
            thread::sleep(Duration::from_secs(2));
        }
        let (_, report) = gateway.stop();
        let zone = "hours of the week are in UTC-03:30, as given";
        assert!(report["assumptions"].to_string().contains(zone), "{report:#}");
        let window: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(window["window"]["utc_offset_seconds"], -12_600);
        // Labels of both pods.
        assert_eq!(window["window"]["gpus"][0]["workload"], "interactive", "{window:#}");
        window["window"]["gpus"][0]["attributes"].clone()
    };
    let one = json!({
        "host.name": "node-1", "hw.vendor": "NVIDIA", "k8s.namespace.name": "vision", "k8s.pod.name": "trainer-0",
        "k8s.pod.label.notebook-name": "ana", "phasemeter.gpu.holders": "vision/trainer-0"
    });
    assert_eq!(window_after(&["trainer-0"]), one);
    let several = window_after(&["trainer-0", "trainer-1"]);
    assert_eq!(several["host.name"], "node-1");
    assert_eq!(several["k8s.pod.name"], Value::Null, "{several:#}");
    assert_eq!(several["phasemeter.gpu.holders"], "vision/trainer-0, vision/trainer-1");
}
