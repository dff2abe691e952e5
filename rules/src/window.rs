//! The input of a recommender: an immutable snapshot of the whole experiment so far.
//!
//! The sidecar fills it, the contract lowers it for the guest, and fixtures have it as JSON, with units in the names
//! of fields. Optional fields and empty accounts may be omitted there.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use phasemeter_meter::accounts;
use phasemeter_meter::activity::Activity;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::Pattern;
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::Price;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM, Timestamp};
use phasemeter_meter::waste::WasteByCategory;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fixture_value::{FixtureValue, list, map, optional, scalar};
pub use crate::window_holder::{HolderTotals, MAX_HOLDERS, WindowHolder};
pub use crate::window_load::{
    Load, LoadBucket, LoadDistribution, LoadHour, MAX_BUCKETS, MAX_HOUR_BUCKETS, MAX_LOADS,
    MEAN_SECONDS,
};
pub use crate::window_sensors::{MAX_XIDS, Percentiles, Sensors, ThrottleReason, Throttling};
use crate::workload::Workload;

/// Measurements of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Start of the measurements.
    #[serde(rename = "start_unix_nanos", with = "scalar")]
    pub start: Timestamp,
    /// End of the measurements, exclusive.
    #[serde(rename = "end_unix_nanos", with = "scalar")]
    pub end: Timestamp,
    /// Whether the experiment has ended.
    pub is_final: bool,
    /// Name of the experiment.
    pub experiment_id: String,
    /// Its W3C trace ID: 32 hexadecimal digits.
    pub trace_id: String,
    /// Its attributes.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// Local time in seconds east of UTC; `None` if unknown.
    #[serde(rename = "utc_offset_seconds", default)]
    pub utc_offset: Option<i32>,
    /// Interval between the points of a column.
    #[serde(rename = "step_nanos", with = "scalar")]
    pub step: Nanos,
    /// Measurements without a field of their own.
    #[serde(default, with = "map")]
    pub metrics: BTreeMap<String, f64>,
    /// The GPUs, in the order of the report.
    pub gpus: Vec<Gpu>,
    /// Prices to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Offer>,
    /// Recommendations of earlier windows, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Previous>,
    /// The load of GPUs that can stand in for one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<Load>,
}

/// The most offers, and the most earlier recommendations, of a window.
pub const MAX_OFFERS: usize = 64;
/// See [`MAX_OFFERS`].
pub const MAX_PREVIOUS: usize = 64;

/// GPUs that can be rented instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The driver's product name.
    pub model: String,
    /// GPUs of one instance.
    pub gpus: NonZeroU32,
    /// Memory of one GPU.
    #[serde(rename = "memory_bytes", default, with = "optional")]
    pub memory: Option<Bytes>,
    /// Price of one GPU.
    #[serde(with = "scalar")]
    pub price: Price,
}

/// A recommendation of an earlier window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Previous {
    /// Name of its policy.
    pub policy: String,
    /// Its code.
    pub code: String,
    /// IDs of its GPUs.
    pub gpus: Vec<String>,
    /// End of the window that it was first returned for.
    #[serde(rename = "first_given_unix_nanos", with = "scalar")]
    pub first_given: Timestamp,
    /// Whether it was returned for the last window.
    pub still_given: bool,
}

/// One GPU of a window. The default has no data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Its UUID; else its PCI bus ID; else its file and index. Unique in the window.
    pub id: String,
    /// The driver's product name; empty if unknown.
    #[serde(default)]
    pub model: String,
    /// Total device memory.
    #[serde(rename = "memory_total_bytes", default, with = "optional")]
    pub memory_total: Option<Bytes>,
    /// Power limit.
    #[serde(rename = "power_limit_milliwatts", default, with = "optional")]
    pub power_limit: Option<Milliwatts>,
    /// Its time and cost by account.
    pub accounts: Accounts,
    /// Cost of its waste by category.
    #[serde(rename = "waste_nano_usd", with = "scalar")]
    pub waste: WasteByCategory,
    /// Pattern of its utilization; `None` if there is too little data.
    #[serde(default, with = "optional")]
    pub pattern: Option<Pattern>,
    /// Its price; `None` if it is unpriced.
    #[serde(default, with = "optional")]
    pub price: Option<Price>,
    /// Work completed, by unit.
    #[serde(default, with = "map")]
    pub work_done: BTreeMap<String, f64>,
    /// Measurements without a field of their own.
    #[serde(default, with = "map")]
    pub metrics: BTreeMap<String, f64>,
    /// Mean utilization per step, 0–1. In every column, NaN is an unobserved step, and an empty
    /// column was not recorded.
    #[serde(default, with = "list")]
    pub utilization: Vec<f64>,
    /// Mean power per step, in watts.
    #[serde(rename = "power_watts", default, with = "list")]
    pub power: Vec<f64>,
    /// Memory in use per step, in bytes.
    #[serde(rename = "memory_bytes", default, with = "list")]
    pub memory: Vec<f64>,
    /// Its attributes, beyond those of the experiment.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// What runs on it.
    #[serde(default, with = "scalar")]
    pub workload: Workload,
    /// Whether the work may be interrupted.
    #[serde(default)]
    pub interruptible: bool,
    /// When it worked.
    #[serde(default, with = "scalar")]
    pub activity: Activity,
    /// Mean interval between readings; `None` without readings.
    #[serde(rename = "interval_nanos", default, with = "optional")]
    pub interval: Option<Nanos>,
    /// Observed and idle time of each hour of the week; empty if less than a day was observed.
    #[serde(default, with = "list")]
    pub week: Vec<HourOfWeek>,
    /// Clocks, temperature, power, memory, activity and errors.
    #[serde(default)]
    pub sensors: Sensors,
    /// What holds it or a part of it, or did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<WindowHolder>,
}

/// One hour of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourOfWeek {
    /// Observed time.
    pub observed: Nanos,
    /// The part of it below 10% utilization.
    pub idle: Nanos,
}

/// Observed and idle nanoseconds, as a pair: a week has 168 of them.
impl FixtureValue for HourOfWeek {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.observed.0, self.idle.0).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (observed, idle) = Deserialize::deserialize(deserializer)?;
        Ok(Self { observed: Nanos(observed), idle: Nanos(idle) })
    }
}

/// Totals of a GPU by account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// Idle while held by a process or memory.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub idle_held: AccountTotals,
    /// Idle and free for others.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub idle_free: AccountTotals,
    /// Idle, held or free unknown.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub idle_unknown: AccountTotals,
    /// Utilization from 10% to below 70%, by default.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub underutilized: AccountTotals,
    /// Utilization from 70% to below 90%, by default.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub productive: AccountTotals,
    /// Utilization from 90%, by default.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub compute_bound: AccountTotals,
    /// Without usable utilization.
    #[serde(default, skip_serializing_if = "AccountTotals::is_empty")]
    pub unobserved: AccountTotals,
}

/// Totals of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountTotals {
    /// Time.
    #[serde(rename = "time_nanos", with = "scalar")]
    pub time: Nanos,
    /// Time × utilization.
    #[serde(rename = "effective_time_nanos", with = "scalar")]
    pub effective_time: Nanos,
    /// Cost of the time.
    #[serde(rename = "cost_nano_usd", with = "scalar")]
    pub cost: NanoUsd,
    /// Cost × utilization.
    #[serde(rename = "utilized_cost_nano_usd", with = "scalar")]
    pub utilized_cost: NanoUsd,
}

impl AccountTotals {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&accounts::Balance> for AccountTotals {
    fn from(balance: &accounts::Balance) -> Self {
        let effective = balance.weighted / u128::from(PPM);
        Self {
            time: balance.time,
            effective_time: Nanos(u64::try_from(effective).unwrap_or(u64::MAX)),
            cost: balance.cost,
            utilized_cost: balance.utilized_cost(),
        }
    }
}

impl From<&accounts::Accounts> for Accounts {
    fn from(ledger: &accounts::Accounts) -> Self {
        Self {
            idle_held: (&ledger[Account::IdleHeld]).into(),
            idle_free: (&ledger[Account::IdleFree]).into(),
            idle_unknown: (&ledger[Account::IdleUnknown]).into(),
            underutilized: (&ledger[Account::Underutilized]).into(),
            productive: (&ledger[Account::Productive]).into(),
            compute_bound: (&ledger[Account::ComputeBound]).into(),
            unobserved: (&ledger[Account::Unobserved]).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::accounts::Charge;
    use phasemeter_meter::accrual::UtilizedCost;
    use phasemeter_meter::money::Rate;
    use phasemeter_meter::timeline::TimeSlice;

    use super::*;

    /// Each account has another length, at half utilization and ten nano-dollars per second.
    #[test]
    fn accounts_are_copied_from_the_ledger() {
        let rate = Rate::new(36_000).unwrap();
        let mut ledger = accounts::Accounts::default();
        for (seconds, account) in (1_u64..).zip(Account::ALL) {
            let to = Timestamp::EPOCH + Nanos::from_secs(seconds);
            let weighted = u128::from(PPM) / 2 * u128::from(Nanos::from_secs(seconds).0);
            let slice = TimeSlice { from: Timestamp::EPOCH, to, account, weighted, quiet: false };
            let cost = NanoUsd(10 * i128::from(seconds));
            ledger.post(&Charge::of(slice, cost, UtilizedCost::of(weighted, rate)));
        }
        let copied = Accounts::from(&ledger);
        let copied = [
            copied.idle_held,
            copied.idle_free,
            copied.idle_unknown,
            copied.underutilized,
            copied.productive,
            copied.compute_bound,
            copied.unobserved,
        ];
        for (seconds, totals) in (1_u64..).zip(copied) {
            let expected = AccountTotals {
                time: Nanos::from_secs(seconds),
                effective_time: Nanos::from_millis(seconds * 500),
                cost: NanoUsd(10 * i128::from(seconds)),
                utilized_cost: NanoUsd(5 * i128::from(seconds)),
            };
            assert_eq!(totals, expected);
        }
    }
}
