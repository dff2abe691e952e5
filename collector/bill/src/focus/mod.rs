//! Cost data in the FinOps Open Cost and Usage Specification (FOCUS) 1.2, as CSV.
//!
//! One row per GPU and period. On demand and spot, what is billed is what a period costs. A reserved or
//! owned GPU is paid for in advance: its periods are billed 0, and their amortized cost is the effective
//! one. Must not depend on files.

mod row;
mod tags;

use std::collections::BTreeSet;
use std::io::{self, Write};

use phasemeter_meter::money::NanoUsd;

use self::row::{cells, names};
pub use self::tags::{TagFormat, Tags};
use crate::csv::quoted;
use crate::report::{Report, Usd};

/// Writes rows of reports.
#[derive(Debug)]
pub struct FocusWriter<W> {
    out: W,
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

impl<W: Write> FocusWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn new(mut out: W, tags: TagFormat) -> io::Result<Self> {
        writeln!(out, "{}", names().join(","))?;
        Ok(Self { out, tags, totals: FocusTotals::default() })
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
            for period in gpu.periods.iter().filter(|period| period.end > period.start) {
                let cells = cells(report, gpu, period, &tags);
                let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
                writeln!(self.out, "{}", cells.join(","))?;
            }
            self.totals.cost += cost;
        }
        Ok(())
    }

    /// Ends the output. Returns what was written.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn finish(mut self) -> io::Result<FocusTotals> {
        self.out.flush()?;
        Ok(self.totals)
    }
}
