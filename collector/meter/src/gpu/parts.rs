//! Ends parts of a run, for reports of periods. Nothing else depends on them.

use super::GpuMeter;
use super::part::{GpuPart, PartBase, Parts};
use super::rolling::{Snapshot, WindowTotals};
use crate::distribution;
use crate::summary::Summary;
use crate::units::Timestamp;

impl GpuMeter {
    /// The part in progress ends at `at`, a whole second, in place of any end that was planned. If later time is
    /// posted, it does not end by itself.
    pub fn end_part_at(&mut self, at: Timestamp) {
        self.parts.get_or_insert_default().end = Some(at);
        if self.start.is_some() {
            self.plan_boundary(self.watermark);
        }
    }

    /// Whether a part has ended and was not taken.
    #[must_use]
    pub fn has_ended_part(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.ended.is_some())
    }

    /// Takes the part that has ended. If none has, the part in progress ends with what is posted. `None` without any
    /// time.
    pub fn take_part(&mut self) -> Option<GpuPart> {
        if !self.has_ended_part() {
            self.end_part(self.charged_until()?);
        }
        let ended = self.parts.as_mut()?.ended.take()?;
        Some(*ended).filter(|part| !part.summary.accounts.is_empty())
    }

    /// The part that has ended and was not taken, else all that is posted since the last one. `None` without any time.
    #[must_use]
    pub fn part_so_far(&self) -> Option<GpuPart> {
        let ended = self.parts.as_ref().and_then(|parts| parts.ended.as_deref().cloned());
        let part = ended.or_else(|| Some(self.part_until(self.charged_until()?)));
        part.filter(|part| !part.summary.accounts.is_empty())
    }

    /// Where the part in progress is to end, if that is after `at`.
    pub(super) fn planned_end(&self, at: Timestamp) -> Option<Timestamp> {
        self.parts.as_ref()?.end.filter(|end| *end > at)
    }

    /// Ends the part in progress, all time up to `at` being posted, and none after it.
    #[cold]
    pub(super) fn end_part(&mut self, at: Timestamp) {
        let part = self.part_until(at);
        let base = PartBase {
            totals: Snapshot { at, ..self.snapshot() },
            unobserved: self.unobserved,
            absent: self.absent(),
        };
        self.ledger.periods.restart(at, &self.ledger.accounts);
        self.ledger.holders.begin_part();
        self.alerts.iter_mut().for_each(|alerts| alerts.begin_part());
        let parts = self.parts.get_or_insert_default();
        **parts = Parts { base, ended: Some(Box::new(part)), ..Parts::default() };
    }

    fn part_until(&self, at: Timestamp) -> GpuPart {
        let first = Parts::default();
        let parts = self.parts.as_deref();
        let memory = parts.map_or(&self.memory, |parts| &parts.memory);
        let PartBase { totals: base, unobserved, absent } = &parts.unwrap_or(&first).base;
        let WindowTotals { span, accounts, waste, pattern, energy, .. } = self.since(base);
        let billed = self.billed_feed();
        let before = base.billed.as_ref().filter(|(basis, _)| *basis == billed.basis());
        let initial = distribution::Snapshot::default();
        let before = before.map_or(&initial, |(_, before)| before);
        let percentile = |percent| billed.distribution().percentile_since(before, percent);
        GpuPart {
            summary: Summary {
                span: span.map(|(from, _)| (from, at)),
                rate: self.rate(),
                accounts,
                holding_known: self.timeline.is_holding_known(),
                unobserved: self.unobserved.since(unobserved),
                waste,
                pattern,
                basis: billed.basis(),
                update_period: billed.update_period(),
                utilization_p50: percentile(50),
                utilization_p95: percentile(95),
                memory_peak: memory.peak(),
                memory_p95: memory.percentile(95),
                memory_resolution: memory.resolution(),
                energy,
            },
            periods: self.periods(),
            holders: self.ledger.holders.of_part(),
            absent: self.absent() - *absent,
            alerts: self.alerts().map(|alerts| alerts.part_log().clone()),
            share_of: None,
        }
    }
}
