//! What a situation expects: recommendations to give and to avoid, and missing information to name.

use serde::Deserialize;

use crate::lever;
use crate::track::{Millis, length};

/// Levers, or groups of them, expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) struct Levers(pub(crate) Vec<String>);

impl TryFrom<Vec<String>> for Levers {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let expanded = names
            .iter()
            .map(|name| lever::expand(name).ok_or_else(|| format!("unknown lever `{name}`")));
        Ok(Self(expanded.collect::<Result<Vec<_>, _>>()?.concat()))
    }
}

/// At least one of the levers must be recommended for each of the GPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// Groups of GPUs; all if empty.
    #[serde(default)]
    pub(crate) gpus: Vec<String>,
    pub(crate) levers: Levers,
    /// The kind that the recommendation must have: `saving`, `risk` or `capacity`.
    pub(crate) kind: Option<String>,
    /// The most that may be expected to be saved, in percent of the bill of these GPUs.
    pub(crate) max_saving: Option<u32>,
    pub(crate) why: String,
}

/// Neither required nor wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    #[serde(default)]
    pub(crate) gpus: Vec<String>,
    pub(crate) levers: Levers,
    pub(crate) why: String,
}

/// What must not be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Promise {
    /// A low saving above 0.
    Low,
    /// Any saving as a number.
    Saving,
    /// A saving in dollars that counts.
    Cash,
    /// A monthly saving of all recommendations together.
    Monthly,
    /// That a controller may do it: a remediation.
    Automation,
}

/// A recommendation that would be wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forbidden {
    #[serde(default)]
    pub(crate) gpus: Vec<String>,
    #[serde(default)]
    pub(crate) levers: Levers,
    /// Only this promise is wrong; if absent, the recommendation itself.
    pub(crate) promise: Option<Promise>,
    pub(crate) why: String,
}

/// Information whose lack must be named.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Need {
    #[serde(default)]
    pub(crate) gpus: Vec<String>,
    /// A column, a setting, `interval` or `duration`; one of them must be named.
    pub(crate) missing: Vec<String>,
    pub(crate) why: String,
}

/// What a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    Training,
    Serving,
    Interactive,
    Batch,
    /// It cannot be determined from the log.
    Unknown,
}

impl Workload {
    /// The value of the attribute; `None` if unknown.
    pub(crate) const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::Training => Some("training"),
            Self::Serving => Some("serving"),
            Self::Interactive => Some("interactive"),
            Self::Batch => Some("batch"),
            Self::Unknown => None,
        }
    }
}

/// What holds in every situation: `common.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Common {
    pub(crate) forbidden: Vec<Rule>,
    pub(crate) accepted: Vec<Accepted>,
}

/// A rule, and where it applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(default)]
    pub(crate) levers: Levers,
    pub(crate) promise: Option<Promise>,
    /// Only of these workloads; of all if empty.
    #[serde(default)]
    pub(crate) workloads: Vec<Workload>,
    /// Only of logs shorter than this.
    pub(crate) shorter_than: Option<Length>,
    /// Only of logs without this column.
    pub(crate) without: Option<String>,
    pub(crate) why: String,
}

/// A length of time such as `6h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Length(pub(crate) Millis);

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let invalid = || format!("invalid length `{text}`: expected a duration such as `6h`");
        length(&text).map(Self).ok_or_else(invalid)
    }
}
