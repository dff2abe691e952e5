//! CSV as in RFC 4180, one row per line.
//!
//! Must not depend on what a row means.

/// The cells of a row; `None` if a quote is not closed.
pub(crate) fn cells(row: &str) -> Option<Vec<String>> {
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

/// A cell, quoted if necessary.
pub(crate) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted() {
        let row = "a,,\"b,c\",\"say \"\"hi\"\"\", d ";
        assert_eq!(cells(row).unwrap(), ["a", "", "b,c", "say \"hi\"", " d "]);
        assert_eq!(cells("\"open"), None);
    }
}
