//! Who holds the GPUs of a node: polled on a thread of its own, applied to the pipeline, published to sidecars.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use phasemeter_engine::agent::{
    AgentAccount, AgentGpu, AgentSocket, GpuStatement, HolderState, MeteredGpuState,
};
use phasemeter_engine::live::InstanceUse;
use phasemeter_engine::pipeline::{AccountedTime, Pipeline};
use phasemeter_holders::{
    ApiServer, Assignments, NodeGpu, NodeHolders, Options, PodName, PodSource,
};
use phasemeter_meter::holder::{Grant, Holder, HolderAccount, HolderChange, HolderUse};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::holders::HolderAccounts;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{Observed, ProcessUse};
use tracing::{info, warn};

use super::error::CommandError;
use super::held_instances::HeldInstances;
use crate::cli::{MAX_LABELS, NodeArgs};

/// How often the sources of holders are polled: none announces changes.
const POLL: Duration = Duration::from_secs(1);

/// Polls that wait to be applied: many times more than a drain takes.
const MAX_WAITING: usize = 64;

/// How long a process or MIG instance counts after it was seen last. Drivers list them every 10 s; one may be missed.
const LIFETIME: Nanos = Nanos::from_secs(25);

/// How long what a holder pays is published after it has ended: several times as long as readings may be late.
const RECENT: Nanos = Nanos::from_secs(120);

/// Maximum number of those per GPU. Of more the oldest are dropped.
const MAX_RECENT: usize = 512;

/// Distinct problems that are logged; the number of their texts is limited by the node.
const MAX_LOGGED: usize = 1_024;

/// Who holds the GPUs of a node, as it is found out.
#[derive(Debug)]
pub(super) struct NodeAgent {
    polls: Receiver<Assignments>,
    /// What polls ask about.
    listed: Arc<Mutex<Vec<NodeGpu>>>,
    gpus: Vec<HeldGpu>,
    socket: Option<AgentSocket>,
    /// Whether any poll has been applied.
    has_polled: bool,
    /// The holders of processes, as of the last poll.
    processes: BTreeMap<u32, Holder>,
    /// Whether the holder of any process was ever known. Until then, use by processes is not assigned to holders.
    knows_processes: bool,
    /// Problems and disagreements that are logged.
    logged: BTreeSet<String>,
}

/// A GPU of the node.
#[derive(Debug, Default)]
struct HeldGpu {
    uuid: String,
    model: Option<String>,
    /// Who holds it; `None` until the first poll.
    grants: Option<Vec<Grant>>,
    /// Since when.
    since: Timestamp,
    /// What was known last of those that hold it.
    details: BTreeMap<Holder, Arc<HolderDetails>>,
    /// Those that held it until recently, and when that was noticed. What they pay is final some seconds later.
    recent: Vec<(Holder, Timestamp)>,
    /// The processes on it, and when each was seen last.
    processes: BTreeMap<u32, Timestamp>,
    /// What processes used since the last step.
    used: Vec<ProcessUse>,
    instances: HeldInstances,
}

impl NodeAgent {
    /// Starts to follow the holders. What the node lacks is a warning.
    pub(super) fn start(
        args: &NodeArgs,
        procfs: Option<&Path>,
        clock: Clock,
    ) -> Result<Self, CommandError> {
        let mut options = options(args, |name| std::env::var(name).ok());
        if let Some(procfs) = procfs {
            options.proc = Some(procfs.to_owned());
        }
        if args.resource_slices && (options.api.is_none() || options.node.is_none()) {
            warn!("--resource-slices: no API server, or no NODE_NAME; set both as in a pod");
        }
        if args.follows_pods() && options.pods.is_none() {
            warn!("--pods: no API server, or no NODE_NAME; set both as in a pod");
        }
        if args.label.len() > MAX_LABELS {
            warn!("--label: the first {MAX_LABELS} labels are read; name fewer");
        }
        let holders = NodeHolders::new(options);
        let holders = holders.map_err(|error| {
            CommandError::system("cannot follow holders")(io::Error::other(error))
        })?;
        let listed = Arc::<Mutex<Vec<NodeGpu>>>::default();
        let (sender, polls) = sync_channel(MAX_WAITING);
        let asked = Arc::clone(&listed);
        let thread = thread::Builder::new().name("holders".to_owned());
        thread
            .spawn(move || poll(holders, &asked, clock, &sender))
            .map_err(CommandError::system("cannot start a thread"))?;
        let socket = listen(args, clock);
        Ok(Self {
            polls,
            listed,
            gpus: Vec::new(),
            socket,
            has_polled: false,
            processes: BTreeMap::new(),
            knows_processes: false,
            logged: BTreeSet::new(),
        })
    }

    /// Follows the holders of one more GPU.
    pub(super) fn join(&mut self, gpu: &GpuIdentity) {
        let uuid = gpu.uuid.clone().unwrap_or_default();
        let index = gpu.index.unwrap_or_default();
        let minor = gpu.board.minor_number;
        let memory = gpu.memory_total.map(Bytes::get);
        let listed = NodeGpu { uuid: uuid.clone(), index, memory, minor, ..NodeGpu::default() };
        lock(&self.listed).push(listed);
        self.gpus.push(HeldGpu { uuid, model: gpu.model.clone(), ..HeldGpu::default() });
    }

    /// Notes what was observed of a GPU.
    pub(super) fn observe(&mut self, gpu: usize, observed: &Observed, now: Timestamp) {
        let Some(held) = self.gpus.get_mut(gpu) else { return };
        match observed {
            Observed::Process(process) => {
                held.processes.insert(process.pid, now);
                held.instances.see_process(*process, now);
            }
            Observed::ProcessUse(used) => {
                held.processes.insert(used.pid, now);
                held.used.push(*used);
            }
            Observed::MigInstance(instance) => held.instances.see(*instance, now),
            _ => {}
        }
        if let Some(socket) = &mut self.socket {
            socket.observe(&held.uuid, observed);
        }
    }

    /// Notes what the MIG instances of a GPU have used.
    pub(super) fn observe_instances(&mut self, gpu: usize, used: Vec<InstanceUse>) {
        if let Some(held) = self.gpus.get_mut(gpu) {
            held.instances.add_used(used);
        }
    }

    /// Publishes what all have paid at the end, to sidecars that wait for it.
    pub(super) fn conclude(&self, pipeline: &Pipeline<'_>, identities: &[GpuIdentity]) {
        if let Some(socket) = self.socket.as_ref().filter(|socket| socket.has_followers()) {
            socket.conclude(&self.state(pipeline, identities, true));
        }
    }

    /// Applies what was found out since the last call, and publishes it to sidecars.
    pub(super) fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        identities: &[GpuIdentity],
        now: Timestamp,
    ) {
        while let Ok(assignments) = self.polls.try_recv() {
            self.apply(&assignments, pipeline);
            self.knows_processes |= !assignments.processes.is_empty();
            self.processes = assignments.processes;
        }
        for (place, gpu) in self.gpus.iter_mut().enumerate() {
            let used = gpu.take_used(&self.processes);
            if self.knows_processes {
                used.into_iter().for_each(|used| pipeline.push_use(place, used));
            }
            // Until the first poll it is not known whose they are.
            let Some(grants) = gpu.grants.as_deref() else { continue };
            for (used, is_active) in gpu.instances.take_used(grants) {
                if is_active {
                    pipeline.touch(place, used.from, &used.holder);
                }
                pipeline.push_use(place, used);
            }
        }
        self.list(now);
        if self.socket.is_some() {
            let has_followers = self.socket.as_ref().is_some_and(AgentSocket::has_followers);
            let published =
                self.has_polled.then(|| self.state(pipeline, identities, has_followers));
            let billed =
                self.gpus.iter().enumerate().filter_map(|(place, gpu)| {
                    Some((gpu.uuid.clone(), pipeline.billed(place, now)?))
                });
            let billed: Vec<_> = billed.collect();
            if let Some(socket) = &mut self.socket {
                socket.publish(published, billed);
            }
        }
    }

    /// Assigns the GPUs to those that hold them now.
    fn apply(&mut self, assignments: &Assignments, pipeline: &mut Pipeline<'_>) {
        self.has_polled = true;
        for (place, gpu) in self.gpus.iter_mut().enumerate() {
            let Some(assignment) = assignments.gpus.get(&gpu.uuid) else { continue };
            let grants = assignment.grants();
            if gpu.assign(&grants, assignment.since, assignments.at) {
                pipeline.assign(place, assignment.since, grants);
            }
            for change in gpu.describe(&assignments.details) {
                pipeline.change_holders(place, change);
            }
            gpu.instances.assign(&assignments.instances);
            let touched = assignment.touched.iter().chain(gpu.instances.touched());
            touched.for_each(|holder| pipeline.touch(place, assignments.at, holder));
        }
        let disagreements = assignments.gpus.values().chain(assignments.instances.values());
        let disagreements = disagreements.flat_map(|it| &it.disagreements).map(ToString::to_string);
        let problems = assignments.problems.iter().map(ToString::to_string);
        for text in problems.chain(disagreements) {
            if self.logged.len() < MAX_LOGGED && !self.logged.contains(&text) {
                warn!("{text}");
                self.logged.insert(text);
            }
        }
    }

    /// Passes the processes on each GPU and its MIG instances to the next poll.
    fn list(&mut self, now: Timestamp) {
        for (gpu, listed) in self.gpus.iter_mut().zip(lock(&self.listed).iter_mut()) {
            gpu.processes.retain(|_, seen| now.since(*seen) < LIFETIME);
            gpu.recent.retain(|(_, ended)| now.since(*ended) < RECENT);
            listed.processes.clear();
            listed.processes.extend(gpu.processes.keys());
            gpu.instances.retain(|seen| now.since(seen) < LIFETIME);
            listed.instances = gpu.instances.listed(gpu.model.as_deref());
        }
    }

    /// The GPUs and their holders, for sidecars.
    fn state(
        &self,
        pipeline: &Pipeline<'_>,
        identities: &[GpuIdentity],
        with_statements: bool,
    ) -> Vec<MeteredGpuState> {
        let gpus = self.gpus.iter().zip(identities).enumerate();
        let states = gpus.map(|(place, (gpu, identity))| {
            let holders = pipeline.holders(place);
            let grants = gpu.grants.iter().flatten();
            let is_container = |grant: &Grant| matches!(grant.holder, Holder::Container(_));
            let is_shared = !grants.clone().all(is_container);
            let holders = grants.filter_map(|Grant { holder, share }| {
                let Holder::Container(container) = holder else { return None };
                let accounts = holders.and_then(|holders| holders.get(holder));
                Some(HolderState {
                    container: container.clone(),
                    share: *share,
                    accounts: accounts.map(accounts_of).unwrap_or_default(),
                })
            });
            let statement = with_statements.then(|| gpu.statement(place, pipeline)).flatten();
            let gpu = AgentGpu {
                uuid: gpu.uuid.clone(),
                index: identity.index,
                model: identity.model.clone(),
                memory_total_bytes: identity.memory_total.map(Bytes::get),
                grants: Vec::new(),
            };
            MeteredGpuState { gpu, holders: holders.collect(), is_shared, statement }
        });
        states.collect()
    }
}

impl HeldGpu {
    /// Notes who holds it. Returns whether that has changed.
    fn assign(&mut self, grants: &[Grant], since: Timestamp, now: Timestamp) -> bool {
        let has_changed = self.grants.as_deref() != Some(grants);
        if has_changed {
            let before = self.grants.replace(grants.to_vec()).unwrap_or_default();
            self.since = since;
            let holds = |holder: &Holder| grants.iter().any(|grant| grant.holder == *holder);
            self.recent.retain(|(holder, _)| !holds(holder));
            let ended = before.into_iter().filter(|grant| !holds(&grant.holder));
            self.recent.extend(ended.map(|grant| (grant.holder, now)));
            self.recent.drain(..self.recent.len().saturating_sub(MAX_RECENT));
        }
        has_changed
    }

    /// What the containers pay that hold it, or did until recently.
    fn statement(&self, place: usize, pipeline: &Pipeline<'_>) -> Option<GpuStatement> {
        let AccountedTime { from, until, price } = pipeline.accounted(place)?;
        let accounts = pipeline.holders(place)?;
        let holders = self.grants.iter().flatten().map(|grant| &grant.holder);
        // A container may have several parts.
        let holders: BTreeSet<_> =
            holders.chain(self.recent.iter().map(|(holder, _)| holder)).collect();
        let holders = holders.into_iter().filter_map(|holder| {
            // Its account begins once time in which it holds the GPU is final.
            let its = accounts.get(holder).cloned();
            Some((
                holder.container()?.clone(),
                its.unwrap_or_else(|| HolderAccounts::new(self.since)),
            ))
        });
        Some(GpuStatement { from, until, price: price.clone(), holders: holders.collect() })
    }

    /// What has become known of its holders since the last call, or has changed.
    fn describe(&mut self, all: &BTreeMap<Holder, Arc<HolderDetails>>) -> Vec<HolderChange> {
        let holders = self.grants.iter().flatten().map(|grant| &grant.holder);
        let known = holders.filter_map(|it| Some((it.clone(), Arc::clone(all.get(it)?)))).collect();
        let before = std::mem::replace(&mut self.details, known);
        let is_new = |(holder, details): &(&Holder, &Arc<HolderDetails>)| {
            before.get(*holder).is_none_or(|known| known != *details)
        };
        let new = self.details.iter().filter(is_new);
        let change = |(holder, details): (&Holder, &Arc<HolderDetails>)| HolderChange::Described {
            holder: holder.clone(),
            details: Arc::clone(details),
        };
        new.map(change).collect()
    }

    /// What each of its holders has used since the last call. What processes of others have used is missing: it is
    /// nobody's.
    fn take_used(&mut self, of: &BTreeMap<u32, Holder>) -> Vec<HolderUse> {
        let all = std::mem::take(&mut self.used);
        let ranges = all.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to));
        let used = ranges.flat_map(|range| {
            let [ProcessUse { from, to, .. }, ..] = range else { return Vec::new() };
            let uses = self.grants.iter().flatten().map(|Grant { holder, .. }| {
                let its = range.iter().filter(|used| of.get(&used.pid) == Some(holder));
                let sum = its.map(|used| used.utilization.ppm()).fold(0, u32::saturating_add);
                let utilization = Utilization::from_ppm(sum).unwrap_or(Utilization::FULL);
                HolderUse { holder: holder.clone(), from: *from, to: *to, utilization }
            });
            uses.collect()
        });
        used.collect()
    }
}

/// The accounts of a holder over all phases, those that are not empty.
fn accounts_of(accounts: &HolderAccounts) -> Vec<AgentAccount> {
    let all = HolderAccount::ALL.into_iter().map(|account| (account, accounts.total(account)));
    let all = all.filter(|(_, total)| total.time > Nanos::ZERO);
    let all = all.map(|(account, total)| AgentAccount {
        account: account.name().to_owned(),
        nanoseconds: total.time.0,
        nano_usd: u64::try_from(total.cost.0).unwrap_or(u64::MAX),
    });
    all.collect()
}

/// Polls until nobody takes the results.
fn poll(
    mut holders: NodeHolders,
    listed: &Mutex<Vec<NodeGpu>>,
    clock: Clock,
    polls: &SyncSender<Assignments>,
) {
    loop {
        let gpus = lock(listed).clone();
        // Until the driver has answered there is nothing to ask about.
        if !gpus.is_empty() && polls.send(holders.poll(clock.now(), &gpus)).is_err() {
            return;
        }
        thread::sleep(POLL);
    }
}

fn lock(listed: &Mutex<Vec<NodeGpu>>) -> MutexGuard<'_, Vec<NodeGpu>> {
    // It is valid after each change.
    listed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for sidecars; without a place for the socket, none is answered.
fn listen(args: &NodeArgs, clock: Clock) -> Option<AgentSocket> {
    let path = &args.socket;
    let procfs = Options::PROC.as_ref();
    match AgentSocket::listen(path, procfs, clock) {
        Ok(socket) => {
            info!("sidecars are answered at {}", path.display());
            Some(socket)
        }
        Err(error) => {
            warn!("{}: sidecars are not answered: {error}; name another --socket", path.display());
            None
        }
    }
}

/// Where the holders of the GPUs are found.
fn options(args: &NodeArgs, variable: impl Fn(&str) -> Option<String>) -> Options {
    let NodeArgs { kubelet_socket, resource_slices, job_mapping, slurm_jobs, pod_logs, .. } = args;
    let own_pod = variable("POD_NAMESPACE").zip(variable("POD_NAME"));
    let server = || ApiServer::of_pod(&variable);
    let labels = || args.label.iter().take(MAX_LABELS).cloned().collect();
    let followed = args.follows_pods().then(|| server().zip(variable("NODE_NAME"))).flatten();
    Options {
        kubelet: Some(kubelet_socket.clone()),
        api: resource_slices.then(server).flatten(),
        node: variable("NODE_NAME"),
        pods: followed.map(|(server, node)| PodSource { server, node, labels: labels() }),
        pod_logs: Some(pod_logs.clone()),
        job_mapping: job_mapping.clone(),
        jobs: slurm_jobs.clone(),
        own_pod: own_pod.map(|(namespace, name)| PodName { namespace, name }),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::holder::Container;

    use super::*;

    fn pod(name: &str) -> Holder {
        Holder::Container(Container { pod: name.to_owned(), ..Container::default() })
    }

    /// Two processes of one pod, one of a process that nobody granted the GPU, and a pod without one.
    #[test]
    fn use_of_processes_is_that_of_holders_and_of_nobody_else() {
        let grants = ["a", "idle"].map(|name| Grant { holder: pod(name), share: None });
        let at = |second: u64| Timestamp::from_nanos(second * Nanos::SECOND.0).unwrap();
        let used = |pid, percent, from| ProcessUse {
            pid,
            from: at(from),
            to: at(from + 1),
            utilization: Utilization::from_percent(percent).unwrap(),
        };
        let used = vec![used(1, 30, 0), used(2, 25, 0), used(3, 20, 0), used(1, 40, 1)];
        let mut gpu = HeldGpu { grants: Some(grants.to_vec()), used, ..HeldGpu::default() };
        let of = BTreeMap::from([(1, pod("a")), (2, pod("a")), (3, pod("hidden"))]);
        let found: Vec<_> = gpu
            .take_used(&of)
            .into_iter()
            .map(|it| (it.holder.to_string(), it.from, it.to, it.utilization.percent()))
            .collect();
        let expected = [("a", 0, 55.0), ("idle", 0, 0.0), ("a", 1, 40.0), ("idle", 1, 0.0)];
        let expected =
            expected.map(|(pod, from, percent)| (pod.to_owned(), at(from), at(from + 1), percent));
        assert_eq!(found, expected);
        assert_eq!(gpu.take_used(&of), []);
    }
}
