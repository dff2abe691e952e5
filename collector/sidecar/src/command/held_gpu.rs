//! A GPU of a node, and who holds and uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phasemeter_engine::agent::GpuStatement;
use phasemeter_engine::pipeline::{AccountedTime, Pipeline};
use phasemeter_meter::holder::{Grant, Holder, HolderChange, HolderUse};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::holders::HolderAccounts;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use phasemeter_sources::live::ProcessUse;

use super::held_instances::HeldInstances;

/// How long a process or MIG instance counts after it was seen last. Drivers list them every 10 s; one may be missed.
const LIFETIME: Nanos = Nanos::from_secs(25);

/// How long what a holder pays is published after it has ended: several times as long as readings may be late.
const RECENT: Nanos = Nanos::from_secs(120);

/// Maximum number of those per GPU. Of more the oldest are dropped.
const MAX_RECENT: usize = 512;

/// A GPU of the node.
#[derive(Debug, Default)]
pub(super) struct HeldGpu {
    pub(super) uuid: String,
    pub(super) model: Option<String>,
    /// Who holds it; `None` until the first poll.
    pub(super) grants: Option<Vec<Grant>>,
    /// Since when.
    since: Timestamp,
    /// What was known last of those that hold it.
    details: BTreeMap<Holder, Arc<HolderDetails>>,
    /// Those that held it until recently, and when that was noticed. What they pay is final some seconds later.
    recent: Vec<(Holder, Timestamp)>,
    /// The processes on it, and when each was seen last.
    pub(super) processes: BTreeMap<u32, Timestamp>,
    /// What processes used since the last step.
    pub(super) used: Vec<ProcessUse>,
    pub(super) instances: HeldInstances,
}

impl HeldGpu {
    /// One that nobody is known to hold.
    pub(super) fn new(uuid: String, model: Option<String>) -> Self {
        Self { uuid, model, ..Self::default() }
    }

    /// Forgets what was not seen for too long.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.processes.retain(|_, seen| now.since(*seen) < LIFETIME);
        self.recent.retain(|(_, ended)| now.since(*ended) < RECENT);
        self.instances.retain(|seen| now.since(seen) < LIFETIME);
    }

    /// Notes who holds it. Returns whether that has changed.
    pub(super) fn assign(&mut self, grants: &[Grant], since: Timestamp, now: Timestamp) -> bool {
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
    pub(super) fn statement(&self, place: usize, pipeline: &Pipeline<'_>) -> Option<GpuStatement> {
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
    pub(super) fn describe(
        &mut self,
        all: &BTreeMap<Holder, Arc<HolderDetails>>,
    ) -> Vec<HolderChange> {
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
    pub(super) fn take_used(&mut self, of: &BTreeMap<u32, Holder>) -> Vec<HolderUse> {
        let all = std::mem::take(&mut self.used);
        let ranges = all.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to));
        let used = ranges.flat_map(|range| {
            let [ProcessUse { from, to, .. }, ..] = range else { return Vec::new() };
            let uses = self.grants.iter().flatten().map(|Grant { holder, .. }| {
                let its = range.iter().filter(|used| of.get(&used.pid) == Some(holder));
                let sum = its.map(|used| used.utilization.ppm()).fold(0, u32::saturating_add);
                let utilization = Utilization::from_ppm(sum).unwrap_or(Utilization::FULL);
                let (own, from, to) = (Some(utilization), *from, *to);
                HolderUse { holder: holder.clone(), from, to, utilization, own }
            });
            uses.collect()
        });
        used.collect()
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
