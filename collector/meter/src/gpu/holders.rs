//! Holders of the GPU: who was granted how much of it, and what each used.

use super::GpuMeter;
use crate::holder::{Grant, Holder, HolderChange, HolderUse};
use crate::holders::Holders;
use crate::units::{Timestamp, Utilization};

impl GpuMeter {
    /// From `at` on exactly these hold the GPU, until the next assignment; an empty list: nobody. Assignments may
    /// arrive out of order within the allowed lateness. One that is older applies from the instant up to which time
    /// is posted. Of two at one instant the last to arrive counts.
    ///
    /// All times are those of readings: instants of a run, which a step of the wall clock does not change.
    pub fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        let posted = self.begin_holders();
        self.cut_if_final(at, posted);
        self.ledger.holders.assign(at.max(posted), grants);
    }

    /// What a holder used over a range, whether it was granted a part or not. What is posted already does not count.
    ///
    /// Ranges of one holder that overlap add up: they are those of its processes. In time in which no use of any
    /// holder is known, that of the GPU is divided by grants: of a holder that used nothing, push zero.
    pub fn push_use(&mut self, used: HolderUse) {
        let posted = self.begin_holders();
        let from = used.from.max(posted);
        if from < used.to {
            self.cut_if_final(used.from, posted);
            let [idle, ..] = self.config.thresholds.bounds();
            self.ledger.holders.push_use(&HolderUse { from, ..used }, idle);
        }
    }

    /// A compute process of a holder was seen: from then on it has touched the GPU.
    pub fn touch(&mut self, at: Timestamp, holder: &Holder) {
        let posted = self.begin_holders();
        self.ledger.holders.touch(at.max(posted), holder);
    }

    /// Applies what was found out about holders.
    pub fn change_holders(&mut self, change: HolderChange) {
        match change {
            HolderChange::Assigned { at, grants } => self.assign(at, grants),
            HolderChange::Used(used) => self.push_use(used),
            HolderChange::Touched { at, holder } => self.touch(at, &holder),
            HolderChange::Described { holder, details } => {
                self.ledger.holders.describe(&holder, details);
            }
        }
    }

    /// Accounts by holder; empty if no source ever named a holder.
    #[must_use]
    pub const fn holders(&self) -> &Holders {
        &self.ledger.holders
    }

    /// Accounts by holder exist from now on. Returns the instant up to which time is posted.
    fn begin_holders(&mut self) -> Timestamp {
        if self.ledger.holders.is_empty() {
            let picojoules = self.energy.total().picojoules();
            let accounts = &self.ledger.accounts;
            self.ledger.holders.begin(self.config.ended_holders, accounts, picojoules);
            if let Some(base) = self.parts.as_ref().map(|parts| &parts.base.totals) {
                self.ledger.holders.began_before(base.accounts, base.energy.picojoules());
            }
        }
        let read = self.last.map(|last| last.at);
        self.silent_until.max(read).or(self.start).unwrap_or_default()
    }

    /// A change that is not later than what is posted ends the time slice in progress.
    fn cut_if_final(&mut self, at: Timestamp, posted: Timestamp) {
        if at <= posted {
            self.timeline.cut();
        }
    }

    /// At or above the idle threshold the GPU is touched.
    #[inline]
    pub(super) fn touch_holders(&mut self, at: Timestamp, utilization: Utilization) {
        let [idle, ..] = self.config.thresholds.bounds();
        if !self.ledger.holders.is_empty() && utilization >= idle {
            self.ledger.holders.touch_any(at, self.by_parts.are_apart);
        }
    }

    #[inline]
    pub(super) fn record_energy_of_holders(&mut self, at: Timestamp) {
        if !self.ledger.holders.is_empty() {
            let picojoules = self.energy.total().picojoules();
            self.ledger.holders.record_energy(at, picojoules);
        }
    }
}
