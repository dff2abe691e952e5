//! What instants show of the holders of a GPU.

use phasemeter_meter::holder::{Holder, HolderChange};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::super::holder::grants;
use super::super::holding::Evidence;
use super::super::instant::Instant;
use super::super::names::Names;
use super::super::own_pods::OwnPods;
use super::{HeldGpu, ORDER};

impl HeldGpu {
    /// Completes the names of holders, of this instant and of earlier ones, as far as recent labels have them.
    pub(super) fn complete_names(&mut self, at: Timestamp, instant: &mut Instant) {
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        let before = self.holding.named(at, stale_after).iter();
        let names = Names::find(instant.named(), before, self.holding.holders());
        if !names.is_empty() {
            instant.complete(&names);
            self.holding.complete(at, &names, stale_after);
        }
        let named: Vec<Holder> = instant.holders.keys().map(|key| key.holder.clone()).collect();
        if !named.is_empty() {
            self.holding.see_names(at, named);
        }
    }

    /// Takes what metrics of holders state at an instant, unless the GPU has had no reading for long.
    pub(super) fn see_holder_metrics(
        &mut self,
        at: Timestamp,
        instant: &Instant,
        gpu: &GpuIdentity,
    ) {
        let metrics = &instant.holder_metrics;
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        if metrics.is_empty() || self.is_silent(at) {
            return;
        }
        let seen = (at, Evidence::Metrics);
        if let Some(uses) = metrics.uses() {
            self.holding.use_from(seen, Some(uses), stale_after);
        }
        if let Some(grants) = metrics.grants(gpu.memory_size()) {
            self.holding.grant(seen, grants, stale_after);
        }
        self.holding.touch(at, metrics.users_of_memory());
    }

    /// Notes whether labels name holders at an instant. Returns whether it states who holds the GPU.
    pub(super) fn note_pace(
        &mut self,
        at: Timestamp,
        instant: &Instant,
        own_pods: &OwnPods,
    ) -> bool {
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        let named = (at, instant.named_by_gpu().collect());
        let later = self.instants.iter().filter(|(_, it)| !it.is_of_holders()).map(|(at, it)| {
            (*at, it.named_by_gpu().filter(|holder| !own_pods.is(holder)).collect())
        });
        self.pace.note(&named, later, stale_after)
    }

    /// Takes what labels tell of holders at an instant that states who holds the GPU.
    pub(super) fn see_labels(
        &mut self,
        at: Timestamp,
        instant: &Instant,
        gpu: &GpuIdentity,
        states_holders: bool,
    ) {
        if !states_holders {
            return;
        }
        let stale_after = self.pace.validity(self.stale_after.unwrap_or(Nanos::SECOND));
        let seen = (at, Evidence::Labels);
        let (uses, grants) = if instant.mig.is_empty() {
            let was_shared = self.holding.was_shared(at, stale_after);
            let grants = grants(&instant.holders, gpu.memory_size(), was_shared);
            if grants.len() > 1 {
                self.holding.see_several(at);
            }
            (self.shares.uses(instant), grants)
        } else {
            let basis = self.basis.into_iter().chain(ORDER).find(|it| instant.mig.has_any(*it));
            let uses = basis.and_then(|basis| instant.mig.uses(gpu, basis));
            (uses, instant.mig.grants(gpu))
        };
        self.holding.use_from(seen, uses, stale_after);
        self.holding.grant(seen, grants, stale_after);
        self.holding.touch(at, &instant.mig.users_of_memory());
        self.holding.touch(at, self.shares.users_of_memory(instant));
        let Self { holding, described, .. } = self;
        let changes = described.changes(&instant.details, |holder| holding.holds(holder));
        holding.describe(changes);
    }

    /// What ends, since the GPU has had no reading for long; `now` is the time of the newest reading of any GPU.
    pub(in crate::mapping) fn end_holding(&mut self, now: Timestamp) -> Vec<HolderChange> {
        match self.last {
            Some(last) if self.instants.is_empty() && last < now => {
                self.holding.changes(now, self.stale_after.unwrap_or(Nanos::SECOND))
            }
            _ => Vec::new(),
        }
    }

    /// See [`Holding::without_account`].
    pub(in crate::mapping) const fn holders_without_account(&self) -> usize {
        self.holding.without_account()
    }
}
