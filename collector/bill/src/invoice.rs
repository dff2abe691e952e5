//! An invoice beside a bill: what is to be paid against what was billed, line by line.
//!
//! An invoice is a CSV file with a column per dimension of the bill, named like it, and the column
//! `billed_usd`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use phasemeter_meter::csv::quoted_cells;
use phasemeter_meter::money::NanoUsd;

use crate::amount::parse_usd;
use crate::bill::{Bill, Payer};
use crate::csv;
use crate::dimension::Dimension;
use crate::error::{BillError, ReadError};

/// The column with amounts.
const BILLED: &str = "billed_usd";

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 64 << 10;

/// The lines of an invoice: an amount per group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice(BTreeMap<Payer, NanoUsd>);

/// What is to be paid and what was billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who pays.
    pub payer: Payer,
    /// The total of the bill; `None` if it has no such row.
    pub total: Option<NanoUsd>,
    /// The amount of the invoice; `None` if it has no such line.
    pub billed: Option<NanoUsd>,
}

/// A bill beside an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciliation {
    /// The rows of the bill, then lines that only the invoice has.
    pub lines: Vec<Line>,
}

impl Line {
    /// Billed minus the total; an absent one is zero.
    #[must_use]
    pub fn difference(&self) -> Option<NanoUsd> {
        Some(self.billed.unwrap_or_default() - self.total.unwrap_or_default())
    }
}

impl Reconciliation {
    /// All lines together.
    #[must_use]
    pub fn sum(&self) -> Line {
        Line {
            payer: Payer::Group(Vec::new()),
            total: Some(self.lines.iter().filter_map(|line| line.total).sum()),
            billed: Some(self.lines.iter().filter_map(|line| line.billed).sum()),
        }
    }
}

impl Invoice {
    /// Reads an invoice for a bill that is split by these dimensions.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is not such a file.
    pub fn read(file: &str, input: impl Read, by: &[Dimension]) -> Result<Self, BillError> {
        let mut input = BufReader::new(input);
        let mut lines = BTreeMap::new();
        let mut columns: Option<Vec<usize>> = None;
        for line in 1.. {
            let wrong = |problem| BillError::Invoice { file: file.to_owned(), line, problem };
            let Some(text) = next_line(file, &mut input)? else { break };
            let text = text.ok_or_else(|| wrong(format!("it is longer than {MAX_LINE} bytes")))?;
            let row = text.strip_prefix('\u{feff}').filter(|_| line == 1).unwrap_or(&text);
            if row.trim().is_empty() {
                continue;
            }
            let cells =
                quoted_cells(row).ok_or_else(|| wrong("a quote is not closed".to_owned()))?;
            let Some(columns) = &columns else {
                columns = Some(find_columns(&cells, by).map_err(wrong)?);
                continue;
            };
            let cell = |column: usize| cells.get(column).map(|cell| cell.trim());
            let (key, amount) = columns.split_at(by.len());
            let amount = amount.first().and_then(|column| cell(*column)).unwrap_or_default();
            let billed = parse_usd(amount).ok_or_else(|| {
                wrong(format!("{BILLED}: {amount:?}: expected dollars like 1234.56"))
            })?;
            let key = key.iter().map(|column| cell(*column).filter(|it| !it.is_empty()));
            let key = key.map(|value| value.map(|it| csv::read_text(it).into_owned())).collect();
            *lines.entry(Payer::Group(key)).or_default() += billed;
        }
        match columns {
            Some(_) => Ok(Self(lines)),
            None => {
                Err(BillError::Invoice { file: file.to_owned(), line: 1, problem: expected(by) })
            }
        }
    }

    /// The bill beside this invoice.
    #[must_use]
    pub fn reconcile(mut self, bill: &Bill) -> Reconciliation {
        let mut lines = Vec::new();
        for row in &bill.rows {
            let billed = self.0.remove(&row.payer);
            if billed.is_some() || row.total() != NanoUsd::ZERO {
                let (payer, total) = (row.payer.clone(), Some(row.total()));
                lines.push(Line { payer, total, billed });
            }
        }
        let unmetered = self.0.into_iter();
        lines.extend(unmetered.map(|(payer, billed)| Line {
            payer,
            total: None,
            billed: Some(billed),
        }));
        Reconciliation { lines }
    }
}

fn expected(by: &[Dimension]) -> String {
    let names = by.iter().map(ToString::to_string).chain([BILLED.to_owned()]);
    format!("expected a header with the columns {}", names.collect::<Vec<_>>().join(", "))
}

/// The columns of the dimensions, then that of the amount.
fn find_columns(header: &[String], by: &[Dimension]) -> Result<Vec<usize>, String> {
    let names = by.iter().map(ToString::to_string).chain([BILLED.to_owned()]);
    let find = |name: String| header.iter().position(|cell| cell.trim() == name);
    names.map(find).collect::<Option<_>>().ok_or_else(|| expected(by))
}

fn next_line(file: &str, input: &mut impl BufRead) -> Result<Option<Option<String>>, BillError> {
    let unreadable = |source| ReadError::Unreadable { file: file.to_owned(), source };
    let mut line = Vec::new();
    let mut limited = Read::take(input, MAX_LINE);
    if limited.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
        return Ok(None);
    }
    if limited.limit() == 0 && !line.ends_with(b"\n") {
        return Ok(Some(None));
    }
    Ok(Some(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())))
}
