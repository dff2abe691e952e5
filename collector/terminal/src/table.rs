//! Tables: numbers to the right, text to the left, and nothing beyond the page if that is possible.

use std::slice;

use crate::escape::clean;
use crate::page::{Page, Style, WIDTH};
use crate::wrap::{padded, truncated, width, wrap};

/// Blanks between columns.
const GAP: usize = 2;

/// What remains of a first column that is truncated.
const SHORTEST: usize = 12;

/// The side to which a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table with headings.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    /// Whether the first column is truncated if the table is wider than the page.
    is_truncated: bool,
    /// The headings first.
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<T: AsRef<str>>(columns: impl IntoIterator<Item = (T, Align)>) -> Self {
        let (headings, columns): (Vec<T>, _) = columns.into_iter().unzip();
        let mut table = Self { columns, is_truncated: false, rows: Vec::new() };
        table.row(headings);
        table
    }

    /// A table of numbers: its first column names them, and is truncated if the table is wider than the page.
    pub fn of_numbers<T: AsRef<str>>(headings: impl IntoIterator<Item = T>) -> Self {
        let align = std::iter::once(Align::Left).chain(std::iter::repeat(Align::Right));
        Self { is_truncated: true, ..Self::new(headings.into_iter().zip(align)) }
    }

    /// Adds a row: a cell per column.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| clean(cell.as_ref())).collect());
    }

    /// Writes the table. Text of its last column is wrapped if the table is wider than the page.
    pub fn write(&self, page: &mut Page, indent: usize) {
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(width_of).collect();
        let is_wrapped = self.columns.last() == Some(&Align::Left);
        let others: usize = indent + widths.iter().skip(1).map(|width| width + GAP).sum::<usize>();
        if let Some(first) = widths.first_mut().filter(|_| self.is_truncated) {
            *first = (*first).min(WIDTH.saturating_sub(others).max(SHORTEST));
        }
        for (index, row) in self.rows.iter().enumerate() {
            let style = if index == 0 { Style::Dim } else { Style::Plain };
            let mut line = " ".repeat(indent);
            let mut further = Vec::new();
            for (column, ((cell, limit), align)) in
                row.iter().zip(&widths).zip(&self.columns).enumerate()
            {
                if column > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                if is_wrapped && column + 1 == widths.len() {
                    let mut lines =
                        wrap(slice::from_ref(cell), " ", WIDTH.saturating_sub(width(&line)).max(1));
                    further = lines.split_off(lines.len().min(1));
                    further.iter_mut().for_each(|it| it.insert_str(0, &" ".repeat(width(&line))));
                    line.extend(lines);
                } else {
                    let cell = truncated(cell, *limit);
                    line.push_str(&match align {
                        Align::Left => padded(&cell, *limit),
                        Align::Right => " ".repeat(limit.saturating_sub(width(&cell))) + &cell,
                    });
                }
            }
            for line in std::iter::once(line).chain(further) {
                page.write(style, line.trim_end());
                page.end_line();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, indent: usize) -> Vec<String> {
        let mut page = Page::new(false);
        table.write(&mut page, indent);
        page.into_text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn first_column_is_truncated_to_fit_the_page() {
        let mut table = Table::of_numbers(["name", "$"]);
        table.row(["x".repeat(100).as_str(), "1.00"]);
        table.row(["網路", "22.00"]);
        let lines = written(&table, 0);
        assert!(lines[1].ends_with("…   1.00"), "{lines:?}");
        assert_eq!(lines.iter().map(|line| width(line)).collect::<Vec<_>>(), [80, 80, 80]);
    }

    #[test]
    fn text_of_the_last_column_is_wrapped() {
        let mut table = Table::new([("n", Align::Right), ("why", Align::Left)]);
        table.row(["10", &"word ".repeat(20)]);
        let lines = written(&table, 2);
        assert_eq!(lines[0], "   n  why");
        assert!(lines.iter().all(|line| width(line) <= WIDTH), "{lines:?}");
        assert!(lines[2].starts_with("      word"), "{lines:?}");
    }
}
