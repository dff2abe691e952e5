//! What is known of one GPU: the plain values that reports and exporters read.
//!
//! This room must not know how they were found.

use crate::energy::EnergyBasis;
use crate::ledger::Accounts;
use crate::money::Rate;
use crate::pattern::Pattern;
use crate::pool::Pools;
use crate::reading::{Absent, Basis};
use crate::units::{Bytes, Nanos, Timestamp, Utilization};

/// Time without utilization, by reason. Sums to the time of the account `unobserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unobserved {
    /// No reading covers it.
    pub no_reading: Nanos,
    /// A reading covers it, but without utilization: in the order of [`Absent::ALL`].
    pub absent: [Nanos; Absent::ALL.len()],
}

impl Unobserved {
    /// The time for this reason; `None` is that no reading covers it.
    pub(crate) fn of(&mut self, reason: Option<Absent>) -> &mut Nanos {
        match reason {
            Some(absent) => &mut self.absent[absent as usize],
            None => &mut self.no_reading,
        }
    }
}

/// What is known of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The first reading, and up to where all is settled; `None` without a reading.
    pub span: Option<(Timestamp, Timestamp)>,
    /// What it costs now; `None` where nobody knows, and then no cost below means anything.
    pub rate: Option<Rate>,
    /// Time and money by account.
    pub accounts: Accounts,
    /// Whether any reading knew if the GPU was held; where none did, held and free idle are not
    /// nothing but unknown.
    pub holding_known: bool,
    /// Why time was not observed.
    pub unobserved: Unobserved,
    /// Waste by pool.
    pub pools: Pools,
    /// How utilization moves; `None` where there is too little to tell.
    pub pattern: Option<Pattern>,
    /// What utilization is a measure of.
    pub basis: Basis,
    /// The median time between changes of utilization; `None` under ten changes.
    pub update_period: Option<Nanos>,
    /// Median utilization, weighted by time.
    pub utilization_p50: Option<Utilization>,
    /// 95th percentile of utilization, weighted by time.
    pub utilization_p95: Option<Utilization>,
    /// The most memory in use.
    pub memory_peak: Option<Bytes>,
    /// 95th percentile of memory in use, weighted by time.
    pub memory_p95: Option<Bytes>,
    /// Joules since the first reading, and what they were found from.
    pub energy: Option<(f64, EnergyBasis)>,
}

impl Summary {
    /// The whole time of this GPU, observed or not.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.span.map(|(from, to)| to.since(from)).unwrap_or_default()
    }

    /// Mean utilization over the observed time in ppm; `None` where nothing was observed.
    #[must_use]
    pub fn mean_ppm(&self) -> Option<u128> {
        let observed = self.accounts.observed();
        observed.weighted.checked_div(u128::from(observed.time.0))
    }
}
