//! A comparison as JSON, as specified by `compare.schema.json`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use phasemeter_meter::phase::Account;
use serde::Serialize;

use super::{Change, Comparison, Options, Sums, text};

/// The value of `schema`; changes with the meaning of any field.
pub const SCHEMA: &str = "phasemeter.comparison/0.1";

#[derive(Serialize)]
struct JsonComparison<'a> {
    schema: &'static str,
    unit: &'a str,
    result: String,
    level: f64,
    hours: Option<[usize; 2]>,
    before: JsonRun<'a>,
    after: JsonRun<'a>,
    unit_cost: JsonChange,
    unit_gpu_hours: JsonChange,
    waste_fraction: JsonChange,
    promise: Option<JsonPromise<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonRun<'a> {
    file: &'a str,
    work: f64,
    gpu_hours: f64,
    effective_gpu_hours: f64,
    cost_usd: f64,
    cost_per_unit_usd: f64,
    waste_fraction: f64,
    phases: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct JsonChange {
    change: f64,
    low: Option<f64>,
    high: Option<f64>,
    significant: Option<bool>,
}

#[derive(Serialize)]
struct JsonPromise<'a> {
    done: Vec<&'a str>,
    low: Option<f64>,
    expected: Option<f64>,
    high: Option<f64>,
    realized: f64,
}

impl From<&Change> for JsonChange {
    fn from(change: &Change) -> Self {
        let bound = |index: usize| change.interval.and_then(|it| it.get(index).copied());
        let significant = change.is_significant();
        Self { change: change.value, low: bound(0), high: bound(1), significant }
    }
}

impl<'a> JsonRun<'a> {
    fn of(file: &'a str, sums: &Sums) -> Self {
        let phases = Account::ALL.map(|account| (account.name(), sums.share(account)));
        Self {
            file,
            work: sums.work,
            gpu_hours: sums.hours,
            effective_gpu_hours: sums.effective,
            cost_usd: sums.cost,
            cost_per_unit_usd: sums.unit_cost(),
            waste_fraction: sums.waste_fraction(),
            phases: phases.into(),
        }
    }
}

/// Writes a comparison as indented JSON, followed by a newline.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write(
    comparison: &Comparison,
    names: [&str; 2],
    options: &Options,
    mut out: impl Write,
) -> io::Result<()> {
    let promise = comparison.promise.as_ref().map(|promise| {
        let bound = |index: usize| promise.saving.and_then(|it| it.get(index).copied());
        JsonPromise {
            done: promise.done.iter().map(|(code, _)| code.as_str()).collect(),
            low: bound(0),
            expected: bound(1),
            high: bound(2),
            realized: -comparison.unit_cost.value,
        }
    });
    let json = JsonComparison {
        schema: SCHEMA,
        unit: &comparison.unit,
        result: text::conclusion(comparison, options.level),
        level: options.level,
        hours: comparison.hours,
        before: JsonRun::of(names[0], &comparison.sums[0]),
        after: JsonRun::of(names[1], &comparison.sums[1]),
        unit_cost: (&comparison.unit_cost).into(),
        unit_gpu_hours: (&comparison.unit_time).into(),
        waste_fraction: (&comparison.waste).into(),
        promise,
        notes: &comparison.notes,
    };
    serde_json::to_writer_pretty(&mut out, &json)?;
    writeln!(out)
}
