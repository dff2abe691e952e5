//! The control groups of the processes on the GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use phasemeter_files::read_file;

use crate::cgroup::Groups;
use crate::gpus::NodeGpu;

/// Processes whose control groups are read per poll: what is over it has no holder.
const MAX_PROCESSES: usize = 4_096;

/// The largest file of control groups that is read.
const MAX_FILE: u64 = 64 << 10;

/// The control groups of processes, and how many could not be read.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// By process ID. Processes that name neither a pod nor a job are left out.
    pub(crate) groups: BTreeMap<u32, Groups>,
    /// Processes that do not exist in this PID namespace, or have ended meanwhile.
    pub(crate) unreadable: usize,
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
        let mut processes = Self { omitted, ..Self::default() };
        for id in ids.into_iter().take(MAX_PROCESSES) {
            match read_file(&proc.join(id.to_string()).join("cgroup"), MAX_FILE) {
                Ok(bytes) => {
                    let groups = Groups::parse(&String::from_utf8_lossy(&bytes));
                    if groups != Groups::default() {
                        processes.groups.insert(id, groups);
                    }
                }
                Err(_) => processes.unreadable += 1,
            }
        }
        processes
    }
}
