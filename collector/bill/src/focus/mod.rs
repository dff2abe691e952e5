//! Cost data in the FinOps Open Cost and Usage Specification (FOCUS) 1.2, as CSV or Parquet.
//!
//! One row per GPU and period of its report: an hour, or longer in a long run. One over the end of a month is divided there, since a
//! charge lies within its billing period. On demand and spot, what is billed is what a period costs. A reserved or owned GPU is paid for
//! in advance: its periods are billed 0, and their amortized cost is the effective one.

mod csv;
mod month;
mod parquet;
mod row;
mod tags;
mod value;

use std::collections::BTreeSet;
use std::io;

use phasemeter_meter::money::NanoUsd;

pub use self::csv::CsvRows;
pub use self::parquet::ParquetRows;
pub use self::tags::{TagFormat, Tags};
pub use self::value::{Decimal, Kind, RowSink, Value};
use crate::report::{Report, Usd};

/// Writes rows of reports.
#[derive(Debug)]
pub struct FocusWriter<R> {
    rows: R,
    tags: TagFormat,
    totals: FocusTotals,
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FocusTotals {
    /// The effective cost of all rows.
    pub cost: NanoUsd,
    /// The number of GPUs without a price.
    pub unpriced: usize,
    /// Attributes that are not among the tags, since another has their key there.
    pub dropped_tags: BTreeSet<String>,
}

impl<R: RowSink> FocusWriter<R> {
    /// Writes rows in this format.
    pub fn new(rows: R, tags: TagFormat) -> Self {
        Self { rows, tags, totals: FocusTotals::default() }
    }

    /// Writes the rows of a report. GPUs without a price have none: a cost is never made up.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn write(&mut self, report: &Report) -> io::Result<()> {
        let Tags { tags, dropped } = Tags::of(&report.experiment.attributes, self.tags);
        self.totals.dropped_tags.extend(dropped);
        for gpu in &report.gpus {
            let Some(Usd(cost)) = gpu.cost_usd else {
                self.totals.unpriced += 1;
                continue;
            };
            for period in gpu.periods.iter().flat_map(month::by_month) {
                self.rows.write(&row::values(report, gpu, &period, &tags))?;
            }
            self.totals.cost += cost;
        }
        Ok(())
    }

    /// Ends the output. Returns what was written.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn finish(self) -> io::Result<FocusTotals> {
        self.rows.finish()?;
        Ok(self.totals)
    }
}
