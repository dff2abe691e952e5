//! The alerts of one GPU, and how often its rules were evaluated: over the run, and over the part of it in progress.

use std::iter;

use crate::units::Timestamp;

/// Maximum number of alerts that are kept per GPU, of the run and of each part of it; all are counted.
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

/// The alerts of one GPU, of the run or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct AlertLog {
    alerts: Vec<Alert>,
    /// How many of them, the first ones, opened before the part.
    continued: usize,
    counts: Vec<RuleCounts>,
}

/// Those of the run, and of the part in progress if others have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct AlertLogs {
    run: AlertLog,
    part: Option<Box<AlertLog>>,
}

impl AlertLog {
    /// The first alerts, in the order in which they opened.
    #[must_use]
    pub fn alerts(&self) -> &[Alert] {
        self.alerts.get(self.continued..).unwrap_or_default()
    }

    /// Those that opened in an earlier part and were open when this one began, at most one per rule.
    #[must_use]
    pub fn continued(&self) -> &[Alert] {
        self.alerts.get(..self.continued).unwrap_or_default()
    }

    /// By rule.
    #[must_use]
    pub fn counts(&self) -> &[RuleCounts] {
        &self.counts
    }

    fn set_rules(&mut self, rules: usize) {
        self.counts.resize(rules, RuleCounts::default());
    }

    /// That of the part that follows: what is open continues.
    fn next(&self) -> Self {
        let open = self.alerts.iter().filter(|alert| alert.closed.is_none());
        let alerts: Vec<_> = open.copied().collect();
        let counts = self.counts.iter().map(|RuleCounts { is_open, .. }| RuleCounts {
            is_open: *is_open,
            ..RuleCounts::default()
        });
        Self { continued: alerts.len(), counts: counts.collect(), alerts }
    }

    fn count_evaluations(&mut self, rule: usize, count: u64) {
        if let Some(counts) = self.counts.get_mut(rule) {
            counts.evaluated += count;
        }
    }

    fn open(&mut self, alert: Alert) {
        if let Some(counts) = self.counts.get_mut(alert.rule) {
            counts.opened += 1;
            counts.is_open = true;
        }
        if self.alerts.len() - self.continued < MAX_ALERTS {
            self.alerts.push(alert);
        }
    }

    fn extend(&mut self, rule: usize, mean: f64, is_low: bool) {
        if let Some(alert) = self.open_alert(rule) {
            let further = if is_low { mean < alert.extreme } else { mean > alert.extreme };
            if further {
                alert.extreme = mean;
            }
        }
    }

    fn close(&mut self, rule: usize, at: Timestamp) {
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

impl AlertLogs {
    pub(super) const fn of_run(&self) -> &AlertLog {
        &self.run
    }

    pub(super) fn of_part(&self) -> &AlertLog {
        self.part.as_deref().unwrap_or(&self.run)
    }

    pub(super) fn set_rules(&mut self, rules: usize) {
        self.each().for_each(|log| log.set_rules(rules));
    }

    pub(super) fn begin_part(&mut self) {
        self.part = Some(Box::new(self.of_part().next()));
    }

    pub(super) fn count_evaluations(&mut self, rule: usize, count: u64) {
        self.each().for_each(|log| log.count_evaluations(rule, count));
    }

    pub(super) fn open(&mut self, alert: Alert) {
        self.each().for_each(|log| log.open(alert));
    }

    /// Applies a later mean to the alert of `rule` that is open, if it is kept.
    pub(super) fn extend(&mut self, rule: usize, mean: f64, is_low: bool) {
        self.each().for_each(|log| log.extend(rule, mean, is_low));
    }

    pub(super) fn close(&mut self, rule: usize, at: Timestamp) {
        self.each().for_each(|log| log.close(rule, at));
    }

    fn each(&mut self) -> impl Iterator<Item = &mut AlertLog> {
        iter::once(&mut self.run).chain(self.part.as_deref_mut())
    }
}
