//! Settings: a struct that also defines its JSON Schema.
//!
//! The host validates settings against the schema and fills in defaults before it passes them to a
//! policy. [`settings!`](crate::settings!) supports these fields:
//!
//! ```
//! phasemeter_policy::settings! {
//!     /// A description, for people.
//!     idle_share: number = 0.25 in 0.0..=1.0;
//!     /// A choice.
//!     profile: text = "training" of ["training", "serving"];
//!     /// A switch.
//!     spot: flag = true;
//!     /// Numbers of at least 0, by name.
//!     weights: numbers = {};
//! }
//! # assert_eq!(Settings::default().profile, "training");
//! ```
//!
//! For lists and other maps, implement [`Settings`] by hand with [`RawSettings::map`] and
//! [`RawSettings::list`].

use std::fmt;

/// A setting, typed by the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// Finite.
    Number(f64),
    /// Any text.
    Text(String),
}

/// A violation of a rule that a schema cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Its dotted path.
    pub path: String,
    /// The problem and the expected value: at most 500 bytes.
    pub message: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Settings of a policy.
pub trait Settings: Sized {
    /// Returns the JSON Schema; empty if there are no settings.
    fn schema() -> String;

    /// Reads the settings.
    ///
    /// # Errors
    /// Returns an error for each violation of a rule that the schema cannot express.
    fn read(raw: &RawSettings) -> Result<Self, Vec<SettingError>>;
}

impl Settings for () {
    fn schema() -> String {
        String::new()
    }

    fn read(_: &RawSettings) -> Result<Self, Vec<SettingError>> {
        Ok(())
    }
}

/// Settings as passed by the host: dotted paths and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawSettings(Vec<(String, Value)>);

impl FromIterator<(String, Value)> for RawSettings {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl RawSettings {
    /// Returns the value at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == path).map(|(_, value)| value)
    }

    /// Returns the number at a path.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<f64> {
        self.get(path).and_then(|value| if let Value::Number(n) = value { Some(*n) } else { None })
    }

    /// Returns the text at a path.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(|value| if let Value::Text(t) = value { Some(&**t) } else { None })
    }

    /// Returns the flag at a path.
    #[must_use]
    pub fn flag(&self, path: &str) -> Option<bool> {
        self.get(path).and_then(|value| if let Value::Flag(f) = value { Some(*f) } else { None })
    }

    /// Returns the entries of a map: `discounts.h100` is `h100` in `map("discounts")`.
    pub fn map<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let settings = self.0.iter();
        settings.filter_map(move |(name, value)| {
            Some((name.strip_prefix(path)?.strip_prefix('.')?, value))
        })
    }

    /// Returns the numbers of a map, by name.
    #[must_use]
    pub fn numbers(&self, path: &str) -> Vec<(String, f64)> {
        let number = |(name, value): (&str, &Value)| match value {
            Value::Number(number) => Some((name.to_owned(), *number)),
            _ => None,
        };
        self.map(path).filter_map(number).collect()
    }

    /// Returns the items of a list of objects, in order: `commitments.0.model` is `model` in the first
    /// item of `list("commitments")`.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<Self> {
        let mut items: Vec<(usize, Self)> = Vec::new();
        for (name, value) in self.map(path) {
            let Some((number, rest)) = name.split_once('.') else { continue };
            let Ok(number) = number.parse() else { continue };
            let pair = (rest.to_owned(), value.clone());
            match items.iter_mut().find(|(other, _)| *other == number) {
                Some((_, item)) => item.0.push(pair),
                None => items.push((number, Self(vec![pair]))),
            }
        }
        items.sort_by_key(|(number, _)| *number);
        items.into_iter().map(|(_, item)| item).collect()
    }
}

/// Defines the struct `Settings`; each field has a description, a default and a range.
#[macro_export]
macro_rules! settings {
    ($($(#[doc = $description:literal])+ $name:ident : $kind:ident = $default:tt
        $(in $low:literal ..= $high:literal)? $(of [$($option:literal),+])?;)+) => {
        /// Settings of this policy.
        #[allow(unreachable_pub, reason = "visibility depends on the caller's module")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $description])+ pub $name: $crate::setting_type!($kind),)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $crate::setting_default!($kind, $default),)+ }
            }
        }

        impl $crate::settings::Settings for Settings {
            fn schema() -> String {
                let fields = [$($crate::settings::field(
                    stringify!($name),
                    concat!($($description),+),
                    concat!(
                        $crate::setting_schema!($kind, $default)
                        $(, ",\"minimum\":", $low, ",\"maximum\":", $high)?
                    ),
                    &[$($($option),+)?],
                )),+];
                let fields = fields.join(",");
                let rest = "},\"additionalProperties\":false}";
                ["{\"type\":\"object\",\"properties\":{", &fields, rest].concat()
            }

            fn read(
                raw: &$crate::RawSettings,
            ) -> Result<Self, Vec<$crate::SettingError>> {
                Ok(Self { $($name: $crate::setting_read!(
                    raw, $kind, stringify!($name), $default $(, [$($option),+])?
                ),)+ })
            }
        }
    };
}

/// The type of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_type {
    (number) => { f64 };
    (flag) => { bool };
    (text) => { &'static str };
    (numbers) => { Vec<(String, f64)> };
}

/// The default of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_default {
    (numbers, {}) => {
        Vec::new()
    };
    ($kind:ident, $default:tt) => {
        $default
    };
}

/// The type and default of a field in the schema.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_schema {
    (number, $default:tt) => {
        concat!("\"type\":\"number\",\"default\":", $default)
    };
    (flag, $default:tt) => {
        concat!("\"type\":\"boolean\",\"default\":", $default)
    };
    (text, $default:tt) => {
        concat!("\"type\":\"string\",\"default\":\"", $default, "\"")
    };
    (numbers, {}) => {
        "\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\",\"minimum\":0}"
    };
}

/// The value of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_read {
    ($raw:ident, number, $name:expr, $default:tt) => {
        $raw.number($name).unwrap_or($default)
    };
    ($raw:ident, flag, $name:expr, $default:tt) => {
        $raw.flag($name).unwrap_or($default)
    };
    ($raw:ident, text, $name:expr, $default:tt, [$($option:literal),+]) => {
        match $raw.text($name) {
            $(Some($option) => $option,)+
            _ => $default,
        }
    };
    ($raw:ident, numbers, $name:expr, {}) => {
        $raw.numbers($name)
    };
}

/// Returns the schema of a field; `options` are the choices of a text.
#[doc(hidden)]
#[must_use]
pub fn field(name: &str, description: &str, rules: &str, options: &[&str]) -> String {
    let description = description.trim().replace('\\', "\\\\").replace('"', "\\\"");
    let mut field = ["\"", name, "\":{\"description\":\"", &description, "\",", rules].concat();
    if !options.is_empty() {
        field += &[",\"enum\":[\"", &options.join("\",\""), "\"]"].concat();
    }
    field + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::settings! {
        /// A "quoted" share.
        share: number = 0.25 in 0.0..=1.0;
        /// One of two.
        profile: text = "one" of ["one", "two"];
        /// A switch.
        on: flag = true;
        /// By name.
        weights: numbers = {};
    }

    fn raw(pairs: &[(&str, Value)]) -> RawSettings {
        pairs.iter().map(|(path, value)| (path.to_string(), value.clone())).collect()
    }

    #[test]
    fn settings_have_defaults_and_overrides() {
        let default = <Settings as super::Settings>::read(&RawSettings::default()).unwrap();
        assert_eq!(default, Settings::default());
        let text = Value::Text("two".into());
        let some = raw(&[
            ("share", Value::Number(0.5)),
            ("profile", text),
            ("on", Value::Flag(false)),
            ("weights.a b", Value::Number(2.0)),
        ]);
        let settings = <Settings as super::Settings>::read(&some).unwrap();
        let weights = vec![("a b".to_owned(), 2.0)];
        assert_eq!(settings, Settings { share: 0.5, profile: "two", on: false, weights });
    }

    #[test]
    fn schema_describes_fields() {
        let schema = r#"{"type":"object","properties":{"share":{"description":"A \"quoted\" share.","type":"number","default":0.25,"minimum":0.0,"maximum":1.0},"profile":{"description":"One of two.","type":"string","default":"one","enum":["one","two"]},"on":{"description":"A switch.","type":"boolean","default":true},"weights":{"description":"By name.","type":"object","additionalProperties":{"type":"number","minimum":0}}},"additionalProperties":false}"#;
        assert_eq!(<Settings as super::Settings>::schema(), schema);
    }

    #[test]
    fn raw_settings_resolve_maps_and_lists() {
        let number = Value::Number(0.25);
        let raw = raw(&[
            ("terms.0.model", Value::Text("a".into())),
            ("terms.1.model", Value::Text("b".into())),
            ("discounts.h100", number.clone()),
            ("discounts_other", Value::Flag(true)),
        ]);
        assert_eq!(raw.map("discounts").collect::<Vec<_>>(), [("h100", &number)]);
        let models: Vec<_> =
            raw.list("terms").iter().map(|t| t.text("model").map(str::to_owned)).collect();
        assert_eq!(models, [Some("a".to_owned()), Some("b".to_owned())]);
    }
}
