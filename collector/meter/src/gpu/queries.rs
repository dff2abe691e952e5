//! Read access to a meter: its summary, the totals of the recent window, feeds and series.

use super::GpuMeter;
use super::rolling::{Snapshot, WindowTotals};
use crate::accounts::Accounts;
use crate::accrual::Accrual;
use crate::activity::{self, Activity, HOURS, HourOfWeek};
use crate::device_meter::DeviceMeter;
use crate::distribution::{self, MemoryDistribution};
use crate::energy::Energy;
use crate::histogram::Readings;
use crate::money::Rate;
use crate::pattern::Pattern;
use crate::periods::PeriodList;
use crate::phase::{Phase, Thresholds};
use crate::reading::{Basis, Reading};
use crate::series::Series;
use crate::summary::{Summary, Unobserved};
use crate::units::{Nanos, Timestamp};
use crate::utilization_feed::UtilizationFeed;

/// A part of the effective time of a GPU, all of it by one utilization feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectivePart {
    /// The source.
    pub basis: Basis,
    /// Whether the bill is by it. If not, it is what another source measured of the same time.
    pub is_billed: bool,
    /// Σ utilization × time, in ppm·ns.
    pub weighted: u128,
}

impl GpuMeter {
    /// The summary of the run so far. Reads every distribution: see [`Self::accounts`],
    /// [`Self::rate`] and [`Self::energy`] for what is read often.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let WindowTotals { span, accounts, waste, pattern, energy, .. } = self.all();
        let billed = self.billed_feed();
        Summary {
            span,
            rate: self.rate(),
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
            memory_resolution: self.memory.resolution(),
            energy,
        }
    }

    /// Median time between changes of the billed utilization; `None` if there were too few.
    #[must_use]
    pub fn update_period(&self) -> Option<Nanos> {
        self.billed_feed().update_period()
    }

    /// Time of the first reading, and the watermark; `None` without readings.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.start.map(|start| (start, self.watermark))
    }

    /// Time and cost by account so far.
    #[must_use]
    pub const fn accounts(&self) -> &Accounts {
        &self.ledger.accounts
    }

    /// The periods since the last part ended: hours, or longer. They sum to the accounts of that time.
    #[must_use]
    pub fn periods(&self) -> PeriodList {
        self.ledger.periods.until_now(&self.ledger.accounts)
    }

    /// Unobserved time so far, by reason.
    #[must_use]
    pub const fn unobserved(&self) -> &Unobserved {
        &self.unobserved
    }

    /// Its device metrics.
    #[must_use]
    pub const fn device(&self) -> &DeviceMeter {
        &self.device
    }

    /// The utilization bounds between phases.
    #[must_use]
    pub const fn thresholds(&self) -> Thresholds {
        self.config.thresholds
    }

    /// The current rate; `None` if unpriced.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.ledger.accrual.as_ref().map(Accrual::rate)
    }

    /// Energy so far, by basis.
    #[must_use]
    pub fn energy(&self) -> Energy {
        self.energy.total()
    }

    /// The totals of the recent window at `end`, from the first session end in it; without session
    /// ends, of the whole run.
    #[must_use]
    pub fn window_totals(&self, end: Timestamp) -> WindowTotals {
        let from = self.config.recent_from(end, self.wall);
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

    /// Idle time by hour of the week in local time, over the whole run.
    #[must_use]
    pub const fn hours_of_week(&self) -> &[HourOfWeek; HOURS] {
        self.ledger.activity.hours()
    }

    /// Memory in use, over the whole run.
    #[must_use]
    pub const fn memory(&self) -> &MemoryDistribution {
        &self.memory
    }

    /// The utilization feeds, polled values first.
    pub fn feeds(&self) -> impl Iterator<Item = &UtilizationFeed> {
        std::iter::once(&self.polled).chain(&self.feeds)
    }

    /// Σ utilization × time of each feed, apart from what is not billed. The billed parts sum to that of the
    /// accounts.
    pub fn effective_parts(&self) -> impl Iterator<Item = EffectivePart> {
        let billed = self.configured_feed().map(UtilizationFeed::basis);
        let polled = [
            (true, self.polled.weighted().saturating_sub(self.polled_beside)),
            (false, self.polled_beside),
        ];
        // Where another feed is billed, the polled one is only where that has nothing.
        let applies = move |(is_billed, weighted): &(bool, u128)| {
            *weighted > 0 || *is_billed == billed.is_none()
        };
        let polled = polled.into_iter().filter(applies).map(|it| (&self.polled, it));
        let parts = self.by_parts;
        let others = self.feeds.iter().flat_map(move |feed| {
            let is_billed = Some(feed.basis()) == billed;
            let by_parts = parts.basis.filter(|basis| *basis == feed.basis() && !is_billed);
            let by_parts = by_parts.map_or(0, |_| parts.weighted);
            let rest = feed.weighted().saturating_sub(by_parts);
            let all = [(true, by_parts), (is_billed, rest)];
            // One of them is there from the first export on.
            let applies = move |(place, (_, weighted)): &(usize, (bool, u128))| {
                *weighted > 0 || (*place == 1 && by_parts == 0)
            };
            all.into_iter().enumerate().filter(applies).map(move |(_, it)| (feed, it))
        });
        let measured = polled.chain(others).filter(|(feed, _)| feed.is_measured());
        measured.map(|(feed, (is_billed, weighted))| EffectivePart {
            basis: feed.basis(),
            is_billed,
            weighted,
        })
    }

    /// The basis that is billed wherever it has a value: the configured one, else that of the parts of the GPU if most of
    /// the time is billed by it, else the polled one.
    #[must_use]
    pub fn billed_basis(&self) -> Basis {
        self.configured_feed().or_else(|| self.main_parts()).unwrap_or(&self.polled).basis()
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

    /// Time of the last ingested reading, or of the end if that is later; `None` if no time was metered.
    #[must_use]
    pub fn reached(&self) -> Option<Timestamp> {
        let metered = self.span().filter(|(start, end)| start < end).map(|(_, end)| end);
        metered.max(self.last.map(|last| last.at))
    }

    /// The start of the span. Until a reading is ingested, an older one may still arrive.
    #[must_use]
    pub fn begins_at(&self) -> Option<Timestamp> {
        let first = || self.warmup.front().map(|reading| reading.at);
        self.start.or_else(first).or_else(|| self.reorder.next_at())
    }

    /// How long a reading represents the present; `None` as long as that is not known.
    #[must_use]
    pub const fn stale_after(&self) -> Option<Nanos> {
        self.stale_after
    }

    /// Number of readings that wait for older ones.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.reorder.len()
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
            energy: self.energy(),
            // Taken where a session ends.
            activity: activity::Snapshot::default(),
            sensors: self.sensors,
            contradictions: self.contradictions.clone(),
            ends: *self.ends.ends(),
            still: self.still.total(),
        }
    }

    /// The totals of the whole run.
    fn all(&self) -> WindowTotals {
        self.since(&Snapshot::default())
    }

    pub(super) fn since(&self, earlier: &Snapshot) -> WindowTotals {
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
            energy: self.energy().since(&earlier.energy),
            activity: self.activity_since(earlier, accounts.phase(Phase::Idle).time),
            sensors: self.sensors.since(&earlier.sensors),
            contradictions: self.contradictions.since(&earlier.contradictions),
            ends: self.ends.ends().since(&earlier.ends),
            still: self.still.total() - earlier.still,
            readings: readings.collect(),
        }
    }

    /// `idle` is the idle time since.
    fn activity_since(&self, earlier: &Snapshot, idle: Nanos) -> Activity {
        let ended = self.window.iter().flat_map(|window| window.after(earlier.at));
        let longest = ended.map(|snapshot| snapshot.activity.longest);
        self.ledger.activity.since(&earlier.activity, longest, idle)
    }

    fn pattern(&self, earlier: &Snapshot, before: Readings, observed: Nanos) -> Option<Pattern> {
        let feed = self.billed_feed();
        let initial = distribution::Snapshot::default();
        let billed = earlier.billed.as_ref().filter(|(basis, _)| *basis == feed.basis());
        let billed = billed.map_or(&initial, |(_, snapshot)| snapshot);
        let readings = feed.histogram().readings().since(before).count;
        let percentile = |percent| feed.distribution().percentile_since(billed, percent);
        let without_bouncing = || Pattern::without_bouncing(percentile, readings, observed);
        self.cycle_detector.bouncing_since(&earlier.cycles).or_else(without_bouncing)
    }

    /// The feed that most of the observed time is billed by.
    pub(super) fn billed_feed(&self) -> &UtilizationFeed {
        let observed = self.ledger.accounts.observed().time;
        let covers_most =
            |feed: &&UtilizationFeed| feed.distribution().time().saturating_mul(2) >= observed;
        let configured = self.configured_feed().filter(covers_most);
        configured.or_else(|| self.main_parts()).unwrap_or(&self.polled)
    }

    fn readings(&self) -> impl Iterator<Item = (Basis, Readings)> {
        self.feeds().map(|feed| (feed.basis(), feed.histogram().readings()))
    }
}
