//! Segments, and the phase spans cut from them.
//!
//! A segment is a run of time of one phase. A span is what a person wants to see in a trace: a
//! segment that lasts, or a `mixed` stretch of short ones. Both tile the timeline. This room must
//! not know what a trace is.

use crate::ledger::{Accounts, Charge};
use crate::phase::{Account, Phase};
use crate::units::{Nanos, Timestamp};

/// What a segment or a span is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// One phase.
    Phase(Phase),
    /// Nothing was observed.
    Unobserved,
    /// Segments of several phases, each too short to be a span: only spans are.
    Mixed,
}

impl Label {
    /// The value of the attribute `phasemeter.phase` on spans.
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

/// A segment or a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends, itself not in it.
    pub to: Timestamp,
    /// What it is.
    pub label: Label,
    /// The exact time and money of each account in it.
    pub accounts: Accounts,
}

impl Segment {
    /// How long it lasts.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    fn of(charge: &Charge) -> Self {
        let mut accounts = Accounts::default();
        accounts.enter(charge);
        let piece = &charge.piece;
        Self { from: piece.from, to: piece.to, label: Label::of(piece.account), accounts }
    }

    /// Takes in the segment that follows it.
    fn join(&mut self, next: &Self) {
        self.to = next.to;
        self.accounts += &next.accounts;
    }
}

/// Joins pieces to segments and cuts spans from them, in constant memory.
#[derive(Clone, Debug)]
pub struct Spans {
    least: Nanos,
    /// The span before, which may yet take in a short run.
    before: Option<Segment>,
    /// The run of short segments after it.
    short: Option<Segment>,
    /// The segment in progress.
    open: Option<Segment>,
}

impl Spans {
    /// A span lasts at least `least`.
    #[must_use]
    pub const fn new(least: Nanos) -> Self {
        Self { least, before: None, short: None, open: None }
    }

    /// Takes the next piece in. `out` gets the spans that are over.
    pub fn enter(&mut self, charge: &Charge, out: &mut impl FnMut(&Segment)) {
        match &mut self.open {
            Some(open) if open.label == Label::of(charge.piece.account) => {
                open.to = charge.piece.to;
                open.accounts.enter(charge);
            }
            _ => {
                let next = Segment::of(charge);
                if let Some(over) = self.open.replace(next) {
                    self.close(over, out);
                }
            }
        }
    }

    /// Nothing follows: `out` gets the spans that remain.
    pub fn finish(&mut self, out: &mut impl FnMut(&Segment)) {
        if let Some(open) = self.open.take() {
            self.close(open, out);
        }
        match (self.before.take(), self.short.take()) {
            (Some(mut before), Some(short)) if short.length() < self.least => {
                before.join(&short);
                out(&before);
            }
            (before, short) => {
                before.iter().for_each(&mut *out);
                short.iter().for_each(&mut *out);
            }
        }
    }

    /// The start of the span that will hold `at`, where that is already settled.
    #[must_use]
    pub fn settled_start(&self, at: Timestamp) -> Option<Timestamp> {
        let lasts = |span: &&Segment| span.length() >= self.least;
        let open = self.open.as_ref().filter(lasts);
        let short = self.short.as_ref();
        if let (None, Some(short), Some(open)) = (&self.before, short, open)
            && !lasts(&short)
        {
            // At the very start a short run joins the span after it.
            return (short.from <= at && at < open.to).then_some(short.from);
        }
        [self.before.as_ref(), short.filter(lasts), open]
            .into_iter()
            .flatten()
            .find(|span| span.from <= at && at < span.to)
            .map(|span| span.from)
    }

    fn close(&mut self, segment: Segment, out: &mut impl FnMut(&Segment)) {
        if segment.length() < self.least {
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
        match (self.before.take(), self.short.take()) {
            (Some(mut before), Some(short)) if short.length() < self.least => {
                before.join(&short);
                out(&before);
            }
            (None, Some(short)) if short.length() < self.least => {
                span.from = short.from;
                span.accounts += &short.accounts;
            }
            (before, short) => {
                before.iter().for_each(&mut *out);
                short.iter().for_each(&mut *out);
            }
        }
        self.before = Some(span);
    }
}
