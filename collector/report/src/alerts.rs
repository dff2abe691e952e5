//! Alerts in the report: the rules, how often each was evaluated, and what opened.

use phasemeter_meter::alert::{Alert, AlertLog, Condition, Metric};
use serde::Serialize;

use super::input::{GpuInput, Input};
use super::value::{Seconds, Utc};

/// Maximum number of alerts that are listed; all are counted.
const MAX_ALERTS: usize = 1_000;

/// Alerts of a run that had rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alerts {
    /// The rules that were evaluated.
    pub rules: Vec<AlertRule>,
    /// The rules that were not.
    pub skipped: Vec<SkippedAlertRule>,
    /// The first alerts, in the order in which they opened.
    pub opened: Vec<OpenedAlert>,
    /// Those that had opened before, and were open when the time of the report began. They are in no count.
    pub continued: Vec<OpenedAlert>,
    /// Number of alerts that opened.
    pub total: u64,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertRule {
    /// Its ID.
    pub id: String,
    /// What it means if it holds.
    pub brief: String,
    /// Its condition in one phrase.
    pub condition: String,
    /// What it is about.
    pub metric: &'static str,
    /// The unit of values: `percent` or `celsius`.
    pub unit: &'static str,
    /// The mean below which it holds.
    pub below: Option<f64>,
    /// The mean above which it holds.
    pub above: Option<f64>,
    /// The time that the mean is of.
    pub window_seconds: Seconds,
    /// How long it must hold.
    pub for_seconds: Seconds,
    /// Minutes of all GPUs in which at least half of the window was observed.
    pub evaluated_minutes: u64,
    /// Number of its alerts that opened.
    pub opened: u64,
    /// Number of GPUs on which one is open at the end.
    pub open: u64,
}

/// A rule that was not evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedAlertRule {
    /// Its ID.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenedAlert {
    /// Its rule.
    pub rule: String,
    /// Its GPU.
    pub gpu: String,
    /// Since when the condition held.
    pub since: Utc,
    /// When it opened.
    pub opened: Utc,
    /// When it closed; `None` if it is open at the end.
    pub closed: Option<Utc>,
    /// The mean at which it opened, in the unit of its rule.
    pub mean: f64,
    /// The mean that is furthest from the threshold.
    pub extreme: f64,
    /// What they are about.
    #[serde(skip)]
    pub(super) metric: Metric,
}

impl Alerts {
    /// The alerts of a run; `None` if it had no rules.
    pub(super) fn build(input: &Input<'_>) -> Option<Self> {
        if input.alerts.is_empty() {
            return None;
        }
        let logs = || input.gpus.iter().filter_map(|gpu| Some((gpu, gpu.alerts()?)));
        let rules: Vec<AlertRule> = (0..input.alerts.rules.len())
            .map(|index| rule(input, index, logs().map(|(_, log)| log)))
            .collect();
        let listed = |of: fn(&AlertLog) -> &[Alert]| {
            let all = logs().flat_map(|(gpu, log)| of(log).iter().map(move |it| (gpu, it)));
            let mut listed: Vec<_> =
                all.filter_map(|(gpu, alert)| entry(input, gpu, alert)).collect();
            listed.sort_by_key(|alert: &OpenedAlert| alert.opened);
            listed.truncate(MAX_ALERTS);
            listed
        };
        let skipped = input.alerts.skipped.iter();
        let skipped = skipped
            .map(|rule| SkippedAlertRule { id: rule.id.clone(), reason: rule.reason.clone() });
        Some(Self {
            skipped: skipped.collect(),
            opened: listed(AlertLog::alerts),
            continued: listed(AlertLog::continued),
            total: rules.iter().map(|rule| rule.opened).sum(),
            rules,
        })
    }
}

fn rule<'a>(
    input: &Input<'_>,
    index: usize,
    logs: impl Iterator<Item = &'a AlertLog>,
) -> AlertRule {
    let rule = &input.alerts.rules[index];
    let (metric, condition) = (rule.metric(), rule.condition());
    let threshold = metric.scaled(f64::from(condition.threshold()));
    let is_below = matches!(condition, Condition::Below(_));
    let counts: Vec<_> = logs.filter_map(|log| log.counts().get(index).copied()).collect();
    AlertRule {
        id: rule.id().to_owned(),
        brief: input.alerts.briefs.get(index).cloned().unwrap_or_default(),
        condition: rule.to_string(),
        metric: metric.name(),
        unit: if metric.is_share() { "percent" } else { "celsius" },
        below: is_below.then_some(threshold),
        above: (!is_below).then_some(threshold),
        window_seconds: Seconds(rule.window()),
        for_seconds: Seconds(rule.hold()),
        evaluated_minutes: counts.iter().map(|counts| counts.evaluated).sum(),
        opened: counts.iter().map(|counts| counts.opened).sum(),
        open: counts.iter().filter(|counts| counts.is_open).count() as u64,
    }
}

fn entry(input: &Input<'_>, gpu: &GpuInput<'_>, alert: &Alert) -> Option<OpenedAlert> {
    let rule = input.alerts.rules.get(alert.rule)?;
    let at = |instant| Utc(input.wall.wall(instant));
    // To a thousandth: as exact as any sensor.
    let scaled = |value| (rule.metric().scaled(value) * 1_000.0).round() / 1_000.0;
    Some(OpenedAlert {
        rule: rule.id().to_owned(),
        gpu: gpu.identity.name.clone(),
        since: at(alert.since),
        opened: at(alert.opened),
        closed: alert.closed.map(at),
        mean: scaled(alert.mean),
        extreme: scaled(alert.extreme),
        metric: rule.metric(),
    })
}
