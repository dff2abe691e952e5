//! Who holds a GPU or MIG instance, by the evidence of an instant, and what disagrees.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Container, Grant, Holder, Share};

use crate::assignments::{Disagreement, Held, Source};
use crate::candidate::{Candidate, joined};
use crate::cgroup::Groups;
use crate::options::PodName;

/// The evidence of an instant.
pub(crate) struct Evidence<'e> {
    /// Of all sources but control groups.
    pub(crate) candidates: Vec<Candidate>,
    /// Whether a list of the kubelet counts: then a pod that it does not name holds nothing.
    pub(crate) has_kubelet: bool,
    /// The control groups of processes, or their launchers, by process ID.
    pub(crate) groups: &'e BTreeMap<u32, Groups>,
    /// The names of pods, by UID.
    pub(crate) names: &'e BTreeMap<String, PodName>,
}

/// What the evidence says of a device.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) held: Vec<Held>,
    /// The holders of its processes, by process ID.
    pub(crate) processes: BTreeMap<u32, Holder>,
    pub(crate) disagreements: BTreeSet<Disagreement>,
}

impl Evidence<'_> {
    /// Decides who holds a device with these processes. `parts` are what holders of its MIG instances have of it.
    pub(crate) fn decide(
        &self,
        device: &str,
        processes: &BTreeSet<u32>,
        parts: Vec<Candidate>,
    ) -> Decision {
        let (kubelet, jobs): (Vec<_>, Vec<_>) = self
            .candidates
            .iter()
            .filter(|candidate| candidate.device == device)
            .cloned()
            .partition(|candidate| candidate.source <= Source::Fraction);
        let running: Vec<(u32, &Groups)> =
            processes.iter().filter_map(|id| Some((*id, self.groups.get(id)?))).collect();
        let mut decision = Decision::default();
        let chosen = if parts.is_empty() && kubelet.is_empty() {
            self.by_processes_and_jobs(device, &running, jobs, &mut decision)
        } else {
            let chosen = joined(kubelet.into_iter().chain(parts));
            decision.reject(device, &chosen, &jobs);
            chosen
        };
        for (id, groups) in running {
            match holder_of(groups, &chosen) {
                Some(holder) => {
                    decision.processes.insert(id, holder.clone());
                }
                // It may be of a holder whose UID is unknown; or only its own environment names it.
                None if chosen.iter().any(is_anonymous) || groups.launched.is_some() => {}
                None => {
                    decision.disagreements.insert(Disagreement::Process {
                        gpu: device.to_owned(),
                        other: self.name(groups).to_string(),
                    });
                }
            }
        }
        let held = |it: Candidate| Held {
            grant: Grant { holder: it.holder, share: it.share },
            source: it.source,
        };
        decision.held = chosen.into_iter().map(held).collect();
        decision
    }

    /// Decides without the kubelet. Files name jobs; if only other jobs have processes on the device, the file is left
    /// over.
    fn by_processes_and_jobs(
        &self,
        device: &str,
        running: &[(u32, &Groups)],
        jobs: Vec<Candidate>,
        decision: &mut Decision,
    ) -> Vec<Candidate> {
        let (prolog, mapping): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|candidate| candidate.source == Source::Prolog);
        let (files, weaker) = if prolog.is_empty() { (mapping, prolog) } else { (prolog, mapping) };
        let candidate = |holder: Holder, source: Source| Candidate {
            device: device.to_owned(),
            holder,
            share: None,
            source,
        };
        let launched = running.iter().filter_map(|(_, groups)| groups.launched.clone());
        let launched = launched.map(|job| candidate(Holder::Job(job), Source::Environment));
        let may_hold = |groups: &&Groups| {
            groups.launched.is_none() && (groups.job.is_some() || !self.has_kubelet)
        };
        let grouped = running.iter().map(|(_, groups)| *groups).filter(may_hold);
        let running =
            joined(grouped.map(|groups| candidate(self.name(groups), Source::ControlGroup)));
        let is_file = |it: &Candidate| files.iter().any(|file| file.holder == it.holder);
        let chosen = if files.is_empty() || (!running.is_empty() && !running.iter().any(is_file)) {
            decision.reject(device, &running, &files);
            running
        } else {
            joined(files)
        };
        decision.reject(device, &chosen, &weaker);
        if chosen.is_empty() { joined(launched) } else { chosen }
    }

    /// What the control groups of a process name. The job counts if its pod is unknown to the kubelet.
    fn name(&self, groups: &Groups) -> Holder {
        let uid = groups.pod.as_deref().unwrap_or_default();
        match (&groups.job, self.names.get(uid)) {
            (Some(job), _) => Holder::Job(job.clone()),
            (None, Some(pod)) => Holder::Container(Container {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: Some(uid.to_owned()),
                container: String::new(),
            }),
            (None, None) => Holder::Named(format!("pod {uid}")),
        }
    }
}

impl Decision {
    /// What the holders of a MIG instance have of its GPU. Those of unknown parts have equal ones.
    pub(crate) fn parts_of(&self, gpu: &str, instance: Option<Share>) -> Vec<Candidate> {
        let equal = u32::try_from(self.held.len()).ok().and_then(|count| {
            let are_unknown = self.held.iter().all(|held| held.grant.share.is_none());
            are_unknown.then(|| Share::new(1, count)).flatten()
        });
        let part = |held: &Held| {
            let share = held.grant.share.or(equal);
            Candidate {
                device: gpu.to_owned(),
                holder: held.grant.holder.clone(),
                share: share.zip(instance).and_then(|(share, instance)| instance.part(share)),
                source: held.source,
            }
        };
        self.held.iter().map(part).collect()
    }

    /// Reports candidates that do not count.
    fn reject(&mut self, device: &str, chosen: &[Candidate], others: &[Candidate]) {
        let Some(first) = chosen.first() else { return };
        let is_chosen = |it: &&Candidate| chosen.iter().any(|chosen| chosen.holder == it.holder);
        for other in others.iter().filter(|it| !is_chosen(it)) {
            self.disagreements.insert(Disagreement::Holder {
                gpu: device.to_owned(),
                counts: first.holder.to_string(),
                by: first.source,
                other: other.holder.to_string(),
                other_by: other.source,
            });
        }
    }
}

/// The first holder that the control groups of a process name: they do not show which container of its pod runs it.
fn holder_of<'c>(groups: &Groups, chosen: &'c [Candidate]) -> Option<&'c Holder> {
    let is_named = |it: &&Candidate| match &it.holder {
        Holder::Container(container) => container.uid.is_some() && container.uid == groups.pod,
        Holder::Job(id) => groups.job.as_ref().or(groups.launched.as_ref()) == Some(id),
        Holder::Named(name) => {
            groups.pod.as_ref().is_some_and(|uid| name.strip_prefix("pod ") == Some(uid))
        }
        Holder::Claim { .. } | Holder::ProcessGroup(_) => false,
    };
    chosen.iter().find(is_named).map(|it| &it.holder)
}

/// Whether a holder is a pod of unknown UID.
fn is_anonymous(candidate: &Candidate) -> bool {
    matches!(&candidate.holder, Holder::Container(container) if container.uid.is_none())
}
