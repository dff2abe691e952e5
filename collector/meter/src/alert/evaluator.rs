//! Evaluates the rules of one GPU at the end of each UTC minute.
//!
//! A rule is evaluated if at least half of its window is observed. Otherwise its state is kept and
//! its timer paused: unobserved time is neither a reason for an alert nor for its end. Memory is
//! bounded by the longest window per metric.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::log::{Alert, AlertLog, AlertLogs};
use super::rule::{AlertChange, Condition, MINUTE, Metric, Rule};
use crate::units::{Nanos, Timestamp};

/// Largest value, 250 °C or 25,000%: the sum over a minute fits 64 bits.
const MAX_VALUE: u32 = 250_000_000;

/// Observed time, and Σ value × time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Minute {
    observed: u64,
    weighted: u64,
}

/// The minutes of one metric, over the longest window of a rule about it.
#[derive(Clone, Debug)]
struct History {
    metric: Metric,
    /// In the time range that is posted, in the metric's unit; `None` if missing.
    value: Option<u32>,
    open: Minute,
    /// The last is the latest.
    closed: VecDeque<Minute>,
    keep: usize,
}

/// One rule: sums over its window, and its timer.
#[derive(Clone, Debug, Default)]
struct State {
    observed: u64,
    weighted: u128,
    /// Since when its condition holds, and for how many evaluated minutes after that.
    pending: Option<(Timestamp, u64)>,
    is_open: bool,
    /// Whether it is not evaluated any more.
    is_retired: bool,
}

/// Evaluates the rules of one GPU.
#[derive(Clone, Debug, Default)]
pub struct AlertEvaluator {
    rules: Arc<[Rule]>,
    states: Vec<State>,
    /// One per metric of the rules.
    histories: Vec<History>,
    /// The end of the minute in progress.
    minute_end: Timestamp,
    logs: AlertLogs,
}

impl AlertEvaluator {
    /// An evaluator of these rules, without values.
    #[must_use]
    pub fn new(rules: Arc<[Rule]>) -> Self {
        let mut evaluator = Self::default();
        evaluator.change_rules(rules, &BTreeSet::new(), &mut |_| ());
        evaluator
    }

    /// From now on, evaluates these rules but for those that are `retired`. They begin with the rules before, which keep
    /// their state; a retired one closes its alert. New ones begin with what is known of their windows.
    pub fn change_rules(
        &mut self,
        rules: Arc<[Rule]>,
        retired: &BTreeSet<usize>,
        emit: &mut dyn FnMut(&AlertChange<'_>),
    ) {
        let at = self.minute_end.saturating_sub(MINUTE);
        self.rules = rules;
        self.logs.set_rules(self.rules.len());
        for rule in self.rules.iter().skip(self.states.len()) {
            keep_history(&mut self.histories, rule);
            let history = self.histories.iter().find(|it| it.metric == rule.metric());
            self.states.push(history.map_or_else(State::default, |it| State::of(it, rule)));
        }
        for (index, state) in self.states.iter_mut().enumerate() {
            if retired.contains(&index) && !std::mem::replace(&mut state.is_retired, true) {
                let since = state.pending.take().map_or(at, |(since, _)| since);
                if std::mem::take(&mut state.is_open)
                    && let Some(rule) = self.rules.get(index)
                {
                    self.logs.close(index, at);
                    let mean = mean(state.weighted, state.observed);
                    emit(&AlertChange { rule, at, since, opened: false, mean });
                }
            }
        }
    }

    /// The alerts so far.
    #[must_use]
    pub const fn log(&self) -> &AlertLog {
        self.logs.of_run()
    }

    /// The alerts of the part of the run in progress.
    #[must_use]
    pub fn part_log(&self) -> &AlertLog {
        self.logs.of_part()
    }

    /// Another part of the run begins. An alert is of the part in which it opened, or became known to have.
    pub fn begin_part(&mut self) {
        self.logs.begin_part();
    }

    /// Starts at this instant.
    pub fn begin(&mut self, at: Timestamp) {
        self.minute_end = at.floor(MINUTE) + MINUTE;
    }

    /// Posts the values from `from` to `to`, which follow those before without a gap, and evaluates
    /// the rules at the end of each minute in between. `value` is that of a metric, in its unit; `None` if missing.
    pub fn post(
        &mut self,
        mut from: Timestamp,
        to: Timestamp,
        value: impl Fn(Metric) -> Option<u32>,
        emit: &mut dyn FnMut(&AlertChange<'_>),
    ) {
        for history in &mut self.histories {
            history.value = value(history.metric).map(|value| value.min(MAX_VALUE));
        }
        let mut equal_minutes = 0;
        // The last minute that a timestamp can have never ends.
        while self.minute_end <= to && from < to {
            let time = self.minute_end.since(from);
            self.add(time);
            from = self.minute_end;
            self.close_minute(emit);
            self.minute_end = from + MINUTE;
            equal_minutes += u64::from(time == MINUTE);
            if equal_minutes > self.settled_after() {
                from = self.repeat_minute(to);
            }
        }
        self.add(to.since(from.min(to)));
    }

    #[inline]
    fn add(&mut self, time: Nanos) {
        for history in &mut self.histories {
            if let Some(value) = history.value {
                history.open.observed += time.0;
                history.open.weighted += u64::from(value) * time.0;
            }
        }
    }

    /// The number of minutes with equal values after which a further one changes nothing: all windows
    /// are full of them, and alerts for which they hold are open.
    fn settled_after(&self) -> u64 {
        let is_missing = self.histories.iter().all(|history| history.value.is_none());
        let hold = |rule: &Rule| if is_missing { 0 } else { rule.hold().0 / MINUTE.0 };
        let settled_after = |rule: &Rule| rule.minutes() as u64 + hold(rule);
        self.rules.iter().map(settled_after).max().unwrap_or(0)
    }

    /// Counts the minutes that end before `to`, but for the last, as repetitions of the minute before.
    /// Returns the start of that last one.
    fn repeat_minute(&mut self, to: Timestamp) -> Timestamp {
        let minutes = to.since(self.minute_end).0 / MINUTE.0;
        for (index, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            if state.can_evaluate(rule) {
                self.logs.count_evaluations(index, minutes);
                state.pending = state.pending.map(|(since, held)| (since, held + minutes));
            }
        }
        self.minute_end = self.minute_end + MINUTE.saturating_mul(minutes);
        self.minute_end.saturating_sub(MINUTE)
    }

    fn close_minute(&mut self, emit: &mut dyn FnMut(&AlertChange<'_>)) {
        let at = self.minute_end;
        for history in &mut self.histories {
            if history.closed.len() > history.keep {
                history.closed.pop_front();
            }
            history.closed.push_back(std::mem::take(&mut history.open));
        }
        for (index, (rule, state)) in self.rules.iter().zip(&mut self.states).enumerate() {
            if let Some(history) = self.histories.iter().find(|it| it.metric == rule.metric()) {
                state.shift(history, rule.minutes());
            }
            if !state.can_evaluate(rule) {
                continue;
            }
            self.logs.count_evaluations(index, 1);
            state.evaluate(index, rule, at, &mut self.logs, emit);
        }
    }
}

impl State {
    /// With the minutes that are known of the window of a rule.
    fn of(history: &History, rule: &Rule) -> Self {
        let known = history.closed.iter().rev().take(rule.minutes());
        known.fold(Self::default(), |state, minute| Self {
            observed: state.observed + minute.observed,
            weighted: state.weighted + u128::from(minute.weighted),
            ..state
        })
    }

    /// Whether enough of the window is observed.
    fn can_evaluate(&self, rule: &Rule) -> bool {
        !self.is_retired && self.observed > 0 && self.observed >= rule.window().0.div_ceil(2)
    }

    /// Moves the window by the latest minute.
    fn shift(&mut self, history: &History, minutes: usize) {
        if let Some(latest) = history.closed.back() {
            self.observed += latest.observed;
            self.weighted += u128::from(latest.weighted);
        }
        let oldest = history.closed.len().checked_sub(minutes + 1);
        if let Some(oldest) = oldest.and_then(|index| history.closed.get(index)) {
            self.observed -= oldest.observed;
            self.weighted -= u128::from(oldest.weighted);
        }
    }

    fn evaluate(
        &mut self,
        index: usize,
        rule: &Rule,
        at: Timestamp,
        logs: &mut AlertLogs,
        emit: &mut dyn FnMut(&AlertChange<'_>),
    ) {
        let condition = rule.condition();
        let mean = mean(self.weighted, self.observed);
        if !condition.holds(self.weighted, self.observed) {
            let pending = self.pending.take();
            if std::mem::take(&mut self.is_open) {
                logs.close(index, at);
                let since = pending.map_or(at, |(since, _)| since);
                emit(&AlertChange { rule, at, since, opened: false, mean });
            }
            return;
        }
        let (since, minutes) = match self.pending {
            Some((since, minutes)) => (since, minutes + 1),
            None => (at, 0),
        };
        self.pending = Some((since, minutes));
        if self.is_open {
            logs.extend(index, mean, matches!(condition, Condition::Below(_)));
        } else if minutes.saturating_mul(MINUTE.0) >= rule.hold().0 {
            self.is_open = true;
            logs.open(Alert { rule: index, since, opened: at, closed: None, mean, extreme: mean });
            emit(&AlertChange { rule, at, since, opened: true, mean });
        }
    }
}

/// Keeps the metric of a rule over its window.
fn keep_history(histories: &mut Vec<History>, rule: &Rule) {
    match histories.iter_mut().find(|history| history.metric == rule.metric()) {
        Some(history) => history.keep = history.keep.max(rule.minutes()),
        None => histories.push(History {
            metric: rule.metric(),
            value: None,
            open: Minute::default(),
            closed: VecDeque::new(),
            keep: rule.minutes(),
        }),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for display; conditions are exact")]
fn mean(weighted: u128, observed: u64) -> f64 {
    if observed == 0 { 0.0 } else { weighted as f64 / observed as f64 }
}
