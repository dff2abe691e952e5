//! The alerts of one GPU, and how often its rules were evaluated.

use crate::units::Timestamp;

/// Maximum number of alerts that are kept per GPU; all are counted.
pub const MAX_ALERTS: usize = 100;

/// One alert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alert {
    /// The index of its rule.
    pub rule: usize,
    /// Since when the condition held.
    pub since: Timestamp,
    /// When it opened.
    pub opened: Timestamp,
    /// When it closed; `None` if it is open.
    pub closed: Option<Timestamp>,
    /// The mean at which it opened.
    pub mean: f64,
    /// The mean that is furthest from the threshold.
    pub extreme: f64,
}

/// How often a rule was evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Minutes in which at least half of the window was observed.
    pub evaluated: u64,
    /// Alerts that opened.
    pub opened: u64,
    /// Whether one is open.
    pub is_open: bool,
}

/// The alerts of one GPU.
#[derive(Clone, Debug, Default)]
pub struct AlertLog {
    alerts: Vec<Alert>,
    counts: Vec<RuleCounts>,
}

impl AlertLog {
    pub(super) fn new(rules: usize) -> Self {
        Self { alerts: Vec::new(), counts: vec![RuleCounts::default(); rules] }
    }

    /// The first alerts, in the order in which they opened.
    #[must_use]
    pub fn alerts(&self) -> &[Alert] {
        &self.alerts
    }

    /// By rule.
    #[must_use]
    pub fn counts(&self) -> &[RuleCounts] {
        &self.counts
    }

    pub(super) fn count_evaluations(&mut self, rule: usize, count: u64) {
        if let Some(counts) = self.counts.get_mut(rule) {
            counts.evaluated += count;
        }
    }

    pub(super) fn open(&mut self, alert: Alert) {
        if let Some(counts) = self.counts.get_mut(alert.rule) {
            counts.opened += 1;
            counts.is_open = true;
        }
        if self.alerts.len() < MAX_ALERTS {
            self.alerts.push(alert);
        }
    }

    /// Applies a later mean to the alert of `rule` that is open, if it is kept.
    pub(super) fn extend(&mut self, rule: usize, mean: f64, is_low: bool) {
        if let Some(alert) = self.open_alert(rule) {
            let further = if is_low { mean < alert.extreme } else { mean > alert.extreme };
            if further {
                alert.extreme = mean;
            }
        }
    }

    pub(super) fn close(&mut self, rule: usize, at: Timestamp) {
        if let Some(alert) = self.open_alert(rule) {
            alert.closed = Some(at);
        }
        if let Some(counts) = self.counts.get_mut(rule) {
            counts.is_open = false;
        }
    }

    fn open_alert(&mut self, rule: usize) -> Option<&mut Alert> {
        self.alerts.iter_mut().rev().find(|alert| alert.rule == rule && alert.closed.is_none())
    }
}
