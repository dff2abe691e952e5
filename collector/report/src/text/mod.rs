//! The report as text: a page of 80 columns.
//!
//! A title, one bar per GPU, the table of phases, then facts beside their labels: first cost, then
//! measurement; last the recommendations, what they would save, and what is missing for others.
//! On a terminal, bars are as wide as it is, and have an axis; and the answer is repeated at the end, which is in view.

mod alerts;
mod amounts;
mod answer;
mod axis;
mod experiments;
mod explanation;
pub mod format;
mod gpus;
mod holders;
mod interruptions;
mod measured;
mod missing;
mod money;
mod notes;
mod owners;
#[cfg(test)]
mod page_tests;
mod phases;
mod recommendations;
mod savings;
#[cfg(test)]
mod sums_tests;
mod uncovered;
mod work_groups;

use std::ffi::OsStr;

use phasemeter_terminal::page::{Page, SEPARATOR, Style};

use self::amounts::Bill;
pub(super) use self::gpus::names as gpu_names;

use super::bar::Bars;
use super::model::Report;

/// How a report is rendered.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// See [`use_color`].
    pub color: bool,
    /// The columns of the terminal that it is for; `None`: it is for none.
    pub terminal: Option<usize>,
    /// A bar for each GPU of a large fleet.
    pub all_gpus: bool,
    /// Recommendations in full.
    pub explain: Explain,
}

/// Which recommendations are written in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Explain {
    /// None: the most valuable ones in a few lines each.
    #[default]
    None,
    /// All of them, and all that is missing.
    All,
    /// Those with this code, instead of all others.
    Code(String),
}

/// Renders the report.
#[must_use]
pub fn render(report: &Report, bars: &Bars<'_>, options: &TextOptions) -> String {
    let mut page = Page::new(options.color);
    let bill = Bill::of(report);
    let bill = bill.as_ref();
    title(&mut page, report);
    if !report.gpus.is_empty() {
        blank(&mut page);
        gpus::write(&mut page, report, bars, options);
        blank(&mut page);
        phases::write(&mut page, report, bill);
    }
    blank(&mut page);
    money::write(&mut page, report, bill);
    experiments::write(&mut page, report, bill);
    interruptions::write(&mut page, report);
    holders::write(&mut page, report, bill);
    blank(&mut page);
    measured::write(&mut page, report);
    alerts::write(&mut page, report);
    let in_full = options.explain != Explain::None;
    match &options.explain {
        Explain::None => recommendations::write(&mut page, report, bill),
        Explain::All => explanation::write(&mut page, report, bill, None),
        Explain::Code(code) => explanation::write(&mut page, report, bill, Some(code)),
    }
    let has_savings = savings::write(&mut page, report, bill, in_full);
    missing::write(&mut page, report, in_full, in_full || !has_savings);
    notes::write(&mut page, report);
    if options.terminal.is_some() {
        answer::write(&mut page, report, bill);
    }
    page.into_text()
}

/// Whether to write color: on a terminal, unless `NO_COLOR` is set and not empty (no-color.org).
#[must_use]
pub fn use_color(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Title, GPU models and time range.
fn title(page: &mut Page, report: &Report) {
    let range = report.start.zip(report.end).map(|(start, end)| format::range(start, end));
    let items: Vec<String> =
        [report.title.clone(), models(report)].into_iter().chain(range).collect();
    page.items(Style::Bold, &items, SEPARATOR);
    for warning in &report.warnings {
        page.paragraph(Style::Bold, 0, &format!("Warning: {warning}"));
    }
}

/// `2 × NVIDIA L4 + 6 × NVIDIA A10G`.
fn models(report: &Report) -> String {
    let mut models: Vec<(&str, usize)> = Vec::new();
    for gpu in &report.gpus {
        let model = model(gpu.model.as_deref());
        match models.iter_mut().find(|(known, _)| *known == model) {
            Some((_, count)) => *count += 1,
            None => models.push((model, 1)),
        }
    }
    match models.as_slice() {
        [] => "no GPUs".to_owned(),
        models => {
            let each: Vec<String> =
                models.iter().map(|(model, count)| format!("{count} × {model}")).collect();
            each.join(" + ")
        }
    }
}

fn model(model: Option<&str>) -> &str {
    model.unwrap_or("GPU of unknown model")
}

/// The first of these facts, and the number of the others.
fn first(most: usize, facts: impl ExactSizeIterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let more = facts.len().saturating_sub(most);
    let more = (more > 0).then(|| vec![format!("{more} more in --format json")]);
    facts.take(most).chain(more).collect()
}

fn blank(page: &mut Page) {
    page.end_line();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_respects_tty_and_no_color() {
        assert!(use_color(true, None));
        assert!(use_color(true, Some(OsStr::new(""))));
        assert!(!use_color(true, Some(OsStr::new("1"))));
        assert!(!use_color(false, None));
    }
}
