//! Cost data in the FinOps Open Cost and Usage Specification (FOCUS) 1.2 or 1.4, as CSV or Parquet.
//!
//! One row per GPU and period of its report: an hour, or longer in a long run. One over the end of a month is divided there, since a
//! charge lies within its billing period. On demand and spot, what is billed is what a period costs. A reserved or owned GPU is paid for
//! in advance: its periods are billed 0, and their amortized cost is the effective one. In 1.4, a GPU that was divided has a row per
//! holder and one for what nobody had, in place of its periods.

mod allocation;
mod charge;
mod context;
mod csv;
mod parquet;
mod row;
mod tags;
mod value;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::PaymentPlan;

use self::charge::Charge;
use self::context::Context;
pub use self::csv::CsvRows;
pub use self::parquet::ParquetRows;
pub use self::tags::{TagFormat, Tags};
pub use self::value::{Decimal, Kind, RowSink, Value};
pub use self::version::{FocusOptions, FocusVersion};
use crate::report::{Gpu, Report, Usd};

/// Writes rows of reports.
#[derive(Debug)]
pub struct FocusWriter<R> {
    rows: R,
    options: FocusOptions,
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
    /// Writes rows that were begun with the same options.
    pub fn new(rows: R, options: FocusOptions) -> Self {
        Self { rows, options, totals: FocusTotals::default() }
    }

    /// Writes the rows of a report. GPUs without a price have none: a cost is never made up.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    pub fn write(&mut self, report: &Report) -> io::Result<()> {
        let tags = self.tags(&report.experiment.attributes);
        for gpu in &report.gpus {
            let Some(Usd(cost)) = gpu.cost_usd else {
                self.totals.unpriced += 1;
                continue;
            };
            let has_allocations = self.options.version.has_allocations();
            if has_allocations && gpu.division().is_some() {
                for charge in charge::of_holders(gpu) {
                    self.write_row(report, gpu, &charge, &tags)?;
                }
            } else {
                for charge in charge::of_periods(gpu) {
                    self.write_row(report, gpu, &charge, &tags)?;
                }
            }
            self.totals.cost += cost;
        }
        Ok(())
    }

    fn write_row(
        &mut self,
        report: &Report,
        gpu: &Gpu,
        charge: &Charge<'_>,
        tags: &BTreeMap<String, String>,
    ) -> io::Result<()> {
        let plan = gpu.price.as_ref().and_then(|price| price.plan.as_deref()?.parse().ok());
        let allocation = charge.allocation.as_ref().filter(|it| it.holder.is_some());
        let mut holder_tags = allocation.map(|it| self.tags(&it.attributes()));
        // FOCUS has each tag once.
        holder_tags.iter_mut().for_each(|of| of.retain(|key, value| tags.get(key) != Some(value)));
        let context = Context {
            report,
            gpu,
            charge,
            plan: plan.unwrap_or(PaymentPlan::OnDemand),
            options: &self.options,
            tags,
            holder_tags: holder_tags.as_ref(),
        };
        self.rows.write(&row::values(&context))
    }

    /// Attributes as tags.
    fn tags(&mut self, attributes: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let Tags { tags, dropped } = Tags::of(attributes, self.options.tags);
        self.totals.dropped_tags.extend(dropped);
        tags
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
