//! Totals of one GPU over a time range, and the rolling window of snapshots they are taken from.

use std::collections::VecDeque;

use crate::accounts::Accounts;
use crate::activity::{self, Activity};
use crate::config::MeterConfig;
use crate::contradiction::{Contradiction, Contradictions};
use crate::distribution;
use crate::ends::Ends;
use crate::energy::Energy;
use crate::histogram::Readings;
use crate::pattern::{self, CycleChange, Pattern};
use crate::reading::Basis;
use crate::sensors::Sensors;
use crate::series::Series;
use crate::units::{Nanos, Timestamp};
use crate::waste::{WasteByCategory, WasteClassifier};

/// Totals of one GPU over the whole run or over its recent window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTotals {
    /// The time range; `None` if there is nothing in it.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Time and cost by account.
    pub accounts: Accounts,
    /// Waste by category.
    pub waste: WasteByCategory,
    /// The utilization pattern; `None` if there is too little data.
    pub pattern: Option<Pattern>,
    /// Energy by basis.
    pub energy: Energy,
    /// When it worked.
    pub activity: Activity,
    /// Clocks, temperature, power and device columns.
    pub sensors: Sensors,
    /// Time in which sources of utilization contradict each other.
    pub contradictions: Vec<Contradiction>,
    /// How processes ended.
    pub ends: Ends,
    /// Time in which readings at part load repeat, as of a monitor that stopped.
    pub still: Nanos,
    pub(super) readings: Vec<(Basis, Readings)>,
}

impl WindowTotals {
    /// The mean of the readings of this basis, 0–1; `None` if there are none.
    #[must_use]
    pub fn mean_reading(&self, of: Basis) -> Option<f64> {
        self.readings.iter().find(|(basis, _)| *basis == of)?.1.mean()
    }

    /// The mean interval between readings with utilization; `None` if there are none.
    #[must_use]
    pub fn interval(&self) -> Option<Nanos> {
        let count = self.readings.first()?.1.count;
        self.accounts.observed().time.0.checked_div(count).map(Nanos)
    }
}

/// All totals at an instant. The default is the state before the first reading.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) at: Timestamp,
    pub(super) accounts: Accounts,
    pub(super) waste: WasteClassifier,
    pub(super) cycles: pattern::Snapshot,
    /// The distribution of the billed feed.
    pub(super) billed: Option<(Basis, distribution::Snapshot)>,
    pub(super) readings: Vec<(Basis, Readings)>,
    pub(super) energy: Energy,
    pub(super) activity: activity::Snapshot,
    pub(super) sensors: Sensors,
    pub(super) contradictions: Contradictions,
    pub(super) ends: Ends,
    pub(super) still: Nanos,
}

/// The recent window: its time series, and a snapshot at the end of each session in it.
///
/// Totals only grow, so the totals of the window are differences to a snapshot, and keeping them
/// current costs nothing between session ends.
#[derive(Clone, Debug)]
pub(super) struct RollingWindow {
    /// Utilization, power and memory over at least the window.
    pub(super) series: Series,
    /// In time order.
    snapshots: VecDeque<Snapshot>,
}

impl RollingWindow {
    pub(super) fn new(config: &MeterConfig, start: Timestamp) -> Self {
        let keep = config.window + config.session_every;
        Self { series: Series::recent(keep, start), snapshots: VecDeque::new() }
    }

    /// Whether a session in the window has ended.
    pub(super) fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Applies a cycle change to all snapshots: waste before one may turn out later to lie in a
    /// bouncing stretch.
    pub(super) fn apply(&mut self, change: CycleChange, confirmed: bool) {
        self.snapshots.iter_mut().for_each(|snapshot| snapshot.waste.apply(change, confirmed));
    }

    /// Adds the latest snapshot and drops those before `from`.
    pub(super) fn push(&mut self, snapshot: Snapshot, from: Timestamp) {
        self.snapshots.retain(|snapshot| from <= snapshot.at);
        self.snapshots.push_back(snapshot);
    }

    /// The snapshots after `at`.
    pub(super) fn after(&self, at: Timestamp) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter().filter(move |snapshot| at < snapshot.at)
    }

    /// The first snapshot at or after `from`.
    pub(super) fn first_since(&self, from: Timestamp) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| from <= snapshot.at)
    }
}
