//! The answer in a few lines: what it cost, what was wasted, what to do first.
//!
//! At the end of a report on a terminal, of which the last lines are in view.

use phasemeter_terminal::page::{Page, SEPARATOR, Style};

use crate::model::Report;

use super::amounts::Bill;
use super::recommendations::{amount, title};

/// Maximum number of lines of the title of the first action.
const LINES: usize = 2;

pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    page.end_line();
    if let Some(bill) = bill {
        let is_estimate = report.cost.total_range_usd.is_some();
        let estimated = if is_estimate { "estimated " } else { "" };
        let waste = format!("{} waste ({})", bill.waste, bill.waste.percent_of(bill.total));
        let items = [format!("{estimated}{} billed", bill.total), waste];
        page.fact("Answer", &items, SEPARATOR);
    }
    if let Some(first) = report.recommendations.first() {
        let amount = amount(&report.gpus, bill, first);
        let title = title(&report.gpus, bill, first, LINES);
        page.passage("First", Style::Bold, &format!("{amount}: {title}"), LINES);
    }
}
