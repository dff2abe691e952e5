//! Who holds the GPUs of a node: polled on a thread of its own, applied to the pipeline, published to sidecars.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use phasemeter_engine::agent::{AgentAccount, AgentGpu, AgentSocket, HolderState, MeteredGpuState};
use phasemeter_engine::live::InstanceUse;
use phasemeter_engine::pipeline::Pipeline;
use phasemeter_holders::{
    ApiServer, Assignments, NodeGpu, NodeHolders, Options, PodName, PodSource,
};
use phasemeter_meter::holder::{Grant, Holder, HolderAccount};
use phasemeter_meter::holders::HolderAccounts;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::Observed;
use tracing::{info, warn};

use super::error::CommandError;
use super::held_gpu::HeldGpu;
use crate::variables::variable;
use phasemeter_cli::{MAX_LABELS, NodeArgs};

/// How often the sources of holders are polled: none announces changes.
const POLL: Duration = Duration::from_secs(1);

/// Polls that wait to be applied: many times more than a drain takes.
const MAX_WAITING: usize = 64;

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

impl NodeAgent {
    /// Starts to follow the holders. What the node lacks is a warning.
    pub(super) fn start(
        args: &NodeArgs,
        procfs: Option<&Path>,
        clock: Clock,
    ) -> Result<Self, CommandError> {
        let options = options(args, procfs, variable);
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
        let listed = node_gpu(gpu);
        self.gpus.push(HeldGpu::new(listed.uuid.clone(), gpu.model.clone()));
        lock(&self.listed).push(listed);
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
            let used = gpu.instances.take_used(grants);
            used.into_iter().for_each(|used| pipeline.push_use(place, used));
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
            gpu.forget(now);
            listed.processes.clear();
            listed.processes.extend(gpu.processes.keys());
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

/// A GPU to ask about, without processes.
pub(super) fn node_gpu(gpu: &GpuIdentity) -> NodeGpu {
    NodeGpu {
        uuid: gpu.uuid.clone().unwrap_or_default(),
        index: gpu.index.unwrap_or_default(),
        memory: gpu.memory_total.map(Bytes::get),
        minor: gpu.board.minor_number,
        ..NodeGpu::default()
    }
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
pub(super) fn options(
    args: &NodeArgs,
    procfs: Option<&Path>,
    variable: impl Fn(&str) -> Option<String>,
) -> Options {
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
        proc: Some(procfs.unwrap_or(Path::new(Options::PROC)).to_owned()),
    }
}
