//! Tables of text: a wide first column, and numbers aligned to the right.

use unicode_width::UnicodeWidthStr;

/// The width of a page in columns.
pub(crate) const WIDTH: usize = 80;

/// Blanks between columns.
const GAP: usize = 2;

/// A table whose first column is left-aligned.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(Vec::from(cells));
    }

    /// Writes the rows, none wider than the page if its numbers fit: the first column is shortened.
    pub(crate) fn write(&self, text: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numbers: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
        let first = widths.first().copied().unwrap_or_default();
        let first = first.min(WIDTH.saturating_sub(numbers).max(12));
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    let cell = shortened(cell, first);
                    let blanks = first.saturating_sub(cell.width());
                    line.push_str(&cell);
                    line.push_str(&" ".repeat(blanks));
                } else {
                    line.push_str(&" ".repeat(GAP + width.saturating_sub(cell.width())));
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

/// A text of at most this width, with an ellipsis if it is cut.
fn shortened(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        let mut longer = kept.clone();
        longer.push(c);
        if longer.width() >= most {
            break;
        }
        kept = longer;
    }
    kept.push('…');
    kept
}

/// Words in lines of at most the width of the page, after a label.
pub(crate) fn paragraph(text: &mut String, label: &str, words: &str) {
    const LABEL: usize = 13;
    let mut line = format!("{label:<LABEL$}");
    let mut is_first = true;
    for word in words.split_whitespace() {
        if !is_first && line.width() + 1 + word.width() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(LABEL);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_column_is_shortened_to_fit_the_page() {
        let mut table = Table::new(["name", "$"]);
        table.row(["x".repeat(100), "1.00".to_owned()]);
        table.row(["網路".to_owned(), "22.00".to_owned()]);
        let mut text = String::new();
        table.write(&mut text);
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("…   1.00")), "{text}");
        let lines: Vec<_> = text.lines().map(UnicodeWidthStr::width).collect();
        assert_eq!(lines, [80, 80, 80]);
    }

    #[test]
    fn paragraph_continues_beside_its_label() {
        let mut text = String::new();
        paragraph(&mut text, "Notes", &"word ".repeat(30));
        assert!(text.lines().all(|line| line.width() <= WIDTH));
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("             word")));
    }
}
