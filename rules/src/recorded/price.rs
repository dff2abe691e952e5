//! A price as it stands in a file, in a window as in a quote request.
//!
//! This room must not know what it is the price of.

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Day, Estimate, Plan, Price};
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
    as_of: Option<Day>,
    #[serde(default, with = "maybe")]
    estimate: Option<Estimate>,
}
record!(Price, PriceFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Estimate", deny_unknown_fields)]
struct EstimateFields {
    rows: usize,
    #[serde(rename = "low_nano_usd_per_gpu_hour", with = "one")]
    low: Rate,
    #[serde(rename = "high_nano_usd_per_gpu_hour", with = "one")]
    high: Rate,
}
record!(Estimate, EstimateFields);
