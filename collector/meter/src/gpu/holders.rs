//! Holders of the GPU: who was granted how much of it, and what each used.

use super::GpuMeter;
use crate::holder::{Grant, Holder, HolderChange, HolderUse};
use crate::holders::Holders;
use crate::units::Timestamp;

impl GpuMeter {
    /// From `at` on exactly these hold the GPU, until the next assignment; an empty list: nobody. Assignments may
    /// arrive out of order within the allowed lateness. An older one applies from the instant up to which time is
    /// final.
    ///
    /// All times are those of readings: instants of a run, which a step of the wall clock does not change.
    pub fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        self.ledger.holders.assign(at, grants);
    }

    /// What a holder used over a range, whether it was granted a part or not. Ranges of one holder that overlap add
    /// up: they are those of its processes. Where no use of any holder is known, that of the GPU is divided by
    /// grants: of a holder that used nothing, push zero. What is final already does not count.
    pub fn push_use(&mut self, used: HolderUse) {
        self.ledger.holders.push_use(used);
    }

    /// A compute process of a holder was seen.
    pub fn touch(&mut self, at: Timestamp, holder: &Holder) {
        self.ledger.holders.touch(at, holder);
    }

    /// Applies what was found out about holders.
    pub fn change_holders(&mut self, change: HolderChange) {
        match change {
            HolderChange::Assigned { at, grants } => self.assign(at, grants),
            HolderChange::Used(used) => self.push_use(used),
            HolderChange::Touched { at, holder } => self.touch(at, &holder),
        }
    }

    /// Accounts by holder; empty if no source ever named a holder.
    #[must_use]
    pub const fn holders(&self) -> &Holders {
        &self.ledger.holders
    }
}
