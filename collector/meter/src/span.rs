//! Segments, and the phase spans cut from them.
//!
//! A segment is contiguous time of one phase. A span is a segment of at least the minimum length,
//! or a `mixed` run of shorter ones. Both tile the timeline. Must not depend on tracing.

use crate::accounts::{Accounts, Charge};
use crate::phase::{Account, Phase};
use crate::units::{Nanos, Timestamp};

/// The label of a phase span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// A single phase.
    Phase(Phase),
    /// Unobserved time.
    Unobserved,
    /// Segments of several phases, each shorter than the minimum length.
    Mixed,
}

impl Label {
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

    fn of(account: Account) -> Self {
        account.phase().map_or(Self::Unobserved, Self::Phase)
    }
}

/// A phase span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Start.
    pub from: Timestamp,
    /// End (exclusive).
    pub to: Timestamp,
    /// Its phase, or `mixed`.
    pub label: Label,
    /// Exact time and cost by account.
    pub accounts: Accounts,
}

impl Segment {
    /// Its length.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    fn of(charge: &Charge) -> Self {
        let mut accounts = Accounts::default();
        accounts.post(charge);
        let slice = &charge.slice;
        Self { from: slice.from, to: slice.to, label: Label::of(slice.account), accounts }
    }

    /// Appends the segment that follows.
    fn join(&mut self, next: &Self) {
        self.to = next.to;
        self.accounts += &next.accounts;
    }
}

/// Joins time slices to segments and cuts spans from them, in constant memory.
#[derive(Clone, Debug)]
pub struct Spans {
    min_length: Nanos,
    /// The previous span, which may still absorb a short run.
    previous: Option<Segment>,
    /// The run of short segments after it.
    short: Option<Segment>,
    /// The segment in progress.
    open: Option<Segment>,
}

impl Spans {
    /// A builder of spans of at least `min_length`.
    #[must_use]
    pub const fn new(min_length: Nanos) -> Self {
        Self { min_length, previous: None, short: None, open: None }
    }

    /// Posts the next charge. `emit` receives the spans that end.
    pub fn post(&mut self, charge: &Charge, emit: &mut impl FnMut(&Segment)) {
        match &mut self.open {
            Some(open) if open.label == Label::of(charge.slice.account) => {
                open.to = charge.slice.to;
                open.accounts.post(charge);
            }
            _ => {
                let next = Segment::of(charge);
                if let Some(over) = self.open.replace(next) {
                    self.close(over, emit);
                }
            }
        }
    }

    /// Ends the session: `emit` receives the remaining spans.
    pub fn finish(&mut self, emit: &mut impl FnMut(&Segment)) {
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
        let lasts = |span: &&Segment| span.length() >= self.min_length;
        let open = self.open.as_ref().filter(lasts);
        let short = self.short.as_ref();
        if let (None, Some(short), Some(open)) = (&self.previous, short, open)
            && !lasts(&short)
        {
            // At the start of a session a short run joins the span after it.
            return (short.from <= at && at < open.to).then_some(short.from);
        }
        [self.previous.as_ref(), short.filter(lasts), open]
            .into_iter()
            .flatten()
            .find(|span| span.from <= at && at < span.to)
            .map(|span| span.from)
    }

    fn close(&mut self, segment: Segment, emit: &mut impl FnMut(&Segment)) {
        if segment.length() < self.min_length {
            match &mut self.short {
                Some(short) => {
                    short.join(&segment);
                    short.label = Label::Mixed;
                }
                None => self.short = Some(segment),
            }
            return;
        }
        let mut span = segment;
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
