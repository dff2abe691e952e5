//! What all recommendations save together: in one sentence, or as a table.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::projection::MONTHLY_BASIS;
use phasemeter_savings::recommendation::Target;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, SEPARATOR, Style};
use phasemeter_terminal::printed;

use crate::model::Report;
use crate::policies::{Range, Recommendation, Savings, Step, Trial};
use crate::value::Usd;

use super::amounts::Bill;
use super::format::{self, Dollars};

/// Column widths of name, each amount, and share.
const NAME: usize = 20;
const MONEY: usize = 13;
const SHARE: usize = 10;

/// Tenths of a percent in all.
const PER_MILLE: i128 = 1_000;

/// Returns whether there are any.
pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>, in_full: bool) -> bool {
    let savings = report.savings.as_ref().filter(|it| it.total_usd.high.0 > NanoUsd::ZERO);
    match savings {
        Some(savings) if in_full => {
            page.end_line();
            table(page, report, savings);
        }
        Some(savings) => {
            let proved = report.recommendations.iter().filter(|it| it.open_trial().is_none());
            let given = proved.filter(|it| it.saving_usd.is_some());
            page.facts("Savings", sentences(bill, savings, given.count() > 1));
        }
        None => {}
    }
    trials(page, report);
    savings.is_some()
}

/// What decides the recommendations that are hypotheses.
fn trials(page: &mut Page, report: &Report) {
    let Some(trial) = report.recommendations.iter().find_map(Recommendation::open_trial) else {
        return;
    };
    let Trial { hours, shows, .. } = trial;
    page.sentences("Trials", [format!(
        "in no sum until settled by phasemeter trial BEFORE AFTER: {hours} hours of work before and after must show {shows}"
    )]);
}

/// All together, which is less than the sum of several, and per month.
fn sentences(bill: Option<&Bill>, savings: &Savings, are_several: bool) -> Vec<Vec<String>> {
    let amounts = |Range { low, expected, high }: Range<Usd>| {
        let amounts = Bill::alike(bill, [low.0, expected.0, high.0]).map(Dollars::brief);
        let [low, expected, high] = amounts;
        format!("{expected} ({low}–{high})")
    };
    let share = number::percent(savings.total_fraction.expected);
    let all = format!("{}, {share} of this bill", amounts(savings.total_usd));
    let monthly = savings.monthly_usd;
    // Weekends may not have been observed.
    let of_month = |usd| vec![format!("{} per month of such days ({MONTHLY_BASIS})", amounts(usd))];
    let monthly = monthly.map(of_month);
    let once = are_several.then(|| "alternatives counted once".to_owned());
    let all = [Some(all), once].into_iter().flatten().collect();
    [Some(all), monthly].into_iter().flatten().collect()
}

/// One row per target, with what it adds to those above it, the total, and the total per month.
fn table(page: &mut Page, report: &Report, savings: &Savings) {
    let header = format!(
        "{:NAME$}{:>MONEY$}{:>MONEY$}{:>MONEY$}{:>SHARE$}",
        "potential savings", "at least", "expected", "at most", "of bill"
    );
    page.write(Style::Dim, &header);
    page.end_line();
    let total = savings.total_usd;
    let added = added(savings);
    let totals = Dollars::alike([total.low.0, total.expected.0, total.high.0]);
    let column = |of: fn(&Range<Usd>) -> Usd, total: Dollars| {
        total.split_all(added.iter().map(|(_, usd)| of(usd).0).collect())
    };
    let [low, expected, high] = totals;
    let columns = [
        column(|usd| usd.low, low),
        column(|usd| usd.expected, expected),
        column(|usd| usd.high, high),
    ];
    let bill = report.cost.total_usd.map_or(NanoUsd::ZERO, |Usd(bill)| bill);
    let expected: Vec<NanoUsd> = added.iter().map(|(_, usd)| usd.expected.0).collect();
    let tenth = (bill.0 / PER_MILLE).max(1);
    let all = printed::rounded(total.expected.0, tenth);
    let shares = printed::parts(all, &expected, tenth);
    for (index, (target, _)) in added.iter().enumerate() {
        let amounts: Vec<_> = columns.iter().filter_map(|it| it.get(index)).collect();
        row(page, format::waste_name(target), &amounts, shares.get(index).copied());
    }
    row(page, "total", &totals.each_ref(), Some(all));
    if let Some(Range { low, expected, high }) = savings.monthly_usd {
        let amounts = Dollars::alike([low.0, expected.0, high.0]);
        row(page, &format!("per month ({MONTHLY_BASIS})"), &amounts.each_ref(), None);
    }
    let naive = format!(
        "{}, for comparison: it counts the same waste several times",
        number::percent(savings.naive_sum_fraction)
    );
    page.fact("Naive sum", &[naive], SEPARATOR);
}

/// What each target saves beyond those before it, over all GPUs. It sums to the total.
fn added(savings: &Savings) -> Vec<(&'static str, Range<Usd>)> {
    let each = Target::ALL.map(Target::name).map(|target| {
        let mut sum = [NanoUsd::ZERO; 3];
        for gpu in &savings.gpus {
            let Some(place) = gpu.steps.iter().position(|step| step.target == target) else {
                continue;
            };
            let amounts = |step: &Step| [step.usd.low.0, step.usd.expected.0, step.usd.high.0];
            let after = gpu.steps.get(place).map(amounts).unwrap_or_default();
            let before = place.checked_sub(1).and_then(|before| gpu.steps.get(before));
            let before = before.map(amounts).unwrap_or_default();
            for ((sum, after), before) in sum.iter_mut().zip(after).zip(before) {
                *sum += after - before;
            }
        }
        let [low, expected, high] = sum.map(Usd);
        (target, Range { low, expected, high })
    });
    each.into_iter().filter(|(_, usd)| usd.high.0 > NanoUsd::ZERO).collect()
}

fn row(page: &mut Page, name: &str, amounts: &[&Dollars], per_mille: Option<i128>) {
    // A blank is between amounts of any length.
    let amounts = amounts.iter().map(|usd| format!(" {:>1$}", usd.to_string(), MONEY - 1));
    let amounts: String = amounts.collect();
    let share = per_mille.map(|it| format!("{}.{}%", it / 10, it % 10)).unwrap_or_default();
    page.write(Style::Plain, &format!("{name:NAME$}{amounts}{share:>SHARE$}"));
    page.end_line();
}
