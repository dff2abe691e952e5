//! What could not be recommended: waste without a recommendation, and missing information.
//!
//! Must not depend on recommendations.

use crate::report::model::{Gpu, Report};
use crate::report::policies::{Need, UncoveredWaste};

use super::format::{self, Dollars};
use super::gpus::{has_many, which};
use super::layout::{Page, Style};

/// Maximum number of missing pieces of information, also beside many GPUs, and lines of each.
const NEEDS: usize = 2;
const NEEDS_BESIDE_MANY: usize = 1;
const LINES: usize = 2;

/// `in_full`: all of it. `is_apart`: after a blank line.
pub(super) fn write(page: &mut Page, report: &Report, in_full: bool, is_apart: bool) {
    if report.needs.is_empty() && report.uncovered_waste.is_empty() {
        return;
    }
    if is_apart {
        page.end_line();
    }
    for waste in &report.uncovered_waste {
        page.passage("Uncovered", Style::Plain, &uncovered(&report.gpus, waste), LINES + 1);
    }
    let few = if has_many(&report.gpus) { NEEDS_BESIDE_MANY } else { NEEDS };
    let (count, lines) = if in_full { (report.needs.len(), LINES * LINES) } else { (few, LINES) };
    let mut label = "Missing";
    for it in report.needs.iter().take(count) {
        page.passage(label, Style::Plain, &need(&report.gpus, it), lines);
        label = "";
    }
    match report.needs.len().saturating_sub(count) {
        0 => {}
        more => page.facts("", [vec![format!("{more} more with --explain")]]),
    }
}

fn need(gpus: &[Gpu], it: &Need) -> String {
    format!("{} ({}): {}", it.missing, which(gpus, &it.gpus), it.reason)
}

/// `idle: $12.34 (14.0% of the bill), 6.2 GPU-hours; missing: phasemeter.workload (GPU 0–3 of 8)`.
fn uncovered(gpus: &[Gpu], it: &UncoveredWaste) -> String {
    let share = format::percent(it.fraction);
    let hours = format::gpu_time(it.gpu_hours);
    let waste = match it.usd {
        Some(usd) => format!("{} ({share} of the bill), {hours}", Dollars::of(usd.0)),
        None => format!("{hours} ({share} of the time without a price)"),
    };
    let rest = if it.is_rest { "the rest of " } else { "" };
    let missing = it.missing.join(", ");
    format!("{rest}{}: {waste}; missing: {missing} ({})", it.category, which(gpus, &it.gpus))
}
