//! A window as it stands in a file: the fields of the contract, those that have a unit with it in
//! their names. What the contract lets be absent may be left out; so may accounts with no time.
//!
//! This room must not know what anyone reads from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::Price;
use phasemeter_meter::series::POINTS;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM, Timestamp};
use phasemeter_meter::waste::WasteByCategory;
use serde::{Deserialize, Serialize};

use super::value::{each, maybe, named, one, record};
use crate::error::{Violation, sanitize};
use crate::window::{Account, Accounts, Gpu, Window};

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    schema: Schema,
    #[serde(with = "WindowFields")]
    window: Window,
}

#[derive(Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "phasemeter.window/0.1")]
    V0_1,
}

impl From<&Window> for File {
    fn from(window: &Window) -> Self {
        Self { schema: Schema::V0_1, window: window.clone() }
    }
}

impl From<File> for Window {
    fn from(file: File) -> Self {
        file.window
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Window", deny_unknown_fields)]
struct WindowFields {
    #[serde(rename = "start_unix_nanos", with = "one")]
    start: Timestamp,
    #[serde(rename = "end_unix_nanos", with = "one")]
    end: Timestamp,
    last: bool,
    experiment_id: String,
    trace_id: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    #[serde(rename = "step_nanos", with = "one")]
    step: Nanos,
    #[serde(default, with = "named")]
    metrics: BTreeMap<String, f64>,
    #[serde(with = "each")]
    gpus: Vec<Gpu>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Gpu", deny_unknown_fields)]
struct GpuFields {
    id: String,
    #[serde(default)]
    model: String,
    #[serde(rename = "memory_total_bytes", default, with = "maybe")]
    memory_total: Option<Bytes>,
    #[serde(rename = "power_limit_milliwatts", default, with = "maybe")]
    power_limit: Option<Milliwatts>,
    #[serde(with = "AccountsFields")]
    accounts: Accounts,
    #[serde(rename = "waste_nano_usd", with = "WasteFields")]
    waste: WasteByCategory,
    #[serde(default, with = "maybe")]
    pattern: Option<Pattern>,
    #[serde(default, with = "maybe")]
    price: Option<Price>,
    #[serde(default, with = "named")]
    work_done: BTreeMap<String, f64>,
    #[serde(default, with = "named")]
    metrics: BTreeMap<String, f64>,
    #[serde(default, with = "each")]
    utilization: Vec<f64>,
    #[serde(rename = "power_watts", default, with = "each")]
    power: Vec<f64>,
    #[serde(rename = "memory_bytes", default, with = "each")]
    memory: Vec<f64>,
}
record!(Gpu, GpuFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Accounts", deny_unknown_fields)]
struct AccountsFields {
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    idle_held: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    idle_free: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    idle_unknown: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    underutilized: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    productive: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    compute_bound: Account,
    #[serde(default, skip_serializing_if = "is_empty", with = "one")]
    unobserved: Account,
}

fn is_empty(account: &Account) -> bool {
    *account == Account::default()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Account", deny_unknown_fields)]
struct AccountFields {
    #[serde(rename = "time_nanos", with = "one")]
    time: Nanos,
    #[serde(rename = "effective_time_nanos", with = "one")]
    effective_time: Nanos,
    #[serde(rename = "cost_nano_usd", with = "one")]
    cost: NanoUsd,
    #[serde(rename = "effective_cost_nano_usd", with = "one")]
    effective_cost: NanoUsd,
}
record!(Account, AccountFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "WasteByCategory", deny_unknown_fields)]
struct WasteFields {
    #[serde(with = "one")]
    starvation: NanoUsd,
    #[serde(with = "one")]
    idle: NanoUsd,
    #[serde(rename = "occupancy", with = "one")]
    underload: NanoUsd,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pattern", deny_unknown_fields)]
struct PatternFields {
    #[serde(with = "KindName")]
    kind: PatternKind,
    #[serde(rename = "period_nanos", default, with = "maybe")]
    period: Option<Nanos>,
    #[serde(rename = "duty_ppm", default)]
    duty_cycle: Option<u32>,
}
record!(Pattern, PatternFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PatternKind", rename_all = "snake_case")]
enum KindName {
    Idle,
    Steady,
    Bouncing,
    Mixed,
}

/// What the contract promises of a window and this one does not keep: a policy that is tested on it
/// would be tested on nothing.
pub(super) fn violations(window: &Window) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut must = |holds: bool, at: &str, problem: String| {
        if !holds {
            found.push(Violation { at: at.to_owned(), problem });
        }
    };
    let hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    must(window.start <= window.end, "end_unix_nanos", "is before start_unix_nanos".to_owned());
    must(!window.experiment_id.is_empty(), "experiment_id", "is empty".to_owned());
    must(
        window.trace_id.len() == 32 && hex(&window.trace_id),
        "trace_id",
        "is no 32 hexadecimal digits".to_owned(),
    );
    must(window.step > Nanos::ZERO, "step_nanos", "is 0".to_owned());
    let mut ids = BTreeSet::new();
    let mut points = None;
    for (i, gpu) in window.gpus.iter().enumerate() {
        let at = |field: &str| format!("gpus[{i}].{field}");
        let id = sanitize(&gpu.id, 80);
        must(!id.is_empty(), &at("id"), "is empty".to_owned());
        must(ids.insert(&gpu.id), &at("id"), format!("is '{id}', as that of another GPU"));
        for (name, account) in accounts(&gpu.accounts) {
            let within =
                account.effective_time <= account.time && account.effective_cost <= account.cost;
            must(
                within,
                &at(&format!("accounts.{name}")),
                "is more effective than it is".to_owned(),
            );
        }
        let duty_cycle = gpu.pattern.and_then(|pattern| pattern.duty_cycle).unwrap_or(0);
        must(duty_cycle <= PPM, &at("pattern.duty_ppm"), format!("is {duty_cycle}, above {PPM}"));
        for (name, column, range) in columns(gpu) {
            let at = at(name);
            let length = column.len();
            must(length <= POINTS, &at, format!("has {length} points, above {POINTS}"));
            let same = length == 0 || length == *points.get_or_insert(length);
            must(same, &at, format!("has {length} points, and another column has not"));
            let outlier = column.iter().find(|value| !value.is_nan() && !range.contains(value));
            let told = outlier.map_or_else(String::new, |value| format!("has {value} in it"));
            must(outlier.is_none(), &at, told);
        }
    }
    found
}

fn accounts(accounts: &Accounts) -> [(&'static str, Account); 7] {
    [
        ("idle_held", accounts.idle_held),
        ("idle_free", accounts.idle_free),
        ("idle_unknown", accounts.idle_unknown),
        ("underutilized", accounts.underutilized),
        ("productive", accounts.productive),
        ("compute_bound", accounts.compute_bound),
        ("unobserved", accounts.unobserved),
    ]
}

/// The columns that are there, with their names and what may be in them.
fn columns(gpu: &Gpu) -> [(&'static str, &[f64], RangeInclusive<f64>); 3] {
    [
        ("utilization", &gpu.utilization, 0.0..=1.0),
        ("power_watts", &gpu.power, 0.0..=f64::MAX),
        ("memory_bytes", &gpu.memory, 0.0..=f64::MAX),
    ]
}
