//! Finds the GPUs of this pod: by its claims, its other containers and their processes.
//!
//! A container that was given no GPU may still see all of the machine. The other containers of its pod may start later,
//! so the evidence is collected repeatedly, on a thread of its own: reading the files of a process can block if that
//! hangs in a driver.

mod container;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use phasemeter_process::ProcessTable;
use phasemeter_sources::live::select::{
    Devices, Evidence, GpuName, NVIDIA, SelectedBy, Variables, Visible,
};
use tracing::warn;

use self::container::ContainerFiles;
use crate::detectors::{self, Container};

/// How often evidence is collected.
const PERIOD: Duration = Duration::from_secs(5);

/// Which parts of the driver NVIDIA's runtime adds to a container. Without `compute` it can only look. Images set it,
/// too, and it means nothing for devices of claims.
const CAPABILITIES: &str = "NVIDIA_DRIVER_CAPABILITIES";

/// The privileges of this process: with that of an administrator, a container may have all devices of the machine.
const STATUS: &str = "/proc/self/status";

/// Maximum number of GPUs that other containers name.
const MAX_NAMED: usize = 256;

/// `CAP_SYS_ADMIN`.
const ADMINISTRATOR: u64 = 1 << 21;

/// Evidence of which GPUs are those of this process.
pub struct OwnGpus {
    variables: Variables,
    in_pod: bool,
    found: Found,
    /// `None` if nothing more is collected.
    updates: Option<Receiver<Found>>,
    /// Ends the thread when it is dropped.
    running: Option<Sender<()>>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    named: Option<(SelectedBy, Vec<GpuName>)>,
    devices: Option<Devices>,
    /// The processes of the other containers of the pod.
    processes: BTreeSet<u32>,
    /// Whether their IDs are those of the host.
    are_of_host: bool,
}

/// The GPUs of the machine by their minor numbers, once they were read in a collection.
type AllGpus = OnceCell<BTreeMap<u32, String>>;

/// Where evidence is collected.
struct Place {
    own: ContainerFiles,
    processes: ProcessTable,
    nvidia: Option<Visible>,
    /// Whether this container is the workload's.
    is_workload: bool,
    /// Whether this container may compute on devices that NVIDIA's runtime adds.
    can_compute: bool,
    /// Whether it has all devices of the machine, since it is privileged.
    is_privileged: bool,
}

impl OwnGpus {
    /// Collects evidence in this container, and in the processes of this `/proc`: the given one, else that of this
    /// process. If the user names the GPUs, nothing else is collected.
    #[must_use]
    pub fn watch(container: Container, procfs: Option<&Path>, are_named: bool) -> Self {
        let in_pod = detectors::in_pod();
        let mut watched = Self { in_pod, found: Found::default(), ..Self::of_machine() };
        let place = Place {
            own: ContainerFiles::at(Path::new("/")),
            processes: ProcessTable::at(procfs.unwrap_or(Path::new(ProcessTable::OWN))),
            nvidia: watched.variables.nvidia.clone(),
            is_workload: container == Container::Workload,
            can_compute: can_compute(variable(CAPABILITIES).as_deref()),
            is_privileged: is_administrator(&std::fs::read_to_string(STATUS).unwrap_or_default()),
        };
        if are_named || matches!(watched.variables.nvidia, Some(Visible::Listed(_))) {
            return watched;
        }
        if !watched.in_pod {
            watched.found.devices = place.devices(&OnceCell::new());
            return watched;
        }
        let (running, ended) = channel();
        let (sender, updates) = channel();
        let collect = move || place.collect_all(&ended, &sender);
        match thread::Builder::new().name("own-gpus".to_owned()).spawn(collect) {
            Ok(_) => (watched.updates, watched.running) = (Some(updates), Some(running)),
            Err(error) => warn!(
                "the GPUs of this pod cannot be detected: thread not started: {error}; name them with --gpu"
            ),
        }
        watched
    }

    /// All GPUs of this machine, unless variables of this process name some: nothing else is collected.
    #[must_use]
    pub fn of_machine() -> Self {
        let own = ContainerFiles::at(Path::new("/"));
        let variables = Variables::read(variable, || own.mounted());
        let devices = (!own.minors().is_empty()).then_some(Devices::Shown);
        let found = Found { devices, ..Found::default() };
        Self { variables, in_pod: false, found, updates: None, running: None }
    }

    /// Whether this process is in a pod.
    #[must_use]
    pub const fn in_pod(&self) -> bool {
        self.in_pod
    }

    /// The variables of this process.
    #[must_use]
    pub const fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Waits for the first evidence, at most for this long.
    pub fn wait(&mut self, at_most: Duration) {
        if let Some(Ok(found)) = self.updates.as_ref().map(|updates| updates.recv_timeout(at_most))
        {
            self.found = found;
        }
    }

    /// Takes what was found since the last call. Returns whether other GPUs are named now.
    pub fn has_changed(&mut self) -> bool {
        let Some(found) = self.updates.as_ref().and_then(|updates| updates.try_iter().last())
        else {
            return false;
        };
        let before = std::mem::replace(&mut self.found, found);
        before.named != self.found.named || before.devices != self.found.devices
    }

    /// The evidence, if these are the processes on each GPU, as the driver numbers them. `is_own_only`: whether the
    /// driver lists the GPUs of this pod only.
    pub fn evidence<'a>(
        &self,
        processes: impl Iterator<Item = &'a [u32]> + Clone,
        is_own_only: bool,
    ) -> Evidence {
        Evidence {
            in_pod: self.in_pod,
            is_own_only,
            named: self.found.named.clone(),
            used: self.found.used(processes),
            devices: self.found.devices.clone(),
        }
    }
}

impl Found {
    /// The positions of the GPUs on which processes of the pod compute. IDs of the host mean others here, unless this
    /// process has those, too: a driver that lists one that is not visible here has IDs of the host.
    fn used<'a>(&self, gpus: impl Iterator<Item = &'a [u32]> + Clone) -> Vec<usize> {
        let is_of_pod = |pid: &u32| self.processes.contains(pid);
        let is_known = self.are_of_host || gpus.clone().flatten().all(is_of_pod);
        let used = gpus.enumerate().filter(|(_, pids)| is_known && pids.iter().any(is_of_pod));
        used.map(|(position, _)| position).collect()
    }
}

impl Place {
    /// Collects evidence until the run ends.
    fn collect_all(&self, ended: &Receiver<()>, sender: &Sender<Found>) {
        let mut last = None;
        loop {
            let found = self.collect();
            if last.as_ref() != Some(&found) && sender.send(found.clone()).is_err() {
                return;
            }
            last = Some(found);
            if ended.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn collect(&self) -> Found {
        let all = OnceCell::new();
        let processes = self.processes.others_in_pod();
        let named = match self.own.claimed() {
            none if none.is_empty() => {
                self.others(&processes, &all).map(|it| (SelectedBy::Containers, it))
            }
            claimed => Some((SelectedBy::Metadata, claimed)),
        };
        let are_of_host = self.processes.is_of_host();
        Found { named, devices: self.devices(&all), processes, are_of_host }
    }

    /// The GPUs that other containers of the pod were given, by all that can be read of them.
    fn others(&self, processes: &BTreeSet<u32>, all: &AllGpus) -> Option<Vec<GpuName>> {
        let mut named = Vec::new();
        for pid in processes {
            for gpu in self.given_to(*pid, all) {
                if named.len() < MAX_NAMED && !named.contains(&gpu) {
                    named.push(gpu);
                }
            }
        }
        (!named.is_empty()).then_some(named)
    }

    /// The GPUs that the container of a process was given.
    fn given_to(&self, pid: u32, all: &AllGpus) -> Vec<GpuName> {
        let container = ContainerFiles::at(&self.processes.root_of(pid));
        let value = self.processes.variable(pid, NVIDIA);
        match value.and_then(|value| Visible::parse(&value, || container.mounted())) {
            Some(Visible::Listed(names)) => names,
            _ => match container.claimed() {
                none if none.is_empty() => {
                    self.some_of_all(&container.minors(), all).unwrap_or_default()
                }
                claimed => claimed,
            },
        }
    }

    /// What the devices of this container show: some of the machine's GPUs, or all, if it was given them as its own.
    fn devices(&self, all: &AllGpus) -> Option<Devices> {
        let minors = self.own.minors();
        if minors.is_empty() || self.is_privileged {
            return None;
        }
        // Its image may state `all` and any capabilities: with these, NVIDIA's runtime would have added all devices.
        if let Some(some) = self.some_of_all(&minors, all) {
            return Some(Devices::Named(some));
        }
        // Every CDI specification of NVIDIA's toolkit sets `void` (its `pkg/nvcdi/wrapper.go`, `GetCommonEdits`, which
        // NVIDIA's DRA driver calls, too), and no capabilities. Since its version 1.18 the runtime makes one for `all`
        // by default (`internal/info/auto.go`, mode `jit-cdi`). So of a container with `void` and all devices only the
        // capabilities tell whether it was given them or looks at those of others. A sidecar with `all`, with nothing, or
        // with `utility` only may have been given them to look at; what a command can use is its own.
        let is_given = self.is_workload || self.nvidia == Some(Visible::Nothing);
        (is_given && self.can_compute).then_some(Devices::Shown)
    }

    /// The GPUs with these minor numbers, if they are known and the machine has others, too.
    fn some_of_all(&self, minors: &BTreeSet<u32>, all: &AllGpus) -> Option<Vec<GpuName>> {
        if minors.is_empty() {
            return None;
        }
        let all = all.get_or_init(|| self.own.gpus());
        let named: Option<Vec<_>> =
            minors.iter().map(|minor| Some(GpuName::Uuid(all.get(minor)?.clone()))).collect();
        named.filter(|some| some.len() < all.len())
    }
}

/// Whether a container with these capabilities of NVIDIA's runtime may compute.
fn can_compute(capabilities: Option<&str>) -> bool {
    capabilities.is_none_or(|parts| {
        parts.is_empty() || parts.split(',').any(|part| matches!(part.trim(), "compute" | "all"))
    })
}

/// Whether a process is privileged, by its status.
fn is_administrator(status: &str) -> bool {
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    capabilities.is_some_and(|mask| {
        u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & ADMINISTRATOR != 0)
    })
}

/// A variable of the environment, whatever its bytes.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
