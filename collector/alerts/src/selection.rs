//! The rules that are evaluated: definitions with their settings.
//!
//! A rule that lacks a required value or is disabled is skipped with the reason: no value is invented.

use phasemeter_meter::alert::{Condition, Rule};

use crate::definition::RuleDefinition;
use crate::setting::{Setting, SettingError, SettingValue};
use crate::value::{expected_threshold, threshold};

/// The rules of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those that are evaluated.
    pub active: Vec<ActiveRule>,
    /// Those that are not.
    pub skipped: Vec<SkippedRule>,
}

/// A rule that is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveRule {
    /// The rule.
    pub rule: Rule,
    /// What it means if it holds.
    pub brief: String,
}

/// A rule that is not evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRule {
    /// Its ID.
    pub id: String,
    /// Why, as a phrase without its full stop.
    pub reason: String,
}

impl Selection {
    /// Applies `settings` to `rules`.
    ///
    /// # Errors
    /// Returns an error if a setting applies to no rule, or its value does not fit the rule.
    pub fn of(mut rules: Vec<RuleDefinition>, settings: &[Setting]) -> Result<Self, SettingError> {
        for setting in settings {
            let ids: Vec<_> = rules.iter().map(RuleDefinition::id).collect();
            let mut applied = false;
            for rule in &mut rules {
                if is_about(setting, rule) {
                    apply(setting, rule)?;
                    applied = true;
                }
            }
            if !applied {
                let (setting, rules) = (setting.text.clone(), ids.join(", "));
                return Err(SettingError::Rule { setting, rules });
            }
        }
        let mut selection = Self::default();
        for rule in rules {
            selection.add(&rule)?;
        }
        Ok(selection)
    }

    fn add(&mut self, definition: &RuleDefinition) -> Result<(), SettingError> {
        let id = definition.id();
        if !definition.enabled {
            let reason = format!("disabled; set --alert-set {id}.enabled=true");
            self.skipped.push(SkippedRule { id, reason });
            return Ok(());
        }
        let Some(hold) = definition.hold else {
            let reason = format!("for has no default; set --alert-set {id}.for=10m");
            self.skipped.push(SkippedRule { id, reason });
            return Ok(());
        };
        let comparison = if definition.is_below { Condition::Below } else { Condition::Above };
        let condition = comparison(definition.threshold);
        let rule = Rule::new(id.clone(), definition.metric, condition, definition.window, hold);
        let rule =
            rule.map_err(|error| SettingError::Value { setting: id, problem: error.to_string() })?;
        self.active.push(ActiveRule { rule, brief: definition.brief.clone() });
        Ok(())
    }
}

/// Whether a setting is for this rule; without a rule it is for those that lack the value.
fn is_about(setting: &Setting, rule: &RuleDefinition) -> bool {
    match (&setting.rule, setting.value) {
        (Some(name), _) => *name == rule.name || *name == rule.id(),
        (None, SettingValue::Hold(_)) => rule.hold.is_none(),
        (None, _) => false,
    }
}

fn apply(setting: &Setting, rule: &mut RuleDefinition) -> Result<(), SettingError> {
    match setting.value {
        SettingValue::Threshold(value) => {
            let is_share = rule.metric.is_share();
            let threshold = threshold(value, is_share).ok_or_else(|| SettingError::Value {
                setting: setting.text.clone(),
                problem: expected_threshold(is_share).to_owned(),
            })?;
            rule.threshold = threshold;
        }
        SettingValue::Window(window) => rule.window = window,
        SettingValue::Hold(hold) => rule.hold = Some(hold),
        SettingValue::Enabled(enabled) => rule.enabled = enabled,
    }
    Ok(())
}
