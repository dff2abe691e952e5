//! A comparison as text.

use phasemeter_meter::phase::Account;
use phasemeter_terminal::number::grouped;
use phasemeter_terminal::page::{Page, Style};
use phasemeter_terminal::table::Table;

use super::{Change, Comparison, Promise};

/// Renders a comparison at this confidence level.
#[must_use]
pub fn render(comparison: &Comparison, names: [&str; 2], level: f64) -> String {
    let mut page = Page::new(false);
    page.items(Style::Bold, &[format!("Before and after, per {}", singular(&comparison.unit))], "");
    page.end_line();
    let [before, after] = &comparison.sums;
    let mut table = Table::of_numbers(["", "before", "after", "change", &interval_title(level)]);
    let each = |sums: &super::Sums| significant(sums.unit_cost());
    table.row(row("dollars", [each(before), each(after)], &comparison.unit_cost, 100.0, "%"));
    let each = |sums: &super::Sums| significant(sums.unit_time());
    table.row(row("GPU-hours", [each(before), each(after)], &comparison.unit_time, 100.0, "%"));
    let each = |sums: &super::Sums| format!("{:.1}%", sums.waste_fraction() * 100.0);
    table.row(row("waste", [each(before), each(after)], &comparison.waste, 100.0, " points"));
    for account in Account::ALL {
        let [before, after] = comparison.shares(account);
        if before > 0.0 || after > 0.0 {
            let share = |share: f64| format!("{:.1}%", share * 100.0);
            let change = Change { value: after - before, interval: None };
            let name = account.name().replace('_', " ");
            table.row(row(&name, [share(before), share(after)], &change, 100.0, " points"));
        }
    }
    table.write(&mut page, 0);
    page.end_line();
    page.sentences("Result", [conclusion(comparison, level)]);
    let promise = comparison.promise.as_ref();
    page.sentences("Promise", promise.map(|it| promise_text(it, &comparison.unit_cost)));
    for ((label, name), sums) in ["Before", "After"].into_iter().zip(names).zip([before, after]) {
        let (work, unit) = (whole(sums.work), &comparison.unit);
        page.sentences(label, [format!("{name}: {work} {unit} in {:.1} GPU-hours", sums.hours)]);
    }
    page.sentences("Notes", &comparison.notes);
    page.into_text()
}

fn interval_title(level: f64) -> String {
    format!("{}% interval", level * 100.0)
}

fn row(name: &str, values: [String; 2], change: &Change, scale: f64, unit: &str) -> [String; 5] {
    let [before, after] = values;
    let number = |value: f64| format!("{:+.1}", value * scale);
    let interval =
        change.interval.map(|[low, high]| format!("{} to {}{unit}", number(low), number(high)));
    let change = format!("{}{unit}", number(change.value));
    [name.to_owned(), before, after, change, interval.unwrap_or_default()]
}

/// What the comparison shows, in one sentence.
pub(super) fn conclusion(comparison: &Comparison, level: f64) -> String {
    let unit = singular(&comparison.unit);
    let change = &comparison.unit_cost;
    let percent = change.value.abs() * 100.0;
    let costs = match change.value {
        // As displayed.
        _ if percent < 0.05 => "the same".to_owned(),
        value if value < 0.0 => format!("{percent:.1}% less"),
        _ => format!("{percent:.1}% more"),
    };
    match change.is_significant() {
        Some(true) => {
            format!("a {unit} costs {costs} ({}% confidence)", level * 100.0)
        }
        Some(false) => {
            format!("no difference in dollars per {unit} at {}% confidence", level * 100.0)
        }
        None => format!("a {unit} costs {costs}, by totals alone"),
    }
}

fn promise_text(promise: &Promise, unit_cost: &Change) -> String {
    let names: Vec<_> =
        promise.done.iter().map(|(code, title)| format!("{code} ({title})")).collect();
    let realized = -unit_cost.value * 100.0;
    let interval = unit_cost
        .interval
        .map(|[low, high]| format!(" ({:.1} to {:.1}%)", -high * 100.0, -low * 100.0));
    let interval = interval.unwrap_or_default();
    match promise.saving {
        Some([low, expected, high]) => format!(
            "{} promised to save {:.1}% of the bill ({:.1} to {:.1}%); realized {realized:.1}%{interval} \
             per unit",
            names.join(", "),
            expected * 100.0,
            low * 100.0,
            high * 100.0,
        ),
        None => {
            format!("{}: together realized {realized:.1}%{interval} per unit", names.join(", "))
        }
    }
}

fn singular(unit: &str) -> &str {
    unit.strip_suffix('s').unwrap_or(unit)
}

/// A count, grouped.
fn whole(count: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let count = count as u128;
    grouped(count)
}

/// Four significant digits.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "–".to_owned();
    }
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 15.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 15")]
    let digits = digits as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!([12_345.6, 1.5, 0.000_123_45].map(significant), ["12346", "1.500", "0.0001234"]);
        assert_eq!(significant(f64::NAN), "–");
    }
}
