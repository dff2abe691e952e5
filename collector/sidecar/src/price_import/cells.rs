//! Cells of CSV with quotes, as in RFC 4180, one row per line.
//!
//! Must not depend on the meaning of columns.

/// The cells of a line; `None` if a quote is not closed.
pub(super) fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let cell = cells.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    (!quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_commas_and_quotes_are_text() {
        assert_eq!(cells("a,\"b,c\",\"d \"\"e\"\"\",").unwrap(), ["a", "b,c", "d \"e\"", ""]);
        assert_eq!(cells("\"a"), None);
    }
}
