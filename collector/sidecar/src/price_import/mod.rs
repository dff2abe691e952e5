//! Price files of clouds, as rows of a price book.
//!
//! The files do not name the GPU of an instance type; the price book does.

mod aws;
mod aws_json;
mod azure;
mod gcp;
mod pages;

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{BookRow, LISTED_PLANS, ListedPrice, PaymentPlan, PriceBook};

pub use aws::read as read_aws;
pub use aws_json::read as read_aws_json;
pub use azure::read as read_azure;
pub use gcp::read as read_gcp;

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
