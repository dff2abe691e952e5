//! A price as it stands in a file, in a window as in a quote request.
//!
//! This room must not know what it is the price of.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceRange};
use serde::{Deserialize, Serialize};

use super::value::{maybe, one, record};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Price", deny_unknown_fields)]
struct PriceFields {
    #[serde(rename = "nano_usd_per_gpu_hour", with = "one")]
    rate: Rate,
    #[serde(default, with = "maybe")]
    plan: Option<Plan>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    instance_type: Option<String>,
    source: String,
    #[serde(rename = "day", default, with = "maybe")]
    as_of: Option<Date>,
    #[serde(default, with = "maybe")]
    estimate: Option<PriceRange>,
}
record!(Price, PriceFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PriceRange", deny_unknown_fields)]
struct PriceRangeFields {
    rows: usize,
    #[serde(rename = "low_nano_usd_per_gpu_hour", with = "one")]
    low: Rate,
    #[serde(rename = "high_nano_usd_per_gpu_hour", with = "one")]
    high: Rate,
}
record!(PriceRange, PriceRangeFields);
