//! Parsers of CSV: of the built-in tables (`data/*.csv`), and of rows with quotes.
//!
//! The built-in tables have one header, no quotes and no empty lines; the tests of the modules that read
//! them check every row.

/// The rows of a table as cells, without the header; `None` for a row that does not have exactly
/// `N` cells.
pub(crate) fn rows<const N: usize>(
    text: &'static str,
) -> impl Iterator<Item = Option<[&'static str; N]>> {
    text.lines().skip(1).map(cells)
}

fn cells<const N: usize>(line: &'static str) -> Option<[&'static str; N]> {
    let mut rest = line.split(',');
    let mut cells = [""; N];
    for cell in &mut cells {
        *cell = rest.next()?;
    }
    rest.next().is_none().then_some(cells)
}

/// The cells of one line of CSV as in RFC 4180; `None` if a quote is not closed.
#[must_use]
pub fn quoted_cells(row: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut chars = row.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        let cell = cells.last_mut()?;
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if cell.is_empty() => is_quoted = true,
            ',' if !is_quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    (!is_quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_requires_exact_number_of_cells() {
        let read: Vec<_> = rows::<2>("h,h\na,b\na\na,b,c\n,\n").collect();
        assert_eq!(read, [Some(["a", "b"]), None, None, Some(["", ""])]);
    }

    #[test]
    fn cells_may_be_quoted() {
        let row = "a,,\"b,c\",\"say \"\"hi\"\"\", d ,";
        assert_eq!(quoted_cells(row).unwrap(), ["a", "", "b,c", "say \"hi\"", " d ", ""]);
        assert_eq!(quoted_cells("\"open"), None);
    }
}
