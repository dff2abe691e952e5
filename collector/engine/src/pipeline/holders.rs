//! Passes what is found out about holders to the meters of their GPUs.

use std::collections::VecDeque;

use phasemeter_meter::holder::{Grant, Holder, HolderChange, HolderUse};
use phasemeter_meter::holders::Holders;
use phasemeter_meter::units::Timestamp;

use super::Pipeline;

/// Maximum number of changes that wait for the first readings of their GPUs. Of more the oldest are dropped.
const MAX_WAITING: usize = 65_536;

/// Changes of holders of GPUs that have no meter yet.
#[derive(Debug, Default)]
pub(super) struct WaitingHolders {
    changes: VecDeque<(usize, HolderChange)>,
}

impl Pipeline<'_> {
    /// From `at` on exactly these hold the GPU at this index; an empty list: nobody.
    pub fn assign(&mut self, gpu: usize, at: Timestamp, grants: Vec<Grant>) {
        self.change_holders(gpu, HolderChange::Assigned { at, grants });
    }

    /// This run has a part of the GPU at this index only: alerts and recommendations about it are those of the meter that
    /// has all of it. Charges are made by [grants](Self::assign).
    pub fn hold_part(&mut self, gpu: usize) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::HoldPart(gpu));
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.is_part = true;
            gpu.meter.remove_alert_rules();
        }
    }

    /// What a holder used of the GPU at this index.
    pub fn push_use(&mut self, gpu: usize, used: HolderUse) {
        self.change_holders(gpu, HolderChange::Used(used));
    }

    /// A compute process of a holder was seen on the GPU at this index.
    pub fn touch(&mut self, gpu: usize, at: Timestamp, holder: &Holder) {
        self.change_holders(gpu, HolderChange::Touched { at, holder: holder.clone() });
    }

    /// The accounts by holder of the GPU at this index.
    #[must_use]
    pub fn holders(&self, gpu: usize) -> Option<&Holders> {
        self.gpus.get(gpu).map(|gpu| gpu.meter.holders())
    }

    /// Applies what was found out about holders of the GPU at this index. If it has no meter yet, that waits for its
    /// first reading.
    pub fn change_holders(&mut self, gpu: usize, change: HolderChange) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Holders(gpu, change.clone()));
        self.apply_holders(gpu, change);
    }

    fn apply_holders(&mut self, gpu: usize, change: HolderChange) {
        match self.gpus.get_mut(gpu) {
            Some(gpu) => gpu.meter.change_holders(change),
            None => {
                self.waiting_holders.changes.push_back((gpu, change));
                if self.waiting_holders.changes.len() > MAX_WAITING {
                    self.waiting_holders.changes.pop_front();
                }
            }
        }
    }

    /// Applies the changes that wait to the GPUs that have meters now.
    pub(super) fn apply_waiting_holders(&mut self) {
        if self.waiting_holders.changes.is_empty() {
            return;
        }
        for (gpu, change) in std::mem::take(&mut self.waiting_holders.changes) {
            self.apply_holders(gpu, change);
        }
    }
}
