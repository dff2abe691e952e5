//! Posts the time between readings, to the timeline and to whatever is weighted by time.

use super::boundaries::Stop;
use super::{GpuMeter, Observer, post_to};
use crate::quantity::Quantity;
use crate::reading::{Basis, MissingReason, Reading};
use crate::series::Recorded;
use crate::units::{Nanos, Timestamp, Utilization};
use crate::utilization_feed::UtilizationFeed;

impl GpuMeter {
    /// Posts the time from `last` to `next`: `last` covers at most `stale_after` of it, and the
    /// rest is unobserved. Closes the boundaries in between.
    #[inline(always)]
    pub(super) fn post_until(
        &mut self,
        last: &Reading,
        next: Timestamp,
        stale_after: Nanos,
        observer: &mut impl Observer,
    ) {
        let until = next.min(last.at + stale_after);
        if until < next {
            self.exempt_missing(until, next);
        }
        let from = if next < self.next_boundary {
            last.at
        } else {
            self.close_boundaries(last, until, next, observer)
        };
        self.post_covered(last, from, until, observer);
        if until < next {
            self.post_range(until.max(from), next, None, observer);
            self.polled.interrupt();
        }
    }

    /// Posts the time from `start` to the first reading, which covers at most `stale_after` of it.
    #[inline(never)]
    pub(super) fn post_before_first(
        &mut self,
        first: &Reading,
        start: Timestamp,
        stale_after: Nanos,
        observer: &mut impl Observer,
    ) {
        let from = first.at.saturating_sub(stale_after).max(start);
        self.post_unobserved(start, from, observer);
        self.record_holding(first);
        self.post_until(&Reading { at: from, ..*first }, first.at, stale_after, observer);
    }

    /// Posts time without any reading.
    #[inline(never)]
    pub(super) fn post_unobserved(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        observer: &mut impl Observer,
    ) {
        self.post_until(&Reading::at(from), to, Nanos::ZERO, observer);
    }

    /// Posts the time up to the last boundary, requested or regular, or step of the wall clock before `next`, of which
    /// `last` covers that before `until`. Returns that boundary.
    fn close_boundaries(
        &mut self,
        last: &Reading,
        until: Timestamp,
        next: Timestamp,
        observer: &mut impl Observer,
    ) -> Timestamp {
        let mut from = last.at;
        while next >= self.next_boundary {
            let stop = self.stop_until(next);
            let before = stop.as_ref().map_or(next, |stop| stop.at.saturating_sub(Nanos(1)));
            let part_end = self.planned_end(from).filter(|end| *end <= before);
            let boundaries = self.config.boundaries(from, before, self.wall);
            let mut ends: Vec<_> = boundaries.map(|end| (end, true)).collect();
            if let Some(end) = part_end.filter(|end| !ends.contains(&(*end, true))) {
                ends.push((end, false));
                ends.sort_unstable();
            }
            for (end, is_boundary) in ends {
                self.post_up_to(end, last, from, until, observer);
                if is_boundary {
                    self.close_boundary(end, false, observer);
                } else {
                    self.finalize_until(end, observer);
                }
                if part_end == Some(end) {
                    self.end_part(end);
                }
                from = end;
            }
            if let Some(Stop { at, step }) = stop {
                let at = at.max(from);
                self.post_up_to(at, last, from, until, observer);
                let ends_part = self.planned_end(from) == Some(at);
                self.close_boundary(at, step.is_some(), observer);
                if ends_part {
                    self.end_part(at);
                }
                from = at;
                if let Some(wall) = step {
                    self.wall = wall;
                    self.ledger.periods.step_wall_clock(at, wall);
                    self.ledger.activity.step_wall_clock(wall);
                    self.steps.remove_first();
                }
            }
            self.plan_boundary(from);
        }
        from
    }

    /// Posts the time from `from` to `boundary`, of which `last` covers that before `until`.
    fn post_up_to(
        &mut self,
        boundary: Timestamp,
        last: &Reading,
        from: Timestamp,
        until: Timestamp,
        observer: &mut impl Observer,
    ) {
        self.post_covered(last, from, until.min(boundary), observer);
        self.post_range(until.max(from).min(boundary), boundary, None, observer);
    }

    /// Posts the time from `from` to `to` with the values of `reading`.
    #[inline(always)]
    fn post_covered(
        &mut self,
        reading: &Reading,
        from: Timestamp,
        to: Timestamp,
        observer: &mut impl Observer,
    ) {
        if from >= to {
            return;
        }
        if let Ok(utilization) = reading.utilization {
            self.polled.add(from, to, utilization);
        }
        if let Some(used) = reading.memory_used {
            self.record_series(Recorded::Memory, from, to, used.get());
        }
        if let Some(power) = reading.power {
            self.energy.add(power, reading.power_basis, to.since(from));
            self.record_series(Recorded::Power, from, to, power.get().into());
        }
        let observed = self.post_range(from, to, Some(reading), observer);
        if let Some(used) = reading.memory_used {
            self.memory.add(used, observed);
            self.parts.iter_mut().for_each(|parts| parts.memory.add(used, observed));
        }
    }

    /// Posts the time from `from` to `to`, which `reading` covers, unless there is none. At each instant
    /// the billed feed counts, else the polled utilization, else what the parts of the GPU sum to, else the reason why it
    /// is missing. Returns the observed time.
    #[inline(always)]
    fn post_range(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        reading: Option<&Reading>,
        observer: &mut impl Observer,
    ) -> Nanos {
        let polled = reading.map_or(Err(None), |reading| reading.utilization.map_err(Some));
        if self.feeds.is_empty() {
            self.post_part(from, to, polled, reading, observer)
        } else {
            self.post_range_of_feeds(from, to, polled, reading, observer)
        }
    }

    fn post_range_of_feeds(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        polled: Result<Utilization, Option<MissingReason>>,
        reading: Option<&Reading>,
        observer: &mut impl Observer,
    ) -> Nanos {
        let mut observed = Nanos::ZERO;
        let mut at = from;
        while at < to {
            let (value, until) = self.configured_feed().map_or((None, to), |feed| feed.at(at, to));
            if let (Some(_), Ok(beside)) = (value, polled) {
                self.polled_beside += u128::from(beside.ppm()) * u128::from(until.since(at).0);
            }
            let (value, until) = match (value, polled) {
                (None, Err(Some(MissingReason::NotSupported))) => self.take_parts(at, until),
                other => (other.0, until),
            };
            let utilization = value.map_or(polled, Ok);
            observed += self.post_part(at, until, utilization, reading, observer);
            at = until;
        }
        for feed in &mut self.feeds {
            feed.finalize(from, to);
        }
        observed
    }

    /// Posts time of one utilization, or without one. Returns the observed time.
    #[inline(always)]
    fn post_part(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Result<Utilization, Option<MissingReason>>,
        reading: Option<&Reading>,
        observer: &mut impl Observer,
    ) -> Nanos {
        if from >= to {
            return Nanos::ZERO;
        }
        let time = to.since(from);
        self.post_to_alerts(from, to, utilization.ok(), reading, observer);
        match utilization {
            Ok(utilization) => {
                self.detect_cycles(from, utilization, observer);
                self.record_series(Recorded::Utilization, from, to, utilization.ppm().into());
                self.post_observed(from, to, utilization, observer);
                if let Some(reading) = reading
                    && (!reading.device.is_none() || !self.feeds.is_empty())
                {
                    self.compare_sources(from, to, utilization, reading);
                }
                time
            }
            Err(reason) => {
                self.cycle_detector.interrupt();
                *self.unobserved.time_mut(reason) += time;
                Nanos::ZERO
            }
        }
    }

    /// Compares the billed utilization with what other sources report for the same time.
    #[inline(never)]
    fn compare_sources(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        billed: Utilization,
        reading: &Reading,
    ) {
        let at = |feed: &UtilizationFeed| feed.at(from, to).0;
        let feed = self.configured_feed().filter(|feed| at(feed).is_some());
        let of_parts = || self.feed_of_parts().filter(|_| reading.utilization.is_err());
        let basis = feed.or_else(of_parts).unwrap_or(&self.polled).basis();
        let (sm, gr_engine) = (Quantity::SmActivity, Quantity::GraphicsActivity);
        let of_sm = if self.polled.basis().is_dcgm() { Basis::DcgmSm } else { Basis::GpmSm };
        let measured = || self.feeds.iter().find(|feed| feed.basis() == of_sm).and_then(at);
        let others = [
            (self.polled.basis(), reading.utilization.ok()),
            (of_sm, reading.device.share(sm).or_else(measured)),
            (Basis::DcgmGrEngine, reading.device.share(gr_engine)),
        ];
        for (other, utilization) in others {
            if let Some(utilization) = utilization
                && other != basis
            {
                let sources = ((basis, billed), (other, utilization));
                self.contradictions.post(to.since(from), reading.power, sources.0, sources.1);
            }
        }
    }

    #[inline]
    fn record_series(&mut self, quantity: Recorded, from: Timestamp, to: Timestamp, value: u64) {
        self.series.record(quantity, from, to, value);
        if let Some(window) = &mut self.window {
            window.series.record(quantity, from, to, value);
        }
    }

    /// Detects cycles. Posts the seconds before `at` first, since a cycle change applies from `at`
    /// on.
    #[inline]
    fn detect_cycles(
        &mut self,
        at: Timestamp,
        utilization: Utilization,
        observer: &mut impl Observer,
    ) {
        if self.cycle_detector.is_change(utilization) {
            self.timeline.advance(at, &mut post_to(&mut self.ledger, observer));
            let confirmed = self.cycle_detector.is_confirmed();
            if let Some(change) = self.cycle_detector.observe(at, utilization) {
                self.ledger.waste.apply(change, confirmed);
                self.window.iter_mut().for_each(|window| window.apply(change, confirmed));
                let parts = self.parts.iter_mut();
                parts.for_each(|parts| parts.base.totals.waste.apply(change, confirmed));
            }
        }
    }

    /// Observes the time from `from` to `to`, cut at each change of the rate and of holders so that a time slice
    /// has one rate, and the same holders.
    #[inline]
    fn post_observed(
        &mut self,
        mut from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        observer: &mut impl Observer,
    ) {
        while from < to {
            let change = self.ledger.next_cut(from);
            self.touch_holders(from, utilization);
            let until = change.map_or(to, |change| change.min(to));
            let mut post = post_to(&mut self.ledger, observer);
            self.timeline.observe(from, until, utilization, &mut post);
            if change == Some(until) {
                self.timeline.cut();
            }
            from = until;
        }
    }
}
