//! A bill as text.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::number::counted;
use phasemeter_terminal::page::{Page, Style};
use phasemeter_terminal::table::Table;

use crate::bill::{Bill, NobodysShare, Payer, Realized, Row};
use crate::dimension::Dimension;
use crate::format::{dollars, hours, percent, printed};
use crate::invoice::Reconciliation;
use crate::printed_bill::PrintedBill;
use crate::totals::Totals;

/// In place of an amount of time without a price.
const NO_PRICE: &str = "no price";

/// Renders a bill, and its reconciliation with an invoice.
#[must_use]
pub fn render(bill: &Bill, invoice: Option<&Reconciliation>) -> String {
    let mut page = Page::new(false);
    page.write(Style::Bold, &title(bill));
    page.end_line();
    page.end_line();
    let mut table =
        Table::of_numbers([&by(bill), "GPU-hours", "effective", "metered", "idle share", "total"]);
    let amounts = PrintedBill::of(bill);
    let is_share_estimated = bill
        .rows
        .iter()
        .any(|row| (row.payer == Payer::Idle || row.is_spread()) && row.metered.range().is_some());
    for (row, printed) in bill.rows.iter().zip(&amounts.rows) {
        let is_shared = row.idle_share != NanoUsd::ZERO;
        let is_estimated = row.metered.range().is_some();
        let share = marked(printed.idle_share, row.idle_share, is_share_estimated);
        let share = if is_shared { share } else { String::new() };
        let [hours, effective] = times(&row.metered, &bill.sum);
        let metered = if row.metered.has_no_price() {
            NO_PRICE.to_owned()
        } else {
            marked(printed.metered, row.metered.cost, is_estimated)
        };
        let is_total_estimated = row.payer != Payer::Idle
            && !row.is_spread()
            && (is_estimated || is_shared && is_share_estimated);
        let total = row.amount().map_or_else(
            || NO_PRICE.to_owned(),
            |total| marked(printed.total(), total, is_total_estimated),
        );
        table.row([name(bill, &row.payer), hours, effective, metered, share, total]);
    }
    let [hours, effective] = times(&bill.sum, &bill.sum);
    let sum = &bill.sum;
    let all = if sum.has_no_price() {
        NO_PRICE.to_owned()
    } else {
        marked(amounts.all, sum.cost, sum.range().is_some())
    };
    table.row(["all".to_owned(), hours, effective, all.clone(), String::new(), all.clone()]);
    table.write(&mut page, 0);
    page.end_line();
    let [utilized, waste, unobserved] = amounts.used;
    let parts = format!(
        "{all} = {} utilized + {} waste ({}) + {} unobserved",
        printed(utilized, sum.utilized),
        printed(waste, sum.waste()),
        percent(sum.waste(), sum.cost),
        printed(unobserved, sum.unobserved),
    );
    page.sentences("Bill", [if sum.has_no_price() { NO_PRICE } else { &parts }]);
    if let Some([low, high]) = sum.range() {
        let estimate = format!(
            "~ is at prices that are estimates; at the lowest and the highest of them the bill is {} to {}",
            dollars(low),
            dollars(high)
        );
        page.sentences("Estimate", [estimate]);
    }
    if sum.is_divided() {
        page.sentences("Holders", [holders(bill, &amounts)]);
    }
    let rules = bill.rows.iter().filter(|row| row.is_spread()).filter_map(|row| rule(bill, row));
    page.sentences("Idle share", rules.collect::<Vec<_>>());
    if let Some(invoice) = invoice {
        page.end_line();
        write_invoice(&mut page, bill, &amounts, invoice);
    }
    page.sentences("Realized", bill.realized.iter().map(realized));
    page.sentences("Notes", &bill.notes);
    page.into_text()
}

/// What a trial has saved.
fn realized(trial: &Realized) -> String {
    let Realized { code, report, saved } = trial;
    let [low, expected, high] = [saved.low, saved.expected, saved.high].map(dollars);
    format!("{code} saved {expected} ({low} to {high}) in {report}, which is in none of the sums")
}

/// What holders used of the GPUs that were divided among them.
fn holders(bill: &Bill, amounts: &PrintedBill) -> String {
    let [unused, never_touched] = bill.sum.unused;
    let rows = bill.rows.iter().zip(&amounts.rows);
    let nobody = rows.filter(|(row, _)| row.payer == Payer::Nobody);
    let (cents, cost): (Vec<i128>, Vec<NanoUsd>) =
        nobody.map(|(row, printed)| (printed.metered, row.metered.cost)).unzip();
    format!(
        "of GPUs with known holders, {} was granted and not used, {} granted and never touched, and {} nobody's; \
         unobserved time is included",
        dollars(unused),
        dollars(never_touched),
        printed(cents.into_iter().sum(), cost.into_iter().sum())
    )
}

/// How an account is spread.
fn rule(bill: &Bill, row: &Row) -> Option<&'static str> {
    match (&row.payer, bill.share) {
        (Payer::Idle, _) => Some(
            "idle cost of GPUs without an owner is spread by effective hours; \
             --idle separate keeps it apart",
        ),
        (Payer::Nobody, NobodysShare::Even) => Some(
            "what nobody had of GPUs with known holders (idle, unobserved, or used by unknown processes) is paid \
                 by the rows of holders, each the same",
        ),
        (Payer::Nobody, NobodysShare::ByGrant) => Some(
            "what nobody had of GPUs with known holders (idle, unobserved, or used by unknown processes) is paid by \
             the rows of holders, by what they were granted",
        ),
        _ => None,
    }
}

fn title(bill: &Bill) -> String {
    let mut title = format!("Bill of {}", counted(bill.reports as u64, "report"));
    if let Some((from, to)) = bill.span {
        let days = [from, to.saturating_sub(Nanos(1)).max(from)].map(Date::of);
        title += &match days {
            [day, last] if day == last => format!(", {day} (UTC)"),
            [first, last] => format!(", {first} to {last} (UTC)"),
        };
    }
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
        Payer::Nobody => "(nobody)".to_owned(),
        Payer::Group(values) => {
            let value = |(value, dimension): (&Option<String>, &Dimension)| {
                let unknown = if dimension.is_owner() { "(untagged)" } else { "(unknown)" };
                match value {
                    Some(id) if *dimension == Dimension::Gpu => bill.gpu_names.of(id),
                    Some(value) => value.clone(),
                    None => unknown.to_owned(),
                }
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

fn write_invoice(page: &mut Page, bill: &Bill, amounts: &PrintedBill, invoice: &Reconciliation) {
    let mut table = Table::of_numbers([&by(bill), "total", "billed", "difference", ""]);
    let (lines, all) = amounts.lines(bill, invoice);
    let unless = |cents: i128, amount: Option<NanoUsd>| {
        amount.map_or_else(|| "–".to_owned(), |amount| printed(cents, amount))
    };
    for (line, [total, billed, difference]) in invoice.lines.iter().zip(lines) {
        let exact = line.difference();
        let relative = line.total.zip(exact).map(|(total, it)| percent(it, total));
        table.row([
            name(bill, &line.payer),
            unless(total, line.total),
            unless(billed, line.billed),
            unless(difference, exact),
            relative.unwrap_or_default(),
        ]);
    }
    let sum = invoice.sum();
    let [total, billed, difference] = all;
    table.row([
        "all".to_owned(),
        unless(total, sum.total),
        unless(billed, sum.billed),
        unless(difference, sum.difference()),
        percent(sum.difference().unwrap_or_default(), sum.total.unwrap_or_default()),
    ]);
    table.write(page, 0);
    page.end_line();
}

/// Cents of an amount, with a mark if it is an estimate.
fn marked(cents: i128, amount: NanoUsd, is_estimated: bool) -> String {
    let mark = if is_estimated { "~" } else { "" };
    format!("{mark}{}", printed(cents, amount))
}
