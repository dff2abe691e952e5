//! A bill as JSON, as specified by `bill.schema.json`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use phasemeter_meter::instant::Instant;
use serde::Serialize;

use crate::amount::Usd;
use crate::bill::{Bill, Payer, Realized, Row};
use crate::invoice::{Line, Reconciliation};
use crate::totals::Totals;

/// The value of `schema`; changes with the meaning of any field.
pub const SCHEMA: &str = "phasemeter.bill/0.1";

#[derive(Serialize)]
struct JsonBill<'a> {
    schema: &'static str,
    by: Vec<String>,
    start: Option<String>,
    end: Option<String>,
    reports: usize,
    gpu_sessions: usize,
    rows: Vec<JsonRow<'a>>,
    total: JsonTotals,
    invoice: Option<Vec<JsonLine<'a>>>,
    /// Empty without trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    realized: Vec<JsonRealized<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct JsonRow<'a> {
    account: &'static str,
    group: BTreeMap<String, Option<&'a str>>,
    #[serde(flatten)]
    metered: JsonTotals,
    idle_share_usd: Usd,
    /// `None` if none of the time has a price, and no share either.
    total_usd: Option<Usd>,
}

#[derive(Serialize)]
struct JsonTotals {
    gpu_hours: f64,
    effective_gpu_hours: f64,
    unpriced_gpu_hours: f64,
    metered_usd: Option<Usd>,
    metered_range_usd: Option<Range>,
    utilized_usd: Option<Usd>,
    waste_usd: Option<Usd>,
    idle_usd: Option<Usd>,
    unobserved_usd: Option<Usd>,
    /// These two are there if a part of a GPU that was divided is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted_unused_usd: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    never_touched_usd: Option<Usd>,
}

/// At the lowest and the highest price of estimates.
#[derive(Serialize)]
struct Range {
    low: Usd,
    high: Usd,
}

#[derive(Serialize)]
struct JsonRealized<'a> {
    code: &'a str,
    report: &'a str,
    low_usd: Usd,
    expected_usd: Usd,
    high_usd: Usd,
}

#[derive(Serialize)]
struct JsonLine<'a> {
    account: &'static str,
    group: BTreeMap<String, Option<&'a str>>,
    total_usd: Option<Usd>,
    billed_usd: Option<Usd>,
    difference_usd: Option<Usd>,
}

impl<'a> JsonRealized<'a> {
    fn of(Realized { code, report, saved }: &'a Realized) -> Self {
        let [low_usd, expected_usd, high_usd] = [saved.low, saved.expected, saved.high].map(Usd);
        Self { code, report, low_usd, expected_usd, high_usd }
    }
}

impl From<&Totals> for JsonTotals {
    fn from(totals: &Totals) -> Self {
        let usd = |amount| (!totals.has_no_price()).then_some(Usd(amount));
        let divided = |amount| usd(amount).filter(|_| totals.is_divided());
        Self {
            gpu_hours: totals.hours(),
            effective_gpu_hours: totals.effective_hours(),
            unpriced_gpu_hours: totals.unpriced_hours(),
            metered_usd: usd(totals.cost),
            metered_range_usd: totals
                .range()
                .map(|[low, high]| Range { low: Usd(low), high: Usd(high) }),
            utilized_usd: usd(totals.utilized),
            waste_usd: usd(totals.waste()),
            // Of a part of a divided GPU it is unknown.
            idle_usd: usd(totals.idle).filter(|_| !totals.is_divided()),
            unobserved_usd: usd(totals.unobserved),
            granted_unused_usd: divided(totals.unused[0]),
            never_touched_usd: divided(totals.unused[1]),
        }
    }
}

/// Writes a bill and its reconciliation as indented JSON, followed by a newline.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write(bill: &Bill, invoice: Option<&Reconciliation>, mut out: impl Write) -> io::Result<()> {
    let line = |line: &'_ Line| JsonLine {
        account: account(&line.payer),
        group: BTreeMap::new(),
        total_usd: line.total.map(Usd),
        billed_usd: line.billed.map(Usd),
        difference_usd: line.difference().map(Usd),
    };
    let json = JsonBill {
        schema: SCHEMA,
        by: bill.by.iter().map(ToString::to_string).collect(),
        start: bill.span.map(|(from, _)| Instant(from).to_string()),
        end: bill.span.map(|(_, to)| Instant(to).to_string()),
        reports: bill.reports,
        gpu_sessions: bill.sessions,
        rows: bill.rows.iter().map(|row| json_row(bill, row)).collect(),
        total: (&bill.sum).into(),
        invoice: invoice.map(|invoice| {
            let lines = invoice.lines.iter();
            lines.map(|it| JsonLine { group: group(bill, &it.payer), ..line(it) }).collect()
        }),
        realized: bill.realized.iter().map(JsonRealized::of).collect(),
        notes: &bill.notes,
    };
    serde_json::to_writer_pretty(&mut out, &json)?;
    writeln!(out)
}

fn json_row<'a>(bill: &Bill, row: &'a Row) -> JsonRow<'a> {
    JsonRow {
        account: account(&row.payer),
        group: group(bill, &row.payer),
        metered: (&row.metered).into(),
        idle_share_usd: Usd(row.idle_share),
        total_usd: row.amount().map(Usd),
    }
}

const fn account(payer: &Payer) -> &'static str {
    match payer {
        Payer::Group(_) => "group",
        Payer::Idle => "idle",
        Payer::Unobserved => "unobserved",
        Payer::Nobody => "nobody",
    }
}

fn group<'a>(bill: &Bill, payer: &'a Payer) -> BTreeMap<String, Option<&'a str>> {
    match payer {
        Payer::Group(values) => {
            let names = bill.by.iter().map(ToString::to_string);
            names.zip(values.iter().map(Option::as_deref)).collect()
        }
        Payer::Idle | Payer::Unobserved | Payer::Nobody => BTreeMap::new(),
    }
}
