//! Segments, and the phase spans cut from them.
//!
//! A segment is contiguous time of one phase. A span is a segment of at least the minimum length,
//! or a `mixed` run of shorter ones. Both tile the timeline.

use crate::accounts::{Accounts, Charge};
use crate::money::Rate;
use crate::phase::Phase;
use crate::units::{Nanos, Timestamp};

/// The label of a phase span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanLabel {
    /// A single phase.
    Phase(Phase),
    /// Unobserved time.
    Unobserved,
    /// Segments of several phases, each shorter than the minimum length.
    Mixed,
}

impl SpanLabel {
    /// The value of the span attribute `phasemeter.phase`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phase(Phase::Idle) => "idle",
            Self::Phase(Phase::Underutilized) => "underutilized",
            Self::Phase(Phase::Productive) => "productive",
            Self::Phase(Phase::ComputeBound) => "compute_bound",
            Self::Unobserved => "unobserved",
            Self::Mixed => "mixed",
        }
    }

    fn of(phase: Option<Phase>) -> Self {
        phase.map_or(Self::Unobserved, Self::Phase)
    }
}

/// A phase span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpan {
    /// Start.
    pub from: Timestamp,
    /// End (exclusive).
    pub to: Timestamp,
    /// Its phase, or `mixed`.
    pub label: SpanLabel,
    /// Exact time and cost by account.
    pub accounts: Accounts,
}

impl PhaseSpan {
    /// Its length.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Appends the span that follows.
    fn join(&mut self, next: &Self) {
        self.to = next.to;
        self.accounts += &next.accounts;
    }
}

/// Contiguous time of one phase, or unobserved.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: Timestamp,
    to: Timestamp,
    /// `None` if unobserved.
    phase: Option<Phase>,
    accounts: Accounts,
}

impl Segment {
    fn of(charge: &Charge) -> Self {
        let slice = &charge.slice;
        let mut accounts = Accounts::default();
        accounts.post(charge);
        Self { from: slice.from, to: slice.to, phase: slice.account.phase(), accounts }
    }
}

impl From<Segment> for PhaseSpan {
    fn from(Segment { from, to, phase, accounts }: Segment) -> Self {
        Self { from, to, label: SpanLabel::of(phase), accounts }
    }
}

/// Joins time slices to segments and cuts spans from them, in constant memory.
#[derive(Clone, Debug)]
pub struct SpanBuilder {
    min_length: Nanos,
    /// The previous span, which may still absorb a short run.
    previous: Option<PhaseSpan>,
    /// The run of short segments after it.
    short: Option<PhaseSpan>,
    /// The segment in progress.
    open: Option<Segment>,
}

impl SpanBuilder {
    /// A builder of spans of at least `min_length`.
    #[must_use]
    pub const fn new(min_length: Nanos) -> Self {
        Self { min_length, previous: None, short: None, open: None }
    }

    /// Posts the next charge. `emit` receives the spans that end.
    pub fn post(&mut self, charge: &Charge, emit: &mut impl FnMut(&PhaseSpan)) {
        match &mut self.open {
            Some(open) if open.phase == charge.slice.account.phase() => {
                open.to = charge.slice.to;
                open.accounts.post(charge);
            }
            _ => {
                if let Some(ended) = self.open.replace(Segment::of(charge)) {
                    self.close(ended, emit);
                }
            }
        }
    }

    /// Prices the spans that have not ended, as if this had been the rate since `start`.
    pub(crate) fn price(&mut self, start: Timestamp, rate: Rate) {
        let spans = self.previous.iter_mut().chain(&mut self.short);
        let spans = spans.map(|span| (span.from, &mut span.accounts));
        let open = self.open.iter_mut().map(|open| (open.from, &mut open.accounts));
        for (from, accounts) in spans.chain(open) {
            *accounts = accounts.at_rate(rate, from.since(start));
        }
    }

    /// Ends the session: `emit` receives the remaining spans.
    pub fn finish(&mut self, emit: &mut impl FnMut(&PhaseSpan)) {
        if let Some(open) = self.open.take() {
            self.close(open, emit);
        }
        match (self.previous.take(), self.short.take()) {
            (Some(mut previous), Some(short)) if short.length() < self.min_length => {
                previous.join(&short);
                emit(&previous);
            }
            (previous, short) => {
                previous.iter().for_each(&mut *emit);
                short.iter().for_each(&mut *emit);
            }
        }
    }

    /// Start of the span that will contain `at`, if that start is final.
    #[must_use]
    pub fn final_start(&self, at: Timestamp) -> Option<Timestamp> {
        let lasts = |&(from, to): &(Timestamp, Timestamp)| to.since(from) >= self.min_length;
        let previous = self.previous.as_ref().map(|span| (span.from, span.to));
        let short = self.short.as_ref().map(|span| (span.from, span.to));
        let open = self.open.as_ref().map(|segment| (segment.from, segment.to)).filter(lasts);
        if let (None, Some(short), Some((_, end))) = (previous, short, open)
            && !lasts(&short)
        {
            // At the start of a session a short run joins the span after it.
            return (short.0 <= at && at < end).then_some(short.0);
        }
        [previous, short.filter(lasts), open]
            .into_iter()
            .flatten()
            .find(|&(from, to)| from <= at && at < to)
            .map(|(from, _)| from)
    }

    fn close(&mut self, segment: Segment, emit: &mut impl FnMut(&PhaseSpan)) {
        let mut span = PhaseSpan::from(segment);
        if span.length() < self.min_length {
            match &mut self.short {
                Some(short) => {
                    short.join(&span);
                    short.label = SpanLabel::Mixed;
                }
                None => self.short = Some(span),
            }
            return;
        }
        match (self.previous.take(), self.short.take()) {
            (Some(mut previous), Some(short)) if short.length() < self.min_length => {
                previous.join(&short);
                emit(&previous);
            }
            (None, Some(short)) if short.length() < self.min_length => {
                span.from = short.from;
                span.accounts += &short.accounts;
            }
            (previous, short) => {
                previous.iter().for_each(&mut *emit);
                short.iter().for_each(&mut *emit);
            }
        }
        self.previous = Some(span);
    }
}
