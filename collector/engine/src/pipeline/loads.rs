//! The load of GPUs that can stand in for one another, for windows: those of one model that do the same work, by its
//! name; else those of one host; else those that are alone on theirs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_rules::window::{Load, LoadBucket, LoadDistribution, LoadHour, MAX_LOADS};
use phasemeter_savings::load::{GroupLoad, MEAN_SECONDS};

use super::MeteredGpu;
use super::gpu::kept_load;

/// How often seconds are added up.
const PERIOD: Nanos = Nanos::from_secs(120);

/// Attributes that name the work of a GPU.
const WORK: [&str; 3] = ["service.name", "k8s.deployment.name", "k8s.statefulset.name"];

/// The attribute of the namespace, in which that name is unique.
const NAMESPACE: &str = "k8s.namespace.name";

/// What GPUs of one group have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Peers {
    model: Option<String>,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// They do the same work.
    Work { namespace: Option<String>, name: String },
    /// They are on one host.
    Host(Option<String>),
    /// Each is the only one of its host.
    Alone,
}

/// The groups of a run.
#[derive(Debug)]
pub(super) struct Loads {
    groups: BTreeMap<Peers, Group>,
    /// Number of GPUs that are in a group: each is from the first addition after it was found.
    grouped: usize,
    /// Number of GPUs by host.
    hosts: BTreeMap<Option<String>, u32>,
    /// When seconds are added up next.
    due: Timestamp,
    /// How much time is covered at least; `None` for the whole run.
    keep: Option<Nanos>,
}

#[derive(Debug)]
struct Group {
    gpus: Vec<usize>,
    load: GroupLoad,
}

impl Loads {
    pub(super) fn new(config: &MeterConfig) -> Self {
        let (groups, hosts) = (BTreeMap::new(), BTreeMap::new());
        Self { groups, grouped: 0, hosts, due: Timestamp::EPOCH, keep: kept_load(config) }
    }

    /// Whether seconds must be added up at this instant, so that not too many wait.
    pub(super) const fn are_due(&self, at: Timestamp) -> bool {
        at.as_nanos() >= self.due.as_nanos()
    }

    /// Adds up the seconds that all GPUs of a group have reached; at the end of the run, all. `local`: local time in
    /// seconds east of the clock of the meters.
    pub(super) fn add_up(
        &mut self,
        gpus: &mut [MeteredGpu],
        identities: &[GpuIdentity],
        at: Timestamp,
        local: i64,
        is_final: bool,
    ) {
        self.due = at + PERIOD;
        self.group_new(gpus, identities);
        let mut feeds: Vec<_> = gpus.iter_mut().map(|gpu| Some(&mut gpu.load)).collect();
        for group in self.groups.values_mut() {
            let own = group.gpus.iter().filter_map(|gpu| feeds.get_mut(*gpu)?.take());
            group.load.set_local(local);
            group.load.add_up(&mut own.collect::<Vec<_>>(), is_final);
        }
    }

    fn group_new(&mut self, gpus: &[MeteredGpu], identities: &[GpuIdentity]) {
        let new = || gpus.iter().zip(identities).enumerate().skip(self.grouped);
        let hosts: Vec<_> = new().map(|(_, (_, identity))| host(identity)).collect();
        for host in hosts {
            *self.hosts.entry(host).or_default() += 1;
        }
        for (index, (gpu, identity)) in new() {
            let peers = Peers::of(identity, &self.hosts);
            let group = self.groups.entry(peers);
            let group = group
                .or_insert_with(|| Group { gpus: Vec::new(), load: GroupLoad::new(self.keep) });
            group.gpus.push(index);
            group.load.join(&gpu.load);
        }
        self.grouped = gpus.len().min(identities.len());
    }

    /// Those of single GPUs, and the largest groups of two or more, for a window.
    pub(super) fn of_window(&self, gpus: &[MeteredGpu], identities: &[GpuIdentity]) -> Vec<Load> {
        let single = gpus.iter().zip(identities).map(|(gpu, identity)| Load {
            gpus: vec![identity.name.clone()],
            distributions: distributions(gpu.load.levels()),
            week: Vec::new(),
        });
        let single = single.filter(|load| !load.distributions.is_empty());
        let mut groups: Vec<_> =
            self.groups.values().filter(|group| group.gpus.len() > 1).collect();
        groups.sort_by_key(|group| Reverse(group.gpus.len()));
        let loads = groups.into_iter().map(|group| group.of_window(identities));
        let loads = loads.filter(|load| !load.distributions.is_empty()).take(MAX_LOADS);
        single.chain(loads).collect()
    }
}

impl Group {
    fn of_window(&self, identities: &[GpuIdentity]) -> Load {
        let names = self.gpus.iter().filter_map(|gpu| identities.get(*gpu));
        let week = self.load.week().into_iter();
        Load {
            gpus: names.map(|identity| identity.name.clone()).collect(),
            distributions: distributions(self.load.levels()),
            week: week.map(|of| LoadHour { hour: of.hour, buckets: of.levels }).collect(),
        }
    }
}

fn distributions(levels: [Vec<LoadBucket>; MEAN_SECONDS.len()]) -> Vec<LoadDistribution> {
    let all = MEAN_SECONDS.into_iter().zip(levels).filter(|(_, levels)| !levels.is_empty());
    all.map(|(mean_seconds, buckets)| LoadDistribution { mean_seconds, buckets }).collect()
}

impl Peers {
    fn of(identity: &GpuIdentity, hosts: &BTreeMap<Option<String>, u32>) -> Self {
        let attribute = |name: &str| identity.attributes.get(name).cloned();
        let kind = match WORK.iter().find_map(|name| attribute(name)) {
            Some(name) => Kind::Work { namespace: attribute(NAMESPACE), name },
            None if hosts.get(&host(identity)).is_some_and(|gpus| *gpus > 1) => {
                Kind::Host(host(identity))
            }
            None => Kind::Alone,
        };
        Self { model: identity.model.clone(), kind }
    }
}

/// The host of a GPU; `None` if it does not name one: that of the run.
fn host(identity: &GpuIdentity) -> Option<String> {
    identity.node().map(str::to_owned)
}
