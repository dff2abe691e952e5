//! Parser of the built-in tables (`data/*.csv`).
//!
//! The files have one header, no quotes and no empty lines; the tests of the modules that read them
//! check every row. Must not depend on the meaning of columns.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_requires_exact_number_of_cells() {
        let read: Vec<_> = rows::<2>("h,h\na,b\na\na,b,c\n,\n").collect();
        assert_eq!(read, [Some(["a", "b"]), None, None, Some(["", ""])]);
    }
}
