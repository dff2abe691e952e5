//! The MIG instances of a GPU of a node: who holds each, which processes are on it, and what it used.

use std::collections::BTreeMap;

use phasemeter_engine::live::InstanceUse;
use phasemeter_holders::{Assignment, NodeInstance};
use phasemeter_meter::device_metric::MigId;
use phasemeter_meter::holder::{Grant, Holder, HolderUse, Share};
use phasemeter_meter::units::{PPM, Timestamp, Utilization};
use phasemeter_sources::live::{ComputeProcess, MigInstance};

use super::node_instances;

/// Maximum number of uses that wait for the first poll: those of a minute.
const MAX_USES: usize = 64;

/// The instances of one GPU.
#[derive(Debug, Default)]
pub(super) struct HeldInstances {
    /// Each, and when it was seen last.
    instances: BTreeMap<MigId, (MigInstance, Timestamp)>,
    /// Who holds each, as of the last poll.
    held: BTreeMap<MigId, Vec<Grant>>,
    /// The GPU instances of processes, and when each was seen last.
    processes: BTreeMap<u32, (u32, Timestamp)>,
    /// What they used since the last step.
    used: Vec<InstanceUse>,
}

impl HeldInstances {
    pub(super) fn see(&mut self, instance: MigInstance, now: Timestamp) {
        self.instances.insert(instance.id, (instance, now));
    }

    /// Notes a process. A list of the GPU may not show its instance, one of the instance does.
    pub(super) fn see_process(&mut self, process: ComputeProcess, now: Timestamp) {
        if let Some(gpu_instance) = process.gpu_instance {
            self.processes.insert(process.pid, (gpu_instance, now));
        }
    }

    pub(super) fn add_used(&mut self, used: Vec<InstanceUse>) {
        self.used.extend(used);
        let over = self.used.len().saturating_sub(MAX_USES);
        self.used.drain(..over);
    }

    /// Forgets what was last seen at an instant that `is_seen` rejects.
    pub(super) fn retain(&mut self, is_seen: impl Fn(Timestamp) -> bool) {
        self.instances.retain(|_, (_, seen)| is_seen(*seen));
        self.processes.retain(|_, (_, seen)| is_seen(*seen));
    }

    /// All of them, for the next poll.
    pub(super) fn listed(&self, model: Option<&str>) -> Vec<NodeInstance> {
        let mut listed = node_instances::listed(self.all(), model);
        for instance in &mut listed {
            let on =
                self.processes.iter().filter(|(_, (on, _))| Some(*on) == instance.gpu_instance);
            instance.processes = on.map(|(pid, _)| *pid).collect();
        }
        listed
    }

    /// Notes who holds each.
    pub(super) fn assign(&mut self, assignments: &BTreeMap<String, Assignment>) {
        let of = |id: &MigId| Some((*id, assignments.get(&id.to_string())?.grants()));
        self.held = self.instances.keys().filter_map(of).collect();
    }

    /// The holders that alone have an instance on which any process computes.
    pub(super) fn touched(&self) -> impl Iterator<Item = &Holder> {
        let busy = self.all().filter(|instance| {
            self.processes.values().any(|(on, _)| Some(*on) == instance.gpu_instance)
        });
        busy.filter_map(|instance| match self.held.get(&instance.id)?.as_slice() {
            [grant] => Some(&grant.holder),
            _ => None,
        })
    }

    /// What each of these holders has used since the last call, and how busy its busiest instance was. Several holders
    /// of an instance have used it by their grants. What instances of nobody have used is missing: it is nobody's.
    pub(super) fn take_used(&mut self, grants: &[Grant]) -> Vec<HolderUse> {
        let all = std::mem::take(&mut self.used);
        let rounds = all.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to));
        let used = rounds
            .flat_map(|round| grants.iter().filter_map(|grant| self.used_by(&grant.holder, round)));
        used.collect()
    }

    /// What a holder has used in a round.
    fn used_by(&self, holder: &Holder, round: &[InstanceUse]) -> Option<HolderUse> {
        let InstanceUse { from, to, .. } = *round.first()?;
        let (mut sum, mut own) = (0_u64, None);
        for used in round {
            let grants = self.held.get(&used.id).map_or(&[][..], Vec::as_slice);
            sum += part_of(used.utilization.ppm().into(), holder, grants);
            if grants.iter().any(|grant| grant.holder == *holder) {
                own = own.max(used.own);
            }
        }
        let utilization = u32::try_from(sum).ok().and_then(Utilization::from_ppm);
        let utilization = utilization.unwrap_or(Utilization::FULL);
        Some(HolderUse { holder: holder.clone(), from, to, utilization, own })
    }

    fn all(&self) -> impl Iterator<Item = &MigInstance> {
        self.instances.values().map(|(instance, _)| instance)
    }
}

/// The part of what an instance used that one of several holders is charged for: by its grant, or equally.
fn part_of(ppm: u64, holder: &Holder, grants: &[Grant]) -> u64 {
    let weight = |grant: &Grant| {
        let (parts, of) = grant.share.map_or((1, 1), Share::ratio);
        u64::from(parts) * u64::from(PPM) / u64::from(of.max(1))
    };
    let all: u64 = grants.iter().map(weight).sum();
    let own = grants.iter().find(|grant| grant.holder == *holder).map_or(0, weight);
    (ppm * own).checked_div(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    fn id(number: u32) -> MigId {
        MigId::parse(&format!("MIG-00000000-0000-0000-0000-{number:012}")).unwrap()
    }

    fn grant(name: &str, share: Option<Share>) -> Grant {
        Grant { holder: Holder::Named(name.to_owned()), share }
    }

    /// Two instances: `a` has the first alone, `b` and `c` share the second; a third is nobody's.
    fn instances() -> HeldInstances {
        let mut instances = HeldInstances::default();
        for number in 1..=3 {
            let gpu_instance = Some(number);
            instances.see(
                MigInstance { id: id(number), gpu_instance, profile: None, start: None },
                at(1),
            );
        }
        instances.held = BTreeMap::from([
            (id(1), vec![grant("a", None)]),
            (id(2), vec![grant("b", Share::new(3, 4)), grant("c", Share::new(1, 4))]),
        ]);
        instances
    }

    #[test]
    fn instance_is_used_by_its_holders_only() {
        let mut instances = instances();
        let used = |number, percent| {
            let utilization = Utilization::from_percent(percent).unwrap();
            let own = Utilization::from_percent(2 * percent);
            InstanceUse { id: id(number), from: at(0), to: at(10), utilization, own }
        };
        instances.add_used(vec![used(1, 10), used(2, 40), used(3, 20)]);
        let all = ["a", "b", "c", "d"].map(|name| grant(name, None));
        let taken = instances.take_used(&all);
        let taken: Vec<_> =
            taken.iter().map(|it| (it.utilization.ppm(), it.own.map(Utilization::ppm))).collect();
        let busy = Some(800_000);
        assert_eq!(taken, [(100_000, Some(200_000)), (300_000, busy), (100_000, busy), (0, None)]);
        assert!(instances.take_used(&all).is_empty());
    }

    #[test]
    fn process_touches_the_holder_of_its_instance_only() {
        let mut instances = instances();
        assert_eq!(instances.touched().count(), 0);
        let process = |pid, gpu_instance| ComputeProcess { pid, gpu_instance };
        // Of a shared instance it is not known whose it is, nor of what is nobody's, nor without an instance.
        instances.see_process(process(7, Some(2)), at(1));
        instances.see_process(process(8, Some(3)), at(1));
        instances.see_process(process(9, None), at(1));
        assert_eq!(instances.touched().count(), 0);
        instances.see_process(process(10, Some(1)), at(2));
        instances.see_process(process(10, None), at(3));
        let touched: Vec<_> = instances.touched().map(ToString::to_string).collect();
        assert_eq!(touched, ["a"]);
        let processes: Vec<_> = instances.listed(None).into_iter().map(|it| it.processes).collect();
        assert_eq!(processes, [vec![10], vec![7], vec![8]]);
        instances.retain(|seen| seen >= at(2));
        assert!(instances.listed(None).is_empty() && instances.processes.len() == 1);
    }
}
