//! Missing information.

use phasemeter_terminal::page::{Page, Style};

use crate::model::{Gpu, Report};
use crate::policies::Need;

use super::gpus::{has_many, which};

/// Maximum number of missing pieces of information, also beside many GPUs.
const NEEDS: usize = 2;
const NEEDS_BESIDE_MANY: usize = 1;

/// Maximum lines of each, also beside many GPUs, and with all of them.
const LINES: usize = 3;
const LINES_BESIDE_MANY: usize = 2;
const LINES_IN_FULL: usize = 4;

/// `in_full`: all of it. `is_apart`: after a blank line.
pub(super) fn write(page: &mut Page, report: &Report, in_full: bool, is_apart: bool) {
    if report.needs.is_empty() {
        return;
    }
    if is_apart {
        page.end_line();
    }
    let (count, lines) = if in_full {
        (report.needs.len(), LINES_IN_FULL)
    } else if has_many(&report.gpus) {
        (NEEDS_BESIDE_MANY, LINES_BESIDE_MANY)
    } else {
        (NEEDS, LINES)
    };
    let mut label = "Missing";
    for it in report.needs.iter().take(count) {
        page.passage(label, Style::Plain, &need(&report.gpus, it), lines);
        label = "";
    }
    match report.needs.len().saturating_sub(count) {
        0 => {}
        more => page.sentences("", [format!("{more} more with --explain")]),
    }
}

fn need(gpus: &[Gpu], it: &Need) -> String {
    format!("{} ({}): {}", it.missing, which(gpus, &it.gpus), it.reason)
}
