//! Time in which a host had no reading of any GPU, so that another gateway may have had it.
//!
//! A gateway that has a host for a while bills from its first reading there to its last, so it bills nothing unless it
//! has two. Here at least two scrapes are missing then, and the pause is three of their intervals.

use std::collections::{BTreeSet, HashMap, VecDeque};

use phasemeter_meter::units::{Nanos, Timestamp};

use super::held_gpu::SAME_INSTANT;

/// Intervals between readings by which a longer one is recognized: few, since scrapers are reconfigured.
const INTERVALS: usize = 9;

/// With fewer intervals than these, silences could be most of them: those of other GPUs count.
const MIN_INTERVALS: usize = INTERVALS / 2 + 1;

/// A pause of more than two and a half intervals is a silence: three less a half, for jitter.
const HALVES: u64 = 5;

/// When each host had readings.
#[derive(Debug, Default)]
pub struct HostSilence {
    hosts: HashMap<String, Host>,
    /// The last intervals of any GPU that were no silence.
    intervals: Intervals,
}

#[derive(Debug, Default)]
struct Host {
    newest: Option<Timestamp>,
    gpus: HashMap<usize, Gpu>,
    /// The usual interval of each GPU that has enough, and the GPU. The least is that of the host: targets of one host
    /// are scraped at instants of their own, whose differences say nothing.
    usual: BTreeSet<(Nanos, usize)>,
}

#[derive(Debug)]
struct Gpu {
    newest: Timestamp,
    intervals: Intervals,
}

/// The last intervals between readings of a GPU.
#[derive(Debug, Default)]
struct Intervals(VecDeque<Nanos>);

impl Intervals {
    fn add(&mut self, interval: Nanos) {
        self.0.push_back(interval);
        self.0.drain(..self.0.len().saturating_sub(INTERVALS));
    }

    /// Their median, the lower one of two; `None` if there are fewer than `least`.
    fn usual(&self, least: usize) -> Option<Nanos> {
        let mut sorted: Vec<_> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().checked_sub(1)? / 2)?;
        (sorted.len() >= least).then_some(*median)
    }
}

impl HostSilence {
    /// Notes a reading of a GPU of this host; those of a host come in the order of time. `elsewhere_until`: until when
    /// another meter of this host has billed the GPU: it was not silent. Returns the silence that the reading ends, from
    /// the host's last reading on. `stale_after` is three intervals if none is known.
    pub fn note(
        &mut self,
        host: &str,
        gpu: usize,
        at: Timestamp,
        elsewhere_until: Option<Timestamp>,
        stale_after: Nanos,
    ) -> Option<(Timestamp, Timestamp)> {
        let known = self.hosts.entry(host.to_owned()).or_default();
        let newest = known.newest.max(elsewhere_until).unwrap_or(at).min(at);
        known.newest = known.newest.max(Some(at));
        let usual = known.usual.first().map(|(usual, _)| *usual);
        let halves = match usual.or_else(|| self.intervals.usual(1)) {
            Some(interval) => interval.saturating_mul(HALVES),
            None => Nanos(stale_after.saturating_mul(HALVES).0 / 3),
        };
        let pause = at.since(newest);
        let is_silence = pause > SAME_INSTANT && pause.saturating_mul(2) > halves;

        let read = known.gpus.entry(gpu);
        let read = read.or_insert_with(|| Gpu { newest: at, intervals: Intervals::default() });
        let interval = at.since(read.newest);
        read.newest = read.newest.max(at);
        if interval > SAME_INSTANT {
            let before = read.intervals.usual(MIN_INTERVALS);
            // Silences, too: if scrapes have become slower, they are usual soon.
            read.intervals.add(interval);
            known.usual.extend(read.intervals.usual(MIN_INTERVALS).map(|usual| (usual, gpu)));
            if let Some(before) = before.filter(|it| read.intervals.usual(1) != Some(*it)) {
                known.usual.remove(&(before, gpu));
            }
            if interval.saturating_mul(2) <= halves {
                self.intervals.add(interval);
            }
        }
        is_silence.then_some((newest, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The silences that are found by readings at these milliseconds, in seconds. `step`: the interval that is expected.
    fn silences(step: u64, millis: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        silences_of(step, millis.into_iter().map(|millis| (0, millis)))
    }

    /// The same, of several GPUs.
    fn silences_of(step: u64, readings: impl IntoIterator<Item = (usize, u64)>) -> Vec<(u64, u64)> {
        let mut hosts = HostSilence::default();
        let mut note = |(gpu, millis): (usize, u64)| {
            let at = Timestamp::from_millis(millis).unwrap();
            let silent = hosts.note("a", gpu, at, None, Nanos::from_secs(3 * step));
            silent.map(|(from, to)| (from.whole_second(), to.whole_second()))
        };
        readings.into_iter().filter_map(&mut note).collect()
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
        assert_eq!(silences(15, [0, 60_000]), [(0, 60)], "of unknown intervals");
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
        assert_eq!(hosts.note("b", 1, at(5), None, stale_after), None);
        for second in (0..=60).step_by(15) {
            assert_eq!(hosts.note("a", 0, at(second), None, stale_after), None);
        }
        assert_eq!(hosts.note("b", 1, at(65), None, stale_after), Some((at(5), at(65))));
    }

    /// Guarantee: silences are no measure of silences, however few readings there are besides.
    #[test]
    fn each_of_several_silences_is_found() {
        let stays = [(0, 45), (645, 645), (1_245, 1_260), (1_860, 1_860), (2_460, 2_520)];
        let readings = stays.iter().flat_map(|(from, to)| every(15, *from, *to));
        let away: Vec<_> = stays.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect();
        assert_eq!(silences(15, readings), away);
    }

    /// Scenario: each GPU of a host has an exporter of its own, which are scraped one after the other; then the host is away.
    #[test]
    fn targets_of_a_host_are_not_silent_between_each_other() {
        for spread in [600, 1_500, 5_000] {
            let scrape =
                |second: u64| (0..8).map(move |gpu| (gpu, second * 1_000 + gpu as u64 * spread));
            let stay = |from, to| (from..to).step_by(15).flat_map(scrape);
            let mut readings: Vec<_> = stay(0, 300).chain(stay(900, 1_200)).collect();
            readings.sort_by_key(|(_, millis)| *millis);
            let found = silences_of(15, readings);
            assert_eq!(found, [((285_000 + 7 * spread) / 1_000, 900)], "{spread}");
        }
    }

    /// Guarantee: a host is not silent while an agent bills it.
    #[test]
    fn host_is_not_silent_while_another_meter_bills_it() {
        let mut hosts = HostSilence::default();
        let at = |second: u64| Timestamp::from_millis(second * 1_000).unwrap();
        let mut note = |second, until: Option<u64>| {
            hosts.note("a", 0, at(second), until.map(at), Nanos::SECOND)
        };
        for second in (15..=300).step_by(15) {
            note(second, None);
        }
        assert_eq!(note(3_615, Some(3_600)), None);
        assert_eq!(note(7_200, Some(3_615)), Some((at(3_615), at(7_200))));
    }
}
