//! The control groups of the processes on the GPUs, and the launchers of those that have none of a pod or job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use phasemeter_files::read_file;
use phasemeter_meter::units::Nanos;
use phasemeter_process::{Launched, ProcessTable};

use crate::cgroup::Groups;
use crate::gpus::NodeGpu;

/// Processes whose control groups are read per poll: what is over it has no holder.
const MAX_PROCESSES: usize = 4_096;

/// The largest file of control groups that is read.
const MAX_FILE: u64 = 64 << 10;

/// How long no control groups must be readable until that is a problem: processes that have ended may still be listed.
pub(crate) const UNREADABLE_FOR: Nanos = Nanos::from_secs(30);

/// The control groups of processes.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// By process ID. Those that name neither a pod nor a job are left out.
    pub(crate) groups: BTreeMap<u32, Groups>,
    /// Whether there are processes, and none exists in this PID namespace.
    pub(crate) are_unreadable: bool,
    /// Processes that were left out, since there are too many.
    pub(crate) omitted: usize,
}

impl Processes {
    /// Reads the control groups of all processes on the GPUs.
    pub(crate) fn read(proc: &Path, gpus: &[NodeGpu]) -> Self {
        let instances = gpus.iter().flat_map(|gpu| &gpu.instances);
        let ids: BTreeSet<u32> = gpus
            .iter()
            .flat_map(|gpu| &gpu.processes)
            .chain(instances.flat_map(|instance| &instance.processes))
            .copied()
            .collect();
        let omitted = ids.len().saturating_sub(MAX_PROCESSES);
        let are_unreadable = !ids.is_empty();
        let mut processes = Self { omitted, are_unreadable, ..Self::default() };
        for id in ids.into_iter().take(MAX_PROCESSES) {
            let file = proc.join(id.to_string()).join("cgroup");
            // It may have ended.
            let Ok(bytes) = read_file(&file, MAX_FILE) else { continue };
            processes.are_unreadable = false;
            let mut groups = Groups::parse(&String::from_utf8_lossy(&bytes));
            if groups == Groups::default() {
                let launched = ProcessTable::at(proc).launched(id);
                groups.launched = launched.and_then(|Launched { job, .. }| job);
            }
            if groups != Groups::default() {
                processes.groups.insert(id, groups);
            }
        }
        processes
    }
}
