//! The answer in a few lines: what it cost, what was wasted, the first finding.
//!
//! At the end of a report on a terminal, of which the last lines are in view.

use phasemeter_terminal::page::{Page, SEPARATOR, Style};

use crate::findings::Finding;
use crate::model::Report;

use super::amounts::Bill;
use super::recommendations::{amount, title};
use super::uncovered::uncovered;

/// Maximum number of lines of the first finding.
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
    let first = match report.findings().first() {
        None => return,
        Some(Finding::Advice(it)) => {
            let title = title(&report.gpus, bill, it, LINES);
            format!("{}: {title}", amount(&report.gpus, bill, it))
        }
        Some(Finding::Uncovered(wastes)) => {
            format!("uncovered {}", uncovered(&report.gpus, bill, wastes))
        }
    };
    page.passage("First", Style::Bold, &first, LINES);
}
