//! A bill as text.
//!
//! Must not depend on how it was added up.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;

use crate::bill::{Bill, Payer, Row};
use crate::format::{dollars, dollars_that_sum, grouped, hours, percent};
use crate::invoice::Reconciliation;
use crate::table::{Table, paragraph};
use crate::totals::Totals;

/// Renders a bill, and its reconciliation with an invoice.
#[must_use]
pub fn render(bill: &Bill, invoice: Option<&Reconciliation>) -> String {
    let mut text = title(bill);
    text.push('\n');
    let mut table =
        Table::new([&by(bill), "GPU-hours", "effective", "metered", "idle share", "total"]);
    let column = |amount: fn(&Row) -> NanoUsd| dollars_that_sum(bill.rows.iter().map(amount));
    let (metered, total) = (column(|row| row.metered.cost), column(Row::total));
    let shares = column(|row| row.idle_share);
    for (index, row) in bill.rows.iter().enumerate() {
        let cell = |column: &[String]| column.get(index).cloned().unwrap_or_default();
        let share = if row.idle_share == NanoUsd::ZERO { String::new() } else { cell(&shares) };
        let [hours, effective] = times(&row.metered, &bill.sum);
        let name = name(bill, &row.payer);
        table.row([name, hours, effective, cell(&metered), share, cell(&total)]);
    }
    let [hours, effective] = times(&bill.sum, &bill.sum);
    let all = dollars(bill.sum.cost);
    table.row(["all".to_owned(), hours, effective, all.clone(), String::new(), all]);
    table.write(&mut text);
    text.push('\n');
    let (waste, unobserved) = (bill.sum.waste(), bill.sum.unobserved);
    let parts = format!(
        "{} = {} utilized + {} waste ({}) + {} unobserved",
        dollars(bill.sum.cost),
        dollars(bill.sum.utilized),
        dollars(waste),
        percent(waste, bill.sum.cost),
        dollars(unobserved),
    );
    paragraph(&mut text, "Bill", &parts);
    if bill.rows.iter().any(|row| row.idle_share != NanoUsd::ZERO) {
        let rule = "idle cost of GPUs without an owner is spread by effective hours; \
                    --idle separate keeps it apart";
        paragraph(&mut text, "Idle share", rule);
    }
    if let Some(invoice) = invoice {
        text.push('\n');
        write_invoice(&mut text, bill, invoice);
    }
    for (index, note) in bill.notes.iter().enumerate() {
        paragraph(&mut text, if index == 0 { "Notes" } else { "" }, note);
    }
    text
}

fn title(bill: &Bill) -> String {
    let plural = |count: usize, noun: &str| {
        let ending = if count == 1 { "" } else { "s" };
        format!("{} {noun}{ending}", grouped(count as u128))
    };
    let mut title = format!("Bill of {}", plural(bill.reports, "report"));
    if let Some((from, to)) = bill.span {
        let days = [from, to.saturating_sub(Nanos(1)).max(from)].map(Date::of);
        title += &match days {
            [day, last] if day == last => format!(", {day} (UTC)"),
            [first, last] => format!(", {first} to {last} (UTC)"),
        };
    }
    title.push('\n');
    title
}

fn by(bill: &Bill) -> String {
    let names: Vec<_> = bill.by.iter().map(ToString::to_string).collect();
    names.join(" · ")
}

/// A payer's name: values, or the account in parentheses.
pub(crate) fn name(bill: &Bill, payer: &Payer) -> String {
    match payer {
        Payer::Idle => "(idle)".to_owned(),
        Payer::Unobserved => "(unobserved)".to_owned(),
        Payer::Group(values) => {
            let value = |(value, dimension): (&Option<String>, &crate::dimension::Dimension)| {
                let unknown = if dimension.is_owner() { "(untagged)" } else { "(unknown)" };
                value.clone().unwrap_or_else(|| unknown.to_owned())
            };
            let values: Vec<_> = values.iter().zip(&bill.by).map(value).collect();
            if values.is_empty() { "all GPUs".to_owned() } else { values.join(" · ") }
        }
    }
}

/// GPU-hours and effective hours.
fn times(totals: &Totals, sum: &Totals) -> [String; 2] {
    [totals.hours(), totals.effective_hours()].map(|time| hours(time, sum.hours()))
}

fn write_invoice(text: &mut String, bill: &Bill, invoice: &Reconciliation) {
    let mut table = Table::new([&by(bill), "metered", "billed", "difference", ""]);
    let amount = |amount: Option<NanoUsd>| amount.map_or_else(|| "–".to_owned(), dollars);
    for line in &invoice.lines {
        let difference = line.difference();
        let relative = line.metered.zip(difference).map(|(metered, it)| percent(it, metered));
        table.row([
            name(bill, &line.payer),
            amount(line.metered),
            amount(line.billed),
            amount(difference),
            relative.unwrap_or_default(),
        ]);
    }
    let all = invoice.sum();
    table.row([
        "all".to_owned(),
        amount(all.metered),
        amount(all.billed),
        amount(all.difference()),
        percent(all.difference().unwrap_or_default(), all.metered.unwrap_or_default()),
    ]);
    table.write(text);
    text.push('\n');
}
