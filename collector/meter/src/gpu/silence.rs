//! Time after the last reading of a GPU: posted while it lasts, and at the end of the run.

use super::{GpuMeter, Observer, post_to};
use crate::presence::MissingTime;
use crate::reading::{MissingReason, Reading};
use crate::staleness;
use crate::units::{Nanos, Timestamp};

/// Time within the span that is not billed.
#[derive(Clone, Debug, Default)]
pub(super) struct Absent {
    /// All of it.
    pub(super) time: Nanos,
    /// That of it which was left out.
    left_out: Nanos,
    /// What was left out and is not all in the accounts yet.
    open: Vec<(Timestamp, Timestamp)>,
}

impl Absent {
    /// `charged`: the end of the accounts so far.
    fn leave_out(&mut self, from: Timestamp, to: Timestamp, charged: Timestamp) {
        self.open.retain(|(_, to)| *to > charged);
        self.open.push((from, to));
        self.left_out += to.since(from);
    }

    /// What was left out before an instant, which is the end of the accounts.
    fn left_out_before(&self, at: Timestamp) -> Nanos {
        self.left_out - self.open.iter().map(|(from, to)| to.since(at.max(*from))).sum()
    }
}

impl GpuMeter {
    /// Time of the newest reading, ingested or not; `None` without readings.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        let ingested = self.warmup.back().or(self.last.as_ref()).map(|reading| reading.at);
        self.reorder.times().next_back().max(ingested)
    }

    /// How long a reading represents the present, as far as that is known.
    #[must_use]
    pub fn estimated_stale_after(&self) -> Nanos {
        let times = self.warmup.iter().map(|reading| reading.at).chain(self.reorder.times());
        self.stale_after.unwrap_or_else(|| staleness::estimate(times))
    }

    /// Posts the time after the last reading up to `to`, as unobserved: the source no longer lists the GPU,
    /// which goes on to exist. Readings before `to` are late from now on. Without effect if the last reading
    /// still covers that time.
    pub fn advance_silent(&mut self, to: Timestamp, observer: &mut impl Observer) {
        let covered = self.newest().map(|newest| newest + self.estimated_stale_after());
        if covered.is_none_or(|covered| to <= covered) {
            return;
        }
        self.drain_all(observer);
        let Some(last) = self.last else { return };
        self.post_after(&last, to, observer);
        self.timeline.advance(to, &mut post_to(&mut self.ledger, observer));
        self.reorder.reject_before(to);
        self.silent_until = self.silent_until.max(Some(to));
    }

    /// Ends the span at `end`. The last reading covers the time until then, up to `stale_after`; the rest is
    /// unobserved, since the source no longer lists the GPU.
    pub fn finish_unlisted_at(&mut self, end: Timestamp, observer: &mut impl Observer) {
        self.drain_all(observer);
        let Some(last) = self.last else { return };
        let before = self.unobserved.no_reading;
        let posted = self.silent_until.map_or(Nanos::ZERO, |until| {
            until.since(last.at + self.stale_after.unwrap_or_default())
        });
        self.post_after(&last, end, observer);
        let unlisted = self.unobserved.no_reading - before + posted;
        *self.unobserved.time_mut(None) = self.unobserved.no_reading - unlisted;
        *self.unobserved.time_mut(Some(MissingReason::Vanished)) += unlisted;
        self.end_at(end.max(last.at), observer);
    }

    /// Leaves the time `from`..`to` after the last reading out of the bill, since another meter may have had the GPU:
    /// the last reading covers nothing of it. Readings before `to` are late from now on. Returns what is left out; `None`
    /// if there is a reading after it.
    pub fn leave_out(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        observer: &mut impl Observer,
    ) -> Option<(Timestamp, Timestamp)> {
        self.drain_all(observer);
        let last = self.last.filter(|last| last.at < to)?;
        let from = from.max(last.at).max(self.silent_until.unwrap_or_default()).min(to);
        if from >= to {
            return None;
        }
        self.post_after(&last, from, observer);
        self.silent_until = Some(from);
        self.exempt_absent(from, to);
        let charged = self.charged_until().unwrap_or_default();
        self.absent.leave_out(from, to, charged);
        self.post_after(&last, to, observer);
        self.timeline.advance(to, &mut post_to(&mut self.ledger, observer));
        self.silent_until = Some(to);
        self.reorder.reject_before(to);
        self.energy.interrupt();
        Some((from, to))
    }

    /// Time in the accounts so far, as unobserved, that was [left out](Self::leave_out).
    #[must_use]
    pub fn left_out(&self) -> Nanos {
        self.absent.left_out_before(self.charged_until().unwrap_or_default())
    }

    /// Time within the span that is not billed, since the GPU was absent.
    #[must_use]
    pub const fn absent(&self) -> Nanos {
        self.absent.time
    }

    /// Posts the time after the last reading up to `to`, but for what is posted already.
    #[inline(never)]
    pub(super) fn post_after(
        &mut self,
        last: &Reading,
        to: Timestamp,
        observer: &mut impl Observer,
    ) {
        match self.silent_until {
            Some(posted) => self.post_unobserved(posted, to.max(posted), observer),
            None => {
                let stale_after = self.stale_after.unwrap_or_default();
                self.post_until(last, to, stale_after, observer);
            }
        }
    }

    /// Bills nothing for time without readings, if that is configured.
    #[inline]
    pub(super) fn exempt_missing(&mut self, from: Timestamp, to: Timestamp) {
        if self.config.missing == MissingTime::Absent && self.last.is_some() {
            self.exempt_absent(from, to);
        }
    }

    /// Bills nothing for the time since the last reading that it does not cover: the reading at `at` is of another
    /// instance of the host.
    #[cold]
    pub(super) fn exempt_before_instance(&mut self, at: Timestamp, stale_after: Nanos) {
        if self.config.missing == MissingTime::ByEvidence
            && let Some(last) = self.last
        {
            let covered = (last.at + stale_after).max(self.silent_until.unwrap_or_default());
            self.exempt_absent(covered, at);
        }
    }

    /// Bills nothing for time in which the GPU is absent, as far as it has not been charged.
    fn exempt_absent(&mut self, from: Timestamp, to: Timestamp) {
        let from = self.exempt(from, to);
        self.absent.time += to.since(from);
    }
}
