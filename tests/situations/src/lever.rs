//! Levers: what a recommendation may change, and named groups of them.
//!
//! More than the current policies use: expectations come first.

/// Every lever.
pub(crate) const ALL: [&str; 45] = [
    "dali",
    "num_workers",
    "pin_memory",
    "prefetch",
    "storage",
    "batch",
    "grad_accumulation",
    "dynamic_batching",
    "concurrency",
    "bucketing",
    "smaller_gpu",
    "larger_gpu",
    "smaller_instance",
    "mig",
    "mps",
    "time_slicing",
    "bin_pack",
    "consolidate",
    "replicas",
    "autoscale",
    "schedule",
    "release_memory",
    "chargeback",
    "overlap",
    "compile",
    "fused_kernels",
    "nccl",
    "amp",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "tensor_cores",
    "checkpointing",
    "quantization",
    "checkpoint_interval",
    "restart",
    "power_limit",
    "spot",
    "reserved_1y",
    "reserved_3y",
    "region",
    "provider",
    "measure",
    "other",
];

/// Groups that a situation may name instead of their levers. A group may contain groups before it.
const GROUPS: [(&str, &[&str]); 8] = [
    ("@loading", &["dali", "num_workers", "pin_memory", "prefetch", "storage"]),
    ("@precision", &["amp", "tf32", "bf16", "fp16", "fp8", "tensor_cores"]),
    ("@share", &["mig", "mps", "time_slicing", "bin_pack"]),
    ("@release", &["autoscale", "schedule", "release_memory"]),
    ("@rate", &["spot", "reserved_1y", "reserved_3y", "region", "provider"]),
    (
        "@training",
        &[
            "dali",
            "num_workers",
            "pin_memory",
            "prefetch",
            "batch",
            "grad_accumulation",
            "checkpointing",
            "checkpoint_interval",
        ],
    ),
    ("@serving", &["dynamic_batching", "concurrency", "replicas"]),
    // A saving that depends on how the workload responds, on another tenant, or on a quote.
    (
        "@uncertain",
        &[
            "@loading",
            "@precision",
            "@share",
            "@serving",
            "batch",
            "grad_accumulation",
            "bucketing",
            "smaller_gpu",
            "larger_gpu",
            "smaller_instance",
            "overlap",
            "compile",
            "fused_kernels",
            "nccl",
            "checkpointing",
            "quantization",
            "checkpoint_interval",
            "region",
            "provider",
        ],
    ),
];

/// Every lever that the situation neither expects nor accepts.
pub(crate) const OTHERS: &str = "@others";

/// The levers of a name: a lever, a group or [`OTHERS`].
pub(crate) fn expand(name: &str) -> Option<Vec<String>> {
    if name == OTHERS || ALL.contains(&name) {
        return Some(vec![name.to_owned()]);
    }
    let (_, members) = GROUPS.iter().find(|(group, _)| *group == name)?;
    let levers: Option<Vec<_>> = members.iter().map(|member| expand(member)).collect();
    levers.map(|levers| levers.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_contain_known_levers() {
        for (group, members) in GROUPS {
            let levers = expand(group).unwrap();
            assert!(levers.iter().all(|lever| ALL.contains(&lever.as_str())), "{group}");
            assert!(levers.len() >= members.len(), "{group}");
        }
        assert_eq!(expand("@uncertain").unwrap().len(), 33);
        assert_eq!(expand("cats"), None);
    }
}
