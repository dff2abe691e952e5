//! The keywords of a schema. Those that are not known are rejected.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::limits::error;
use crate::settings::SettingError;

/// Keywords that constrain nothing.
const ANNOTATIONS: [&str; 6] = ["$schema", "$id", "$comment", "title", "description", "examples"];

/// The bounds of a number, each with whether it is exclusive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    low: Option<(f64, bool)>,
    high: Option<(f64, bool)>,
}

impl Range {
    /// Describes the bound that a value violates, if any.
    pub(super) fn violated_bound(&self, value: f64) -> Option<String> {
        match (self.low, self.high) {
            (Some((low, true)), _) if value <= low => Some(format!("above {low}")),
            (Some((low, false)), _) if value < low => Some(format!("at least {low}")),
            (_, Some((high, true))) if value >= high => Some(format!("below {high}")),
            (_, Some((high, false))) if value > high => Some(format!("at most {high}")),
            _ => None,
        }
    }
}

/// The keywords of one schema. Those not taken are unsupported.
pub(super) struct Keywords<'a> {
    pub(super) path: &'a str,
    remaining: BTreeMap<&'a str, &'a Json>,
}

impl<'a> Keywords<'a> {
    pub(super) fn of(json: &'a Json, path: &'a str) -> Result<Self, SettingError> {
        let Json::Object(keywords) = json else {
            return Err(error(path, "invalid schema: expected an object"));
        };
        let constraints = keywords.iter().filter(|(key, _)| !ANNOTATIONS.contains(&key.as_str()));
        let remaining = constraints.map(|(keyword, json)| (keyword.as_str(), json)).collect();
        Ok(Self { path, remaining })
    }

    pub(super) fn take(&mut self, keyword: &str) -> Option<&'a Json> {
        self.remaining.remove(keyword)
    }

    pub(super) fn text(&mut self, keyword: &str) -> Result<Option<String>, SettingError> {
        match self.take(keyword) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(error(self.path, format!("invalid {keyword}: expected a string"))),
        }
    }

    pub(super) fn number(&mut self, keyword: &str) -> Result<Option<f64>, SettingError> {
        let Some(json) = self.take(keyword) else { return Ok(None) };
        let number = json.as_f64().filter(|number| number.is_finite());
        let invalid = || error(self.path, format!("invalid {keyword}: expected a number"));
        number.map(Some).ok_or_else(invalid)
    }

    pub(super) fn range(&mut self) -> Result<Range, SettingError> {
        let (minimum, above) = (self.number("minimum")?, self.number("exclusiveMinimum")?);
        let (maximum, below) = (self.number("maximum")?, self.number("exclusiveMaximum")?);
        if (minimum.is_some() && above.is_some()) || (maximum.is_some() && below.is_some()) {
            return Err(error(self.path, "conflicting bounds: expected one per side"));
        }
        let bound = |inclusive: Option<f64>, exclusive: Option<f64>| {
            inclusive.map(|bound| (bound, false)).or(exclusive.map(|bound| (bound, true)))
        };
        Ok(Range { low: bound(minimum, above), high: bound(maximum, below) })
    }

    pub(super) fn finish(self) -> Result<(), SettingError> {
        match self.remaining.keys().next() {
            None => Ok(()),
            Some(keyword) => Err(error(self.path, format!("unsupported keyword {keyword}"))),
        }
    }
}
