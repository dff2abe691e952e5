//! The hand-over of metrics between this run and the agent of its node: each second of a GPU is exported by one of
//! them.
//!
//! This run meters all the time. It leaves the metrics of a GPU at the start of the agent's accounts, and takes them
//! back, once no agent listens, from where the agent's exports ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_engine::agent::{AgentBilled, AgentWatch, PodName, WatchedAgent};
use phasemeter_engine::live::event;
use phasemeter_engine::pipeline::Pipeline;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use tracing::{info, warn};

use super::agent_accounts::AgentAccounts;

/// How long no agent must have listened before its metrics are taken over. What it has not exported by then is not
/// lost: they are taken over from where it has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a run waits at most for the accounts of the agent: readings are late by up to 15 s.
const SETTLING: Duration = Duration::from_secs(20);

/// How long the end of a run waits until it is known whether an agent bills its GPUs.
const WAIT_AT_END: Duration = Duration::from_secs(2);

/// Which GPUs the agent bills.
#[derive(Debug)]
pub(super) struct HandOver {
    watch: AgentWatch,
    clock: Clock,
    gpus: BTreeMap<String, FollowedGpu>,
    /// What this pod pays.
    accounts: AgentAccounts,
    /// GPU time that both have exported.
    exported_twice: Nanos,
    /// GPU time that neither has exported.
    not_exported: Nanos,
}

/// What is known of a GPU.
#[derive(Debug)]
struct FollowedGpu {
    billed: AgentBilled,
    /// Whether the agent exports its metrics.
    is_left: bool,
}

impl HandOver {
    /// Follows the agent at this socket; without a thread for it, this run exports all.
    pub(super) fn start(socket: PathBuf, pod: Option<PodName>, clock: Clock) -> Option<Self> {
        let accounts = AgentAccounts::new(clock);
        match AgentWatch::start(socket, pod) {
            Ok(watch) => {
                let (gpus, none) = (BTreeMap::new(), Nanos::ZERO);
                Some(Self {
                    watch,
                    clock,
                    gpus,
                    accounts,
                    exported_twice: none,
                    not_exported: none,
                })
            }
            Err(error) => {
                warn!("time of GPUs may also be exported by the agent of this node: {error}");
                None
            }
        }
    }

    /// Leaves and takes over what is due. Prices are those of the agent, which bills.
    pub(super) fn step(&mut self, pipeline: &mut Pipeline<'_>, gpus: &[GpuIdentity]) {
        let agent = self.watch.agent(Duration::ZERO);
        self.accounts.follow(&agent);
        for (place, gpu) in gpus.iter().enumerate() {
            let price = gpu.uuid.as_ref().and_then(|uuid| self.accounts.price(uuid));
            price.into_iter().for_each(|price| pipeline.take_price(place, price));
        }
        self.follow(&agent, pipeline, gpus);
        if agent.absent.is_some_and(|since| since.elapsed() >= PATIENCE) {
            self.take_back(pipeline, gpus);
        }
    }

    /// What this pod pays by the accounts of the agent.
    pub(super) const fn accounts(&mut self) -> &mut AgentAccounts {
        &mut self.accounts
    }

    /// The same once the run has ended.
    pub(super) fn into_accounts(self) -> AgentAccounts {
        self.accounts
    }

    /// Waits until the agent has accounted for all time up to the end of the run, which is final some 16 s later, as
    /// long as it is there and `may_wait`.
    pub(super) fn settle(&mut self, end: Timestamp, may_wait: impl Fn() -> bool) {
        let until = Instant::now() + SETTLING;
        self.accounts.end_run_at(end);
        loop {
            let agent = self.watch.agent(WAIT_AT_END);
            self.accounts.follow(&agent);
            let is_over = Instant::now() >= until || agent.absent.is_some();
            if self.accounts.have_reached(end) || is_over || !may_wait() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// At the end of the run, what the agent will not export is taken over at once. Returns what the report states.
    pub(super) fn finish(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
    ) -> impl Iterator<Item = String> + use<> {
        let agent = self.watch.agent(WAIT_AT_END);
        self.follow(&agent, pipeline, gpus);
        if agent.absent.is_some() {
            self.take_back(pipeline, gpus);
        }
        let sentence = |time: Nanos, of: &str| {
            (time > Nanos::ZERO).then(|| format!("{:.1} s of GPU time {of}", time.as_secs_f64()))
        };
        let twice =
            sentence(self.exported_twice, "were exported by this run and by the agent of its node");
        let neither = sentence(
            self.not_exported,
            "were exported neither by this run nor by the agent of its node",
        );
        twice.into_iter().chain(neither)
    }

    fn follow(&mut self, agent: &WatchedAgent, pipeline: &mut Pipeline<'_>, gpus: &[GpuIdentity]) {
        for billed in agent.billed.iter() {
            // The last line of an agent that has ended stays known.
            let is_taken_back =
                |it: &FollowedGpu| !it.is_left && it.billed.from_boot_ns == billed.from_boot_ns;
            if agent.absent.is_some() && self.gpus.get(&billed.gpu).is_some_and(is_taken_back) {
                continue;
            }
            let is_same = |gpu: &GpuIdentity| gpu.uuid.as_ref() == Some(&billed.gpu);
            if let Some(place) = gpus.iter().position(is_same) {
                self.follow_gpu(billed, place, pipeline, gpus);
            }
        }
    }

    fn follow_gpu(
        &mut self,
        billed: &AgentBilled,
        place: usize,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
    ) {
        let known = self.gpus.get(&billed.gpu);
        let before = known.map(|known| (known.billed.from_boot_ns, known.billed.until_boot_ns));
        let next = known.map(|known| known.billed.next_boot_ns);
        let is_left = known.is_some_and(|known| known.is_left);
        match before {
            Some((from, _)) if from == billed.from_boot_ns && is_left => {}
            // It was not seen for a while, and went on.
            Some((from, until)) if from == billed.from_boot_ns => {
                self.leave(until, place, pipeline, gpus);
            }
            Some((_, until)) => {
                // Another one has begun. In between nobody has exported.
                if until < billed.from_boot_ns {
                    self.take_back_gpu(place, pipeline, gpus);
                }
                self.leave(billed.from_boot_ns, place, pipeline, gpus);
            }
            None => self.leave(billed.from_boot_ns, place, pipeline, gpus),
        }
        if next != Some(billed.next_boot_ns) {
            pipeline.keep_totals(place, self.second(billed.next_boot_ns));
        }
        self.gpus.insert(billed.gpu.clone(), FollowedGpu { billed: billed.clone(), is_left: true });
    }

    fn leave(
        &mut self,
        from_boot_ns: u64,
        place: usize,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
    ) {
        let from = self.second(from_boot_ns);
        let left = pipeline.leave_metrics(place, from);
        self.exported_twice += left.since(from);
        self.not_exported += from.since(left);
        info!(
            gpu = place,
            "the agent of the node exports the metrics of {}; this run exports spans and events",
            event::name(gpus.get(place))
        );
    }

    fn take_back(&mut self, pipeline: &mut Pipeline<'_>, gpus: &[GpuIdentity]) {
        (0..gpus.len()).for_each(|place| self.take_back_gpu(place, pipeline, gpus));
    }

    /// Takes over what the agent has left, unless other pods hold the GPU, too: their sidecars would do the same.
    fn take_back_gpu(&mut self, place: usize, pipeline: &mut Pipeline<'_>, gpus: &[GpuIdentity]) {
        let Some(identity) = gpus.get(place) else { return };
        let Some(of) = identity.uuid.as_ref().and_then(|uuid| self.gpus.get_mut(uuid)) else {
            return;
        };
        if !of.is_left {
            return;
        }
        of.is_left = false;
        let (until, is_alone) = (of.billed.until_boot_ns, of.billed.alone);
        let name = event::name(Some(identity));
        if !is_alone {
            warn!(
                gpu = place,
                "the agent of the node has ended; nobody exports the metrics of {name}, which other pods hold, too"
            );
            return;
        }
        let until = self.second(until);
        let from = pipeline.take_metrics(place, until);
        self.not_exported += from.since(until);
        info!(
            gpu = place,
            "the agent of the node has ended; this run exports the metrics of {name} again"
        );
    }

    /// The instant of a boundary of the agent, which is a second by the wall clock of both.
    fn second(&self, boot_ns: u64) -> Timestamp {
        (self.clock.at_boot(Nanos(boot_ns)) + Nanos::from_millis(500)).floor_second()
    }
}
