//! The input of a pricer, and its validated output.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::units::Timestamp;

/// A request for the price of a GPU-hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRequest {
    /// The driver's product name, like `NVIDIA H100 80GB HBM3`. Not empty.
    pub model: String,
    /// Cloud provider, like `aws`.
    pub provider: Option<String>,
    /// The provider's region, like `us-east-1`.
    pub region: Option<String>,
    /// The provider's instance type, like `p5.48xlarge`.
    pub instance_type: Option<String>,
    /// The requested plan.
    pub plan: Option<Plan>,
    /// When the GPUs are used.
    pub time: Timestamp,
    /// How many GPUs of this model the run has so far.
    pub gpus: NonZeroU32,
    /// How many of them the policy has priced by its quotes for the same time.
    pub priced: u32,
    /// The price book's price; `None` if it has no such GPU.
    pub listed: Option<Price>,
    /// Attributes of the experiment.
    pub attributes: BTreeMap<String, String>,
    /// Whether the GPUs are only compared with those in use.
    pub is_offer: bool,
}

/// A price from a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Price per GPU-hour.
    pub rate: Rate,
    /// How the GPU is paid for.
    pub plan: Plan,
    /// Source of the price, for display: one line of 1–200 bytes.
    pub source: String,
    /// The date on which the price was valid.
    pub as_of: Date,
    /// When the quote becomes valid; `None` if it is valid already.
    pub valid_from: Option<Timestamp>,
    /// When the quote expires, after the request's time; `None` if it does not.
    pub valid_until: Option<Timestamp>,
    /// How many GPUs it is for; `None` if for all.
    pub gpus: Option<NonZeroU32>,
}
