//! The input of a pricer, and its validated output. Optional fields may be omitted in a fixture.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::units::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fixture_value::{optional, scalar};

/// A request for the price of a GPU-hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuoteRequest {
    /// The driver's product name, like `NVIDIA H100 80GB HBM3`. Not empty.
    pub model: String,
    /// Cloud provider, like `aws`.
    #[serde(default)]
    pub provider: Option<String>,
    /// The provider's region, like `us-east-1`.
    #[serde(default)]
    pub region: Option<String>,
    /// The provider's instance type, like `p5.48xlarge`.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// The requested plan.
    #[serde(default, with = "optional")]
    pub plan: Option<PaymentPlan>,
    /// When the GPUs are used.
    #[serde(rename = "time_unix_nanos", with = "scalar")]
    pub time: Timestamp,
    /// How many GPUs of this model the run has so far.
    #[serde(default = "one")]
    pub gpus: NonZeroU32,
    /// How many of them the policy has priced by its quotes for the same time.
    #[serde(default)]
    pub priced: u32,
    /// The price book's price; `None` if it has no such GPU.
    #[serde(default, with = "optional")]
    pub listed: Option<Price>,
    /// Attributes of the experiment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether the GPUs are only compared with those in use.
    #[serde(default)]
    pub is_offer: bool,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// A price from a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quote {
    /// Price per GPU-hour.
    #[serde(rename = "nano_usd_per_gpu_hour", with = "scalar")]
    pub rate: Rate,
    /// How the GPU is paid for.
    #[serde(with = "scalar")]
    pub plan: PaymentPlan,
    /// Source of the price, for display: one line of 1–200 bytes.
    pub source: String,
    /// The date on which the price was valid.
    #[serde(with = "scalar")]
    pub as_of: Date,
    /// When the quote becomes valid; `None` if it is valid already.
    #[serde(
        rename = "valid_from_unix_nanos",
        default,
        with = "optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub valid_from: Option<Timestamp>,
    /// When the quote expires, after the request's time; `None` if it does not.
    #[serde(rename = "valid_until_unix_nanos", default, with = "optional")]
    pub valid_until: Option<Timestamp>,
    /// How many GPUs it is for; `None` if for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<NonZeroU32>,
}
