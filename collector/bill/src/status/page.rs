//! A page about a run in progress: what it costs, what of that is waste, who pays, and what to do first.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_terminal::money::amount;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, SEPARATOR, Style};
use phasemeter_terminal::table::Table;

use super::summary::{Summary, SummaryGpu, SummaryPhase};
use crate::amount::Usd;

/// GPUs and holders that are listed; the report has all.
const MAX_ROWS: usize = 32;

/// Lines of what to do first.
const ACTION_LINES: usize = 4;

/// In place of a value that is unknown.
pub(super) const NONE: &str = "–";

/// Renders the page.
#[must_use]
pub fn render(summary: &Summary, color: bool) -> String {
    let mut page = Page::new(color);
    page.items(Style::Bold, &title(summary), SEPARATOR);
    page.end_line();
    page.fact("Bill", &bill(summary), SEPARATOR);
    action(&mut page, summary);
    page.end_line();
    gpus(&mut page, summary);
    holders(&mut page, summary);
    page.into_text()
}

/// What is metered, and since when.
pub(super) fn title(summary: &Summary) -> Vec<String> {
    let gpus = number::counted(summary.gpus.len() as u64, "GPU");
    let times = summary.start.as_deref().zip(summary.end.as_deref());
    let times = times.map(|(start, end)| format!("{} to {}", to_second(start), to_second(end)));
    [summary.title.clone(), gpus].into_iter().chain(times).collect()
}

/// An instant without its fraction of a second.
fn to_second(instant: &str) -> String {
    match instant.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => instant.to_owned(),
    }
}

/// The bill and its parts.
pub(super) fn bill(summary: &Summary) -> Vec<String> {
    let cost = &summary.cost;
    let Some(Usd(total)) = cost.total_usd else { return vec!["no price".to_owned()] };
    let decimals = decimals(summary);
    let part = |of: Option<Usd>, name: &str| {
        let Usd(of) = of?;
        let share = if total == NanoUsd::ZERO { 0.0 } else { of.as_f64() / total.as_f64() };
        Some(format!("{} {name} ({})", amount(of, decimals), number::percent(share)))
    };
    let parts = [
        Some(amount(total, decimals)),
        part(cost.utilized_usd, "utilized"),
        part(cost.waste_usd, "waste"),
        part(cost.unobserved_usd.filter(|it| it.0 != NanoUsd::ZERO), "unobserved"),
        cost.hourly_usd.map(|Usd(hourly)| format!("{} per hour", amount(hourly, 2))),
    ];
    parts.into_iter().flatten().collect()
}

/// Small amounts need more decimals.
pub(super) fn decimals(summary: &Summary) -> u32 {
    let total = summary.cost.total_usd.unwrap_or_default().0;
    if total.as_f64() < 10.0 { 4 } else { 2 }
}

/// The first recommendation.
fn action(page: &mut Page, summary: &Summary) {
    if let Some(first) = summary.recommendations.first() {
        page.titled("Do first", &first.title);
        page.passage("", Style::Plain, &first.action, ACTION_LINES);
    }
}

/// A row per GPU.
fn gpus(page: &mut Page, summary: &Summary) {
    let headings = ["GPU", "idle", "under", "productive", "compute", "mean", "cost", "waste"];
    let mut table = Table::of_numbers(headings);
    let decimals = decimals(summary);
    for gpu in summary.gpus.iter().take(MAX_ROWS) {
        let share = |phase: SummaryPhase| {
            phase.percent.map_or_else(|| NONE.to_owned(), |it| format!("{it:.0}%"))
        };
        let phases = &gpu.phases;
        table.row([
            described(gpu),
            share(phases.idle),
            share(phases.underutilized),
            share(phases.productive),
            share(phases.compute_bound),
            percent(gpu.mean()),
            dollars(gpu.cost_usd, decimals),
            dollars(gpu.waste_usd, decimals),
        ]);
    }
    table.write(page, 0);
    more(page, summary.gpus.len());
}

/// A row per holder, over all GPUs; the most expensive first.
fn holders(page: &mut Page, summary: &Summary) {
    let mut sums: BTreeMap<&str, [NanoUsd; 4]> = BTreeMap::new();
    for holder in summary.gpus.iter().flat_map(|gpu| &gpu.holders) {
        let sum = sums.entry(&holder.name).or_insert([NanoUsd::ZERO; 4]);
        let [used, unused, never] =
            [holder.used_usd, holder.granted_unused_usd, holder.never_touched_usd];
        for (sum, of) in sum.iter_mut().zip([used, unused, never, holder.cost_usd]) {
            *sum += of.unwrap_or_default().0;
        }
    }
    let nobody = summary.gpus.iter().filter_map(|gpu| gpu.nobody?.cost_usd);
    let nobody = nobody.fold(NanoUsd::ZERO, |sum, Usd(of)| sum + of);
    if sums.is_empty() {
        return;
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| b[3].cmp(&a[3]));
    let decimals = decimals(summary);
    let mut table = Table::of_numbers(["holder", "used", "not used", "never touched", "cost"]);
    for (name, sums) in rows.iter().take(MAX_ROWS) {
        let sums = sums.iter().map(|sum| amount(*sum, decimals));
        table.row(std::iter::once((*name).to_owned()).chain(sums));
    }
    if nobody != NanoUsd::ZERO {
        let blank = String::new;
        table.row(["nobody".to_owned(), blank(), blank(), blank(), amount(nobody, decimals)]);
    }
    page.end_line();
    table.write(page, 0);
    more(page, rows.len());
}

fn more(page: &mut Page, all: usize) {
    if all > MAX_ROWS {
        page.paragraph(Style::Dim, 0, &format!("{} more in --format json", all - MAX_ROWS));
    }
}

/// Its name and model.
pub(super) fn described(gpu: &SummaryGpu) -> String {
    match &gpu.model {
        Some(model) => format!("{} {}", gpu.name(), model.trim_start_matches("NVIDIA ")),
        None => gpu.name(),
    }
}

pub(super) fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| NONE.to_owned(), |it| format!("{:.0}%", it * 100.0))
}

pub(super) fn dollars(of: Option<Usd>, decimals: u32) -> String {
    of.map_or_else(|| NONE.to_owned(), |Usd(of)| amount(of, decimals))
}
