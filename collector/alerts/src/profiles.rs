//! The file format: TOML, read strictly; each problem names its line.

use std::collections::BTreeMap;

use phasemeter_meter::alert::{MAX_HOLD, MAX_WINDOW, Metric, short_time};
use phasemeter_meter::units::Nanos;
use serde::Deserialize;
use toml::Spanned;

use crate::definition::RuleDefinition;
use crate::value::{EXPECTED_TIME, expected_threshold, threshold, time};

/// Largest file.
pub const MAX_FILE_BYTES: u64 = 256 << 10;

/// Maximum number of rules in a file.
pub const MAX_RULES: usize = 64;

/// The rules of the built-in profiles.
const BUILT_IN: &str = include_str!("../../../otel-config/alerts/profiles.toml");

/// The value of what must be set.
const REQUIRED: &str = "required";

/// Profiles with their rules, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles {
    names: BTreeMap<String, String>,
    rules: Vec<RuleDefinition>,
}

/// Why a file of rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// What is wrong, and what to do.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    profile: BTreeMap<String, String>,
    #[serde(default)]
    rule: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    profile: Option<Spanned<String>>,
    name: Spanned<String>,
    brief: String,
    metric: Spanned<String>,
    below: Option<Spanned<f64>>,
    above: Option<Spanned<f64>>,
    window: Spanned<String>,
    #[serde(rename = "for")]
    hold: Option<Spanned<String>>,
    enabled: Option<bool>,
}

/// The byte at which a problem is, and what it is.
type Problem = (usize, String);

impl Profiles {
    /// The built-in profiles.
    #[must_use]
    pub fn built_in() -> Self {
        // Tests read it.
        Self::parse("profiles.toml", BUILT_IN).unwrap_or_default()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Returns the first problem, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        let error = |(at, problem): Problem| ProfileError {
            file: file.to_owned(),
            line: text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1,
            problem,
        };
        let parsed: File = toml::from_str(text).map_err(|problem| {
            let at = problem.span().map_or(0, |span| span.start);
            let message = problem.message().lines().collect::<Vec<_>>().join("; ");
            error((at, format!("invalid rules: {message}; see docs/alerts.md for the format")))
        })?;
        if parsed.rule.is_empty() {
            return Err(error((0, "no rules; add a [[rule]]".to_owned())));
        }
        let mut profiles = Self { names: parsed.profile, rules: Vec::new() };
        for table in parsed.rule {
            let at = table.name.span().start;
            let rule = table.definition(&profiles.names).map_err(error)?;
            if profiles.rules.len() == MAX_RULES {
                return Err(error((at, format!("more than {MAX_RULES} rules; use several files"))));
            }
            if profiles.rules.iter().any(|known| known.id() == rule.id()) {
                let problem = format!("rule {} is defined twice; rename one", rule.id());
                return Err(error((at, problem)));
            }
            profiles.rules.push(rule);
        }
        Ok(profiles)
    }

    /// The names of the profiles, each with a sentence without its full stop.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|(name, brief)| (name.as_str(), brief.as_str()))
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[RuleDefinition] {
        &self.rules
    }

    /// The rules of one profile; `None` if the profile does not exist.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<Vec<RuleDefinition>> {
        self.names.contains_key(name).then(|| {
            let own = self.rules.iter().filter(|rule| rule.profile.as_deref() == Some(name));
            own.cloned().collect()
        })
    }
}

impl Table {
    fn definition(self, profiles: &BTreeMap<String, String>) -> Result<RuleDefinition, Problem> {
        let name_at = self.name.span().start;
        let name = self.name.into_inner();
        if !is_name(&name) {
            let problem = "invalid name: expected lowercase letters, digits, _ and -";
            return Err((name_at, format!("{problem}, not {name:?}")));
        }
        if let Some(profile) = &self.profile
            && !profiles.contains_key(profile.get_ref())
        {
            let problem = format!("unknown profile {:?}; add it to [profile]", profile.get_ref());
            return Err((profile.span().start, problem));
        }
        let metric = Metric::all().find(|metric| metric.name() == self.metric.get_ref());
        let metric = metric.ok_or_else(|| {
            let names: Vec<_> = Metric::all().map(Metric::name).collect();
            let (given, names) = (self.metric.get_ref(), names.join(", "));
            (self.metric.span().start, format!("invalid metric {given:?}: expected one of {names}"))
        })?;
        let (is_below, level) = match (self.below, self.above) {
            (Some(level), None) => (true, level),
            (None, Some(level)) => (false, level),
            _ => return Err((name_at, "expected either below or above".to_owned())),
        };
        let hold = self.hold.map_or(Ok(Some(Nanos::ZERO)), |hold| {
            if hold.get_ref() == REQUIRED {
                return Ok(None);
            }
            limited("for", &hold, Nanos::ZERO, MAX_HOLD).map(Some)
        });
        Ok(RuleDefinition {
            profile: self.profile.map(Spanned::into_inner),
            name,
            brief: self.brief,
            metric,
            is_below,
            threshold: defined(&level, metric.is_share())?,
            window: limited("window", &self.window, Nanos::from_secs(60), MAX_WINDOW)?,
            hold: hold?,
            enabled: self.enabled.unwrap_or(true),
        })
    }
}

fn is_name(name: &str) -> bool {
    let is_valid = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_valid)
}

fn defined(level: &Spanned<f64>, is_share: bool) -> Result<u32, Problem> {
    let problem = || format!("invalid threshold: {}", expected_threshold(is_share));
    threshold(*level.get_ref(), is_share).ok_or_else(|| (level.span().start, problem()))
}

fn limited(
    name: &str,
    text: &Spanned<String>,
    least: Nanos,
    most: Nanos,
) -> Result<Nanos, Problem> {
    let found = time(text.get_ref()).filter(|time| (least..=most).contains(time));
    found.ok_or_else(|| {
        let (given, least, most) = (text.get_ref(), short_time(least), short_time(most));
        let problem = format!("invalid {name} {given:?}: {EXPECTED_TIME}, from {least} to {most}");
        (text.span().start, problem)
    })
}
