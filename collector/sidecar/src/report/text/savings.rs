//! What all recommendations save together: in one sentence, or as a table.
//!
//! Must not depend on individual recommendations.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::projection::MONTHLY_BASIS;

use crate::report::model::Report;
use crate::report::policies::{Range, Savings};
use crate::report::value::Usd;

use super::format::{self, Dollars};
use super::layout::{Page, SEPARATOR, Style};

/// Column widths of name, each amount, and share.
const NAME: usize = 20;
const MONEY: usize = 13;
const SHARE: usize = 10;

/// Returns whether there are any.
pub(super) fn write(page: &mut Page, report: &Report, in_full: bool) -> bool {
    let savings = report.savings.as_ref().filter(|it| it.total_usd.high.0 > NanoUsd::ZERO);
    let Some(savings) = savings else { return false };
    if in_full {
        page.end_line();
        table(page, savings);
    } else {
        let savings_given = report.recommendations.iter().filter(|it| it.saving_usd.is_some());
        page.facts("Savings", sentences(savings, savings_given.count() > 1));
    }
    true
}

/// All together, which is less than the sum of several, and per month.
fn sentences(savings: &Savings, are_several: bool) -> Vec<Vec<String>> {
    let amounts = |Range { low, expected, high }: Range<Usd>| {
        let amounts = Dollars::alike([low.0, expected.0, high.0]).map(Dollars::brief);
        let [low, expected, high] = amounts;
        format!("{expected} ({low}–{high})")
    };
    let share = format::percent(savings.total_fraction.expected);
    let all = format!("{}, {share} of this bill", amounts(savings.total_usd));
    let monthly = savings.monthly_usd;
    // Weekends may not have been observed.
    let of_month = |usd| vec![format!("{} per month of such days ({MONTHLY_BASIS})", amounts(usd))];
    let monthly = monthly.map(of_month);
    let once = are_several.then(|| "alternatives counted once".to_owned());
    let all = [Some(all), once].into_iter().flatten().collect();
    [Some(all), monthly].into_iter().flatten().collect()
}

/// One row per waste category, their subtotal, throughput and rate, the total, and the total per month.
fn table(page: &mut Page, savings: &Savings) {
    let header = format!(
        "{:NAME$}{:>MONEY$}{:>MONEY$}{:>MONEY$}{:>SHARE$}",
        "potential savings", "at least", "expected", "at most", "of bill"
    );
    page.write(Style::Dim, &header);
    page.end_line();
    let categories = savings.by_category.iter().filter(|it| !it.sources.is_empty());
    let categories: Vec<_> = categories.collect();
    for it in &categories {
        row(page, it.category, Some(it.usd), Some(it.fraction));
    }
    if categories.len() > 1 {
        row(
            page,
            "usage subtotal",
            Some(savings.utilization_usd),
            Some(savings.utilization_fraction),
        );
    }
    for (axis, fraction) in
        [("throughput", savings.throughput_fraction), ("rate", savings.rate_fraction)]
    {
        if fraction.high > 0.0 {
            row(page, axis, None, Some(fraction));
        }
    }
    row(page, "total", Some(savings.total_usd), Some(savings.total_fraction));
    if let Some(monthly) = savings.monthly_usd {
        row(page, &format!("per month ({MONTHLY_BASIS})"), Some(monthly), None);
    }
    let naive = format!(
        "{}, for comparison: it counts the same waste several times",
        format::percent(savings.naive_sum_fraction)
    );
    page.fact("Naive sum", &[naive], SEPARATOR);
}

fn row(page: &mut Page, name: &str, usd: Option<Range<Usd>>, fraction: Option<Range<f64>>) {
    let amounts = usd.map(|Range { low, expected, high }| {
        Dollars::alike([low.0, expected.0, high.0])
            .map(|usd| format!("{:>MONEY$}", usd.to_string()))
    });
    let amounts = amounts.map_or_else(|| " ".repeat(3 * MONEY), |amounts| amounts.concat());
    let share = fraction.map(|fraction| format::percent(fraction.expected)).unwrap_or_default();
    page.write(Style::Plain, &format!("{name:NAME$}{amounts}{share:>SHARE$}"));
    page.end_line();
}
