//! Read access to a meter: its summary, the totals of the recent window, feeds and series.
//!
//! Must not depend on reports, exporters or policies.

use super::GpuMeter;
use super::rolling::{Snapshot, WindowTotals};
use crate::accrual::Accrual;
use crate::distribution::{self, Readings};
use crate::energy::EnergyBasis;
use crate::pattern::Pattern;
use crate::reading::{Basis, Reading};
use crate::series::{Quantity, Series};
use crate::summary::Summary;
use crate::units::{Nanos, Timestamp};
use crate::utilization_feed::UtilizationFeed;

impl GpuMeter {
    /// The summary of the run so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let WindowTotals { span, accounts, waste, pattern, energy, .. } = self.all();
        let billed = self.billed_feed();
        Summary {
            span,
            rate: self.ledger.accrual.as_ref().map(Accrual::rate),
            accounts,
            holding_known: self.timeline.is_holding_known(),
            unobserved: self.unobserved,
            waste,
            pattern,
            basis: billed.basis(),
            update_period: billed.update_period(),
            utilization_p50: billed.distribution().percentile(50),
            utilization_p95: billed.distribution().percentile(95),
            memory_peak: self.memory.peak(),
            memory_p95: self.memory.percentile(95),
            energy,
        }
    }

    /// The totals of the recent window at `end`, from the first session end in it; without session
    /// ends, of the whole run.
    #[must_use]
    pub fn window_totals(&self, end: Timestamp) -> WindowTotals {
        let from = self.config.recent_from(end);
        match &self.window {
            Some(window) if self.start.is_some_and(|start| start < from) => {
                match window.first_since(from) {
                    Some(snapshot) => self.since(snapshot),
                    // No session has ended in the window.
                    None => WindowTotals { span: None, ..self.since(&self.snapshot()) },
                }
            }
            _ => self.all(),
        }
    }

    /// Utilization, power and memory over at least the window of [`GpuMeter::window_totals`].
    #[must_use]
    pub fn window_series(&self) -> &Series {
        self.window.as_ref().map_or(&self.series, |window| &window.series)
    }

    /// The utilization feeds, polled values first.
    pub fn feeds(&self) -> impl Iterator<Item = &UtilizationFeed> {
        std::iter::once(&self.polled).chain(&self.feeds)
    }

    /// Utilization, power and memory over time.
    #[must_use]
    pub const fn series(&self) -> &Series {
        &self.series
    }

    /// The last ingested reading.
    #[must_use]
    pub const fn last_reading(&self) -> Option<&Reading> {
        self.last.as_ref()
    }

    /// Time of the first reading. Until one is ingested, an older reading may still arrive.
    #[must_use]
    pub fn first_reading_at(&self) -> Option<Timestamp> {
        let first = || self.warmup.first().map(|reading| reading.at);
        self.start.or_else(first).or_else(|| self.reorder.next_at())
    }

    /// Start of the phase span that contains `at`, if that start is final.
    #[must_use]
    pub fn final_span_start(&self, at: Timestamp) -> Option<Timestamp> {
        self.ledger.spans.final_start(at)
    }

    /// All totals at the watermark.
    pub(super) fn snapshot(&self) -> Snapshot {
        let billed = self.billed_feed();
        Snapshot {
            at: self.watermark,
            accounts: self.ledger.accounts,
            waste: self.ledger.waste.clone(),
            cycles: self.cycle_detector.snapshot(),
            billed: Some((billed.basis(), billed.distribution().snapshot())),
            readings: self.readings().collect(),
            energy: self.joules(),
        }
    }

    /// The totals of the whole run.
    fn all(&self) -> WindowTotals {
        self.since(&Snapshot::default())
    }

    fn since(&self, earlier: &Snapshot) -> WindowTotals {
        let accounts = self.ledger.accounts.since(&earlier.accounts);
        let waste = &self.ledger.waste;
        let confirmed = self.cycle_detector.is_confirmed();
        let readings_before = |of: Basis| {
            let readings = earlier.readings.iter().find(|(basis, _)| *basis == of);
            readings.map(|(_, readings)| *readings).unwrap_or_default()
        };
        let billed_before = readings_before(self.billed_feed().basis());
        let readings =
            self.readings().map(|(basis, all)| (basis, all.since(readings_before(basis))));
        WindowTotals {
            span: self.start.map(|start| (start.max(earlier.at), self.watermark)),
            accounts,
            waste: waste.by_category_since(&earlier.waste, &accounts, confirmed),
            pattern: self.pattern(earlier, billed_before, accounts.observed().time),
            energy: match (self.joules(), earlier.energy) {
                (Some((now, basis)), Some((before, same))) if basis == same => {
                    Some((now - before, basis))
                }
                (now, _) => now,
            },
            readings: readings.collect(),
        }
    }

    fn pattern(&self, earlier: &Snapshot, before: Readings, observed: Nanos) -> Option<Pattern> {
        let feed = self.billed_feed();
        let initial = distribution::Snapshot::default();
        let billed = earlier.billed.as_ref().filter(|(basis, _)| *basis == feed.basis());
        let billed = billed.map_or(&initial, |(_, snapshot)| snapshot);
        let distribution = feed.distribution();
        let readings = distribution.all_readings().since(before).count;
        let percentile = |percent| distribution.percentile_since(billed, percent);
        let without_bouncing = || Pattern::without_bouncing(percentile, readings, observed);
        self.cycle_detector.bouncing_since(&earlier.cycles).or_else(without_bouncing)
    }

    /// The feed used for billing.
    fn billed_feed(&self) -> &UtilizationFeed {
        self.configured_feed().unwrap_or(&self.polled)
    }

    fn readings(&self) -> impl Iterator<Item = (Basis, Readings)> {
        self.feeds().map(|feed| (feed.basis(), feed.distribution().all_readings()))
    }

    fn joules(&self) -> Option<(f64, EnergyBasis)> {
        self.energy.joules(self.series.sum(Quantity::Power))
    }
}
