//! Summary of one GPU: the plain values that reports and exporters read.

use crate::accounts::Accounts;
use crate::energy::Energy;
use crate::money::Rate;
use crate::pattern::Pattern;
use crate::reading::{Basis, MissingReason};
use crate::units::{Bytes, Nanos, Timestamp, Utilization};
use crate::waste::WasteByCategory;

/// Unobserved time by reason. Sums to the time of the account `unobserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unobserved {
    /// Not covered by a reading.
    pub no_reading: Nanos,
    /// Covered by a reading without utilization, by reason in the order of [`MissingReason::ALL`].
    pub missing: [Nanos; MissingReason::ALL.len()],
}

impl Unobserved {
    /// The difference to an earlier state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.no_reading = self.no_reading - earlier.no_reading;
        for (mine, theirs) in since.missing.iter_mut().zip(earlier.missing) {
            *mine = *mine - theirs;
        }
        since
    }

    /// The time for this reason; `None` for time not covered by a reading.
    pub(crate) fn time_mut(&mut self, reason: Option<MissingReason>) -> &mut Nanos {
        match reason {
            Some(reason) => &mut self.missing[reason as usize],
            None => &mut self.no_reading,
        }
    }
}

/// The summary of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Time of the first reading, and the watermark; `None` without readings.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The current rate. `None` if unpriced; costs are then meaningless.
    pub rate: Option<Rate>,
    /// Time and cost by account.
    pub accounts: Accounts,
    /// Whether any reading reported holding; if none did, held and free idle time are unknown, not
    /// zero.
    pub holding_known: bool,
    /// Unobserved time by reason.
    pub unobserved: Unobserved,
    /// Waste by category.
    pub waste: WasteByCategory,
    /// The utilization pattern; `None` if there is too little data.
    pub pattern: Option<Pattern>,
    /// The basis that most of the observed time is billed by.
    pub basis: Basis,
    /// Median time between changes of utilization; `None` if there are fewer than ten changes.
    pub update_period: Option<Nanos>,
    /// Median utilization, weighted by time.
    pub utilization_p50: Option<Utilization>,
    /// 95th percentile of utilization, weighted by time.
    pub utilization_p95: Option<Utilization>,
    /// Maximum memory in use.
    pub memory_peak: Option<Bytes>,
    /// 95th percentile of memory in use, weighted by observed time; rounded up to
    /// `memory_resolution`, at most the maximum.
    pub memory_p95: Option<Bytes>,
    /// In bytes: at least 1 MiB, and less than 0.1% of the maximum if more.
    pub memory_resolution: u64,
    /// Energy since the first reading, by basis.
    pub energy: Energy,
}

impl Summary {
    /// Length of the whole span, observed or not.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.span.map(|(from, to)| to.since(from)).unwrap_or_default()
    }

    /// Mean utilization over the observed time, in ppm; `None` if nothing was observed.
    #[must_use]
    pub fn mean_ppm(&self) -> Option<u128> {
        let observed = self.accounts.observed();
        observed.weighted.checked_div(u128::from(observed.time.0))
    }
}
