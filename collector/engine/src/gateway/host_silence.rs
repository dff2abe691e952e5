//! Time in which a host had no reading of any GPU, so that another gateway may have had it.
//!
//! A gateway that has a host for a while bills from its first reading there to its last, so it bills nothing unless it
//! has two. Here at least two scrapes are missing then, and the pause is three of their intervals.

use std::collections::{HashMap, VecDeque};

use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::mapping::SAME_INSTANT;

/// Intervals between readings by which a longer one is recognized: few, since scrapers are reconfigured.
const INTERVALS: usize = 9;

/// A pause of more than this part of three intervals is a silence: half an interval less, for jitter.
const PART: (u64, u64) = (5, 6);

/// When each host had readings.
#[derive(Debug, Default)]
pub(super) struct HostSilence {
    hosts: HashMap<String, Host>,
    /// The last intervals of all hosts.
    intervals: Intervals,
}

#[derive(Debug, Default)]
struct Host {
    newest: Option<Timestamp>,
    intervals: Intervals,
    silent: Option<(Timestamp, Timestamp)>,
}

/// The last intervals between readings.
#[derive(Debug, Default)]
struct Intervals(VecDeque<Nanos>);

impl Intervals {
    fn add(&mut self, interval: Nanos) {
        self.0.push_back(interval);
        self.0.drain(..self.0.len().saturating_sub(INTERVALS));
    }

    /// Three of them; `None` if none is known.
    fn three(&self) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| staleness::from_intervals(self.0.iter().copied().collect()))
    }
}

impl HostSilence {
    /// Notes a reading of a GPU of this host; those of a host come in the order of time. Returns when the host was silent
    /// last: from its last reading to its next one. `stale_after` counts if no interval is known.
    pub(super) fn note(
        &mut self,
        host: &str,
        at: Timestamp,
        stale_after: Nanos,
    ) -> Option<(Timestamp, Timestamp)> {
        let known = self.hosts.entry(host.to_owned()).or_default();
        let newest = known.newest.unwrap_or(at);
        let interval = at.since(newest);
        if interval > SAME_INSTANT {
            let three = known.intervals.three().or_else(|| self.intervals.three());
            let three = three.unwrap_or(stale_after);
            if u128::from(interval.0) * u128::from(PART.1)
                > u128::from(three.0) * u128::from(PART.0)
            {
                known.silent = Some((newest, at));
            }
            known.intervals.add(interval);
            self.intervals.add(interval);
        }
        known.newest = Some(newest.max(at));
        known.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The silences that are found by readings at these milliseconds, in seconds. `step`: the interval that is expected.
    fn silences(step: u64, millis: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut hosts = HostSilence::default();
        let mut note = |millis: u64| {
            let at = Timestamp::from_millis(millis).unwrap();
            let silent = hosts.note("a", at, Nanos::from_secs(3 * step));
            silent.map(|(from, to)| (from.whole_second(), to.whole_second()))
        };
        let mut found: Vec<_> = millis.into_iter().filter_map(&mut note).collect();
        found.dedup();
        found
    }

    /// From one second to another.
    fn every(step: u64, from: u64, to: u64) -> impl Iterator<Item = u64> {
        (from..=to).step_by(usize::try_from(step).unwrap()).map(|second| second * 1_000)
    }

    /// Guarantee: whatever another gateway can have billed, between two readings of its own, is in a silence; one scrape
    /// that is missing is none.
    #[test]
    fn two_missing_scrapes_are_a_silence_and_one_is_none() {
        for step in [1, 10, 15, 60] {
            for missing in 0..5 {
                let (last, next) = (20 * step, (21 + missing) * step);
                let found =
                    silences(step, every(step, 0, last).chain(every(step, next, 60 * step)));
                let expected = if missing < 2 { vec![] } else { vec![(last, next)] };
                assert_eq!(found, expected, "{step} {missing}");
            }
        }
        let one_by_one = [0, 15_000, 15_400, 30_000, 74_900, 75_200];
        assert_eq!(silences(15, one_by_one), [(30, 74)]);
        assert_eq!(silences(15, [0, 60_000, 120_000]), [(0, 60)], "of unknown intervals");
    }

    #[test]
    fn slower_scrapes_are_silences_only_until_they_are_usual() {
        let found = silences(15, every(15, 0, 150).chain(every(60, 210, 900)));
        assert!(found.len() <= INTERVALS / 2 + 1, "{found:?}");
        assert!(found.iter().all(|(_, to)| *to <= 450), "{found:?}");
    }

    /// A host that was seen once has the intervals of the others.
    #[test]
    fn host_with_one_reading_is_silent_by_the_intervals_of_others() {
        let mut hosts = HostSilence::default();
        let at = |second: u64| Timestamp::from_millis(second * 1_000).unwrap();
        let stale_after = Nanos::from_secs(270);
        assert_eq!(hosts.note("b", at(5), stale_after), None);
        for second in (0..=60).step_by(15) {
            assert_eq!(hosts.note("a", at(second), stale_after), None);
        }
        assert_eq!(hosts.note("b", at(65), stale_after), Some((at(5), at(65))));
    }
}
