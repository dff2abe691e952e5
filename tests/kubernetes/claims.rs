//! GPUs that DRA gives to claims, and what tells which they are.

use serde_json::Value;

use crate::node::{Node, node};
use crate::plugin::uuid;

/// Two pods share a claim: PodResources names the same device in both, and the ResourceSlice its UUID.
#[test]
fn claim_shared_by_pods_is_one_gpu() {
    let Some(node) = node() else { return };
    let _applied = node.apply("shared-claim");
    node.wait_ready("first");
    node.wait_ready("second");

    let first = uuids(node, "first", "server");

    assert_eq!(first, uuids(node, "second", "server"));
    assert_eq!(first.len(), 1);
    assert!((4..8).any(|gpu| uuid(gpu) == first[0]), "{first:?}");
    // What NVIDIA's driver tells a container in its environment.
    assert!(node.logs("first", "server").contains("NVIDIA_VISIBLE_DEVICES=void\n"));
}

/// Two containers of a pod share a claim; a third has none.
#[test]
fn claim_shared_by_containers_is_one_gpu() {
    let Some(node) = node() else { return };
    let _applied = node.apply("shared-in-pod");
    node.wait_ready("shared-in-pod");

    let server = uuids(node, "shared-in-pod", "server");

    assert_eq!(server.len(), 1);
    assert_eq!(server, uuids(node, "shared-in-pod", "sidecar"));
    assert!(uuids(node, "shared-in-pod", "beside").is_empty());
}

/// The UUIDs of the GPUs in the claims of a container.
fn uuids(node: &Node, pod: &str, container: &str) -> Vec<String> {
    let slices = node.get(&["resourceslices"]);
    let resources = node.pod_resources(pod, container);
    let mut uuids: Vec<_> = each(&resources["dynamic_resources"])
        .flat_map(|claim| each(&claim["claim_resources"]))
        .map(|device| device_uuid(&slices, device))
        .collect();
    // Kubernetes 1.36 lists the devices of pods that are created together twice.
    uuids.sort();
    uuids.dedup();
    uuids
}

/// The UUID that the slice of a device's driver and pool states.
fn device_uuid(slices: &Value, device: &Value) -> String {
    let devices = each(&slices["items"])
        .map(|slice| &slice["spec"])
        .filter(|spec| {
            spec["driver"] == device["driver_name"] && spec["pool"]["name"] == device["pool_name"]
        })
        .flat_map(|spec| each(&spec["devices"]));
    let found = devices.into_iter().find(|listed| listed["name"] == device["device_name"]).unwrap();
    found["attributes"]["uuid"]["string"].as_str().unwrap().to_owned()
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
