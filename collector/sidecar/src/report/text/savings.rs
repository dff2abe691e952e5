//! The table of savings, then notes and errors of policies.
//!
//! Must not depend on individual recommendations.

use phasemeter_meter::projection::MONTHLY_BASIS;

use crate::report::model::Report;
use crate::report::policies::{Range, Savings};
use crate::report::value::Usd;

use super::format::{self, Dollars};
use super::gpus::by_name;
use super::layout::{Page, SEPARATOR, Style};

/// Column widths of name, each amount, and share.
const NAME: usize = 20;
const MONEY: usize = 13;
const SHARE: usize = 10;

/// Maximum number of notes, and of policies without a result.
const NOTES: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    if let Some(savings) = report.savings.as_ref().filter(|_| !report.recommendations.is_empty()) {
        page.end_line();
        table(page, savings);
    }
    policies(page, report);
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

/// Notes of policies, and policies without a result.
fn policies(page: &mut Page, report: &Report) {
    // Equal notes of several policies are merged.
    let mut notes: Vec<(Vec<&str>, &str)> = Vec::new();
    for policy in &report.policies {
        for note in &policy.notes {
            match notes.iter_mut().find(|(_, known)| known == note) {
                Some((names, _)) => names.push(&policy.name),
                None => notes.push((vec![&policy.name], note)),
            }
        }
    }
    let note = |(names, note): (Vec<&str>, &str)| {
        vec![format!("{}: {}", names.join(", "), by_name(&report.gpus, note))]
    };
    let merged: Vec<_> = notes.into_iter().map(note).collect();
    let failed = report.policies.iter().filter_map(|policy| {
        let error = policy.error.as_ref()?;
        Some(vec![format!("{}: {}", policy.name, error.message)])
    });
    let failed: Vec<_> = failed.collect();
    if !(merged.is_empty() && failed.is_empty()) {
        page.end_line();
    }
    page.facts("Policy notes", first(merged));
    page.facts("Failed", first(failed));
}

/// The first of these facts, and the number of the others.
fn first(mut facts: Vec<Vec<String>>) -> Vec<Vec<String>> {
    if facts.len() > NOTES {
        let more = facts.len() - NOTES;
        facts.truncate(NOTES);
        facts.push(vec![format!("{more} more in --format json")]);
    }
    facts
}
