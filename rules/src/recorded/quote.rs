//! A quote as it stands in a file: the fields of the contract, or `null` where there is none.
//!
//! This room must not know who gave it.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::Plan;
use phasemeter_meter::units::Timestamp;
use serde::{Deserialize, Serialize};

use super::value::{maybe, one, record};
use crate::quote::Quote;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    schema: Schema,
    #[serde(with = "maybe")]
    quote: Option<Quote>,
}

#[derive(Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "phasemeter.quote/0.1")]
    V0_1,
}

impl From<Option<&Quote>> for File {
    fn from(quote: Option<&Quote>) -> Self {
        Self { schema: Schema::V0_1, quote: quote.cloned() }
    }
}

impl From<File> for Option<Quote> {
    fn from(file: File) -> Self {
        file.quote
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Quote", deny_unknown_fields)]
struct QuoteFields {
    #[serde(rename = "nano_usd_per_gpu_hour", with = "one")]
    rate: Rate,
    #[serde(with = "one")]
    plan: Plan,
    source: String,
    #[serde(with = "one")]
    day: Date,
    #[serde(rename = "valid_until_unix_nanos", default, with = "maybe")]
    valid_until: Option<Timestamp>,
}
record!(Quote, QuoteFields);
