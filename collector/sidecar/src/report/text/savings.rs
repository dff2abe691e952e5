//! What all advice saves together, step by step; what policies could not tell, and which failed.
//!
//! This room must not know what is advised.

use phasemeter_meter::projection::MONTHLY_BASIS;

use crate::report::{Range, Report, Savings, Usd};

use super::gpus::by_name;
use super::layout::{Page, SEPARATOR, Style};
use super::words::{self, Dollars};

/// Columns of name, each amount of money, and share.
const NAME: usize = 20;
const MONEY: usize = 13;
const SHARE: usize = 10;

/// Notes on the page.
const NOTES: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    if let Some(savings) = report.savings.as_ref().filter(|_| !report.recommendations.is_empty()) {
        page.end_line();
        table(page, savings);
    }
    remarks(page, report);
}

/// One line a step: each pool, all of them, the rate, all of it, and that in a month.
fn table(page: &mut Page, savings: &Savings) {
    let header = format!(
        "{:NAME$}{:>MONEY$}{:>MONEY$}{:>MONEY$}{:>SHARE$}",
        "could be saved", "at least", "expected", "at most", "of bill"
    );
    page.write(Style::Dim, &header);
    page.end_line();
    let pools: Vec<_> = savings.pools.iter().filter(|pool| !pool.from.is_empty()).collect();
    for pool in &pools {
        row(page, pool.pool, Some(pool.usd), Some(pool.fraction));
    }
    if pools.len() > 1 {
        row(page, "together", Some(savings.utilization_usd), Some(savings.utilization_fraction));
    }
    for (axis, fraction) in
        [("then throughput", savings.throughput_fraction), ("then the rate", savings.rate_fraction)]
    {
        if fraction.high > 0.0 {
            row(page, axis, None, Some(fraction));
        }
    }
    row(page, "in all", Some(savings.total_usd), Some(savings.total_fraction));
    row(page, &format!("a month ({MONTHLY_BASIS})"), Some(savings.monthly_usd), None);
    let naive = format!(
        "the sum of all advice, {}: of advice on the same waste only the best counts",
        words::percent(savings.naive_sum_fraction)
    );
    page.fact("Not used", &[naive], SEPARATOR);
}

fn row(page: &mut Page, name: &str, usd: Option<Range<Usd>>, fraction: Option<Range<f64>>) {
    let amounts = usd.map(|Range { low, expected, high }| {
        Dollars::alike([low.0, expected.0, high.0])
            .map(|usd| format!("{:>MONEY$}", usd.to_string()))
    });
    let amounts = amounts.map_or_else(|| " ".repeat(3 * MONEY), |amounts| amounts.concat());
    let share = fraction.map(|fraction| words::percent(fraction.expected)).unwrap_or_default();
    page.write(Style::Plain, &format!("{name:NAME$}{amounts}{share:>SHARE$}"));
    page.end_line();
}

/// What policies noted, and which of them gave no answer.
fn remarks(page: &mut Page, report: &Report) {
    // What several note is said once.
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
    let mut noted: Vec<_> = notes.into_iter().map(note).collect();
    if noted.len() > NOTES {
        let more = noted.len() - NOTES;
        noted.truncate(NOTES);
        noted.push(vec![format!("and {more} more, with --format json")]);
    }
    let failed = report.policies.iter().filter_map(|policy| {
        let fault = policy.fault.as_ref()?;
        Some(vec![format!("{}: {}", policy.name, fault.message)])
    });
    let failed: Vec<_> = failed.collect();
    if !(noted.is_empty() && failed.is_empty()) {
        page.end_line();
    }
    page.facts("Noted", noted);
    page.facts("Failed", failed);
}
