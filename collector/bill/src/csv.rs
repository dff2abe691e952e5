//! Cells of CSV as in RFC 4180, for writing; text so that spreadsheets show it and evaluate nothing.

use std::borrow::Cow;

/// A cell that begins with one of these, also after blanks, is a formula for a spreadsheet.
const FORMULAS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// What makes a spreadsheet show a cell as it is.
const AS_TEXT: char = '\'';

/// The digits of an escape.
const DIGITS: usize = 4;

/// A cell, quoted if necessary.
pub(crate) fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Text as a cell: a formula begins with an apostrophe, and characters that do not show are escaped, as in
/// JSON (`\u001b`). [`read_text`] reads it back.
pub(crate) fn text(text: &str) -> String {
    // A literal escape is one of its backslash.
    let mut cell = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '\\' if escaped(&text[at..]).is_some() => escape(c, &mut cell),
            c => push(c, &mut cell),
        }
    }
    if is_formula(&cell) { format!("{AS_TEXT}{cell}") } else { cell }
}

/// JSON as a cell: characters that do not show, which are in its strings, are escaped.
pub(crate) fn json(json: &str) -> String {
    let mut cell = String::with_capacity(json.len());
    json.chars().for_each(|c| push(c, &mut cell));
    cell
}

/// The text of a cell.
#[must_use]
pub fn read_text(cell: &str) -> Cow<'_, str> {
    let cell = cell.strip_prefix(AS_TEXT).filter(|rest| is_formula(rest)).unwrap_or(cell);
    if !cell.contains('\\') {
        return Cow::Borrowed(cell);
    }
    let (mut text, mut rest) = (String::with_capacity(cell.len()), cell);
    while let Some(c) = rest.chars().next() {
        let (c, length) = escaped(rest).unwrap_or((c, c.len_utf8()));
        text.push(c);
        rest = &rest[length..];
    }
    Cow::Owned(text)
}

/// Whether a spreadsheet evaluates a cell, or a cell with apostrophes before it.
fn is_formula(cell: &str) -> bool {
    cell.trim_start_matches(AS_TEXT).trim_start().starts_with(FORMULAS)
}

/// The character of an escape that begins here, and its length.
fn escaped(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("\\u")?.get(..DIGITS)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    (c == '\\' || is_hidden(c)).then_some((c, "\\u".len() + DIGITS))
}

fn push(c: char, cell: &mut String) {
    if is_hidden(c) { escape(c, cell) } else { cell.push(c) }
}

fn escape(c: char, cell: &mut String) {
    cell.push_str(&format!("\\u{:04x}", u32::from(c)));
}

/// Whether it is a control character, or one that changes how others are shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::csv::quoted_cells;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quoted_cell_is_read_as_it_was() {
        for cell in ["a", "", "b,c", "say \"hi\"", " d "] {
            assert_eq!(quoted_cells(&quoted(cell)).unwrap(), [cell]);
        }
    }

    #[test]
    fn text_is_no_formula_and_has_no_hidden_characters() {
        for (written, cell) in [
            ("team", "team"),
            ("C:\\users", "C:\\users"),
            ("a-b", "a-b"),
            ("=HYPERLINK(\"http://evil\")", "'=HYPERLINK(\"http://evil\")"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum", "'@sum"),
            (" =1", "' =1"),
            ("＝1", "'＝1"),
            ("'=1", "''=1"),
            ("'quoted'", "'quoted'"),
            ("\t=1", "\\u0009=1"),
            ("\r=1", "\\u000d=1"),
            ("a\u{1b}[2J\u{202e}", "a\\u001b[2J\\u202e"),
            ("\\u001b", "\\u005cu001b"),
            ("\\u0041", "\\u0041"),
        ] {
            assert_eq!(text(written), cell);
            assert_eq!(read_text(cell), written);
        }
        assert_eq!(json("{\"a\":\"\u{9b}=\\u001b\"}"), "{\"a\":\"\\u009b=\\u001b\"}");
    }

    proptest! {
        #[test]
        fn text_is_read_as_it_was(
            written in prop_oneof![
                any::<String>(),
                "['=+@ -]{0,3}(\\\\u00|\\\\|\u{1b}|1b|u|\t|5c){0,6}",
            ],
        ) {
            let cell = text(&written);
            prop_assert!(!cell.trim_start().starts_with(FORMULAS), "{cell:?}");
            prop_assert!(!cell.contains(is_hidden), "{cell:?}");
            prop_assert_eq!(&*read_text(&cell), &*written);
            prop_assert_eq!(quoted_cells(&quoted(&cell)).unwrap(), [cell]);
        }
    }
}
