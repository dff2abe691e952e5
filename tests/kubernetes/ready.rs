//! The node itself.

use std::process::Command;

use crate::node::node;

/// It is what users have: ready, with GPUs.
#[test]
fn node_is_ready() {
    let Some(node) = node() else { return };

    let status = &node.get(&["node", "node"])["status"];

    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"), "{status}");
    assert_eq!(status["allocatable"]["nvidia.com/gpu"], "4");
    println!(
        "Kubernetes {}, {}",
        status["nodeInfo"]["kubeletVersion"], status["nodeInfo"]["containerRuntimeVersion"]
    );
}

/// A shell on a node with images and GPUs, to try manifests on.
#[test]
#[ignore = "for people"]
fn shell() {
    let Some(_node) = node() else { return };
    Command::new("bash").status().unwrap();
}
