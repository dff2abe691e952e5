//! The pods of one GPU of the demo fleet: when they hold it, and what each of several uses of it.

use phasemeter_meter::holder::{Container, Grant, Holder, HolderChange, HolderUse, Share};
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Timestamp, Utilization};

use super::gpu::STEPS_PER_SECOND;
use super::prng::Prng;
use super::uuid;
use super::workloads::{DemoPod, DemoUse, Workload};

/// The pods of one GPU.
pub(super) struct DemoPods {
    workload: &'static Workload,
    prng: Prng,
    /// Those that hold it now, in order of the workload.
    holders: Vec<Holder>,
    /// The start of a second, Σ utilization in ppm since then, and the number of readings.
    second: Option<Timestamp>,
    sum: u32,
    readings: u32,
}

impl DemoPods {
    /// The pods of a workload have the same UIDs on all its GPUs if `seed` is the same.
    pub(super) const fn new(seed: u64, workload: &'static Workload) -> Self {
        Self { workload, prng: Prng(seed), holders: Vec::new(), second: None, sum: 0, readings: 0 }
    }

    /// What changes with the reading of a step, the last or not. The pods hold the GPU while it has a process; if
    /// they return, they have other UIDs.
    pub(super) fn changes(
        &mut self,
        step: u32,
        is_last: bool,
        reading: &Reading,
    ) -> Vec<HolderChange> {
        let mut changes = Vec::new();
        if step.is_multiple_of(STEPS_PER_SECOND) || is_last {
            changes = self.used_until(reading.at);
        }
        let has_process = reading.compute_processes.is_some_and(|count| count > 0);
        if has_process == self.holders.is_empty() {
            let pods = if has_process { self.workload.pods } else { &[] };
            self.holders = pods.iter().map(|pod| self.holder(pod)).collect();
            changes.push(HolderChange::Assigned { at: reading.at, grants: self.grants() });
            let working = self.holders.iter().zip(pods).filter(|(_, pod)| pod.uses.is_any());
            changes.extend(working.map(|(holder, _)| HolderChange::Touched {
                at: reading.at,
                holder: holder.clone(),
            }));
        }
        self.sum += reading.utilization.map_or(0, Utilization::ppm);
        self.readings += 1;
        changes
    }

    fn holder(&mut self, pod: &DemoPod) -> Holder {
        Holder::Container(Container {
            namespace: self.workload.service.to_owned(),
            pod: pod.name.to_owned(),
            uid: Some(uuid(&mut self.prng)),
            container: self.workload.kind.to_owned(),
        })
    }

    fn grants(&self) -> Vec<Grant> {
        let granted = self.holders.iter().zip(self.workload.pods);
        let grant = |(holder, pod): (&Holder, &DemoPod)| Grant {
            holder: holder.clone(),
            share: Share::new(1, pod.replicas),
        };
        granted.map(grant).collect()
    }

    /// What each pod used in the second up to an instant. Of a GPU of one pod, this is known.
    fn used_until(&mut self, to: Timestamp) -> Vec<HolderChange> {
        let (sum, readings) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.readings));
        let from = self.second.replace(to);
        let mean = sum.checked_div(readings).filter(|_| self.holders.len() > 1);
        let (Some(mean), Some(from)) = (mean, from) else { return Vec::new() };
        let (mut rest, mut used) = (mean, Vec::new());
        for (holder, pod) in self.holders.iter().zip(self.workload.pods) {
            let ppm = match pod.uses {
                DemoUse::Percent(range) => mean / 100 * self.prng.within(range),
                DemoUse::Rest => rest,
                DemoUse::Nothing => 0,
            };
            rest -= ppm;
            used.extend(Utilization::from_ppm(ppm).map(|utilization| {
                HolderChange::Used(HolderUse {
                    holder: holder.clone(),
                    from,
                    to,
                    utilization,
                    own: Some(utilization),
                })
            }));
        }
        used
    }
}
