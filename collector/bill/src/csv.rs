//! Cells of CSV as in RFC 4180, for writing.
//!
//! Must not depend on what a row means.

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
    use phasemeter_meter::csv::quoted_cells;

    use super::*;

    #[test]
    fn quoted_cell_is_read_as_it_was() {
        for cell in ["a", "", "b,c", "say \"hi\"", " d "] {
            assert_eq!(quoted_cells(&quoted(cell)).unwrap(), [cell]);
        }
    }
}
