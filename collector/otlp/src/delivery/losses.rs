//! Reports data that is dropped from the full queue while that happens, at most once per minute and
//! signal.
//!
//! Time is an argument.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use super::outcome::Count;
use crate::signal::BySignal;

/// The minimum time between two reports of a signal.
const PERIOD: Duration = Duration::from_secs(60);

/// Reports losses.
#[derive(Debug)]
pub(super) struct Losses {
    /// The destinations, as text.
    targets: BySignal<String>,
    signals: Mutex<BySignal<Unreported>>,
}

/// The losses of one signal since its last report.
#[derive(Debug, Default)]
struct Unreported {
    reported: Option<Instant>,
    lost: Count,
}

impl Losses {
    pub(super) fn new(targets: BySignal<String>) -> Self {
        Self { targets, signals: Mutex::default() }
    }

    /// Adds what was dropped, and reports it if that is due.
    pub(super) fn add(&self, dropped: &BySignal<Count>, now: Instant) {
        for (signal, dropped) in dropped.iter().filter(|(_, dropped)| dropped.requests > 0) {
            let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
            let due = signals.get_mut(signal).add(*dropped, now);
            drop(signals);
            let (target, signal) = (self.targets.of(signal), signal.name());
            if let Some(Count { requests, items, .. }) = due {
                warn!(
                    signal, %target, requests, items,
                    "{signal}, {target}: {items} items in {requests} requests dropped: the queue is full"
                );
            }
        }
    }
}

impl Unreported {
    /// All losses since the last report, if the next one is due.
    fn add(&mut self, dropped: Count, now: Instant) -> Option<Count> {
        self.lost += dropped;
        let is_due = |last: Instant| now.saturating_duration_since(last) >= PERIOD;
        if !self.reported.is_none_or(is_due) {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_reported_at_once_and_then_per_minute() {
        let (mut unreported, start) = (Unreported::default(), Instant::now());
        let lost = |items| Count { requests: 1, items, bytes: 10 };
        let mut at = |second, items| {
            let due = unreported.add(lost(items), start + Duration::from_secs(second));
            due.map(|count| (count.requests, count.items))
        };
        assert_eq!(at(5, 7), Some((1, 7)));
        assert_eq!([at(6, 1), at(64, 2)], [None, None]);
        assert_eq!(at(65, 4), Some((3, 7)), "with those between");
        assert_eq!(at(300, 1), Some((1, 1)));
    }
}
