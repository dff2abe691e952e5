//! A price book of the user: the table of `data/gpu-instances.csv` with named columns.
//!
//! Columns may be in any order; those of prices may be missing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::row::{BookRow, LISTED_PLANS, ListedPrice};
use crate::date::Date;
use crate::money::Rate;

/// The columns, in the order in which they are written.
pub const COLUMNS: [&str; 11] = [
    "provider",
    "region",
    "instance_type",
    "gpu_model",
    "gpu_count",
    "on_demand_usd_per_hour",
    "spot_usd_per_hour",
    "reserved_1y_usd_per_hour",
    "reserved_3y_usd_per_hour",
    "as_of",
    "source",
];

/// The columns that every book must have.
const REQUIRED: [&str; 6] =
    ["provider", "region", "instance_type", "gpu_model", "gpu_count", "as_of"];

/// The columns of prices, in the order of [`LISTED_PLANS`].
const PRICES: [&str; LISTED_PLANS.len()] = [
    "on_demand_usd_per_hour",
    "spot_usd_per_hour",
    "reserved_1y_usd_per_hour",
    "reserved_3y_usd_per_hour",
];

/// Why a book cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// A column is missing.
    #[error("line 1: no column '{0}'; a price book has {columns}", columns = COLUMNS.join(","))]
    MissingColumn(&'static str),
    /// A cell is invalid.
    #[error("line {line}: {column} '{value}': {problem}")]
    Cell {
        /// The line, from 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// The cell.
        value: String,
        /// What is expected.
        problem: String,
    },
    /// A row has too few or too many cells, or quotes.
    #[error("line {0}: expected one cell per column, without quotes")]
    Row(usize),
    /// An instance type is listed twice.
    #[error("line {0}: the instance type is listed before in this region; remove one of the rows")]
    Duplicate(usize),
    /// A row has no price.
    #[error("line {0}: no price; fill one of {columns}", columns = PRICES.join(", "))]
    NoPrice(usize),
}

/// Reads a book. Prices without a source have `source`.
///
/// # Errors
/// Returns an error that names the first invalid line.
pub fn parse(text: &str, source: &str) -> Result<Vec<BookRow>, BookError> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let header: Vec<&str> =
        lines.next().map(|(_, line)| line.split(',').map(str::trim).collect()).unwrap_or_default();
    let column = |name: &str| header.iter().position(|known| *known == name);
    if let Some(missing) = REQUIRED.into_iter().find(|name| column(name).is_none()) {
        return Err(BookError::MissingColumn(missing));
    }
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, text) in lines {
        let line = index + 1;
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != header.len() || text.contains('"') {
            return Err(BookError::Row(line));
        }
        let row = row(line, source, |name| {
            column(name).and_then(|at| cells.get(at)).copied().unwrap_or_default()
        })?;
        if !seen.insert(row.key()) {
            return Err(BookError::Duplicate(line));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row<'a>(
    line: usize,
    source: &str,
    cell: impl Fn(&'static str) -> &'a str,
) -> Result<BookRow, BookError> {
    let invalid = |column: &'static str, problem: String| BookError::Cell {
        line,
        column,
        value: cell(column).to_owned(),
        problem,
    };
    let text = |column| match cell(column) {
        "" => Err(invalid(column, "expected a name".to_owned())),
        text => Ok(Cow::Owned(text.to_owned())),
    };
    let gpus: u32 = cell("gpu_count")
        .parse()
        .ok()
        .filter(|gpus| (1..=1_024).contains(gpus))
        .ok_or_else(|| invalid("gpu_count", "expected 1 to 1024".to_owned()))?;
    let as_of: Date =
        cell("as_of").parse().map_err(|_| invalid("as_of", "expected YYYY-MM-DD".to_owned()))?;
    let source = match cell("source") {
        "" => source,
        own => own,
    };
    let mut prices = [const { None }; LISTED_PLANS.len()];
    for (price, column) in prices.iter_mut().zip(PRICES) {
        if cell(column).is_empty() {
            continue;
        }
        let instance =
            Rate::parse(cell(column)).map_err(|error| invalid(column, error.to_string()))?;
        *price = ListedPrice::of(instance, gpus, as_of, source.to_owned().into());
    }
    if prices.iter().all(Option::is_none) {
        return Err(BookError::NoPrice(line));
    }
    Ok(BookRow {
        provider: text("provider")?,
        region: text("region")?,
        instance_type: text("instance_type")?,
        model: text("gpu_model")?,
        gpus,
        prices,
    })
}

impl ListedPrice {
    /// An instance's price for its GPUs; `None` if there are none.
    #[must_use]
    pub fn of(instance: Rate, gpus: u32, as_of: Date, source: Cow<'static, str>) -> Option<Self> {
        let rate = Rate::from_instance(instance.nano_usd_per_hour(), gpus)?;
        Some(Self { instance, rate, as_of, source })
    }
}

/// A row of a book as text. Of several dates and sources, the row has the oldest.
impl fmt::Display for BookRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, region, instance_type, model, gpus, prices } = self;
        write!(f, "{provider},{region},{instance_type},{model},{gpus}")?;
        for price in prices {
            let dollars = price.as_ref().map(|it| it.instance.hourly().to_string());
            let dollars = dollars.as_deref().unwrap_or_default();
            let short = if dollars.contains('.') {
                dollars.trim_end_matches('0').trim_end_matches('.')
            } else {
                dollars
            };
            write!(f, ",{short}")?;
        }
        match prices.iter().flatten().min_by_key(|price| price.as_of) {
            Some(oldest) => write!(f, ",{},{}", oldest.as_of, oldest.source.replace(',', ";")),
            None => write!(f, ",,"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::PaymentPlan;
    use super::*;

    const BOOK: &str = "instance_type,provider,region,gpu_model,gpu_count,as_of,\
        reserved_1y_usd_per_hour\np5.48xlarge,aws,us-east-1,NVIDIA H100 80GB HBM3,8,2026-11-01,40\n";

    #[test]
    fn columns_are_found_by_name_and_price_is_divided_by_gpus() {
        let rows = parse(BOOK, "contract.csv").unwrap();
        let price = rows[0].listed(PaymentPlan::Reserved1y).unwrap();
        assert_eq!(price.rate, Rate::parse("5").unwrap());
        assert_eq!(
            (price.as_of.to_string().as_str(), &*price.source),
            ("2026-11-01", "contract.csv")
        );
        assert_eq!(rows[0].listed(PaymentPlan::OnDemand), None);
    }

    #[test]
    fn row_reads_back_as_written() {
        let rows = parse(BOOK, "contract.csv").unwrap();
        let text = format!("{}\n{}\n", COLUMNS.join(","), rows[0]);
        assert_eq!(parse(&text, "other"), Ok(rows));
    }

    #[test]
    fn first_invalid_line_is_named() {
        let with =
            |from: &str, to: &str| parse(&BOOK.replace(from, to), "x").unwrap_err().to_string();
        for (from, to, expected) in [
            ("provider", "cloud", "line 1: no column 'provider'; a price book has provider,"),
            (",8,", ",0,", "line 2: gpu_count '0': expected 1 to 1024"),
            ("2026-11-01", "2026-13-01", "line 2: as_of '2026-13-01': expected YYYY-MM-DD"),
            (",40", ",$40", "line 2: reserved_1y_usd_per_hour '$40': expected USD"),
            (",40", ",", "line 2: no price; fill one of"),
            (",40", ",40,1", "line 2: expected one cell per column, without quotes"),
            (",40\n", ",40\np5.48xlarge,AWS,us-east-1,X,8,2026-11-01,40\n", "line 3: the instance"),
            ("aws", "", "line 2: provider '': expected a name"),
        ] {
            let error = with(from, to);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
