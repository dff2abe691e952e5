//! Cost data in the FinOps Open Cost and Usage Specification (FOCUS) 1.2, as CSV.
//!
//! One row per GPU and period. On demand and spot, what is billed is what a period costs. A reserved or
//! owned GPU is paid for in advance: its periods are billed 0, and their amortized cost is the effective
//! one. Must not depend on files.

mod row;

use std::io::{self, Write};

use phasemeter_meter::money::NanoUsd;

use self::row::{cells, names};
use crate::csv::quoted;
use crate::report::{Report, Usd};

/// Writes rows of reports.
#[derive(Debug)]
pub struct FocusWriter<W> {
    out: W,
    cost: NanoUsd,
    unpriced: usize,
}

impl<W: Write> FocusWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{}", names().join(","))?;
        Ok(Self { out, cost: NanoUsd::ZERO, unpriced: 0 })
    }

    /// Writes the rows of a report. GPUs without a price have none: a cost is never made up.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn write(&mut self, report: &Report) -> io::Result<()> {
        for gpu in &report.gpus {
            let Some(Usd(cost)) = gpu.cost_usd else {
                self.unpriced += 1;
                continue;
            };
            for period in gpu.periods.iter().filter(|period| period.end > period.start) {
                let cells = cells(report, gpu, period);
                let cells: Vec<_> = cells.iter().map(|cell| quoted(cell)).collect();
                writeln!(self.out, "{}", cells.join(","))?;
            }
            self.cost += cost;
        }
        Ok(())
    }

    /// Ends the output. Returns the effective cost of all rows, and the number of GPUs without a price.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn finish(mut self) -> io::Result<(NanoUsd, usize)> {
        self.out.flush()?;
        Ok((self.cost, self.unpriced))
    }
}
