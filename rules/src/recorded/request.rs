//! A quote request as it stands in a file: the fields of the contract. What the contract lets be
//! absent may be left out.
//!
//! This room must not know who is asked.

use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::units::Timestamp;
use serde::{Deserialize, Serialize};

use super::value::{maybe, one};
use crate::error::Violation;
use crate::quote::QuoteRequest;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    schema: Schema,
    #[serde(with = "RequestFields")]
    request: QuoteRequest,
}

#[derive(Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "phasemeter.quote-request/0.1")]
    V0_1,
}

impl From<&QuoteRequest> for File {
    fn from(request: &QuoteRequest) -> Self {
        Self { schema: Schema::V0_1, request: request.clone() }
    }
}

impl From<File> for QuoteRequest {
    fn from(file: File) -> Self {
        file.request
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "QuoteRequest", deny_unknown_fields)]
struct RequestFields {
    model: String,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    instance_type: Option<String>,
    #[serde(default, with = "maybe")]
    plan: Option<Plan>,
    #[serde(rename = "time_unix_nanos", with = "one")]
    time: Timestamp,
    #[serde(default, with = "maybe")]
    listed: Option<Price>,
}

/// What the contract promises of a request and this one does not keep. The rest of it the types
/// keep.
pub(super) fn violations(request: &QuoteRequest) -> Vec<Violation> {
    let unnamed = Violation { at: "model".to_owned(), problem: "is empty".to_owned() };
    request.model.is_empty().then_some(unnamed).into_iter().collect()
}
