//! Settings of rules, as on the command line: `[RULE.]KEY=VALUE`.

use std::str::FromStr;

use phasemeter_meter::units::Nanos;

use crate::value::{EXPECTED_TIME, time};

/// A setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// As given.
    pub(crate) text: String,
    /// The rule, by its name or ID; all rules that lack the value if `None`.
    pub(crate) rule: Option<String>,
    pub(crate) value: SettingValue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SettingValue {
    /// In percent or degrees.
    Threshold(f64),
    Window(Nanos),
    Hold(Nanos),
    Enabled(bool),
}

/// Why a setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// It has no such form.
    #[error("expected {}", .0)]
    Form(String),
    /// It applies to no rule.
    #[error("--alert-set {setting}: no rule needs it; expected one of {rules}")]
    Rule {
        /// The setting.
        setting: String,
        /// The rules.
        rules: String,
    },
    /// Its value is out of range.
    #[error("--alert-set {setting}: {problem}")]
    Value {
        /// The setting.
        setting: String,
        /// What is wrong.
        problem: String,
    },
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let form = || {
            let form = "[RULE.]KEY=VALUE with a key threshold, window, for or enabled, like \
                        high_memory.for=10m";
            SettingError::Form(form.to_owned())
        };
        let (key, value) = text.split_once('=').ok_or_else(form)?;
        let (rule, key) = key.rsplit_once('.').map_or((None, key), |(rule, key)| (Some(rule), key));
        let of_time = || {
            let expected = EXPECTED_TIME.trim_start_matches("expected ").to_owned();
            time(value).ok_or(SettingError::Form(expected))
        };
        let value = match key {
            "threshold" => {
                let number = value.parse().ok().filter(|number: &f64| number.is_finite());
                let expected =
                    || SettingError::Form("a threshold in percent or degrees".to_owned());
                SettingValue::Threshold(number.ok_or_else(expected)?)
            }
            "window" => SettingValue::Window(of_time()?),
            "for" => SettingValue::Hold(of_time()?),
            "enabled" => SettingValue::Enabled(
                value
                    .parse()
                    .map_err(|_| SettingError::Form("true or false for enabled".to_owned()))?,
            ),
            _ => return Err(form()),
        };
        Ok(Self { text: text.to_owned(), rule: rule.map(str::to_owned), value })
    }
}
