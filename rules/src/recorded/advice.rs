//! Advice as it stands in a file: the fields of the contract.
//!
//! This room must not know who gave it.

use std::collections::BTreeMap;

use phasemeter_meter::savings::fraction::Fraction;
use serde::{Deserialize, Serialize};

use super::value::{each, named, one, record};
use crate::lever::Lever;
use crate::recommendation::{Recommendation, Saving, Target};

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    schema: Schema,
    #[serde(with = "each")]
    recommendations: Vec<Recommendation>,
}

#[derive(Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "phasemeter.advice/0.1")]
    V0_1,
}

impl From<&[Recommendation]> for File {
    fn from(advice: &[Recommendation]) -> Self {
        Self { schema: Schema::V0_1, recommendations: advice.to_vec() }
    }
}

impl From<File> for Vec<Recommendation> {
    fn from(file: File) -> Self {
        file.recommendations
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Recommendation", deny_unknown_fields)]
struct RecommendationFields {
    code: String,
    #[serde(with = "one")]
    target: Target,
    #[serde(with = "one")]
    lever: Lever,
    title: String,
    action: String,
    rationale: String,
    #[serde(with = "SavingFields")]
    saving: Saving,
    #[serde(with = "one")]
    confidence: Fraction,
    #[serde(default, with = "named")]
    evidence: BTreeMap<String, f64>,
    gpus: Vec<String>,
}
record!(Recommendation, RecommendationFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Saving", deny_unknown_fields)]
struct SavingFields {
    #[serde(with = "one")]
    low: Fraction,
    #[serde(with = "one")]
    expected: Fraction,
    #[serde(with = "one")]
    high: Fraction,
}
