//! GPUs that a device plugin gives to containers.

use crate::node::node;
use crate::plugin::uuid;

/// A container finds its GPU in its environment; the container beside it, which asked for none, has no such variable.
#[test]
fn gpu_is_in_environment_and_pod_resources() {
    let Some(node) = node() else { return };
    let _applied = node.apply("one-gpu");
    node.wait_ready("one-gpu");

    let resources = node.pod_resources("one-gpu", "server");
    let devices = resources["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 1, "{resources}");
    assert_eq!(devices[0]["resource_name"], "nvidia.com/gpu");
    let id = devices[0]["device_ids"][0].as_str().unwrap();
    assert!((0..4).any(|gpu| uuid(gpu) == id), "{id}");

    let environment = node.logs("one-gpu", "server");
    assert!(environment.contains(&format!("NVIDIA_VISIBLE_DEVICES={id}\n")), "{environment}");
    let beside = node.logs("one-gpu", "beside");
    assert!(!beside.contains("NVIDIA_VISIBLE_DEVICES"), "{beside}");
    assert!(node.pod_resources("one-gpu", "beside")["devices"].is_null());
}
