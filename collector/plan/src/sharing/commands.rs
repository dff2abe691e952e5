//! Commands and configurations that make a packing: MIG instances, MPS, time-slicing.

use phasemeter_meter::mig::Profile;

use super::workload::Workload;
use crate::units::Size;
use crate::worksheet::Snippet;

/// `nvidia-smi mig` for each GPU, largest instances first so that they can be placed, and the
/// resources of Kubernetes.
pub(crate) fn mig(packed: &[Vec<usize>], profiles: &[Profile]) -> Vec<Snippet> {
    let mut lines = vec!["# as root, on a GPU without processes".to_owned()];
    let mut resources = Vec::new();
    for (gpu, items) in packed.iter().enumerate() {
        let mut instances: Vec<&Profile> =
            items.iter().filter_map(|&it| profiles.get(it)).collect();
        instances.sort_by_key(|it| std::cmp::Reverse((it.memory, it.compute)));
        let names: Vec<&str> = instances.iter().map(|it| it.name.as_str()).collect();
        lines.push(format!("nvidia-smi -i {gpu} -mig 1"));
        lines.push(format!("nvidia-smi mig -i {gpu} -cgi {} -C", names.join(",")));
        for name in names {
            let resource = format!("nvidia.com/mig-{name}: 1");
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
    }
    lines.push("nvidia-smi mig -lgi".to_owned());
    let title = "Kubernetes, device plugin with MIG_STRATEGY=mixed: resource limits of a container";
    vec![
        Snippet { title: "MIG", text: lines.join("\n") },
        Snippet { title, text: resources.join("\n") },
    ]
}

/// The MPS control daemon with a memory limit per workload, and the device plugin's configuration.
pub(crate) fn mps(packed: &[Vec<usize>], workloads: &[Workload]) -> Vec<Snippet> {
    let mut lines = vec!["nvidia-cuda-mps-control -d    # one daemon per node".to_owned()];
    for (gpu, items) in packed.iter().enumerate() {
        for it in items.iter().filter_map(|&item| workloads.get(item)) {
            lines.push(format!(
                "CUDA_VISIBLE_DEVICES={gpu} CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"0={}M\" \\\n  \
                 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={} command-of-{}",
                mebibytes(it.memory),
                it.utilization.ppm().div_ceil(10_000).clamp(1, 100),
                it.name
            ));
        }
    }
    vec![
        Snippet { title: "MPS", text: lines.join("\n") },
        device_plugin("MPS in Kubernetes: configuration of the device plugin", "mps", packed),
    ]
}

/// The device plugin's configuration.
pub(crate) fn time_slicing(packed: &[Vec<usize>]) -> Vec<Snippet> {
    let title = "Time-slicing in Kubernetes: configuration of the device plugin";
    vec![device_plugin(title, "timeSlicing", packed)]
}

fn device_plugin(title: &'static str, mode: &str, packed: &[Vec<usize>]) -> Snippet {
    let replicas = packed.iter().map(Vec::len).max().unwrap_or(1);
    let text = format!(
        "version: v1\n\
         sharing:\n  \
           {mode}:\n    \
             resources:\n    \
             - name: nvidia.com/gpu\n      \
               replicas: {replicas}"
    );
    Snippet { title, text }
}

/// Rounded up.
fn mebibytes(size: Size) -> u64 {
    size.0.div_ceil(1 << 20)
}
