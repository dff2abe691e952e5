//! The part of a JSON report that is compared.

use serde::Deserialize;
use serde_json::Value;

/// A report of `phasemeter audit --format json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    pub(crate) gpus: Vec<ReportedGpu>,
    pub(crate) recommendations: Vec<Recommendation>,
    pub(crate) savings: Option<Savings>,
    /// Missing information. Reports without this list name none.
    #[serde(default)]
    pub(crate) needs: Vec<ReportedNeed>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReportedGpu {
    pub(crate) id: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recommendation {
    pub(crate) lever: String,
    /// `saving`, `risk` or `capacity`; absent if the report does not distinguish them.
    pub(crate) kind: Option<String>,
    pub(crate) gpus: Vec<String>,
    pub(crate) saving_fraction: Fractions,
    /// `None` if a GPU has no price.
    pub(crate) saving_usd: Option<Value>,
    /// Whether it is part of the sum.
    pub(crate) counted: bool,
    /// The same for automation; `None` if a person decides.
    pub(crate) remediation: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Fractions {
    pub(crate) low: f64,
    pub(crate) expected: f64,
    pub(crate) high: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Savings {
    /// Absent or `None` if the log is too short for it.
    pub(crate) monthly_usd: Option<Dollars>,
}

/// Decimal texts.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dollars {
    pub(crate) high: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReportedNeed {
    pub(crate) missing: String,
    pub(crate) gpus: Vec<String>,
}

impl Report {
    /// Parses a report.
    ///
    /// # Errors
    /// Returns an error if a field is missing or has another type.
    pub fn parse(json: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(json)
    }
}

impl Dollars {
    /// Whether any saving is promised.
    pub(crate) fn is_positive(&self) -> bool {
        self.high.bytes().any(|digit| matches!(digit, b'1'..=b'9'))
    }
}
