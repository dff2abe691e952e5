//! Tables: numbers to the right, text to the left, the last column wrapped if it is too long.

use phasemeter_plan::worksheet::{Quantity, Table};

use crate::report::text::layout::{Page, Style, WIDTH, padded, width, wrap};

/// Blanks before each column.
const GAP: usize = 2;

/// Writes the columns that have a heading.
pub(super) fn table(page: &mut Page, table: &Table) {
    let shown: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.heading.is_empty())
        .map(|(index, _)| index)
        .collect();
    let cell = |row: &[Quantity], index: usize| {
        row.get(index).map(ToString::to_string).unwrap_or_default()
    };
    let heading = |index: usize| table.columns.get(index).map_or("", |column| column.heading);
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| shown.iter().map(|&index| cell(row, index)).collect())
        .collect();
    let headings: Vec<String> = shown.iter().map(|&index| heading(index).to_owned()).collect();
    let widths: Vec<usize> = (0..shown.len())
        .map(|at| {
            let cells = rows.iter().chain([&headings]).filter_map(|row| row.get(at));
            cells.map(|text| width(text)).max().unwrap_or_default()
        })
        .collect();
    let right: Vec<bool> =
        shown.iter().map(|&index| table.rows.iter().all(|row| is_number(row.get(index)))).collect();
    write_row(page, Style::Dim, &headings, &widths, &right);
    for row in &rows {
        write_row(page, Style::Plain, row, &widths, &right);
    }
}

fn is_number(quantity: Option<&Quantity>) -> bool {
    match quantity {
        Some(Quantity::Text(text)) => {
            text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains("g.")
        }
        Some(Quantity::Flag(_)) | None => false,
        Some(_) => true,
    }
}

fn write_row(page: &mut Page, style: Style, cells: &[String], widths: &[usize], right: &[bool]) {
    let mut line = String::new();
    let last = cells.len().saturating_sub(1);
    for (at, text) in cells.iter().enumerate() {
        line.push_str(&" ".repeat(GAP));
        let column = widths.get(at).copied().unwrap_or_default();
        let blanks = " ".repeat(column.saturating_sub(width(text)));
        if at == last && width(&line) + width(text) > WIDTH && right.get(at) != Some(&true) {
            let begin = width(&line);
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let lines = wrap(&words, " ", WIDTH.saturating_sub(begin).max(1));
            for (number, rest) in lines.iter().enumerate() {
                let lead = if number == 0 { line.clone() } else { " ".repeat(begin) };
                page.write(style, &format!("{lead}{rest}"));
                page.end_line();
            }
            return;
        }
        if right.get(at) == Some(&true) {
            line.push_str(&blanks);
            line.push_str(text);
        } else {
            line.push_str(&padded(text, column));
        }
    }
    page.write(style, line.trim_end());
    page.end_line();
}
