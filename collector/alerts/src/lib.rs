//! Profiles of alert rules: what guides advise, as named sets in one data file.
//!
//! ```text
//! profiles.toml → RuleDefinition ─settings→ Selection → rules of phasemeter_meter::alert
//!                                └────────→ rules for Prometheus
//! ```
//!
//! The meter evaluates rules; this crate reads them.

#![forbid(unsafe_code)]

mod definition;
mod profiles;
pub mod prometheus;
mod selection;
mod setting;
mod value;

pub use self::definition::RuleDefinition;
pub use self::profiles::{MAX_FILE_BYTES, MAX_RULES, ProfileError, Profiles};
pub use self::selection::{ActiveRule, Selection, SkippedRule};
pub use self::setting::{Setting, SettingError};
