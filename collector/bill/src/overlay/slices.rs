//! The time of a GPU during a profile, cut where its state may change.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::amount;
use crate::report::{Gpu, Period, Timeline};

/// A span of time.
pub(super) type Span = (Timestamp, Timestamp);

/// A part of the time of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) span: Span,
    pub(super) state: State,
    /// Mean utilization in percent of the whole step that it is of.
    pub(super) percent: Option<f64>,
    /// What it costs; `None` without a price.
    pub(super) cost: Option<NanoUsd>,
}

/// What a GPU does in a step of its timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known.
    Unobserved,
    /// The mean utilization is below the first threshold.
    Idle,
    /// Below the second.
    Underutilized,
    /// Below the third.
    Productive,
    /// From there on.
    ComputeBound,
    /// It is idle and busy in turn, faster than steps can show.
    IdleAndBusy,
}

impl State {
    /// Its name in the track.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unobserved => "unobserved",
            Self::Idle => "idle",
            Self::Underutilized => "underutilized",
            Self::Productive => "productive",
            Self::ComputeBound => "compute-bound",
            Self::IdleAndBusy => "idle and busy",
        }
    }

    /// Of a mean utilization in percent; `None` is that nothing was observed.
    fn of(mean: Option<f64>, thresholds: &[f64; 3], bounces: bool) -> Self {
        let Some(mean) = mean else { return Self::Unobserved };
        match thresholds.iter().filter(|bound| mean >= **bound).count() {
            0 => Self::Idle,
            1 | 2 if bounces => Self::IdleAndBusy,
            1 => Self::Underutilized,
            2 => Self::Productive,
            _ => Self::ComputeBound,
        }
    }
}

impl Slice {
    /// Its length.
    pub(super) const fn length(&self) -> Nanos {
        self.span.1.since(self.span.0)
    }
}

/// The time of a GPU within `within`, without gaps. Its costs sum to that of the time, and of all of its time to the bill.
pub(super) fn slices(gpu: &Gpu, thresholds: &[f64; 3], within: Span) -> Vec<Slice> {
    let Some(span) = gpu.span().and_then(|span| both(span, within)) else { return Vec::new() };
    let mut slices = Vec::new();
    let mut at = span.0;
    let mut add = |until: Timestamp, state, percent| {
        if let Some(span) = both((at, until), span) {
            slices.push(Slice { span, state, percent, cost: cost(gpu, span) });
            at = until;
        }
    };
    for (step, percent) in steps(gpu.timeline.as_ref()).filter(|(_, percent)| percent.is_some()) {
        if both(step, span).is_none() {
            continue;
        }
        add(step.0, State::Unobserved, None);
        add(step.1, State::of(percent, thresholds, gpu.bounces_within_steps()), percent);
    }
    add(span.1, State::Unobserved, None);
    slices
}

/// The steps of a timeline.
fn steps(timeline: Option<&Timeline>) -> impl Iterator<Item = (Span, Option<f64>)> {
    let timeline = timeline.filter(|timeline| timeline.step_seconds.0 > Nanos::ZERO);
    timeline.into_iter().flat_map(|timeline| {
        let at =
            |index: usize| timeline.start + timeline.step_seconds.0.saturating_mul(index as u64);
        let means = timeline.utilization_percent.iter().enumerate();
        means.map(move |(index, mean)| ((at(index), at(index + 1)), *mean))
    })
}

/// What a part of the time of a GPU costs: of each period, the share of its time.
fn cost(gpu: &Gpu, span: Span) -> Option<NanoUsd> {
    gpu.cost_usd?;
    let part = |period: &Period| {
        let (from, to) = both((period.start, period.end), span)?;
        let [begin, end] = [from, to].map(|at| at.since(period.start));
        // Of all accounts together: the shares of each would be rounded one by one.
        let NanoUsd(all) = period.accounts.cost_of(&Account::ALL);
        Some(NanoUsd(amount::part(all, begin, end, period.length())))
    };
    Some(gpu.periods.iter().filter_map(part).sum())
}

/// The time that two spans have in common, if any.
fn both(a: Span, b: Span) -> Option<Span> {
    let span = (a.0.max(b.0), a.1.min(b.1));
    (span.0 < span.1).then_some(span)
}
