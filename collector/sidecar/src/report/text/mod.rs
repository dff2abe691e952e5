//! The report as a page of text: 80 columns, for people.
//!
//! A title, a bar a GPU, a table of phases, then facts beside their labels: first about money,
//! then about what was measured; at the end what could be done about it, and what that would save. This room must not know whether anyone sees colour, nor find a
//! number that is not in the report.

mod advice;
mod gpus;
mod layout;
mod measured;
mod money;
mod phases;
mod savings;
mod words;

use std::ffi::OsStr;

pub(crate) use layout::clean;
use layout::{Page, SEPARATOR, Style};
pub(crate) use words::{grouped, number, rate};

use super::Report;
use super::bar::Bars;

/// The report as text. `colour`: see [`wants_colour`].
#[must_use]
pub fn render(report: &Report, bars: &Bars<'_>, colour: bool) -> String {
    let mut page = Page::new(colour);
    title(&mut page, report);
    if !report.gpus.is_empty() {
        blank(&mut page);
        gpus::write(&mut page, report, bars);
        blank(&mut page);
        phases::write(&mut page, report);
    }
    blank(&mut page);
    money::write(&mut page, report);
    blank(&mut page);
    measured::write(&mut page, report);
    advice::write(&mut page, report);
    savings::write(&mut page, report);
    page.into_text()
}

/// Whether text is written in colour: on a terminal, unless `NO_COLOR` is set and not empty
/// (no-color.org).
#[must_use]
pub fn wants_colour(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// What was metered, how many GPUs of which models, and when.
fn title(page: &mut Page, report: &Report) {
    let range = report.start.zip(report.end).map(|(start, end)| words::range(start, end));
    let items: Vec<String> =
        [report.title.clone(), models(report)].into_iter().chain(range).collect();
    page.items(Style::Bold, &items, SEPARATOR);
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
        [] => "no GPU".to_owned(),
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

fn blank(page: &mut Page) {
    page.end_line();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_whose_owner_has_nothing_against_it() {
        assert!(wants_colour(true, None));
        assert!(wants_colour(true, Some(OsStr::new(""))));
        assert!(!wants_colour(true, Some(OsStr::new("1"))));
        assert!(!wants_colour(false, None));
    }
}
