//! What a recommender is shown: the whole experiment so far, a snapshot that never changes.
//!
//! The sidecar fills it, the contract writes it for the guest. This room must not know how it
//! travels, nor what anyone advises.

use std::collections::BTreeMap;

use phasemeter_meter::accounts;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::Pattern;
use phasemeter_meter::phase::Account as Name;
use phasemeter_meter::price::Price;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM, Timestamp};
use phasemeter_meter::waste::WasteByCategory;

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The first instant of it.
    pub start: Timestamp,
    /// The first instant after it.
    pub end: Timestamp,
    /// Whether the experiment is over.
    pub last: bool,
    /// What the experiment is called.
    pub experiment_id: String,
    /// Its W3C trace id: 32 hexadecimal digits.
    pub trace_id: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// From one point of the columns to the next.
    pub step: Nanos,
    /// The GPUs, in the order of the report.
    pub gpus: Vec<Gpu>,
    /// What the contract has no field for.
    pub metrics: BTreeMap<String, f64>,
}

/// One GPU of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its uuid, else its bus id, else its file and index. One of a kind in the window.
    pub id: String,
    /// As the driver names it; empty where nobody said.
    pub model: String,
    /// All its memory.
    pub memory_total: Option<Bytes>,
    /// The most it may draw.
    pub power_limit: Option<Milliwatts>,
    /// Where its time and money went.
    pub accounts: Accounts,
    /// Its waste, by pool.
    pub waste: WasteByCategory,
    /// How its utilization moves; `None` where there is too little to tell.
    pub pattern: Option<Pattern>,
    /// What it costs; `None` where it is unpriced.
    pub price: Option<Price>,
    /// What it got done, by unit.
    pub work_done: BTreeMap<String, f64>,
    /// Mean utilization of each step, 0–1. In this and the columns below a NaN is a step that
    /// nothing observed, and an empty column is one that there was not.
    pub utilization: Vec<f64>,
    /// Mean power of each step, in watts.
    pub power: Vec<f64>,
    /// Memory in use in each step, in bytes.
    pub memory: Vec<f64>,
    /// What the contract has no field for.
    pub metrics: BTreeMap<String, f64>,
}

/// The accounts of a GPU, each with its sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Idle, and held.
    pub idle_held: Account,
    /// Idle, and free for others.
    pub idle_free: Account,
    /// Idle, where holding is not known.
    pub idle_unknown: Account,
    /// From 10 to below 70 %.
    pub underutilized: Account,
    /// From 70 to below 90 %.
    pub productive: Account,
    /// From 90 %.
    pub compute_bound: Account,
    /// Nothing observed it.
    pub unobserved: Account,
}

/// The sums of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Time in it.
    pub time: Nanos,
    /// Utilization × time.
    pub effective_time: Nanos,
    /// What the time cost.
    pub cost: NanoUsd,
    /// What the effective share of it cost.
    pub effective_cost: NanoUsd,
}

impl From<&accounts::Balance> for Account {
    fn from(balance: &accounts::Balance) -> Self {
        let effective = balance.weighted / u128::from(PPM);
        Self {
            time: balance.time,
            effective_time: Nanos(u64::try_from(effective).unwrap_or(u64::MAX)),
            cost: balance.cost,
            effective_cost: balance.utilized_cost(),
        }
    }
}

impl From<&accounts::Accounts> for Accounts {
    fn from(ledger: &accounts::Accounts) -> Self {
        Self {
            idle_held: (&ledger[Name::IdleHeld]).into(),
            idle_free: (&ledger[Name::IdleFree]).into(),
            idle_unknown: (&ledger[Name::IdleUnknown]).into(),
            underutilized: (&ledger[Name::Underutilized]).into(),
            productive: (&ledger[Name::Productive]).into(),
            compute_bound: (&ledger[Name::ComputeBound]).into(),
            unobserved: (&ledger[Name::Unobserved]).into(),
        }
    }
}
