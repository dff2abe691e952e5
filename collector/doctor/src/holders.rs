//! Who holds the GPUs of a node.

use std::collections::BTreeSet;

use phasemeter_holders::Assignments;
use phasemeter_meter::reading::GpuIdentity;

use super::findings::{Findings, Topic};

/// Describes the holders of each GPU, and missing evidence.
pub fn describe(assignments: &Assignments, gpus: &[GpuIdentity], findings: &mut Findings) {
    for gpu in gpus {
        let uuid = gpu.uuid.as_deref().unwrap_or_default();
        let held = assignments.gpus.get(uuid).into_iter().flat_map(|it| &it.held);
        let held: Vec<_> =
            held.map(|it| format!("{} (by {})", it.grant.holder, it.source)).collect();
        let held = if held.is_empty() { "nobody".to_owned() } else { held.join(", ") };
        let index = gpu.index.unwrap_or_default();
        findings.fact(Topic::Holders, format!("GPU {index}: {held}"));
    }
    let problems: BTreeSet<_> = assignments.problems.iter().map(ToString::to_string).collect();
    problems.into_iter().for_each(|problem| findings.note(format!("holders: {problem}")));
}
