//! A plan as text: a page of 80 columns.
//!
//! The result first, then tables, the formulas with their numbers, commands, prices, assumptions and
//! notes.

use phasemeter_plan::worksheet::{Amount, Worksheet};
use phasemeter_terminal::page::{Page, SEPARATOR, Style};

use super::PlanReport;
use super::table::table;

/// Renders the plan.
#[must_use]
pub fn render(report: &PlanReport, color: bool) -> String {
    let mut page = Page::new(color);
    let sheet = &report.worksheet;
    let title = match report.question.strip_prefix("prices ") {
        Some(question) => format!("Prices: {question}"),
        None => format!("Plan: {}", report.question),
    };
    let mut title = vec![title];
    title.extend(sheet.headline.iter().cloned());
    page.items(Style::Bold, &title, SEPARATOR);
    values(&mut page, sheet);
    for shown in sheet.tables.iter().filter(|table| !table.title.is_empty()) {
        page.end_line();
        page.paragraph(Style::Bold, 0, &shown.title);
        table(&mut page, shown);
    }
    if let Some(chart) = &sheet.chart {
        page.end_line();
        chart.write(&mut page);
    }
    formulas(&mut page, sheet);
    for snippet in &sheet.snippets {
        page.end_line();
        page.paragraph(Style::Bold, 0, snippet.title);
        for line in snippet.text.lines() {
            page.verbatim(2, line);
        }
    }
    if !report.prices.is_empty() {
        page.end_line();
        page.facts("Price", report.prices.iter().map(|price| price.items().to_vec()));
    }
    for (label, sentences) in [("Assumptions", &sheet.assumptions), ("Notes", &sheet.notes)] {
        if !sentences.is_empty() {
            page.end_line();
            page.sentences(label, sentences);
        }
    }
    page.into_text()
}

/// Labeled values in lines.
fn values(page: &mut Page, sheet: &Worksheet) {
    let shown = sheet.values.iter().filter(|value| !value.label.is_empty());
    let items: Vec<String> = shown
        .map(|value| match &value.amount {
            Amount::Missing(reason) => format!("{}: unknown, {reason}", value.label),
            amount => format!("{} {amount}", value.label),
        })
        .collect();
    page.items(Style::Plain, &items, SEPARATOR);
}

fn formulas(page: &mut Page, sheet: &Worksheet) {
    if sheet.formulas.is_empty() {
        return;
    }
    page.end_line();
    page.paragraph(Style::Bold, 0, "Formulas");
    for formula in &sheet.formulas {
        page.paragraph(Style::Plain, 2, &format!("{} = {}", formula.name, formula.symbols));
        page.paragraph(Style::Plain, 4, &format!("= {} = {}", formula.numbers, formula.result));
    }
}
