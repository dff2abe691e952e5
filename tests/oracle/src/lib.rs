//! The oracle: expected results computed independently, millisecond by millisecond, with everything
//! in memory. Slow and simple, written from the definitions and not from the product's code.
//!
//! Timestamps must be whole milliseconds, as `nvidia-smi` writes them.

#![allow(missing_docs, reason = "plain on purpose")]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

pub mod calendar;
pub mod fleet;
pub mod holders;
pub mod report;

/// A reading.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Milliseconds since 1970.
    pub at: u64,
    /// Utilization in ppm, if readable.
    pub ppm: Option<u64>,
    /// Whether the GPU was held, if known.
    pub held: Option<bool>,
}

/// The account of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleAccount {
    IdleHeld,
    IdleFree,
    IdleUnknown,
    Underutilized,
    Productive,
    ComputeBound,
    Unobserved,
}

pub const ORACLE_ACCOUNTS: [OracleAccount; 7] = [
    OracleAccount::IdleHeld,
    OracleAccount::IdleFree,
    OracleAccount::IdleUnknown,
    OracleAccount::Underutilized,
    OracleAccount::Productive,
    OracleAccount::ComputeBound,
    OracleAccount::Unobserved,
];

/// One entry per millisecond from the first row to the last: account and utilization in ppm.
pub struct Oracle {
    pub start: u64,
    pub millis: Vec<(OracleAccount, u64)>,
}

/// 3 × the median of the first 101 intervals (the upper of two), at least 1 s. Intervals below a tenth
/// of the one at ⌊3n/4⌋ of n sorted are left out.
pub fn stale_after(rows: &[Row]) -> u64 {
    let mut intervals: Vec<u64> =
        rows.windows(2).take(101).map(|pair| pair[1].at - pair[0].at).collect();
    intervals.sort_unstable();
    if intervals.is_empty() {
        return 1_000;
    }
    let long = intervals[intervals.len() * 3 / 4];
    intervals.retain(|interval| interval * 10 >= long);
    (intervals[intervals.len() / 2] * 3).max(1_000)
}

/// Session ends: every multiple of `every` milliseconds. Of those between two rows only the first
/// and the last count.
pub fn session_ends(rows: &[Row], every: u64) -> Vec<u64> {
    let mut ends = Vec::new();
    for pair in rows.windows(2) {
        let between = pair[0].at + 1..=pair[1].at;
        let mut multiples: Vec<u64> =
            (pair[0].at / every..=pair[1].at / every).map(|n| n * every).collect();
        multiples.retain(|at| between.contains(at));
        ends.extend(multiples.first());
        ends.extend(multiples.last().filter(|_| multiples.len() > 1));
    }
    ends
}

impl Oracle {
    /// `rows` in time order, up to the last one. Of rows with equal times, the last counts.
    pub fn of(rows: &[Row]) -> Self {
        Self::until(rows, rows[rows.len() - 1].at)
    }

    /// Up to `end`, which no row follows.
    pub fn until(rows: &[Row], end: u64) -> Self {
        let start = rows[0].at;
        let stale_after = stale_after(rows);
        let mut observed: Vec<Option<u64>> = Vec::new();
        let mut row = 0;
        for now in start..end {
            while row + 1 < rows.len() && rows[row + 1].at <= now {
                row += 1;
            }
            observed.push(if now < rows[row].at + stale_after { rows[row].ppm } else { None });
        }
        let mut millis = Vec::new();
        let mut now = start;
        while now < end {
            let next = (now / 1_000 + 1) * 1_000;
            let second: Vec<_> =
                (now..next.min(end)).map(|ms| observed[(ms - start) as usize]).collect();
            let values: Vec<u64> = second.iter().flatten().copied().collect();
            let account = if values.is_empty() {
                OracleAccount::Unobserved
            } else {
                let (sum, count) = (values.iter().sum::<u64>(), values.len() as u64);
                classify(sum, count, held(rows, now / 1_000 * 1_000, next))
            };
            for ms in second {
                millis.push(match ms {
                    Some(ppm) => (account, ppm),
                    None => (OracleAccount::Unobserved, 0),
                });
            }
            now = next;
        }
        Self { start, millis }
    }

    /// The part from one instant to another.
    pub fn part(&self, from: u64, to: u64) -> Self {
        let index = |at: u64| (at - self.start) as usize;
        Self { start: from, millis: self.millis[index(from)..index(to)].to_vec() }
    }

    /// Milliseconds in an account.
    pub fn millis_in(&self, account: OracleAccount) -> u64 {
        self.millis.iter().filter(|(other, _)| *other == account).count() as u64
    }

    /// Σ utilization × time in an account, in ppm·ms.
    pub fn weight_in(&self, account: OracleAccount) -> u64 {
        self.millis.iter().filter(|(other, _)| *other == account).map(|(_, ppm)| ppm).sum()
    }

    /// Segments: (label, from, to), in milliseconds since 1970.
    pub fn segments(&self) -> Vec<(&'static str, u64, u64)> {
        let mut segments: Vec<(&'static str, u64, u64)> = Vec::new();
        for (now, (account, _)) in (self.start..).zip(&self.millis) {
            match segments.last_mut() {
                Some((label, _, to)) if *label == account.label() => *to = now + 1,
                _ => segments.push((account.label(), now, now + 1)),
            }
        }
        segments
    }

    /// Spans of at least `min_length` milliseconds, in three passes over the whole list.
    pub fn spans(&self, min_length: u64) -> Vec<(&'static str, u64, u64)> {
        // Runs of short segments become one entry each.
        let mut runs: Vec<(&'static str, u64, u64)> = Vec::new();
        let mut previous_short = false;
        for (label, from, to) in self.segments() {
            let short = to - from < min_length;
            match runs.last_mut() {
                Some(run) if short && previous_short => *run = ("mixed", run.1, to),
                _ => runs.push((label, from, to)),
            }
            previous_short = short;
        }
        // A run shorter than the minimum joins the span before it.
        let mut spans: Vec<(&'static str, u64, u64)> = Vec::new();
        for run in runs {
            match spans.last_mut() {
                Some(before) if run.2 - run.1 < min_length => before.2 = run.2,
                _ => spans.push(run),
            }
        }
        // At the start of a session it joins the span after it.
        if spans.len() > 1 && spans[0].2 - spans[0].1 < min_length {
            let first = spans.remove(0);
            spans[0].1 = first.1;
        }
        spans
    }
}

impl OracleAccount {
    pub fn label(self) -> &'static str {
        match self {
            Self::IdleHeld | Self::IdleFree | Self::IdleUnknown => "idle",
            Self::Underutilized => "underutilized",
            Self::Productive => "productive",
            Self::ComputeBound => "compute_bound",
            Self::Unobserved => "unobserved",
        }
    }
}

fn classify(sum: u64, count: u64, held: Option<bool>) -> OracleAccount {
    let mean_is_below = |percent: u64| sum < percent * 10_000 * count;
    match held {
        Some(true) if mean_is_below(10) => OracleAccount::IdleHeld,
        Some(false) if mean_is_below(10) => OracleAccount::IdleFree,
        None if mean_is_below(10) => OracleAccount::IdleUnknown,
        _ if mean_is_below(70) => OracleAccount::Underutilized,
        _ if mean_is_below(90) => OracleAccount::Productive,
        _ => OracleAccount::ComputeBound,
    }
}

/// Held if any reading of the second found it held; otherwise as last reported.
fn held(rows: &[Row], from: u64, to: u64) -> Option<bool> {
    let inside: Vec<bool> = rows
        .iter()
        .filter(|row| from <= row.at && row.at < to)
        .filter_map(|row| row.held)
        .collect();
    if inside.is_empty() {
        rows.iter().rev().filter(|row| row.at < from).find_map(|row| row.held)
    } else {
        Some(inside.contains(&true))
    }
}
