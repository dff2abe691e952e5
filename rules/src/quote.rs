//! What a pricer is asked, and what it answers after it was checked.
//!
//! This room must not know which policy is asked, nor in which order.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::units::Timestamp;

/// What does a GPU-hour cost here?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRequest {
    /// As the driver names it, like `NVIDIA H100 80GB HBM3`. Not empty.
    pub model: String,
    /// Like `aws`.
    pub provider: Option<String>,
    /// Like `us-east-1`.
    pub region: Option<String>,
    /// Like `p5.48xlarge`.
    pub instance_type: Option<String>,
    /// The plan that was asked for.
    pub plan: Option<Plan>,
    /// When the GPU is used.
    pub time: Timestamp,
    /// What the price book says.
    pub listed: Option<Price>,
}

/// What a GPU-hour costs, by terms that no price book knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// What is charged.
    pub rate: Rate,
    /// How it is paid for.
    pub plan: Plan,
    /// On whose word: one line of at most 200 bytes.
    pub source: String,
    /// The day it was true.
    pub day: Date,
    /// Until when; after the time of the request.
    pub valid_until: Option<Timestamp>,
}
