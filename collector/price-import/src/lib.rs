//! Price files of clouds, as rows of a price book.
//!
//! The files do not name the GPU of an instance type; the price book does.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aws;
mod aws_json;
mod azure;
mod gcp;
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{BookRow, LISTED_PLANS, ListedPrice, PaymentPlan, PriceBook};

/// Why a price file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It has another format.
    #[error("{file}: is not {expected}; {fix}")]
    Format {
        /// The file.
        file: String,
        /// The format.
        expected: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A row is invalid.
    #[error("{file}: line {line}: {problem}; download the file again")]
    Row {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// What is wrong in a file.
enum Problem {
    /// It has another format.
    Format,
    /// The line, from 1, and what is wrong in it.
    Row(usize, String),
}

/// A format of price files.
#[derive(Clone, Copy, Debug)]
pub enum FileFormat {
    /// The CSV of the AWS Price List.
    AwsCsv,
    /// Its JSON.
    AwsJson,
    /// Pages of the Azure Retail Prices API.
    Azure,
    /// Pages of Google's Cloud Billing Catalog.
    Gcp,
}

impl FileFormat {
    /// Adds the prices of a file. Dates: the given one, if any, and that of today.
    ///
    /// # Errors
    /// Returns an error if it has another format, or a price is invalid.
    pub fn read(
        self,
        file: &str,
        text: impl BufRead,
        (as_of, today): (Option<Date>, Date),
        imported: &mut Imported<'_>,
    ) -> Result<(), ImportError> {
        let read = match self {
            Self::AwsCsv => aws::read(text, as_of, imported),
            Self::AwsJson => aws_json::read(text, as_of, imported),
            Self::Azure => azure::read(text, as_of.unwrap_or(today), imported),
            Self::Gcp => gcp::read(text, as_of.unwrap_or(today), imported),
        };
        let (file, (expected, fix)) = (file.to_owned(), self.expected());
        read.map_err(|problem| match problem {
            Problem::Format => ImportError::Format { file, expected, fix },
            Problem::Row(line, problem) => ImportError::Row { file, line, problem },
        })
    }

    /// What such a file is, and how to get one.
    const fn expected(self) -> (&'static str, &'static str) {
        match self {
            Self::AwsCsv => (
                "a price list of Amazon EC2 as CSV",
                "download the CSV of the region from the AWS Price List",
            ),
            Self::AwsJson => (
                "a price list of Amazon EC2 as JSON",
                "download the offer file of the region, or save the output of `aws pricing get-products`",
            ),
            Self::Azure => (
                "a page of the Azure Retail Prices API",
                "save the JSON of prices.azure.com/api/retail/prices, one or more pages",
            ),
            Self::Gcp => (
                "a page of Google's Cloud Billing Catalog",
                "save the JSON of services/6F81-5844-456A/skus, all pages",
            ),
        }
    }
}

/// One price of a file.
pub(crate) struct Offer<'a> {
    pub(crate) region: &'a str,
    pub(crate) instance_type: &'a str,
    pub(crate) plan: PaymentPlan,
    /// Of the instance per hour.
    pub(crate) price: Rate,
    pub(crate) as_of: Date,
}

/// Prices by instance type, of the types whose GPU is known.
pub struct Imported<'a> {
    book: &'a PriceBook,
    provider: &'static str,
    source: String,
    rows: BTreeMap<[String; 3], BookRow>,
    /// Instance types with GPUs that the price book lacks.
    pub unknown: BTreeSet<String>,
    /// Prices that were imported.
    pub prices: u64,
}

impl<'a> Imported<'a> {
    /// Nothing yet. `book` has the GPUs of instance types.
    #[must_use]
    pub fn new(book: &'a PriceBook, provider: &'static str, source: String) -> Self {
        let (rows, unknown) = (BTreeMap::new(), BTreeSet::new());
        Self { book, provider, source, rows, unknown, prices: 0 }
    }

    /// The rows, in order of region and instance type.
    pub fn rows(self) -> impl Iterator<Item = BookRow> {
        self.rows.into_values()
    }

    /// Adds a price. Of several for one plan the lowest counts: of equal offers, which is used is free.
    pub(crate) fn add(&mut self, offer: &Offer<'_>) -> bool {
        let known = self.book.rows().iter().find(|row| {
            row.provider == self.provider
                && row.instance_type.eq_ignore_ascii_case(offer.instance_type)
        });
        let Some(known) = known else { return false };
        let row = BookRow {
            provider: self.provider.into(),
            region: offer.region.to_owned().into(),
            instance_type: known.instance_type.clone(),
            model: known.model.clone(),
            gpus: known.gpus,
            prices: [const { None }; LISTED_PLANS.len()],
        };
        let source = self.source.clone().into();
        let price = ListedPrice::of(offer.price, known.gpus, offer.as_of, source);
        let row = self.rows.entry(row.key()).or_insert(row);
        let place = LISTED_PLANS.iter().position(|plan| *plan == offer.plan);
        if let Some(listed) = place.and_then(|place| row.prices.get_mut(place))
            && listed.as_ref().is_none_or(|it| offer.price < it.instance)
        {
            *listed = price;
            self.prices += 1;
        }
        true
    }
}
