//! The timeline of one GPU, cut at whole UTC seconds.
//!
//! In go intervals of known utilization, in order; out come pieces, each wholly in one account.
//! Pieces tile the time from the first reading to the last. A second is decided when it is over,
//! from the time-weighted mean of what was observed in it. This room must not know of money.

use crate::phase::{Account, Holding, Thresholds};
use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp, Utilization};

/// A piece of a segment: time in one account. It lies in one second, or is whole seconds of one
/// utilization, or is unobserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends, itself not in it.
    pub to: Timestamp,
    /// The account all of it belongs to.
    pub account: Account,
    /// Σ utilization × time in ppm·ns.
    pub weighted: u128,
}

/// Observed time without a gap, in the second that is being decided.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: Timestamp,
    to: Timestamp,
    /// ppm·ns: at most 10¹⁵ in one second.
    weighted: u64,
}

/// Cuts observed intervals at whole seconds and decides each second's account.
#[derive(Clone, Debug)]
pub struct Timeline {
    thresholds: Thresholds,
    /// All time before this has gone out in pieces.
    told: Timestamp,
    /// The start of the second that is being decided.
    second: Timestamp,
    /// What was observed in that second.
    runs: Vec<Run>,
    /// Whether a reading of that second found the GPU held.
    held_in_second: Option<bool>,
    /// What the last reading that knew said of it.
    held_last: Option<bool>,
    /// The next run begins anew although it may follow the last without a gap.
    cut: bool,
}

impl Timeline {
    /// Begins at the first reading.
    #[must_use]
    pub fn new(start: Timestamp, thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            told: start,
            second: start.floor_second(),
            runs: Vec::new(),
            held_in_second: None,
            held_last: None,
            cut: false,
        }
    }

    /// A reading of the second being decided knows whether the GPU is held.
    pub fn hold(&mut self, held: bool) {
        self.held_in_second = Some(held || self.held_in_second == Some(true));
        self.held_last = Some(held);
    }

    /// Whether any reading so far knew if the GPU is held.
    #[must_use]
    pub const fn holding_known(&self) -> bool {
        self.held_last.is_some()
    }

    /// Ends the run in progress, so that a piece ends where a rate changes.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Time `from`..`to` was observed at this utilization. Intervals come in order.
    pub fn observe(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        out: &mut impl FnMut(Piece),
    ) {
        let mut at = from;
        while at < to {
            self.advance(at, out);
            let end = if at == self.second && to.since(at) > Nanos::SECOND && self.steady() {
                let end = to.floor_second();
                self.tell_whole_seconds(at, end, utilization, out);
                end
            } else {
                let end = to.min(self.second + Nanos::SECOND);
                self.extend(at, end, end.since(at).0 * u64::from(utilization.ppm()));
                end
            };
            at = end;
        }
    }

    /// Decides the seconds that are over at `now`.
    pub fn advance(&mut self, now: Timestamp, out: &mut impl FnMut(Piece)) {
        if now.since(self.second) >= Nanos::SECOND {
            self.decide(out);
            self.second = now.floor_second();
            self.held_in_second = None;
        }
    }

    /// Tells everything up to `end`, the rest of it as unobserved. Nothing more may be observed
    /// in the second of `end`, unless `end` is a whole second.
    pub fn settle(&mut self, end: Timestamp, out: &mut impl FnMut(Piece)) {
        self.advance(end, out);
        if end > self.second {
            self.decide(out);
        }
        self.tell_gap(end, out);
    }

    /// Whether whole seconds of one utilization need not be decided one by one.
    fn steady(&self) -> bool {
        self.runs.is_empty()
            && (self.held_in_second.is_none() || self.held_in_second == self.held_last)
    }

    fn extend(&mut self, from: Timestamp, to: Timestamp, weighted: u64) {
        match self.runs.last_mut() {
            Some(run) if run.to == from && !self.cut => {
                run.to = to;
                run.weighted += weighted;
            }
            _ => self.runs.push(Run { from, to, weighted }),
        }
        self.cut = false;
    }

    fn tell_whole_seconds(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        out: &mut impl FnMut(Piece),
    ) {
        let a_second = u64::from(utilization.ppm()) * NANOS_PER_SECOND;
        let phase = self.thresholds.classify(a_second, Nanos::SECOND);
        let account = Account::of(phase, holding(self.held_last));
        let weighted = u128::from(utilization.ppm()) * u128::from(to.since(from).0);
        self.tell_gap(from, out);
        out(Piece { from, to, account, weighted });
        self.told = to;
        self.second = to;
        self.held_in_second = None;
        self.cut = false;
    }

    fn decide(&mut self, out: &mut impl FnMut(Piece)) {
        let observed: Nanos = self.runs.iter().map(|run| run.to.since(run.from)).sum();
        if observed == Nanos::ZERO {
            return;
        }
        let weighted = self.runs.iter().map(|run| run.weighted).sum();
        let phase = self.thresholds.classify(weighted, observed);
        let account = Account::of(phase, holding(self.held_in_second.or(self.held_last)));
        let mut runs = std::mem::take(&mut self.runs);
        for run in runs.drain(..) {
            self.tell_gap(run.from, out);
            let weighted = u128::from(run.weighted);
            out(Piece { from: run.from, to: run.to, account, weighted });
            self.told = run.to;
        }
        self.runs = runs;
    }

    fn tell_gap(&mut self, to: Timestamp, out: &mut impl FnMut(Piece)) {
        if self.told < to {
            out(Piece { from: self.told, to, account: Account::Unobserved, weighted: 0 });
            self.told = to;
        }
    }
}

const fn holding(held: Option<bool>) -> Holding {
    match held {
        None => Holding::Unknown,
        Some(false) => Holding::Free,
        Some(true) => Holding::Held,
    }
}
