//! Tables of a plan: the columns that have a heading.

use phasemeter_plan::worksheet::{Amount, Table};
use phasemeter_terminal::page::Page;
use phasemeter_terminal::table::{self, Align};

/// Blanks before a table.
const INDENT: usize = 2;

/// Writes the columns that have a heading.
pub(super) fn table(page: &mut Page, table: &Table) {
    let is_shown = |index: usize| table.columns.get(index).is_some_and(|it| !it.heading.is_empty());
    let align = |index: usize| {
        let is_right = table.rows.iter().all(|row| is_number(row.get(index)));
        if is_right { Align::Right } else { Align::Left }
    };
    let columns = table.columns.iter().enumerate().filter(|(index, _)| is_shown(*index));
    let mut text = table::Table::new(columns.map(|(index, it)| (it.heading, align(index))));
    for row in &table.rows {
        let shown = row.iter().enumerate().filter(|(index, _)| is_shown(*index));
        text.row(shown.map(|(_, amount)| amount.to_string()));
    }
    text.write(page, INDENT);
}

fn is_number(amount: Option<&Amount>) -> bool {
    match amount {
        Some(Amount::Text(text)) => {
            text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains("g.")
        }
        Some(Amount::Flag(_)) | None => false,
        Some(_) => true,
    }
}
