//! Settings: what can be set, written once, as fields of a struct.
//!
//! The host has checked them against the schema, and filled defaults in, before a policy sees
//! them. The fields that [`settings!`](crate::settings!) takes:
//!
//! ```
//! phasemeter_policy::settings! {
//!     /// What it is, for people.
//!     idle_share: number = 0.25 in 0.0..=1.0;
//!     /// A choice.
//!     profile: text = "training" of ["training", "serving"];
//!     /// A switch.
//!     spot: flag = true;
//! }
//! # assert_eq!(Settings::default().profile, "training");
//! ```
//!
//! Lists and maps are for a hand-written [`Settings`], with [`Given::map`] and [`Given::list`].

use std::fmt;

/// One setting, as the schema types it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// Finite.
    Number(f64),
    /// Any text.
    Text(String),
}

/// What is wrong with a setting that a schema cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Its dotted path.
    pub path: String,
    /// What is wrong, and what would be right: at most 500 bytes.
    pub message: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A struct of settings.
pub trait Settings: Sized {
    /// The JSON Schema of them; empty for none.
    fn schema() -> String;

    /// Takes them out of what was given.
    ///
    /// # Errors
    /// What the schema cannot say.
    fn read(given: &Given) -> Result<Self, Vec<SettingError>>;
}

impl Settings for () {
    fn schema() -> String {
        String::new()
    }

    fn read(_: &Given) -> Result<Self, Vec<SettingError>> {
        Ok(())
    }
}

/// What was given: dotted paths, each with its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(Vec<(String, Value)>);

impl FromIterator<(String, Value)> for Given {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Given {
    /// The value of a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == path).map(|(_, value)| value)
    }

    /// A number.
    #[must_use]
    pub fn number(&self, path: &str) -> Option<f64> {
        self.get(path).and_then(|value| if let Value::Number(n) = value { Some(*n) } else { None })
    }

    /// A text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).and_then(|value| if let Value::Text(t) = value { Some(&**t) } else { None })
    }

    /// A switch.
    #[must_use]
    pub fn flag(&self, path: &str) -> Option<bool> {
        self.get(path).and_then(|value| if let Value::Flag(f) = value { Some(*f) } else { None })
    }

    /// The members of a map: `discounts.h100` is `h100` in `map("discounts")`.
    pub fn map<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let members = self.0.iter();
        members.filter_map(move |(name, value)| {
            Some((name.strip_prefix(path)?.strip_prefix('.')?, value))
        })
    }

    /// The members of a list of objects, in order: `commitments.0.model` is `model` in the first
    /// of `list("commitments")`.
    #[must_use]
    pub fn list(&self, path: &str) -> Vec<Self> {
        let mut members: Vec<(usize, Self)> = Vec::new();
        for (name, value) in self.map(path) {
            let Some((number, rest)) = name.split_once('.') else { continue };
            let Ok(number) = number.parse() else { continue };
            let pair = (rest.to_owned(), value.clone());
            match members.iter_mut().find(|(of, _)| *of == number) {
                Some((_, member)) => member.0.push(pair),
                None => members.push((number, Self(vec![pair]))),
            }
        }
        members.sort_by_key(|(number, _)| *number);
        members.into_iter().map(|(_, member)| member).collect()
    }
}

/// Makes the struct `Settings` of fields, each with its meaning, default and range.
#[macro_export]
macro_rules! settings {
    ($($(#[doc = $what:literal])+ $name:ident : $kind:ident = $default:literal
        $(in $low:literal ..= $high:literal)? $(of [$($option:literal),+])?;)+) => {
        /// What can be set.
        #[allow(unreachable_pub, reason = "where it is used says who may see it")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(#[doc = $what])+ pub $name: $crate::setting_type!($kind),)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl $crate::settings::Settings for Settings {
            fn schema() -> String {
                let fields = [$($crate::settings::field(
                    stringify!($name),
                    concat!($($what),+),
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
                given: &$crate::Given,
            ) -> Result<Self, Vec<$crate::SettingError>> {
                Ok(Self { $($name: $crate::setting_read!(
                    given, $kind, stringify!($name), $default $(, [$($option),+])?
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
}

/// The type and default of a field, in its schema.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_schema {
    (number, $default:literal) => {
        concat!("\"type\":\"number\",\"default\":", $default)
    };
    (flag, $default:literal) => {
        concat!("\"type\":\"boolean\",\"default\":", $default)
    };
    (text, $default:literal) => {
        concat!("\"type\":\"string\",\"default\":\"", $default, "\"")
    };
}

/// The value of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_read {
    ($given:ident, number, $name:expr, $default:literal) => {
        $given.number($name).unwrap_or($default)
    };
    ($given:ident, flag, $name:expr, $default:literal) => {
        $given.flag($name).unwrap_or($default)
    };
    ($given:ident, text, $name:expr, $default:literal, [$($option:literal),+]) => {
        match $given.text($name) {
            $(Some($option) => $option,)+
            _ => $default,
        }
    };
}

/// A field of a schema: its name, its meaning, its rules, and the choices of a text.
#[doc(hidden)]
#[must_use]
pub fn field(name: &str, what: &str, rules: &str, options: &[&str]) -> String {
    let what = what.trim().replace('\\', "\\\\").replace('"', "\\\"");
    let mut field = ["\"", name, "\":{\"description\":\"", &what, "\",", rules].concat();
    if !options.is_empty() {
        field += &[",\"enum\":[\"", &options.join("\",\""), "\"]"].concat();
    }
    field + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::settings! {
        /// A share, so to "speak".
        share: number = 0.25 in 0.0..=1.0;
        /// One of two.
        profile: text = "one" of ["one", "two"];
        /// A switch.
        on: flag = true;
    }

    fn given(pairs: &[(&str, Value)]) -> Given {
        pairs.iter().map(|(path, value)| (path.to_string(), value.clone())).collect()
    }

    #[test]
    fn a_field_has_its_default_and_takes_what_is_given() {
        let default = <Settings as super::Settings>::read(&Given::default()).unwrap();
        assert_eq!(default, Settings::default());
        let text = Value::Text("two".into());
        let some =
            given(&[("share", Value::Number(0.5)), ("profile", text), ("on", Value::Flag(false))]);
        let settings = <Settings as super::Settings>::read(&some).unwrap();
        assert_eq!(settings, Settings { share: 0.5, profile: "two", on: false });
    }

    #[test]
    fn the_schema_says_what_the_fields_are() {
        let schema = r#"{"type":"object","properties":{"share":{"description":"A share, so to \"speak\".","type":"number","default":0.25,"minimum":0.0,"maximum":1.0},"profile":{"description":"One of two.","type":"string","default":"one","enum":["one","two"]},"on":{"description":"A switch.","type":"boolean","default":true}},"additionalProperties":false}"#;
        assert_eq!(<Settings as super::Settings>::schema(), schema);
    }

    #[test]
    fn maps_and_lists_are_found_under_their_paths() {
        let number = Value::Number(0.25);
        let given = given(&[
            ("terms.0.model", Value::Text("a".into())),
            ("terms.1.model", Value::Text("b".into())),
            ("discounts.h100", number.clone()),
            ("discountsish", Value::Flag(true)),
        ]);
        assert_eq!(given.map("discounts").collect::<Vec<_>>(), [("h100", &number)]);
        let models: Vec<_> =
            given.list("terms").iter().map(|t| t.text("model").map(str::to_owned)).collect();
        assert_eq!(models, [Some("a".to_owned()), Some("b".to_owned())]);
    }
}
