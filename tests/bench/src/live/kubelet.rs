//! The pods of the node: two on each GPU, which is shared by time, as the kubelet lists them.

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_holders::messages::{
    AllocatableResourcesResponse, ContainerDevices, ContainerResources, ListPodResourcesResponse,
    PodResources,
};

use crate::BenchError;
use crate::fake_kubelet::FakeKubelet;

/// Pods on each GPU.
pub(super) const EACH: u32 = 2;

const RESOURCE: &str = "nvidia.com/gpu.shared";

/// Its socket.
pub(super) fn socket(node: &Path) -> PathBuf {
    node.join("kubelet.sock")
}

/// The directory with a directory per pod.
pub(super) fn logs(node: &Path) -> PathBuf {
    node.join("logs")
}

/// Starts a kubelet that lists the pods of so many GPUs, in a new directory.
pub(super) fn start(node: &Path, gpus: u32) -> Result<FakeKubelet, BenchError> {
    // There may be none.
    _ = fs::remove_dir_all(node);
    let replicas = (0..gpus).flat_map(|gpu| {
        (0..EACH).map(move |replica| format!("GPU-00000000-0000-0000-0000-{gpu:012}::{replica}"))
    });
    let devices = |device_ids| ContainerDevices { resource_name: RESOURCE.to_owned(), device_ids };
    let mut pods = Vec::new();
    for (number, replica) in replicas.clone().enumerate() {
        let name = format!("server-{number}");
        let directory = logs(node).join(format!("ml_{name}_00000000-0000-4000-8000-{number:012}"));
        fs::create_dir_all(&directory).map_err(BenchError::at(&directory))?;
        let container = ContainerResources {
            name: "server".to_owned(),
            devices: vec![devices(vec![replica])],
            dynamic_resources: vec![],
        };
        pods.push(PodResources { name, namespace: "ml".to_owned(), containers: vec![container] });
    }
    let kubelet = FakeKubelet::start(&socket(node));
    let devices = vec![devices(replicas.collect())];
    kubelet.allocates(Ok(AllocatableResourcesResponse { devices }));
    kubelet.lists(ListPodResourcesResponse { pod_resources: pods });
    Ok(kubelet)
}
